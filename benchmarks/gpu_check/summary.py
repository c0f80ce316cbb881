"""The outcome of a check as a page for people: what is right and wrong first, then speed, models, predictions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def markdown(document: dict[str, Any]) -> str:
    return "\n".join(_lines(document)) + "\n"


def _lines(document: dict[str, Any]) -> Iterator[str]:
    place, steps = document["place"], document["steps"]
    yield f"# {place['device']}"
    yield ""
    if document["mode"] == "interpreter":
        yield "A dry run under Triton's interpreter: no GPU was there, and no time here says anything of one."
    else:
        yield (
            f"{place['target']}, torch {place['torch']}, triton {place['triton']}, driver {place['driver']}, "
            f"{document['date']}. Rates: {place['roof'] or 'this model is not in the table of devices'}."
        )
    yield ""
    yield from _table(
        ("kernel", "right", "wrong", "refused by the device", "left out", "worst error, of what is allowed"),
        _checked(steps),
    )
    yield from _problems(steps)
    yield "## Configurations, at the typical size"
    yield ""
    yield from _table(
        ("kernel", "dtype", "arguments", "best configuration", "µs", "untuned, µs", "plain torch, µs", "GB/s",
         "TFLOP/s", "bound, µs", "share of the roofline"),
        _tuned(steps),
    )  # fmt: skip
    yield "## Whole models"
    yield ""
    yield "One process, all contenders in turns, caches warm: medians, no verdict."
    yield ""
    yield from _table(
        ("model", "precision", "eager, ms", "torch.compile, ms", "ours eager, ms", "ours, ms", "fused operations",
         "ours over torch.compile"),
        _models(steps),
    )  # fmt: skip
    predicted = document.get("predicted")
    if predicted is not None:
        yield "## Predicted and measured"
        yield ""
        yield from _predicted(predicted)


def _checked(steps: dict[str, Any]) -> Iterator[list[Any]]:
    for step, one in steps.items():
        if step.startswith(("check ", "edges ")) and "cases" in one:
            share = "–" if one["worst_error_share"] is None else f"{one['worst_error_share']:.2f}"
            left_out = len(one["left_out"])
            yield [step, f"{one['right']} of {one['cases']}", len(one["wrong"]), len(one["refused"]), left_out, share]


def _problems(steps: dict[str, Any]) -> Iterator[str]:
    found = []
    for step, one in steps.items():
        found += [f"- **{step}, {wrong['case']}: {wrong['fault']}**" for wrong in one.get("wrong", [])]
        found += [f"- {step}, {refused['case']}: {refused['error']}" for refused in _listed(one.get("refused"))]
        for contender, told in one.get("contenders", {}).items():
            found += [f"- **{step}, {contender}: {told['fault']}**"] if "fault" in told else []
    for step, one in steps.items():
        if one["status"] in ("failed", "cut", "left_out"):
            reason = (one.get("reason") or f"{len(one.get('left_out', []))} were not reached").splitlines()[0]
            found.append(f"- {step} {one['status'].replace('_', ' ')}: {reason}")
    yield "## Wrong, failed, cut or left out"
    yield ""
    yield from found or ["None."]
    yield ""


def _listed(refused: Any) -> list[dict[str, str]]:
    """A check's refusals by case; a model's are near misses of the fusion pass, which are no problem."""
    return [one for one in refused or [] if isinstance(one, dict)]


def _tuned(steps: dict[str, Any]) -> Iterator[list[Any]]:
    for step, outcome in steps.items():
        for dtype, told in outcome.get("dtypes", {}).items():
            by_name = {one["name"]: one for one in told["configurations"]}
            best = by_name.get(told.get("best", ""), {})
            share = told.get("roofline_share")
            yield [
                step.partition(" ")[2], dtype, told["sample"], told.get("best", "none runs"), _us(best),
                _us(by_name[told["untuned"]]), _us(told["reference"]), _figure(told.get("gigabytes_per_s")),
                _figure(told.get("teraflops_per_s")), _figure(told.get("bound_us")),
                "–" if share is None else f"{share:.0%}",
            ]  # fmt: skip


def _models(steps: dict[str, Any]) -> Iterator[list[Any]]:
    for step, one in steps.items():
        if "contenders" in one:
            _, name, precision = step.split(" ")
            times = [_ms(one["contenders"].get(c, {})) for c in ("eager", "torch.compile", "ours eager", "ours")]
            speedup = one["speedups"].get("ours over torch.compile")
            yield [name, precision, *times, len(one["fused"]), "–" if speedup is None else f"{speedup:.2f}x"]


def _predicted(predicted: dict[str, Any]) -> Iterator[str]:
    ran = [one for one in predicted["kernels"] if one["launches"] and one["launches_predicted"]]
    same = sum(one["registers"] == one["registers_predicted"] for one in ran)
    shared = sum(one["shared_bytes"] == one["shared_bytes_predicted"] for one in ran)
    other = [one for one in predicted["kernels"] if one["launches"] != one["launches_predicted"]]
    faster = [one for one in ran if one.get("over_bound", 1.0) < 1.0]
    yield f"- {len(ran)} configurations: registers as compiled ahead of time in {same}, shared memory in {shared}."
    yield f"- Launch where none was predicted, or the other way round: {_names(other)}."
    yield f"- Faster than their bound, so that bound or clock is wrong: {_names(faster)}."
    if predicted["models"] and not predicted["predictions_of_this_source"]:
        yield "- The models were predicted from another source than this one: write predictions.json anew."
    yield ""
    yield from _table(
        ("model", "contender", "measured, ms", "predicted, ms", "within"),
        (
            [one["model"], one["contender"], f"{one['median_ms']:.3f}",
             f"{one['predicted_ms'][0]:.3f} to {one['predicted_ms'][1]:.3f}", "yes" if one["within"] else "no"]
            for one in predicted["models"]
        ),
    )  # fmt: skip


def _names(lines: list[dict[str, Any]]) -> str:
    return "; ".join(f"{one['kernel']} {one['dtype']} ({one['configuration']})" for one in lines) or "none"


def _table(head: tuple[str, ...], rows: Iterator[list[Any]]) -> Iterator[str]:
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    if not lines:
        yield "None."
    else:
        yield "| " + " | ".join(head) + " |"
        yield "|" + "---|" * len(head)
        yield from lines
    yield ""


def _us(told: dict[str, Any]) -> str:
    return f"{told['median_us']:.1f}" if "median_us" in told else "–"


def _ms(told: dict[str, Any]) -> str:
    return f"{told['median_us'] / 1e3:.3f}" if "median_us" in told else "–"


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
