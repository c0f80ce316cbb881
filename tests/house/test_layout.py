"""Rules of the house that no tool checks: sizes, names, places, and what must not stand in the tree."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ["kernels", "optimizer", "workers", "platform/fuseworks", "client/fuseworks_client", "scripts", "benchmarks"]
MAX_LINES = 400

# In pieces, or this file would be its own first find.
MACHINE_PATHS = re.compile("/(?:" + "|".join(["work", "farm", "root"]) + ")/")
INDEX_HOSTS = re.compile(
    "|".join([r"pypi\." + "org", "python" + "hosted", r"download\.py" + "torch", r"index-url\s*=\s*http"])
)


def tracked() -> list[Path]:
    """Every file that is or would be committed."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / line for line in listing.splitlines() if (ROOT / line).is_file()]


def sources() -> list[Path]:
    """Written by people: migrations are generated."""
    found = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    return [path for path in found if "migrations" not in path.parts]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_no_file_is_longer_than_a_reader_bears() -> None:
    files = [p for p in tracked() if p.suffix in {".py", ".html", ".css", ".sh", ".ts"} and "migrations" not in p.parts]
    long = {relative(p): n for p in files if (n := len(p.read_text().splitlines())) > MAX_LINES}
    assert not long


def test_every_module_says_what_it_is_for() -> None:
    silent = [relative(p) for p in sources() if not ast.get_docstring(ast.parse(p.read_text()))]
    assert not silent


def test_nothing_below_platform_can_replace_the_standard_library() -> None:
    found = [relative(p) for p in (ROOT / "platform").iterdir() if p.name != "fuseworks"]
    tests = [relative(p) for p in (ROOT / "platform").rglob("*.py") if p.name.startswith(("test_", "conftest"))]
    assert not found
    assert not tests


def test_the_standard_librarys_platform_is_the_one_that_is_imported() -> None:
    import platform

    assert platform.python_version()
    assert Path(platform.__file__).parent != ROOT / "platform"


def test_every_folder_of_tests_is_a_package() -> None:
    folders = {p.parent for p in tracked() if p.match("test_*.py")}
    assert not [relative(f) for f in folders if not (f / "__init__.py").exists()]


@pytest.mark.parametrize("pattern", [MACHINE_PATHS, INDEX_HOSTS], ids=["machine paths", "package index hosts"])
def test_no_file_names_what_only_one_machine_has(pattern: re.Pattern[str]) -> None:
    found = []
    for path in tracked():
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue
        found += [f"{relative(path)}:{n}" for n, line in enumerate(lines, 1) if pattern.search(line)]
    assert not found


def test_no_exception_is_swallowed() -> None:
    found = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ExceptHandler) and _is_broad(node) and _does_nothing(node):
                found.append(f"{relative(path)}:{node.lineno}")
    assert not found


def _is_broad(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or (isinstance(handler.type, ast.Name) and "Exception" in handler.type.id[-9:])


def _does_nothing(handler: ast.ExceptHandler) -> bool:
    return all(isinstance(statement, ast.Pass | ast.Continue) for statement in handler.body)
