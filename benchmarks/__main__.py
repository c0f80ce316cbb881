"""`python -m benchmarks [MODEL...] [--times N] [--budget 6m]`: optimizes the examples and keeps the figures.

Each model is run N times, so that one sees whether the verdicts hold. The report (Markdown and JSON) goes to
`benchmarks/reports/<host fingerprint>/`. All ratios are measured side by side within one run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
REPORTS = Path(__file__).parent / "reports"
COLUMNS = (
    "model",
    "baseline ms",
    "best ms",
    "speedup",
    "as deployed",
    "verdict",
    "best peer",
    "peer speedup",
    "over peer",
    "winner",
    "max error",
)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("models", nargs="*", help="model files; default: all of examples/")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--budget", default="6m")
    options = parser.parse_args(arguments)
    models = [Path(m) for m in options.models] or sorted((ROOT / "examples").glob("*.py"))
    rows: list[list[str]] = []
    documents: list[dict[str, Any]] = []
    for model in models:
        for number in range(options.times):
            print(f"==> {model.name}, {number + 1} of {options.times}", file=sys.stderr)
            document = optimize(model, options.budget)
            documents.append({"model": model.name, **document})
            rows.append(row(model.name, document))
            print(line(rows[-1]), flush=True)
    fingerprint = next((d["conditions"]["fingerprint"][:12] for d in documents if d.get("conditions")), "unknown")
    folder = REPORTS / fingerprint
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "examples.json").write_text(json.dumps([_kept(d) for d in documents], indent=1) + "\n")
    table = [line(COLUMNS), line(["---"] * len(COLUMNS)), *map(line, rows)]
    (folder / "examples.md").write_text("\n".join(table) + "\n")
    print(f"==> {folder.relative_to(ROOT)}", file=sys.stderr)
    return 0


def optimize(model: Path, budget: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "fuseworks_client", "optimize", str(model), "--json", "--budget", budget]
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run([*command, "--out", out], stdout=subprocess.PIPE, text=True)
    if not done.stdout:
        raise RuntimeError(f"{model.name}: exit code {done.returncode} and no answer")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def row(name: str, d: dict[str, Any]) -> list[str]:
    peer = d.get("best_peer") or {}
    errors = [o["error"] for o in d.get("numerics") or []]
    return [
        name,
        _number(d.get("baseline_ms")),
        _number(d.get("best_ms")),
        _interval(d.get("speedup"), d.get("speedup_ci")),
        _number(d.get("speedup_as_deployed")),
        str(d.get("verdict") or d.get("status")),
        str(peer.get("name", "")),
        _interval(peer.get("speedup"), peer.get("interval")),
        _number(d.get("speedup_over_best_peer")),
        str(d.get("winner") or ""),
        f"{max(errors):.1e}" if errors else "",
    ]


def line(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"


def _number(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, (int, float)) else ""


def _interval(value: Any, interval: Any) -> str:
    if value is None or not interval:
        return ""
    return f"{value:.2f} [{interval['low']:.2f}, {interval['high']:.2f}]"


def _kept(document: dict[str, Any]) -> dict[str, Any]:
    """The document without what is long and says nothing of speed."""
    return {k: v for k, v in document.items() if k not in {"profile", "rewrites", "workload", "artifacts", "recipe"}}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
