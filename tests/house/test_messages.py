"""Translations: every text of pages and code has one that fits it, and they compile without gettext's tools."""

from __future__ import annotations

import gettext
import io
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import catalogue  # noqa: E402  (scripts are no package: they run before anything is installed)
import error_texts  # noqa: E402
import messages  # noqa: E402
from catalogue import Message  # noqa: E402

CATALOGUES = sorted(messages.LOCALE.rglob("*.po"))
PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|\{\w*\}|%s|%d")
MARKUP = re.compile(r"</?\w+[^>]*>")


@pytest.fixture(scope="module")
def found() -> dict[catalogue.Key, Message]:
    return messages.extract()


# ---- the catalogues of this project --------------------------------------------------------------------------------


def test_there_is_a_chinese_catalogue_and_a_text_from_a_page_and_one_from_code(
    found: dict[catalogue.Key, Message],
) -> None:
    assert [path.parts[-3] for path in CATALOGUES] == ["zh_Hans"]
    assert found[None, "Skip to the content"].places == ["frontend/templates/base.html"]
    assert found[None, "cannot tell"].places[-1] == "platform/fuseworks/core/badges.py"


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: path.parts[-3])
def test_every_text_is_in_the_catalogue_and_nothing_else_is(path: Path, found: dict[catalogue.Key, Message]) -> None:
    known = set(catalogue.read(path)) - {(None, "")}
    assert known == set(found), "run `make messages`, then translate what it names"


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: path.parts[-3])
def test_every_text_has_a_translation(path: Path) -> None:
    assert not [message.text for message in catalogue.read(path).values() if not message.is_translated]


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: path.parts[-3])
def test_translations_keep_every_placeholder_and_all_markup(path: Path) -> None:
    wrong = []
    for message in catalogue.read(path).values():
        for pattern in (PLACEHOLDER, MARKUP) if not message.note else ():
            wanted = sorted(pattern.findall(message.plural or message.id))
            wrong += [message.id for text in message.strings if sorted(pattern.findall(text)) != wanted]
    assert not wrong


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: path.parts[-3])
def test_a_translated_error_is_filled_by_the_same_fields_and_keeps_what_stands_in_backquotes(path: Path) -> None:
    errors = [message for message in catalogue.read(path).values() if message.note]
    assert len(errors) > 300
    for message in errors:
        (text,) = message.strings
        assert error_texts.fields(text) == error_texts.fields(message.note), message.id
        assert sorted(re.findall("`[^`]+`", text)) == sorted(re.findall("`[^`]+`", message.note)), message.id


def test_every_error_with_words_of_its_own_is_to_be_translated(found: dict[catalogue.Key, Message]) -> None:
    from optimizer.errors import CATALOGUE

    for id_, entry in CATALOGUE.items():
        if id_.startswith("testing:"):  # a test's own
            continue
        for context, english in (("error message", entry.message), ("error remedy", entry.remedy)):
            bare = re.fullmatch(r"\{\w+\}", english) is not None
            assert ((context, id_) in found) is not bare, (context, id_)
    assert found["error message", "registry:user:empty"].note == "The file is empty."
    assert found["error remedy", "replay:user:precision"].places == ["optimizer/coordinator/replay.py"]


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: path.parts[-3])
def test_what_set_up_compiled_is_current(path: Path) -> None:
    assert path.with_suffix(".mo").read_bytes() == catalogue.compiled(catalogue.read(path))


# ---- finding texts -------------------------------------------------------------------------------------------------


def test_texts_of_templates_are_found_as_django_asks_for_them() -> None:
    template = """{% load i18n %}<b>{% translate "Plain (text)" %}</b>{% translate "Odd" context "number" as odd %}
    {% blocktranslate trimmed %}
        Two
        lines of {{ name }}
    {% endblocktranslate %}
    {% blocktranslate count n=n %}one run{% plural %}{{ n }} runs{% endblocktranslate %}
    {{ value|default:_("nothing") }}{% comment %}{% translate "never" %}{% endcomment %}"""
    assert [(m.context, m.id, m.plural) for m in messages.in_template(template)] == [
        (None, "Plain (text)", None),
        ("number", "Odd", None),
        (None, "Two lines of %(name)s", None),
        (None, "one run", "%(n)s runs"),
        (None, "nothing", None),
    ]


