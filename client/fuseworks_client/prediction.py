"""What was predicted for a GPU that is not here: as a table of kernels on the terminal, and as one flat document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fuseworks_client import words

MAX_SOURCES, MAX_ROWS = 3, 40
HEAD = ("schema_version", "purpose", "status", "summary", "problem", "notes", "sandbox", "elapsed_s", "workload")


def flat(result: Mapping[str, Any]) -> dict[str, Any]:
    """The prediction at the top level: `kernels`, `extern_calls` and `predicted_ms` are those after our rewrites, and
    `before` and `after` have both in full."""
    document = {key: result[key] for key in HEAD if key in result}
    predicted = result.get("predicted")
    if predicted:
        document |= {**predicted["after"], **predicted}
    return document


def predicted_parts(result: Mapping[str, Any]) -> Iterator[RenderableType]:
    predicted = result.get("predicted")
    if not predicted:
        return
    after, applied = predicted["after"], predicted["applied"]
    yield Text(f"Predicted for {words.plain(predicted['device'])}; nothing was run there.", style="bold")
    yield _kernels(after, "Kernels" + (" after our rewrites" if applied else ""))
    if after["extern_calls"]:
        yield _extern_calls(after)
    yield _sum(predicted)
    yield _formula(predicted["formula"], after.get("notes") or [])


def _kernels(lowering: Mapping[str, Any], title: str) -> RenderableType:
    table = _table(title)
    table.add_column("kernel", overflow="fold", ratio=4)
    for name in ("launches", "registers", "spills", "shared", "occupancy", "128-bit", "bound"):
        table.add_column(name, justify="right")
    table.add_column("from", overflow="fold", ratio=3)
    listed = sorted(lowering["kernels"], key=lambda kernel: -kernel["bound_us"])
    for kernel in listed[:MAX_ROWS]:
        table.add_row(
            Text(words.plain(kernel["name"])),
            str(kernel["launches"]),
            str(kernel["registers"]),
            Text(str(kernel["spills"]), style="yellow" if kernel["spills"] else ""),
            f"{kernel['shared_bytes']:,}",
            Text(f"{kernel['occupancy']:.0%}", style="" if kernel["blocks_per_sm"] else "bold red"),
            f"{kernel['vector_loads']}/{sum(kernel['loads'].values())}",
            f"{kernel['bound_us']:.2f} µs",
            Text(words.plain(_sources(kernel)), style="dim"),
        )
    if len(listed) > MAX_ROWS:
        table.caption, table.caption_justify = f"{len(listed) - MAX_ROWS} more: --json has all.", "left"
    return table


def _extern_calls(lowering: Mapping[str, Any]) -> RenderableType:
    table = _table("Calls of libraries")
    table.add_column("operation", overflow="fold", ratio=2)
    table.add_column("calls", justify="right")
    table.add_column("bound", justify="right")
    table.add_column("bound by")
    table.add_column("tensors", overflow="fold", ratio=4)
    for call in sorted(lowering["extern_calls"], key=lambda call: -call["bound_us"])[:MAX_ROWS]:
        table.add_row(
            Text(words.plain(call["name"])),
            str(call["launches"]),
            f"{call['bound_us']:.2f} µs",
            call["bound_by"],
            Text(words.plain(", ".join(call["shapes"])), style="dim"),
        )
    return table


def _sum(predicted: Mapping[str, Any]) -> RenderableType:
    before, after, difference = predicted["before"], predicted["after"], predicted["difference"]
    table = _table("One call" + _sizes(predicted["sizes"]))
    table.add_column("")
    for name in ("predicted", "kernels launched", "bytes moved"):
        table.add_column(name, justify="right")
    rows = [("as uploaded", before)]
    if predicted["applied"]:
        rows.append(("after our rewrites", after))
    for name, side in rows:
        table.add_row(name, _range(side["predicted_ms"]), str(side["kernels_launched"]), f"{side['bytes_moved']:,}")
    if predicted["applied"]:
        low, high = difference["predicted_ms"]
        table.add_row(
            "difference",
            f"lower end {low:+.3f}, upper end {high:+.3f} ms",
            f"{difference['kernels_launched']:+d}",
            f"{difference['bytes_moved']:+,}",
        )
        table.caption, table.caption_justify = f"Rewrites: {words.plain(', '.join(predicted['applied']))}.", "left"
    else:
        table.caption, table.caption_justify = "No rewrite of ours fits this graph.", "left"
    return table


def _formula(formula: Mapping[str, Any], notes: Sequence[str]) -> RenderableType:
    rows = Table.grid(padding=(0, 2, 0, 0))
    rows.title, rows.title_justify, rows.title_style = "How the two ends come about", "left", "bold"
    assumed = ", ".join(f"{name} = {value:g}" for name, value in formula["assumptions"].items())
    for label, text in (("lower", formula["lower"]), ("upper", formula["upper"]), ("assumed", assumed)):
        rows.add_row(Text(f"  {label}", style="dim"), Text(words.plain(text)))
    for note in [*formula["notes"], *notes]:
        rows.add_row(Text("  note", style="dim"), Text(words.plain(note)))
    return rows


def _sources(kernel: Mapping[str, Any]) -> str:
    nodes = kernel["source_nodes"]
    shown = [f"{node['node']}" + (f" ({node['source']})" if node.get("source") else "") for node in nodes[:MAX_SOURCES]]
    more = f" and {len(nodes) - MAX_SOURCES} more" if len(nodes) > MAX_SOURCES else ""
    return ", ".join(shown) + more


def _sizes(sizes: Mapping[str, int]) -> str:
    return f" ({', '.join(f'{name} = {size}' for name, size in sizes.items())})" if sizes else ""


def _range(ends: Any) -> str:
    return f"{ends[0]:.3f} to {ends[1]:.3f} ms"


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
