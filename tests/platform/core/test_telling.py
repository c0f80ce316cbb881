"""Errors speak the reader's language on pages, wherever they come from."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.utils import translation

import fuseworks.registry.errors  # noqa: F401  (its ids)
from fuseworks.core.errors import PlatformError
from fuseworks.core.telling import message_of, remedy_of, sentence_of
from fuseworks.recipes.documents import read
from fuseworks.runs.models import Status
from optimizer.result import Problem
from tests.platform.factories import client_for, make_member, make_model, make_run, make_team, make_token, make_version

# An error of the optimizer as a run stores it: the web process holds no catalogue of these.
STORED: dict[str, Any] = {
    "id": "capturing:user:missing-package",
    "side": "user",
    "message": "The module imports 'flash_attn', which is not there.",
    "remedy": "Only torch is there.",
    "context": {"module": "flash_attn"},
}
CHINESE = "该模块导入了 'flash_attn'，但它不存在。"


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    with translation.override("en"):  # a request activates its language and leaves it so
        yield


def test_an_error_is_told_in_the_readers_language_and_filled_with_its_context() -> None:
    error = PlatformError("registry:usage:too-large", size_mib=12, limit_mib=10, format="py")
    assert message_of(error) == "The file has 12 MiB; 10 MiB is the limit (py)."
    with translation.override("zh-hans"):
        assert message_of(error) == "文件大小为 12 MiB；上限是 10 MiB（py）。"
        assert sentence_of(error) == f"{message_of(error)} 请用 bfloat16 保存权重，或上传同一结构的较小变体。"
    assert str(error).endswith("The file has 12 MiB; 10 MiB is the limit (py).")


def test_a_problem_of_the_optimizer_is_told_by_its_id_as_stored_and_as_a_result_has_it() -> None:
    with translation.override("zh-hans"):
        assert message_of(STORED) == CHINESE
        assert message_of(Problem.model_validate(STORED)) == CHINESE
        assert remedy_of(STORED).startswith("只安装了 torch")
    assert message_of(STORED) == STORED["message"]


@pytest.mark.parametrize(
    "change", [{"context": {}}, {"context": None}, {"id": "capturing:user:of-tomorrow"}, {"id": ""}, {"id": None}]
)
def test_the_english_text_stands_where_id_or_context_is_not_known(change: dict[str, Any]) -> None:
    with translation.override("zh-hans"):
        assert message_of(STORED | change) == STORED["message"]
        assert message_of({}) == ""


def test_words_of_our_own_that_fill_a_text_are_told_too_and_names_are_not() -> None:
    error = PlatformError("core:usage:forbidden", team="run", role="viewer", needed="member")
    with translation.override("zh-hans"):
        assert message_of(error) == "您在 run 的角色是“查看者”；此操作需要“成员”。"
        assert message_of(PlatformError("core:usage:not-found", what="run")) == "这里没有这样的运行，或者您无权查看。"


def test_an_error_that_hands_on_the_texts_of_another_is_told_as_that_one() -> None:
    with pytest.raises(PlatformError) as caught:
        read("a: &anchor 1")
    assert caught.value.id == "recipes:user:invalid-document"
    with translation.override("zh-hans"):
        assert message_of(caught.value).startswith("该配方不是可接受的 YAML：")
        assert remedy_of(caught.value) == "请修正所指的行。配方中不允许锚点、别名、标签和重复的键。"


@pytest.mark.django_db
def test_the_pages_of_an_error_and_of_a_failed_run_are_chinese_and_the_api_stays_english() -> None:
    team = make_team()
    client: Client = client_for(make_member(team))
    run = make_run(make_version(make_model(team)), status=Status.FAILED, problem=STORED)
    asked = {"headers": {"accept-language": "zh-hans"}}
    nowhere = f"/runs/{uuid.uuid4()}/"
    assert "这里没有这样的运行，或者您无权查看。" in client.get(nowhere, **asked).content.decode()
    assert "There is no such run here" in client.get(nowhere).content.decode()
    assert CHINESE.replace("'", "&#x27;") in client.get(f"/runs/{run.pk}/", **asked).content.decode()
    assert client.get(f"/api/v1{nowhere}", **asked).json()["title"].startswith("There is no such run here")


@pytest.mark.django_db
def test_a_pages_script_gets_the_readers_language_besides_and_a_token_does_not() -> None:
    user = make_member(make_team())
    asked = {"headers": {"accept-language": "zh-hans"}}
    address = f"/api/v1/runs/{uuid.uuid4()}/"
    told = client_for(user).get(address, **asked).json()
    assert told["told"].startswith("这里没有这样的运行，或者您无权查看。 请检查地址")
    assert told["title"] == told["detail"] == "There is no such run here, or you may not see it."
    by_token = {"headers": {"accept-language": "zh-hans", "authorization": f"Bearer {make_token(user)}"}}
    assert "told" not in Client().get(address, **by_token).json()
    assert "told" not in Client().get(address, **asked).json()