def test_texts_of_code_are_found_in_their_order_with_contexts_and_plurals() -> None:
    code = 'a = _("one " "two")\nb = ngettext_lazy("run", "runs", 2)\nc = pgettext("verb", "run")\nd = other("no")\n'
    assert [(m.context, m.id, m.plural) for m in messages.in_python(code)] == [
        (None, "one two", None),
        (None, "run", "runs"),
        ("verb", "run", None),
    ]


def test_a_text_put_together_at_run_time_is_refused_with_its_place() -> None:
    with pytest.raises(messages.NotATranslatableText, match=r"pages/x\.py:2"):
        messages.in_python('n = 1\n_(f"{n} runs")\n', "pages/x.py")


# ---- files ---------------------------------------------------------------------------------------------------------

HEADER = Message("", strings=["Content-Type: text/plain; charset=UTF-8\nPlural-Forms: nplurals=1; plural=0;\n"])
SAMPLE = {
    message.key: message
    for message in [
        HEADER,
        Message("run", strings=["运行"], places=["a.html", "b.py"]),
        Message("run", context="verb", strings=["运行！"]),
        Message("one run", plural="%(n)s runs", strings=["%(n)s 次运行"]),
        Message('a "quote"\\\nand\ta tab', strings=["“引号”"]),
        Message("not yet"),
        Message(
            "a:user:b", context="error message", strings=["没有 {what}"], places=["e.py"], note="No {what} {{here}}"
        ),
    ]
}


def test_what_is_written_reads_the_same(tmp_path: Path) -> None:
    catalogue.write(tmp_path / "django.po", SAMPLE)
    assert catalogue.read(tmp_path / "django.po") == SAMPLE
    before = (tmp_path / "django.po").read_text()
    catalogue.write(tmp_path / "django.po", catalogue.read(tmp_path / "django.po"))
    assert (tmp_path / "django.po").read_text() == before


def test_pythons_own_gettext_reads_what_is_compiled() -> None:
    compiled = gettext.GNUTranslations(io.BytesIO(catalogue.compiled(SAMPLE)))
    assert compiled.gettext("run") == "运行"
    assert compiled.pgettext("verb", "run") == "运行！"
    assert compiled.ngettext("one run", "%(n)s runs", 5) == "%(n)s 次运行"
    assert compiled.gettext('a "quote"\\\nand\ta tab') == "“引号”"
    assert compiled.gettext("not yet") == "not yet"


def test_compiling_again_changes_nothing(tmp_path: Path) -> None:
    catalogue.write(tmp_path / "django.po", SAMPLE)
    assert catalogue.compile_all(tmp_path) == [tmp_path / "django.mo"]
    assert catalogue.compile_all(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('msgid "a"\nmsgstr "b"\n\nmsgid "a"\nmsgstr "c"\n', "twice"),
        ('msgid "a"\nmsgstr b\n', "msgstr b"),
        ('msgstr "b"\n', "without msgid"),
    ],
)
def test_a_file_that_is_no_catalogue_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "django.po").write_text(text)
    with pytest.raises(catalogue.BadCatalogue, match=complaint):
        catalogue.read(tmp_path / "django.po")


def test_merging_keeps_what_was_translated_and_drops_what_is_gone() -> None:
    today = {
        message.key: message
        for message in [Message("run", places=["c.html"]), Message("new"), Message("x", plural="xs")]
    }
    new = messages.merged(SAMPLE, today)
    assert list(new) == [(None, ""), (None, "run"), (None, "new"), (None, "x")]
    assert (new[None, "run"].strings, new[None, "run"].places) == (["运行"], ["c.html"])
    assert new[None, "new"].strings == [""]
    assert new[None, "x"].strings == [""]


def test_an_error_whose_english_text_was_changed_is_translated_anew() -> None:
    key = ("error message", "a:user:b")
    same, other = Message("a:user:b", key[0], note="No {what} {{here}}"), Message("a:user:b", key[0], note="No {what}")
    assert messages.merged(SAMPLE, {key: same})[key].strings == ["没有 {what}"]
    assert messages.merged(SAMPLE, {key: other})[key].strings == [""]
    assert messages.merged(SAMPLE, {key: other})[key].note == "No {what}"
