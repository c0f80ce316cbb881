"""The report of predicted gains: `report.md` for people, `report.json` with every figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.predictions.evaluate import COVERED, WIDEST, Evaluation, Scores
from benchmarks.predictions.recording import Header, RecordedVariant
from optimizer.diagnosing.correcting import LEAST_SCALE, Calibration

EVIDENCE = {
    "processes": "the original's engine with and without the remedy, in interleaved fresh processes",
    "cpu_time": "the original's engine with and without the remedy, CPU time of one thread in interleaved bursts",
}
HEAD = ["", "gains", "models", "covered", "upper / lower", "error of the middle", "bias"]


def write_report(
    folder: Path, header: Header, variants: Sequence[RecordedVariant], found: Evaluation, calibration: Calibration
) -> Path:
    """Returns the path of `report.md`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(found.model_dump_json(indent=2) + "\n")
    file = folder / "report.md"
    file.write_text(markdown(header, variants, found, calibration))
    return file


def markdown(header: Header, variants: Sequence[RecordedVariant], found: Evaluation, calibration: Calibration) -> str:
    measured = [one for one in variants if one.lost is None]
    originals = sum(one.is_original for one in measured)
    disturbed = sum(one.beside_other_work for one in measured)
    sign = "hold" if found.holds else "**do not hold**"
    parts = [
        "# Predicted gains, and what came of them",
        f"{originals} models and {len(measured) - originals} variants of them, {header.sets} sets of {header.rounds} "
        f"rounds each; measured: {EVIDENCE[header.how]}; on {header.fixed.get('cpu')}, {header.fixed.get('threads')} "
        f"threads, fingerprint `{header.fingerprint[:12]}`. {disturbed} of them were recorded while other work wanted "
        f"the cores. {_lost(variants)} {header.note}".rstrip(),
        f"Intervals of {found.confidence:.0%} should cover at least {COVERED:.0%} with a median upper / lower of "
        f"{WIDEST:g} at most, and their middles be nearer than the best constant: these {sign}. Each gain is predicted "
        "from records of other models only; models of alike operations count as one.",
        _table(
            HEAD,
            [
                ["as worked out", *_cells(found.raw)],
                ["corrected", *_cells(found.corrected)],
                [f"best constant, {found.constant:.3f}x", "", "", "", "", f"{found.constant_error:.2%}", ""],
                ["best constant of each remedy", "", "", "", "", f"{found.constants_error:.2%}", ""],
            ],
        ),
        "Errors are of logarithms, in mean. The constants are chosen after the fact, the predictions are not.",
        "## By rule and remedy",
        _table(HEAD, [[key, *_cells(scores)] for key, scores in found.by_remedy.items()]),
        "## The corrections",
        f"log(gain) = slope × log(predicted) + (centre ± half width) × ({LEAST_SCALE:g} + log(predicted)).",
        _table(
            ["", "gains", "slope", "centre", "half width"],
            [
                [key, str(one.records), f"{one.slope:.2f}", f"{one.centre:+.2f}", f"{one.half_width:.2f}"]
                for key, one in {"any other": calibration.pooled, **calibration.by_remedy}.items()
            ],
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _lost(variants: Sequence[RecordedVariant]) -> str:
    lost = [one for one in variants if one.lost is not None]
    return f"{len(lost)} more could not be measured." if lost else "None was lost."


def _cells(scores: Scores) -> list[str]:
    return [
        str(scores.records),
        str(scores.models),
        f"{scores.coverage:.0%}",
        f"{scores.width:.2f}",
        f"{scores.error:.2%}",
        f"{scores.bias:+.2%}",
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
