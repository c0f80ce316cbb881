"""`fuseworks optimize`: from a model to a verified before and after, a package and a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fuseworks_client import exits, options
from fuseworks_client.run import run


@click.command(
    "optimize",
    epilog=f"""\b
Examples:
  fuseworks optimize model.py
  fuseworks optimize ranker.zip --workload serving.yaml --budget 10m --out result
  fuseworks optimize model.onnx --backend openvino --backend onnxruntime --json
  fuseworks optimize model.pt2 --precision float32 --precision bfloat16

{exits.HELP}""",
)
@click.argument("model", type=options.MODEL)
@options.running
@options.measuring
@options.precision
@click.option(
    "--backend", multiple=True, metavar="NAME", help="An engine that may be used; repeatable. Default: all here."
)
@click.option("--no-ablation", is_flag=True, help="Do not measure what each step of the winner gives by itself.")
@click.option("--no-runtime-settings", is_flag=True, help="Do not propose allocator or huge pages.")
def command(model: Path, out: Path | None, as_json: bool, **given: Any) -> int:
    """Find out how much faster MODEL can be, and prove it.

    The model is captured, profiled, rewritten, compiled by every engine of this machine, verified against float64 and
    measured against the original in fresh processes. Its code runs in a sandbox. MODEL is a .py file with Model,
    get_init_inputs() and get_inputs(), a .zip with such a model.py, a .pt2 of torch.export, or an .onnx file.
    """
    return run(options.spec_document("optimize", model, given), out=out, as_json=as_json)
