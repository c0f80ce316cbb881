"""The final answer on the terminal: the headline, the candidates, what each step gave, and where things lie."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from fuseworks_client import words
from fuseworks_client.prediction import predicted_parts

Result = Mapping[str, Any]
_STYLES = {"faster": "bold green", "slower": "bold red", "same": "bold", "cannot_tell": "bold yellow"}
BASELINES = frozenset({"baseline", "baseline (default settings)"})
DISTURBED = 1.5  # times the judged median: what a call took in a profile of a busy moment
LEFT_OUT = "the policy does not name this backend"  # the planner's words
MAX_FINDINGS, MAX_APPLIED, MAX_REFUSED, MAX_OPERATIONS = 5, 3, 1, 4
MAX_LAYERS = 12


def show(result: Result, folder: Path | None, console: Console) -> None:
    """`folder` is where the run left its files; None when it left none."""
    if result.get("status") != "succeeded":
        if result.get("candidates"):
            console.print(_candidates(result))
        for part in _notes(result):
            console.print()
            console.print(part)
        return
    parts: list[RenderableType] = [
        *_headline(result),
        *predicted_parts(result),
        *_inspection(result),
        *_findings(result),
    ]
    if result.get("candidates"):
        parts.append(_candidates(result))
    parts += [
        *_ablation(result),
        *_layers(result),
        *_profiles(result),
        *_rewrites(result),
        *_notes(result),
        *_warnings(result),
        *_files(result, folder),
    ]
    for part in parts:
        console.print()
        console.print(part)


def _headline(result: Result) -> Iterator[RenderableType]:
    verdict = result.get("verdict")
    if result.get("summary"):
        yield Text(words.plain(result["summary"]), style=_STYLES.get(str(verdict), "bold"))
    rows = _grid()
    if result.get("compared_as") is not None:
        rows.add_row(_label("measured"), Text(words.plain(_compared_as(result))))
    if result.get("baseline_ms") is not None:
        times = f"{words.milliseconds(result['baseline_ms'])} before"
        if result.get("best_ms") is not None:
            times += f", {words.milliseconds(result['best_ms'])} after"
        step = (result.get("workload") or {}).get("mode") == "training"
        rows.add_row(_label("one step" if step else "one call"), Text(f"{times} (median)"))
    if result.get("speedup") is not None:
        rows.add_row(_label("speedup"), Text(words.speedup(result["speedup"], result.get("speedup_ci"))))
        rows.add_row(_label(""), Text("under the same runtime settings on both sides", style="dim"))
    if result.get("speedup_as_deployed") is not None:
        deployed = words.speedup(result["speedup_as_deployed"], result.get("speedup_as_deployed_ci"))
        rows.add_row(_label("as deployed"), Text(f"{deployed}, against the original in default settings"))
    if verdict is not None:
        rows.add_row(_label("verdict"), Text(words.verdict(verdict), style=_STYLES.get(str(verdict), "")))
    if verdict == "cannot_tell" and words.disturbance(result):
        rows.add_row(_label("disturbance"), Text(words.disturbance(result), style="yellow"))
    if verdict is not None and result.get("offered") is not None and result.get("purpose") != "compare":
        rows.add_row(_label("offered"), Text(_offered(result)))
    peer = result.get("best_peer")
    if peer:
        text = f"{words.plain(peer['name'])}: {words.speedup(peer['speedup'], peer['interval'])}"
        if result.get("speedup_over_best_peer") is not None:
            text += f"; the winner over it: {words.speedup(result['speedup_over_best_peer'])}"
        rows.add_row(_label("best peer"), Text(text))
    for output in result.get("numerics") or []:
        rows.add_row(_label("numerics"), Text(words.plain(f"{output['output']}: {words.numerics(output)}")))
    metric = _task_metric(result)
    if metric:
        rows.add_row(_label("task metric"), Text(words.plain(words.task_metric(metric))))
    sides = ("after", "before") if result.get("purpose") == "compare" else ("winner", "baseline")
    for check in result.get("limits") or []:
        broken = check.get("winner_kept") is False
        rows.add_row(_label("limit"), Text(words.limit(check, *sides), style="yellow" if broken else ""))
    if result.get("precisions") and verdict is not None:
        rows.add_row(_label("searched in"), Text(", ".join(result["precisions"])))
    if rows.row_count:
        yield rows


def _compared_as(result: Result) -> str:
    if result["compared_as"] != "packaged":
        return "both as uploaded: each as its own framework runs it"
    return f"both as packaged: built by the steps of {result['recipe']['metadata']['name']}"


def _offered(result: Result) -> str:
    if not result["offered"]:
        return "nothing: what was measured is told, and no recipe or package comes of it"
    if any(artifact["name"] == "package" for artifact in result.get("artifacts") or []):
        return "a recipe and a package"
    return "a recipe"


def _inspection(result: Result) -> Iterator[RenderableType]:
    """Only where the answer is the inspection itself."""
    found = result.get("inspection")
    if not found or result.get("purpose") != "inspect":
        return
    rows = _grid()
    rows.add_row(_label("format"), Text(f"{found['format']}, {found['size_bytes']:,} bytes"))
    rows.add_row(_label("weights"), Text(f"{found['parameters']:,} parameters, {found['parameter_bytes']:,} bytes"))
    workload = result.get("workload") or {}
    for spec in workload.get("inputs") or []:
        shape = ", ".join(map(str, spec["shape"]))
        rows.add_row(_label("input"), Text(words.plain(f"{spec['name']}: {spec['dtype']} [{shape}]")))
    for name, dim in dict(workload.get("dims") or {}).items():
        sizes = ", ".join(map(str, dim["serve"]))
        rows.add_row(_label("dynamic"), Text(words.plain(f"{name}: {dim['min']} to {dim['max']}, served at {sizes}")))
    for output in found.get("outputs") or []:
        shape = ", ".join(map(str, output.get("shape") or []))
        rows.add_row(_label("output"), Text(words.plain(f"{output.get('name')}: {output.get('dtype')} [{shape}]")))
    counts = sorted(dict(found.get("operations") or {}).items(), key=lambda item: -item[1])
    if counts:
        rows.add_row(_label("operations"), Text(words.plain(", ".join(f"{n} {op}" for op, n in counts[:12]))))
    for note in found.get("notes") or []:
        rows.add_row(_label("note"), Text(words.plain(note)))
    yield rows


def _findings(result: Result) -> Iterator[RenderableType]:
    rows = _grid()
    for finding in (result.get("findings") or [])[:MAX_FINDINGS]:
        rows.add_row(_label(finding["severity"]), Text(words.plain(finding["title"])))
    if rows.row_count:
        yield _titled("What holds it back", rows)


def _candidates(result: Result) -> RenderableType:
    table = Table(title="Candidates", title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    table.add_column("candidate", overflow="fold", ratio=3)
    table.add_column("status", overflow="fold")
    table.add_column("median", justify="right")
    table.add_column("speedup", justify="right")
    table.add_column("reason", overflow="fold", ratio=4)
    winner, compares = result.get("winner"), result.get("purpose") == "compare"
    left_out = [e["candidate"]["name"] for e in result["candidates"] if e.get("reason") == LEFT_OUT]
    for evaluation in result["candidates"]:
        candidate, performance = evaluation["candidate"], evaluation.get("performance") or {}
        if candidate["name"] in left_out:
            continue
        is_peer = candidate.get("peer") and not compares and candidate["name"] not in BASELINES
        name = words.plain(candidate["name"]) + (" (peer)" if is_peer else "")
        chosen = winner is not None and candidate["name"] == winner
        table.add_row(
            Text(name + (" *" if chosen else ""), style="bold green" if chosen else ""),
            Text(evaluation["status"].replace("_", " "), style="" if evaluation["status"] == "passed" else "yellow"),
            Text(
                words.milliseconds(performance.get("median_ms"))
                + (" (screening)" if performance.get("screened") else "")
            ),
            Text(words.speedup(evaluation.get("screened_speedup"))),
            Text(words.plain(evaluation.get("reason") or ""), style="dim"),
        )
    table.caption, table.caption_justify = Text(" ".join(_candidates_notes(result, left_out))), "left"
    return table


def _candidates_notes(result: Result, left_out: Sequence[str]) -> Iterator[str]:
    if result.get("winner") is not None:
        chosen = "winner" if result.get("verdict") == "faster" else "best candidate"
        yield f"* the {chosen}, judged in fresh processes."
    if result.get("purpose") != "compare":
        yield "Speedups here are screenings, no verdicts; a time marked (screening) was not measured along with the"
        yield "judged ones: compare it with none of them."
    if left_out:
        yield words.plain(f"Left out, as you asked (--backend): {', '.join(left_out)}.")


def _ablation(result: Result) -> Iterator[RenderableType]:
    rows = _grid()
    for row in result.get("ablation") or []:
        if row.get("gain") is None:
            text = f"not measured: {words.plain(row.get('reason') or '')}"
        else:
            interval = row.get("interval")
            text = words.gain(row["gain"])
            if interval:
                text += f" ({words.gain(interval['low'])} to {words.gain(interval['high'])})"
            text += f", {words.verdict(row['verdict'])}" if row.get("verdict") else ""
            if row.get("noise_floor") is not None:
                text += f", noise floor {row['noise_floor'] * 100:.1f} %"
            text += f", measured on {words.plain(row['measured_on'])}" if row.get("measured_on") else ""
        rows.add_row(Text(f"  {words.step(row['step'])}"), Text(text))
    if rows.row_count:
        yield _titled("What each step gives by itself", rows)


def _layers(result: Result) -> Iterator[RenderableType]:
    for plan in result.get("layer_plans") or []:
        tried, layers = plan["layers"][0]["tried"], plan["layers"]
        lower = [layer for layer in layers if layer["precision"] != "float32"]
        kind = "linear layers" if all(layer.get("operation", "linear") == "linear" for layer in layers) else "layers"
        text = f"{len(lower)} of {len(layers)} {kind} go to {tried}"
        if lower:
            share = f"{plan['share_of_allowed']:.0%} of the error that is allowed, over {plan['samples']} samples"
            text += f" in {' and '.join(plan['candidates'])}: together they take {share}"
        rows = _grid()
        rows.add_row(_label(""), Text(words.plain(text)))
        costliest = sorted(layers, key=lambda layer: -layer["float32_ms"])
        for layer in costliest[:MAX_LAYERS]:
            where = layer.get("source") or layer["node"]
            shape = words.layer_shape(layer, layer.get("operation"))
            rows.add_row(_label(layer["precision"]), Text(words.plain(f"{shape} at {where}: {layer['reason']}")))
        if len(layers) > MAX_LAYERS:
            rows.add_row(_label(""), Text(f"{len(layers) - MAX_LAYERS} more in result.json", style="dim"))
        yield _titled("Precision by layer", rows)


def _task_metric(result: Result) -> Mapping[str, Any] | None:
    """Of the winner."""
    for evaluation in result.get("candidates") or []:
        if evaluation["candidate"]["name"] == result.get("winner"):
            found: Mapping[str, Any] | None = (evaluation.get("verification") or {}).get("task_metric")
            return found
    return None


def _profiles(result: Result) -> Iterator[RenderableType]:
    """The costliest operations only: the report and the page have the tables."""
    medians = {e["candidate"]["name"]: e["performance"]["median_ms"] for e in _measured(result)}
    judged = {
        "profile": medians.get("baseline (default settings)", result.get("baseline_ms")),
        "profile_after": result.get("best_ms"),
    }
    rows = _grid()
    for label, key in (("before", "profile"), ("after", "profile_after")):
        profile = result.get(key)
        if not profile or not profile["operations"]:
            continue
        top = sorted(profile["operations"], key=lambda row: -row["self_ms"])[:MAX_OPERATIONS]
        listed = ", ".join(f"{row['op']} {row['share']:.0%}" for row in top)
        text = f"{words.milliseconds(profile['total_ms'])} in operations: {listed}"
        if (profile.get("unprofiled_ms") or 0.0) > DISTURBED * (judged[key] or math.inf):
            text += "; taken under disturbance: read the shares, not the times"
        rows.add_row(_label(label), Text(words.plain(text)))
    if rows.row_count:
        told = "each in a process of its own, at another moment and under a profiler: not the judged times"
        rows.add_row(_label(""), Text(told, style="dim"))
        yield _titled("Where the time goes", rows)


def _measured(result: Result) -> Iterator[Mapping[str, Any]]:
    return (evaluation for evaluation in result.get("candidates") or [] if evaluation.get("performance"))


def _rewrites(result: Result) -> Iterator[RenderableType]:
    rows = _grid()
    for rewrite in result.get("rewrites") or []:
        for label, shown in (("applied", MAX_APPLIED), ("refused", MAX_REFUSED)):
            sites = rewrite[label]
            for site in sites[:shown]:
                where = site.get("source") or site["node"]
                rows.add_row(_label(label), Text(words.plain(f"{rewrite['pass']} at {where}: {site['reason']}")))
            if len(sites) > shown:
                more = f"{rewrite['pass']}: {len(sites) - shown} more {label}"
                rows.add_row(_label(""), Text(more, style="dim"))
    if rows.row_count:
        yield _titled("Rewrites", rows)


def _notes(result: Result) -> Iterator[RenderableType]:
    observed = ((result.get("conditions") or {}).get("observed") or {}).get("notes") or []
    rows = _grid()
    for note in dict.fromkeys([*(result.get("notes") or []), *observed]):
        rows.add_row(Text("  -", style="dim"), Text(words.plain(note)))
    if rows.row_count:
        yield _titled("Notes", rows)


def _warnings(result: Result) -> Iterator[RenderableType]:
    if result.get("verdict") == "cannot_tell":
        text = (
            "Cannot tell: the interval is too wide for a verdict. Try a quieter machine, or --budget and --max-pairs."
        )
        yield Text(f"Warning: {text}", style="yellow")
    if "trusted" in str(result.get("sandbox")):
        yield Text("Note: run without the sandbox (--trusted).", style="yellow")


def _files(result: Result, folder: Path | None) -> Iterator[RenderableType]:
    if folder is None:
        return
    rows = _grid()
    for artifact in result.get("artifacts") or []:
        rows.add_row(_label(artifact["name"]), Text(words.plain(folder / artifact["path"])))
    rows.add_row(_label("result"), Text(str(folder / "result.json")))
    yield _titled("Files", rows)


def _titled(title: str, rows: Table) -> Table:
    rows.title, rows.title_justify, rows.title_style = title, "left", "bold"
    return rows


def _grid() -> Table:
    return Table.grid(padding=(0, 2, 0, 0))


def _label(text: str) -> Text:
    return Text(f"  {text}", style="dim")
