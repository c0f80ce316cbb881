"""`fuseworks bench`: many models, one after another; every peer's figures and ours, and the scores over all of them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from fuseworks_client import exits, options, words
from fuseworks_client.durations import Duration
from fuseworks_client.problems import show_problem
from fuseworks_client.run import end_as_interrupted
from fuseworks_client.suite import report
from fuseworks_client.suite.found import Suite, find
from fuseworks_client.suite.rows import row
from fuseworks_client.suite.runs import Run, kept, perform
from fuseworks_client.version import version

LANES = {"fp32": ["float32"], "bf16": ["float32", "bfloat16"], "int8": ["float32", "bfloat16", "int8"]}
DIFFER = 1
CODES = """\b
Exit codes:
  0    every model has an outcome, "no faster recipe found" and its own failure included
  1    with --times: the verdicts of a model differ
  3    Fuseworks' or this machine's fault, for one model at least
  64   the command makes no sense as it was typed
  130  interrupted; --resume goes on"""


@click.command(
    "bench",
    epilog=f"""\b
Examples:
  fuseworks bench models/ --out suite
  fuseworks bench models/ --out suite --resume
  fuseworks bench KernelBench/level2 --lane bf16 --budget 4m --json > report.json
  fuseworks bench din.py dlrm.onnx --times 3

{CODES}""",
)
@click.argument(
    "paths", nargs=-1, required=True, metavar="DIR|FILE...", type=click.Path(exists=True, readable=True, path_type=Path)
)
@click.option(
    "--lane",
    type=click.Choice(list(LANES)),
    default="fp32",
    show_default=True,
    help="fp32: everything in float32. bf16: bfloat16 may be used as well, by the peers, too. int8: both may.",
)
@click.option(
    "--budget", type=Duration(), default="6m", show_default=True, help="How long each model may be worked on."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where report.md and report.json are left, and each run below runs/. Default: fuseworks-out/bench-TIME.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Go on with the suite in --out: runs of the same file, options and version are not repeated.",
)
@click.option("--times", type=click.IntRange(1, 100), default=1, help="Runs of each model, to see if verdicts hold.")
@click.option(
    "--rivals",
    type=click.Choice(["all", "all_as_run", "best"]),
    default="all",
    show_default=True,
    help="Which engines are measured in the judgement itself: all that gave right answers; these, and each once more "
    "in default settings, as users run them; or only the best: less time, but no figures of the others.",
)
@click.option("--json", "as_json", is_flag=True, help="Print report.json instead of tables; progress on stderr.")
@click.option("--backend", multiple=True, metavar="NAME", help="An engine that may be used; repeatable. Default: all.")
@click.option("--max-pairs", type=click.IntRange(6, 60), metavar="N", help="Most pairs of processes for a verdict.")
@click.option("--target", default="cpu", show_default=True, help="What the models shall run on.")
@click.option("--threads", type=click.IntRange(1, 1024), help="Threads of one call. Default: all physical cores.")
@click.option("--trusted", is_flag=True, help="Run the models' code without the sandbox. For your own files only.")
def command(
    paths: tuple[Path, ...], out: Path | None, resume: bool, times: int, as_json: bool, lane: str, **given: Any
) -> int:
    """Optimize every model of DIR or FILE, and say how each peer and we did: per model, and over all of them.

    Below folders, every .py in KernelBench's convention, .zip, .pt2 and .onnx is a model. Each is optimized as
    `fuseworks optimize` does, in a run of its own with the same --budget; a model that fails is a row with its reason.
    The report has, model by model, each engine's speedup and ours over it with intervals, errors and precision; and
    over all models fast_p, geometric means and the worst. It is written anew after each model, so that a suite that
    was cut has one, too. The runs' packages are not kept: `fuseworks optimize` makes them.
    """
    if resume and out is None:
        raise click.UsageError("--resume needs --out: the folder of the suite to go on with.")
    folder = out or Path("fuseworks-out") / f"bench-{time.strftime('%Y%m%d-%H%M%S')}"
    suite = find(paths, folder)
    if not suite.models:
        raise click.UsageError(f"No model (.py, .zip, .pt2, .onnx) in {', '.join(map(str, paths))}.")
    spec = options.spec_document("optimize", Path(), {**given, "precision": LANES[lane], "no_ablation": True})
    spec["policy"]["rivals"] = given["rivals"]
    asked = {"lane": lane, "version": version(), "budget_s": given["budget"]}
    asked |= {name: given[name] for name in ("rivals", "target", "threads", "max_pairs", "trusted")}
    asked["backends"] = list(given["backend"])
    end_as_interrupted()
    return _work(suite, folder, spec, asked, times=times, resume=resume, as_json=as_json)


def _work(
    suite: Suite, out: Path, spec: dict[str, Any], asked: dict[str, Any], *, times: int, resume: bool, as_json: bool
) -> int:
    console, runs = Console(stderr=True), list[Run]()
    try:
        (out / "runs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(f"{out} cannot be written: {error.strerror}", param_hint="--out") from error
    for path in suite.left_out:
        console.print(f"==> {words.plain(path)} is left out: no Model with get_inputs in it.", markup=False)
    if not as_json:
        click.echo(report.table(report.COLUMNS, []))

    def told() -> dict[str, Any]:
        return report.document(runs, asked, models=len(suite.models), times=times, left_out=suite.left_out)

    ended = exits.DONE
    for at, (model, number) in enumerate([(m, n) for m in suite.models for n in range(1, times + 1)], 1):
        place = out / "runs" / model.folder(number)
        found = kept(model, number, place, asked) if resume else None
        how = ", kept from before" if found else f", run {number} of {times}" if times > 1 else ""
        total = len(suite.models) * times
        console.print(f"==> {words.plain(model.label)}, {at} of {total}{how}", markup=False, highlight=False)
        run = found or perform(model, number, place, spec, asked, console)
        if run.code in (exits.USAGE, exits.INTERRUPTED):
            ended = run.code
            if run.code == exits.USAGE:
                show_problem(run.result["problem"], "errored", console)
            break
        runs.append(run)
        report.write(told(), out)
        if not as_json:
            click.echo(report.line(report.cells(row(run))))
    if ended == exits.INTERRUPTED:
        console.print(f"==> Interrupted: --resume --out {out} goes on.", markup=False, highlight=False)
    return ended or _finish(told(), out, runs, console, as_json=as_json)


def _finish(document: dict[str, Any], out: Path, runs: list[Run], console: Console, *, as_json: bool) -> int:
    path = report.write(document, out)
    if as_json:
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        click.echo("\n" + report.scored(document["scores"]))
    console.print(f"==> {path}", markup=False, highlight=False)
    for one in report.differing(document):
        told = f"{one['model']}: {len(one['outcomes'])} runs came to {', '.join(one['outcomes'])}"
        console.print(f"==> The verdicts differ: {words.plain(told)}", markup=False, highlight=False)
    ours = [run.model.label for run in runs if not run.has_outcome]
    if ours:
        console.print(f"==> Without an outcome by our fault: {words.plain(', '.join(ours))}", markup=False)
        return exits.OURS
    return DIFFER if report.differing(document) else exits.DONE
