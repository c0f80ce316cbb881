"""Documents: each can be reached, each link leads somewhere, each picture is shown, each setting is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
LINK = re.compile(r"\]\(([^)\s#]+)[^)]*\)")
SETTINGS = [
    *sorted((ROOT / "platform" / "fuseworks" / "settings").glob("*.py")),
    ROOT / "workers" / "settings.py",
    ROOT / ".env.example",
    ROOT / "docker-compose.yml",
]
NAME = re.compile(r"\b(?:FUSEWORKS_[A-Z_]+[A-Z]|DATABASE_URL|REDIS_URL|DJANGO_SETTINGS_MODULE)\b")


def links(document: Path) -> set[Path]:
    """The files of this project to which it leads."""
    targets = {
        link for link in LINK.findall(document.read_text()) if "://" not in link and not link.startswith("mailto:")
    }
    return {(document.parent / target).resolve() for target in targets}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_relative_link_leads_to_a_file(document: Path) -> None:
    assert not sorted(str(target) for target in links(document) if not target.exists())


def test_every_file_of_docs_can_be_reached_from_the_readme() -> None:
    reached, ahead = set(), {ROOT / "README.md"}
    while ahead:
        document = ahead.pop()
        reached.add(document)
        if document.suffix == ".md":
            ahead |= {target for target in links(document) if target.is_file()} - reached
    files = {path for path in DOCS.rglob("*") if path.is_file()}
    assert len(files) > 10
    assert not sorted(path.relative_to(ROOT).as_posix() for path in files - reached)


def test_every_picture_has_words_for_those_who_do_not_see_it() -> None:
    shown = [text for document in DOCUMENTS for text in re.findall(r"!\[([^]]*)\]\(", document.read_text())]
    assert len(shown) > 5
    assert all(len(text) > 15 for text in shown)


def test_the_settings_table_names_every_setting_and_no_other() -> None:
    known = {name for path in SETTINGS for name in NAME.findall(path.read_text())}
    told = set(NAME.findall((DOCS / "operating.md").read_text()))
    # of compose itself, told in .env.example
    own = {"FUSEWORKS_DATABASE_PASSWORD", "FUSEWORKS_BROKER_PASSWORD", "FUSEWORKS_TLS_FOLDER"}
    assert sorted(known - told - own) == []
    assert sorted(told - known) == []
