"""What of the host a child sees beside the system: whole prefixes, and of the way to Python nothing but the links."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from optimizer.sandbox import bubblewrap, choose, layout
from optimizer.sandbox.spec import Limits

LIBRARY = f"python{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a Python deep inside it, and secrets beside every link that leads there."""
    home = tmp_path / "home" / "u"
    base = home / ".local" / "share" / "uv" / "cpython"
    for folder in (base / "bin", base / "lib" / LIBRARY, home / ".local" / "bin", home / "bin", home / "work"):
        folder.mkdir(parents=True)
    (base / "bin" / "python3").write_bytes(b"the binary")
    for folder in (home, home / ".local", home / "bin", home / ".local" / "bin", home / "work"):
        (folder / "secret").write_text("token")
    (home / ".local" / "bin" / "python3").symlink_to("../share/uv/cpython/bin/python3")
    return home


def venv(home: Path, python: Path | str) -> Path:
    folder = home / "work" / ".venv"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(python)
    return folder


def laid_out(executable: Path, *prefixes: Path, home: Path) -> layout.PythonLayout:
    return layout.lay_out(str(executable), [str(p) for p in prefixes], [home])


def sees(found: layout.PythonLayout, path: Path) -> bool:
    return any(path.is_relative_to(real) for real in found.real)


def no_secret_is_seen(found: layout.PythonLayout, home: Path) -> bool:
    secrets = list(home.rglob("secret"))
    assert len(secrets) >= 5
    return not any(sees(found, secret) for secret in secrets)


def test_a_venv_made_from_a_link_in_local_bin_shows_the_link_and_not_its_folder(home: Path) -> None:
    base = home / ".local" / "share" / "uv" / "cpython"
    own = venv(home, home / ".local" / "bin" / "python3")
    found = laid_out(own / "bin" / "python", own, base, home=home)
    assert set(found.real) == {own, base}
    assert found.links == ((home / ".local" / "bin" / "python3", "../share/uv/cpython/bin/python3"),)
    assert no_secret_is_seen(found, home)


def test_a_link_in_the_homes_own_bin_does_not_show_the_home(home: Path) -> None:
    base = home / ".local" / "share" / "uv" / "cpython"
    (home / "bin" / "python").symlink_to(home / ".local" / "bin" / "python3")
    own = venv(home, home / "bin" / "python")
    found = laid_out(own / "bin" / "python", own, base, home=home)
    assert set(found.real) == {own, base}
    assert [link for link, _ in found.links] == [home / ".local" / "bin" / "python3", home / "bin" / "python"]
    assert no_secret_is_seen(found, home)


def test_a_binary_outside_of_every_prefix_is_shown_alone(home: Path) -> None:
    binary = home / "bin" / "python3"
    binary.write_bytes(b"a binary")
    own = venv(home, binary)
    found = laid_out(own / "bin" / "python", own, home=home)
    assert set(found.real) == {own, binary}
    assert no_secret_is_seen(found, home)


def test_links_of_folders_are_followed_and_kept_too(home: Path) -> None:
    base = home / ".local" / "share" / "uv" / "cpython"
    (home / "current").symlink_to(".local/share/uv/cpython", target_is_directory=True)
    own = venv(home, home / "current" / "bin" / "python3")
    found = laid_out(own / "bin" / "python", own, home / "current", home=home)
    assert set(found.real) == {own, base}
    assert found.links == ((home / "current", ".local/share/uv/cpython"),)


@pytest.mark.parametrize("up", [0, 1, 2], ids=["the home", "the folder of homes", "above it"])
def test_a_prefix_that_is_the_home_or_above_it_is_never_shown_whole(home: Path, up: int) -> None:
    prefix = [home, home.parent, home.parent.parent][up]
    (prefix / "lib" / LIBRARY).mkdir(parents=True)
    (prefix / "lib" / "libpython3.so.1.0").write_bytes(b"")
    (prefix / "lib" / "keys").write_text("token")
    (prefix / "pyvenv.cfg").write_text("")
    own = venv(home, home / ".local" / "bin" / "python3")
    found = laid_out(own / "bin" / "python", own, prefix, home=home)
    binary = home / ".local" / "share" / "uv" / "cpython" / "bin" / "python3"
    library = {prefix / "lib" / LIBRARY, prefix / "lib" / "libpython3.so.1.0", prefix / "pyvenv.cfg"}
    assert set(found.real) == {own, binary, *library}
    assert not sees(found, prefix / "lib" / "keys")
    assert no_secret_is_seen(found, home)


def test_the_home_counts_by_its_real_place_too(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "alias").symlink_to(home, target_is_directory=True)
    monkeypatch.setenv("HOME", str(tmp_path / "alias"))
    assert home in layout._homes()
    found = layout.lay_out(str(home / ".local" / "bin" / "python3"), [str(tmp_path / "alias")], layout._homes())
    assert no_secret_is_seen(found, home)


def test_links_that_run_in_a_circle_end_in_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        layout.lay_out(str(tmp_path / "a"), [], [])


def test_bubblewrap_starts_a_python_through_its_links_and_shows_nothing_beside_them(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = choose.reason_against("bubblewrap")
    if reason is not None:
        pytest.skip(f"bubblewrap does not work here: {reason}")
    (home / ".local" / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
    own = venv(home, home / ".local" / "bin" / "python")
    prefixes = [str(own), sys.base_prefix, sys.base_exec_prefix]
    found = layout.lay_out(str(own / "bin" / "python"), prefixes, [home])
    assert [link for link, _ in found.links] == [home / ".local" / "bin" / "python"]
    monkeypatch.setattr(layout, "python_layout", lambda: found)
    arguments = bubblewrap.arguments(inputs={}, limits=Limits(), devices=(), drops_uid=os.geteuid() == 0)
    look = f"import os; print(sorted(os.path.join(d, f) for d, _, fs in os.walk({str(home)!r}) for f in fs))"
    program = bubblewrap.program()
    assert program is not None
    command = [program, *arguments, "--", str(own / "bin" / "python"), "-I", "-S", "-c", look]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == repr([str(home / ".local" / "bin" / "python"), str(own / "bin" / "python")])
