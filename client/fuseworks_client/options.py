"""Options that several verbs share, and what they become in the spec of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import yaml

from fuseworks_client.durations import Duration

Function = TypeVar("Function", bound=Callable[..., Any])
SHORT_BUDGET_S = 60  # the optimizer's own: this command does without it
MODEL = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


def _combined(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


running: Any = _combined(
    click.option(
        "--workload",
        type=MODEL,
        metavar="FILE",
        help="How the model is called in production (YAML or JSON): inputs, ranges of their sizes, distributions of "
        "their values. Default: what the model itself says. `fuseworks schema workload` prints the schema.",
    ),
    click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help="Where result, report, package and recipe are left. Default: fuseworks-out/MODEL-TIME.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document; progress on stderr."),
    click.option(
        "--target", default="cpu", show_default=True, help="What it shall run on: cpu, or cuda:sm_90 and so on."
    ),
    click.option("--threads", type=click.IntRange(1, 1024), help="Threads of one call. Default: all physical cores."),
    click.option(
        "--seed", type=click.IntRange(0), help="Draw the same inputs again. Default: drawn afresh, and recorded."
    ),
    click.option(
        "--trusted",
        is_flag=True,
        help="Run the model's code without the sandbox. For a file that you wrote yourself only; the result says so.",
    ),
)

measuring: Any = _combined(
    click.option(
        "--budget",
        type=Duration(),
        default="290s",
        show_default=True,
        help="How long the run may work, such as 300, 90s, 5m or 1h. Below 60s it rarely comes to a verdict.",
    ),
    click.option(
        "--max-error-ratio",
        type=click.FloatRange(0, min_open=True),
        metavar="RATIO",
        help="How much larger than the original's own error against float64 an answer's error may be. Default: 3.",
    ),
    click.option(
        "--max-pairs", type=click.IntRange(6, 60), metavar="N", help="Most pairs of processes a verdict may take."
    ),
)


precision: Any = click.option(
    "--precision",
    multiple=True,
    type=click.Choice(["float32", "bfloat16", "int8"]),
    help="A precision that may be used; give it again for more. Default: float32 only.",
)


def spec_document(purpose: str, model: Path, given: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The run's spec without `out`. What was not given is left out, so that the optimizer's own defaults hold."""
    policy = {
        "budget_s": given.get("budget"),
        "max_error_ratio": given.get("max_error_ratio"),
        "max_pairs": given.get("max_pairs"),
        "threads": given.get("threads"),
        "seed": given.get("seed"),
        "precisions": list(given.get("precision") or ()) or None,
        "backends": list(given.get("backend") or ()) or None,
        "ablation": False if given.get("no_ablation") else None,
        "runtime_settings": False if given.get("no_runtime_settings") else None,
    }
    document = {
        "purpose": purpose,
        "model": str(model.absolute()),
        "target": given.get("target"),
        "trusted": bool(given.get("trusted")),
        "workload": read_workload(given["workload"]) if given.get("workload") else None,
        "policy": {key: value for key, value in policy.items() if value is not None},
        **more,
    }
    return {key: value for key, value in document.items() if value is not None}


def read_workload(path: Path) -> dict[str, Any]:
    """Plain data; the optimizer checks it against the schema."""
    try:
        text = path.read_text(encoding="utf-8")
        document = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise click.BadParameter(f"{path} cannot be read: {error}", param_hint="--workload") from error
    if not isinstance(document, dict):
        raise click.BadParameter(f"{path} must hold a mapping of fields", param_hint="--workload")
    return document
