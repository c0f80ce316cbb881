"""`python -m benchmarks.predictions`: `record` predictions beside measured gains, `fit` what corrects them.

Exit codes: 0 done, 1 the goals do not hold, 3 the machine's or our fault, 64 usage.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.predictions import record as recording_of
from benchmarks.predictions.evaluate import evaluate
from benchmarks.predictions.recording import (
    Header,
    RecordedVariant,
    Recording,
    records,
)
from benchmarks.predictions.report import EVIDENCE, write_report
from benchmarks.predictions.variants import in_turn
from benchmarks.recordings import RecordingError, last
from optimizer.diagnosing.correcting import FILE, Source, fit
from optimizer.errors import EXIT_DONE, EXIT_OURS, EXIT_USAGE, FuseworksError

HERE = Path(__file__).parent
RECORDINGS, RESULTS = HERE / "recordings", HERE.parent / "results"
ROOT = HERE.parents[1]
MODELS = [*sorted((ROOT / "examples").glob("*.py")), *sorted((ROOT / "benchmarks" / "models").glob("*.py"))]
VARIANTS = 7
EXIT_BEYOND = 1


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.predictions", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("record", help="record; goes on where it was cut")
    one.set_defaults(work=_record)
    one.add_argument("models", nargs="*", type=Path, help="default: examples/ and benchmarks/models/")
    one.add_argument("--variants", type=int, default=VARIANTS, help="of each model, beside itself")
    one.add_argument("--minutes", type=float, help="begin no variant later than that")
    one.add_argument("--sets", type=int, default=recording_of.SETS, help="of fresh processes, for each variant")
    one.add_argument("--light", action="store_true", help="CPU time of one thread, where others want the cores too")
    one.add_argument("--out", type=Path, default=RECORDINGS, help="one folder a machine is made in it")
    two = verbs.add_parser("fit", help="write the calibration and its report")
    two.set_defaults(work=_fit)
    two.add_argument("recording", type=Path, nargs="?", help="folder of one machine; default: the last recorded")
    two.add_argument("--out", type=Path, help="default: benchmarks/results/predictions-<date of the recording>")
    two.add_argument("--calibration", type=Path, default=FILE, help="what predictions are corrected by")
    try:
        options = parser.parse_args(arguments)
    except SystemExit as stop:
        return EXIT_USAGE if stop.code else EXIT_DONE
    try:
        return int(options.work(options))
    except (RecordingError, ValueError) as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    except FuseworksError as error:
        print(f"{error} {error.remedy}", file=sys.stderr)
    except KeyboardInterrupt:
        print("Cut. What is recorded stays: call the same again to go on.", file=sys.stderr)
    return EXIT_OURS


def _record(options: argparse.Namespace) -> int:
    # ended by a time limit as by a person: the children must end with it
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    until = time.monotonic() + 60 * options.minutes if options.minutes is not None else float("inf")
    chosen = in_turn(options.models or MODELS, options.variants)
    head = recording_of.header(sets=options.sets, light=options.light)
    recording_of.record(options.out, chosen, head, say=_say, until=until)
    return EXIT_DONE


def _fit(options: argparse.Namespace) -> int:
    recording = Recording(options.recording or last(RECORDINGS, "python -m benchmarks.predictions record"))
    header, variants = recording.header(), recording.variants()
    found = records(variants)
    evaluation = evaluate(found)
    calibration = fit(found, target="cpu", sources=[_source(header, variants)])
    options.calibration.write_text(calibration.model_dump_json(indent=2) + "\n")
    began = min(one.at for one in variants)
    folder = options.out or RESULTS / f"predictions-{began:%Y-%m-%d}"
    file = write_report(folder, header, variants, evaluation, calibration)
    _say(f"{options.calibration}; {file}: the goals {'hold' if evaluation.holds else 'DO NOT hold'}")
    return EXIT_DONE if evaluation.holds else EXIT_BEYOND


def _source(header: Header, variants: Sequence[RecordedVariant]) -> Source:
    measured = [one for one in variants if one.lost is None]
    disturbed = sum(one.beside_other_work for one in measured)
    notes = [f"{disturbed} of {len(measured)} variants were recorded beside other work"] if disturbed else []
    return Source(
        recorded_at=f"{min(one.at for one in measured):%Y-%m-%d}",
        machine=f"{header.fixed.get('cpu')}, {header.fixed.get('threads')} threads",
        evidence=EVIDENCE[header.how],
        note="; ".join([*notes, *filter(None, [header.note])]),
    )


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
