"""What the coordinator is asked: files under harmless names, and a comparison the right way round."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workers.fake_platform import TOKEN, Platform
from workers.api import WorkerApi
from workers.http import Http
from workers.order import place_order, safe_name

Order = Callable[..., dict[str, object]]


@pytest.fixture
def order(platform: Callable[..., Platform], tmp_path: Path) -> Order:
    """The spec that comes of a claim."""

    def place(**fields: object) -> dict[str, object]:
        one = platform(**fields)
        with Http(one.address, TOKEN) as http:
            api = WorkerApi(one.message, http)
            claim = api.claim("worker", go_on=lambda: False)
            path = place_order(claim, api, tmp_path, out=tmp_path / "out", go_on=lambda: True)
        document: dict[str, object] = json.loads(path.read_text())
        return document

    return place


def read(path: object) -> bytes:
    return Path(str(path)).read_bytes()


def test_an_optimization_names_the_model_and_what_the_platform_said(order: Order) -> None:
    spec = order(model=b"the model", filename="ranker.zip")
    assert read(spec["model"]) == b"the model"
    assert Path(str(spec["model"])).name == "ranker.zip"
    assert (spec["purpose"], spec["target"], spec["trusted"], spec["recipe"]) == ("optimize", "cpu", False, None)
    assert spec["policy"]["budget_s"] == 60.0  # type: ignore[index]


def test_the_version_before_is_the_base_of_a_comparison(order: Order) -> None:
    spec = order(purpose="compare", model=b"after", against=b"before")
    assert (read(spec["model"]), read(spec["against"])) == (b"before", b"after")


def test_a_trace_is_diagnosed_against_the_version_before(order: Order) -> None:
    spec = order(purpose="diagnose", model=b"after", against=b"before", filename="ranks.json.gz")
    assert (read(spec["model"]), read(spec["against"])) == (b"after", b"before")
    assert Path(str(spec["model"])).name == "ranks.json.gz"


def test_a_replay_gets_its_recipe_as_a_file(order: Order) -> None:
    spec = order(purpose="replay", recipe={"kind": "Recipe", "steps": []})
    assert json.loads(read(spec["recipe"])) == {"kind": "Recipe", "steps": []}


def test_a_prediction_names_the_gpu_that_is_not_here(order: Order) -> None:
    spec = order(purpose="explain", target="cuda:sm_90")
    assert (spec["purpose"], spec["target"]) == ("explain", "cuda:sm_90")


def test_files_can_be_read_by_the_uid_that_a_sandboxed_child_drops_to(order: Order) -> None:
    path = Path(str(order()["model"]))
    assert path.stat().st_mode & 0o777 == 0o644
    assert path.parent.stat().st_mode & 0o777 == 0o711


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("model.py", "model.py"),
        ("../../etc/passwd", "passwd"),
        ("C:\\models\\a b.onnx", "a_b.onnx"),
        ("模型.pt2", "_.pt2"),
        (".hidden", "hidden"),
        ("--option.py", "option.py"),
        ("..", "model"),
        ("", "model"),
        ("x" * 300 + ".py", "x" * 97 + ".py"),
        ("y" * 300, "y" * 100),
    ],
)
def test_a_users_file_name_is_made_harmless_and_keeps_its_ending(given: str, made: str) -> None:
    assert safe_name(given) == made
