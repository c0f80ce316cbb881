"""How each engine is looked into: real artifacts of the small ranker, in children, with the nodes of its graph.

The ranker's graph: embedding, cat, linear (hidden), layer_norm, relu, linear (head), squeeze, sub, where, add.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from optimizer.compiling.base import BACKENDS
from optimizer.compiling.toolchain import toolchain_cache
from optimizer.errors import FuseworksError
from optimizer.profiling.document import Operation, Profile
from optimizer.sandbox import start
from tests.optimizer.compiling.support import WORKLOAD, Builder, Built, Loaded, inputs

CALLS = 3


def profiled(loaded: Loaded, **more: object) -> Profile:
    reply = loaded.child.call("profiling.profile", inputs(8), timeout_s=120, calls=CALLS, **more)
    found = Profile.model_validate(reply.fields["profile"])
    assert found.operations, "an engine that has a profile has operations"
    assert sum(row.share for row in found.operations) == pytest.approx(1)
    assert found.total_ms == pytest.approx(sum(row.self_ms for row in found.operations))
    assert found.profiled_ms is not None
    assert found.unprofiled_ms is not None
    assert found.overhead == pytest.approx(found.profiled_ms / found.unprofiled_ms)
    return found


def held(rows: list[Operation]) -> set[tuple[str | None, str | None]]:
    """(operation, module) of every node that some row holds."""
    return {(node.op, node.module) for row in rows for node in row.nodes}


def test_eager_has_each_node_with_module_and_line(builder: Builder, tmp_path: Path) -> None:
    with Loaded(builder.build("ranker", tmp_path / "out", "eager")) as loaded:
        rows = profiled(loaded).operations
    linears = {row.module: row for row in rows if row.op == "linear"}
    assert set(linears) == {"hidden", "head"}
    assert linears["hidden"].source is not None
    assert linears["hidden"].source.startswith("support.py:")
    assert linears["hidden"].shapes == [[8, 12], [16, 12], [16]]
    assert all(row.nodes == [] for row in rows), "a row of eager is a node itself"


def test_onnx_runtime_leads_its_nodes_back_to_the_users_modules(builder: Builder, tmp_path: Path) -> None:
    built = builder.build("ranker", tmp_path, "onnxruntime")
    with Loaded(built, trusted=False) as loaded:  # its trace must find a place to be written to
        found = profiled(loaded)
    assert {("linear", "hidden"), ("linear", "head"), ("embedding", "table")} <= held(found.operations)
    (gather,) = [row for row in found.operations if row.op == "Gather"]
    assert (gather.module, gather.calls) == ("table", 1)
    assert gather.source is not None
    assert "session profiling" in found.how_obtained


def test_onnx_runtime_profiles_the_level_that_was_built(builder: Builder, tmp_path: Path) -> None:
    def operations(level: str) -> list[str]:
        with Loaded(builder.build("ranker", tmp_path / level, "onnxruntime", {"level": level})) as loaded:
            return [row.op for row in profiled(loaded).operations]

    assert len(operations("disabled")) >= len(operations("all"))


def test_an_onnx_file_is_profiled_by_its_own_names(builder: Builder, tmp_path: Path) -> None:
    from onnx import load

    names = {node.name for node in load(str(builder.inputs["onnx"]), load_external_data=False).graph.node}
    with Loaded(builder.build("onnx", tmp_path, "onnxruntime")) as loaded:
        rows = profiled(loaded).operations
    # torch.onnx wrote this file: its nodes know what they were made of
    assert {("linear", "hidden"), ("linear", "head")} <= held(rows)
    assert any("Gemm" in row.op for row in rows)
    assert names


@pytest.mark.parametrize("options", [{}, {"static": True}])
def test_openvino_names_the_nodes_that_it_fused(builder: Builder, tmp_path: Path, options: dict[str, object]) -> None:
    with Loaded(builder.build("ranker", tmp_path, "openvino", options)) as loaded:
        found = profiled(loaded)
    assert {("linear", "hidden"), ("linear", "head"), ("relu", None)} <= held(found.operations)
    assert any(row.op.startswith("FullyConnected (") for row in found.operations)
    assert all(row.self_ms >= 0 for row in found.operations)


def test_every_backend_says_how_it_is_profiled_or_why_not() -> None:
    for backend in BACKENDS:
        assert backend.profiled_by.endswith(".")
        assert backend.no_profile("cpu") is None
    for name in ("inductor", "aot_inductor"):
        assert "on a CPU only" in (BACKENDS.get(name).no_profile("cuda:sm_90") or "")
    assert BACKENDS.get("eager").no_profile("cuda:sm_90") is None


def test_a_backend_that_says_nothing_is_told_so() -> None:
    from optimizer.compiling.base import Backend, Context

    class Silent(Backend):
        name, title, summary = "silent", "Silent", "Says nothing."
        formats, libraries = frozenset({"pt2"}), ()

        def unavailable(self, target: str = "cpu") -> str | None:
            return None

        def prepare(self) -> None: ...

        def build(self, *_: object) -> dict[str, object]:
            return {}

        def load(self, *_: object) -> None: ...  # type: ignore[override]

    silent = Silent()
    assert silent.no_profile() == "the engine does not say where its time goes"
    context = Context(WORKLOAD, 1, "cpu", Path("."), "pt2", Path("model.pt2"))
    with pytest.raises(FuseworksError, match="There is no profile of Silent: the engine does not say") as caught:
        silent.profile(None, None, context, [], 1)
    assert caught.value.id == "profiling:ours:untold"
    with pytest.raises(FuseworksError, match="no kernels to be marked"):
        silent.build_marked(Path("model.pt2"), None, context, Path("."))


# ---- engines that compile: slow ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def marking(models: dict[str, Path]) -> Iterator[Builder]:
    toolchain = toolchain_cache(start)
    assert toolchain is not None
    with Builder({**models, "toolchain": toolchain.folder}, trusted=False) as builder:
        yield builder


def compiled(marking: Builder, folder: Path, backend: str) -> tuple[Built, Path]:
    """The artifact that would be judged, and the one with kernels that record themselves."""
    built = marking.build("ranker", folder / "judged", backend)
    marking.child.call(
        "compiling.build",
        timeout_s=300,
        collect=folder / "marked",
        backend=backend,
        options={},
        model=marking.child.path("ranker"),
        toolchain=marking.child.path("toolchain"),
        format="pt2",
        workload=WORKLOAD.model_dump(by_alias=True, mode="json"),
        threads=1,
        target="cpu",
        marked=True,
    )
    return built, folder / "marked"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_inductor", "inductor"])
def test_compiled_kernels_record_themselves_and_say_what_is_in_them(
    marking: Builder, tmp_path: Path, backend: str
) -> None:
    built, marked = compiled(marking, tmp_path, backend)
    assert (marked / "kernels.json").exists()
    assert not (built.folder / "kernels.json").exists(), "the judged artifact is not the marked one"
    with Loaded(built, trusted=False, marked=marked) as loaded:
        found = profiled(loaded, marked=loaded.child.path("marked"))
    kernels = [row for row in found.operations if row.op.startswith("cpp_fused_")]
    assert kernels, "no kernel recorded itself"
    assert any(len(row.nodes) > 1 for row in kernels), "none of them is fused"
    assert {("linear", "hidden"), ("linear", "head"), ("layer_norm", "norm"), ("relu", None)} <= held(found.operations)
    assert "compiled once more" in found.how_obtained
    (norm,) = [row for row in kernels if any(node.op == "layer_norm" for node in row.nodes)]
    assert norm.calls == 1
    assert norm.self_ms > 0
