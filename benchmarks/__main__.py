"""`python -m benchmarks [MODEL...] [--times N] [--budget 6m]`: optimizes the examples and keeps the figures.

Each model is run N times, to see whether the verdicts hold: exit code 1 when those of a model differ. The report
(Markdown and JSON) goes to `benchmarks/reports/<host fingerprint>/`. All ratios are measured side by side within one
run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import COLUMNS, Document, agreements, kept, line, markdown, row

ROOT = Path(__file__).parent.parent
REPORTS = Path(__file__).parent / "reports"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("models", nargs="*", help="model files; default: all of examples/")
    parser.add_argument("--times", type=int, default=1, help="runs of each model; their verdicts are compared")
    parser.add_argument("--budget", default="6m")
    options = parser.parse_args(arguments)
    if options.times < 1:
        parser.error("--times must be at least 1")
    models = [Path(m) for m in options.models] or sorted((ROOT / "examples").glob("*.py"))
    documents: list[Document] = []
    print(line(COLUMNS), flush=True)
    for model in models:
        for number in range(options.times):
            print(f"==> {model.name}, {number + 1} of {options.times}", file=sys.stderr)
            documents.append(optimize(model, options.budget))
            print(line(row(documents[-1])), flush=True)
    print(f"==> {write(documents, REPORTS)}", file=sys.stderr)
    differing = [one for one in agreements(documents) if one.agree is False]
    for one in differing:
        print(f"==> The verdicts differ: {one.in_words()}", file=sys.stderr)
    return 1 if differing else 0


def optimize(model: Path, budget: str) -> Document:
    """The answer of one run of the command; `no answer` as its status when it gave none."""
    command = [sys.executable, "-m", "fuseworks_client", "optimize", str(model), "--json", "--budget", budget]
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run([*command, "--out", out], stdout=subprocess.PIPE, text=True)
    answer: Document = json.loads(done.stdout) if done.stdout else {"status": f"no answer (exit {done.returncode})"}
    return {"model": model.name, "wall_s": round(time.monotonic() - began, 1), **answer}


def write(documents: list[Document], reports: Path) -> Path:
    """Writes the report below `reports`, in the folder of the machine's fingerprint, and returns that folder."""
    fingerprint = next((d["conditions"]["fingerprint"][:12] for d in documents if d.get("conditions")), "unknown")
    folder = reports / fingerprint
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "examples.json").write_text(json.dumps([kept(d) for d in documents], indent=1) + "\n")
    (folder / "examples.md").write_text(markdown(documents))
    return folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
