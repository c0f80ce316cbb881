"""The README begins with what a stranger needs, and its commands are real."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def test_the_first_lines_are_what_it_is_and_the_two_commands() -> None:
    lines = [line for line in README.splitlines() if line.strip()]
    assert lines[0] == "# Fuseworks"
    assert lines[1].count(".") == 1
    commands = [line.split("#")[0].strip() for line in lines[2:6] if line.startswith("make ")]
    assert commands == ["make demo", "make test"]


@pytest.mark.parametrize("document", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_every_link_and_named_file_is_there(document: str) -> None:
    text = (ROOT / document).read_text()
    links = {link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link}
    named = set(
        re.findall(r"`((?:optimizer|kernels|platform|client|examples|scripts|tests|workers)/[\w./]+\.\w+)`", text)
    )
    named = {path for path in named if "NAME" not in path and "APP" not in path}
    missing = sorted(path for path in links | named if not (ROOT / path).exists())
    assert not missing
