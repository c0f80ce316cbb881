"""A key holds all that decides an artifact: change any one of it, and the artifact is built anew."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from optimizer.coordinator import build_keys
from optimizer.coordinator.build_cache import BuildCache
from optimizer.coordinator.capture import Captured, module_seed
from optimizer.coordinator.workshop import Workshop
from optimizer.result import Candidate, Inspection
from optimizer.spec import BackendStep, PassStep, PrecisionStep, Workload
from tests.optimizer.coordinator.support import context

BACKEND = BackendStep(backend="aot_inductor")


def captured(tmp_path: Path = Path("/nowhere"), **changes: Any) -> Captured:
    workload = {"inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}], "dims": {"batch": DIM}}
    fields = {"sha256": "1" * 64, "content": "2" * 64, "workload": workload, **changes}
    model = tmp_path / "captured.pt2"
    return Captured(
        upload=tmp_path / "model.py",
        upload_format="py",
        format="pt2",
        model=model,
        weights=None,
        workload=Workload.model_validate(fields["workload"]),
        inspection=Inspection(format="py", sha256=str(fields["sha256"]), size_bytes=1, parameters=1, parameter_bytes=4),
        content=fields["content"],
    )


DIM = {"serve": [8], "min": 1, "max": 16}


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The compilers of this test's machine, which it can change."""
    found: dict[str, Any] = {"toolchain": "g++ 12"}
    monkeypatch.setattr(build_keys, "_tools", lambda: found)
    return found


def key(model: Captured | None = None, passes: tuple[str, ...] = ("remove_noops",), **changes: Any) -> str | None:
    backend = changes.pop("backend", BACKEND)
    precision = changes.pop("precision", None)
    steps = [PassStep(pass_=name) for name in passes]
    return build_keys.build_key(
        model or captured(), steps, precision, backend, **{"threads": 2, "target": "cpu", **changes}
    )


def test_the_same_again_has_the_same_key() -> None:
    assert key() == key()


@pytest.mark.parametrize(
    "other",
    [
        lambda: key(captured(sha256="3" * 64)),
        lambda: key(captured(content="3" * 64)),
        lambda: key(captured(workload={"inputs": [{"name": "x", "dtype": "float32", "shape": [8, 4]}]})),
        lambda: key(passes=()),
        lambda: key(passes=("hoist_constants",)),
        lambda: key(precision=PrecisionStep(precision="bfloat16")),
        lambda: key(backend=BackendStep(backend="inductor")),
        lambda: key(backend=BackendStep(backend="aot_inductor", options={"freezing": False})),
        lambda: key(threads=1),
        lambda: key(target="cuda:sm_90"),
        lambda: key(marked=True),
    ],
    ids=[
        *("upload", "weights", "workload", "no pass", "pass", "precision"),
        *("backend", "options", "threads", "target", "marked"),
    ],
)
def test_all_that_decides_the_artifact_is_in_the_key(other: Any) -> None:
    assert other() != key()


def test_the_toolchain_is_in_the_key(tools: dict[str, Any]) -> None:
    before = key()
    tools["toolchain"] = "g++ 13"
    assert key() != before


def test_what_a_pass_does_is_in_the_key_of_what_it_takes_part_in_and_of_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, without = key(), key(passes=())
    monkeypatch.setattr(build_keys, "pass_identity", lambda name, format: "changed")
    assert key() != before
    assert key(passes=()) == without


def test_the_name_of_a_workload_and_its_limits_decide_no_artifact() -> None:
    named = captured().workload.model_dump(by_alias=True) | {"name": "other", "limits": {"latency_ms": 5}}
    assert key(captured(workload=named)) == key()


def test_a_capture_that_does_not_say_what_it_captured_is_never_reused() -> None:
    assert key(captured(content=None)) is None
    assert build_keys.rewrite_key(captured(content=None), None) is None


def test_the_tools_of_this_machine_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    told = build_keys._tools()
    assert set(told) == {"toolchain", "libraries", "isa", "compiling"}
    assert "torch" in told["libraries"]


class Compiler:
    """Counts what is compiled; leaves one file."""

    def __init__(self) -> None:
        self.built: list[str] = []

    def compile(self, shop: Workshop, plan: Any, model: Path, folder: Path, timeout_s: float, *, marked: bool) -> Any:
        self.built.append(plan.backend.backend)
        (folder / "model.pt2").write_bytes(b"code")
        return SimpleNamespace(fields={"compile_s": 9.0, "details": {"entry": "model.pt2"}})


def run(tmp_path: Path, name: str, compiler: Compiler, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Any:
    (tmp_path / name).mkdir()
    made = context(tmp_path / name)
    made.cache = BuildCache(tmp_path / "builds", limit_bytes=1 << 20)
    monkeypatch.setattr(Workshop, "_compile", lambda *args, **kw: compiler.compile(*args, **kw))
    return made, Workshop(made, captured(tmp_path, **changes)).build(Candidate(name="c", steps=[BACKEND]))


def test_a_second_run_over_the_same_upload_builds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler()
    first, built = run(tmp_path, "first", compiler, monkeypatch)
    second, again = run(tmp_path, "second", compiler, monkeypatch)
    assert compiler.built == ["aot_inductor"]
    assert (first.artifacts_built, first.artifacts_reused) == (1, 0)
    assert (second.artifacts_built, second.artifacts_reused) == (0, 1)
    assert (built.reused, again.reused) == (False, True)
    assert (again.folder / "model.pt2").read_bytes() == b"code"
    assert (again.compile_s, again.details) == (9.0, {"entry": "model.pt2"})


def test_another_upload_gets_nothing_that_was_built_in_the_child_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where its child claims to have captured the very same: the digest of the upload is the coordinator's own."""
    compiler = Compiler()
    run(tmp_path, "first", compiler, monkeypatch)
    other, built = run(tmp_path, "second", compiler, monkeypatch, sha256="4" * 64)
    assert len(compiler.built) == 2
    assert (other.artifacts_reused, built.reused) == (0, False)


def test_a_module_without_weights_is_the_same_model_in_every_run_unless_the_policy_gives_a_seed(tmp_path: Path) -> None:
    drawn = context(tmp_path)
    drawn.seed = 123
    assert module_seed(drawn, "0000000a" + "f" * 56) == 10
    given = context(tmp_path, seed=7)
    given.seed = 7
    assert module_seed(given, "0000000a" + "f" * 56) == 7
