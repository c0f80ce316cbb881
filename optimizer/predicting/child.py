"""The operation of a child that lowers graphs for a GPU that is not there: `predicting.lower`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import optimizer.compiling.errors
import optimizer.predicting.errors  # noqa: F401
from kernels.aot.compiler import DoesNotCompile, Unavailable, why_unavailable
from kernels.aot.devices import Device, device_of
from optimizer.children.failures import out_of_memory, raised_by_us, text_of
from optimizer.children.session import Session
from optimizer.errors import FuseworksError
from optimizer.predicting.document import Lowering
from optimizer.spec import Workload

Answer = tuple[dict[str, Any], list[np.ndarray]]


def lower(session: Session, request: dict[str, Any], arrays: list[np.ndarray]) -> Answer:
    """{models: {name: path}, target, workload} → {lowered: {name: Lowering}}. One target a child."""
    device = device_of(str(request["target"]))
    reason = why_unavailable(device.target)
    if reason is not None:
        raise unavailable(device, reason)
    workload = Workload.model_validate(request["workload"])
    _set_up(session.scratch)
    from optimizer.predicting.assembling import Assembler

    assembler = Assembler(device, session.scratch, session.progress)
    lowered = {
        name: lower_one(Path(path), workload, device, assembler).model_dump(mode="json")
        for name, path in request["models"].items()
    }
    return {"lowered": lowered}, []


def lower_one(model: Path, workload: Workload, device: Device, assembler: Any) -> Lowering:
    """Raises FuseworksError."""
    from optimizer.compiling.torch_program import load_program, pin_precision
    from optimizer.predicting.inductor.absent import absent_gpu
    from optimizer.predicting.inductor.lowering import lower as inductor_lower
    from optimizer.predicting.inductor.replay import replay

    pin_precision()
    exported = load_program(model)
    refuse_data_dependent(exported)
    try:
        with absent_gpu(device):
            lowered = inductor_lower(exported, symbol_sizes(exported, workload))
            result: Lowering = assembler.assemble(lowered, replay(lowered))
    except Unavailable as error:
        raise unavailable(device, str(error)) from error
    except DoesNotCompile as error:
        raise FuseworksError("predicting:user:not-lowered", target=device.target, text=str(error)[:1000]) from error
    except Exception as error:  # Inductor raises many kinds, and each is about this graph
        if raised_by_us(error) or out_of_memory(error):
            raise
        text = f"{type(error).__name__}: {text_of(error)}"[:1000]
        raise FuseworksError("predicting:user:not-lowered", target=device.target, text=text) from error
    return result


def unavailable(device: Device, reason: str) -> FuseworksError:
    """`reason` with its remedy behind a colon."""
    text, _, remedy = reason.partition(": ")
    return FuseworksError("predicting:ours:unavailable", target=device.target, text=text, remedy=remedy)


def refuse_data_dependent(exported: Any) -> None:
    """Raises FuseworksError (`predicting:user:data-dependent`): without values nobody knows such a size."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
    from torch.utils import _pytree as pytree

    from optimizer.profiling.places import source_of

    for node in exported.graph.nodes:
        if any(free_unbacked_symbols(value) for value in pytree.tree_leaves(node.meta.get("val")) if value is not None):
            place = source_of(node.meta.get("stack_trace") or "") or node.name
            raise FuseworksError("predicting:user:data-dependent", place=place, text=f"that of {node.name}")


def symbol_sizes(exported: Any, workload: Workload) -> dict[Any, int]:
    """The measured size of each symbol in the shapes of the program's inputs."""
    sizes = workload.sizes()
    user = set(exported.graph_signature.user_inputs)
    values = [n.meta["val"] for n in exported.graph.nodes if n.op == "placeholder" and n.name in user]
    found: dict[Any, int] = {}
    for value, spec in zip(values, workload.inputs, strict=False):
        for have, named in zip(getattr(value, "shape", ()), spec.shape, strict=False):
            expression = getattr(getattr(have, "node", None), "expr", None)
            if isinstance(named, str) and expression is not None and expression.is_Symbol:
                found[expression] = sizes[named]
    return found


def _set_up(scratch: Path) -> None:
    """All that the compilers leave goes to the scratch."""
    import triton

    from optimizer.compiling.inductor_setup import set_up

    set_up(scratch)
    triton.knobs.cache.dir = str(scratch / "triton")


OPERATIONS = {"lower": lower}
