"""`python -m benchmarks.calibration`: `record` identical processes on this machine, `analyse` what was recorded.

Exit codes: 0 done, 1 more wrong verdicts than allowed, 3 the machine's or our fault, 64 usage.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.calibration import analyse, record
from benchmarks.calibration.conditions import BY_NAME
from benchmarks.calibration.recording import Recording
from benchmarks.calibration.report import write_report
from benchmarks.recordings import RecordingError, last
from optimizer.benchmarking.sets import ROUNDS
from optimizer.errors import EXIT_DONE, EXIT_OURS, EXIT_USAGE, FuseworksError

HERE = Path(__file__).parent
RECORDINGS, RESULTS = HERE / "recordings", HERE.parent / "results"
MODEL = HERE.parents[1] / "examples" / "din.py"
EXIT_BEYOND = 1


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    _record_options(verbs.add_parser("record", help="record; goes on where it was cut"))
    _analyse_options(verbs.add_parser("analyse", help="judge the recorded sets anew and write the report"))
    try:
        options = parser.parse_args(arguments)
    except SystemExit as stop:
        return EXIT_USAGE if stop.code else EXIT_DONE
    try:
        return int(options.work(options))
    except (RecordingError, ValueError) as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    except record.NotQuiet as error:
        print(error, file=sys.stderr)
    except FuseworksError as error:
        print(f"{error} {error.remedy}", file=sys.stderr)
    except KeyboardInterrupt:
        print("Cut. What is recorded stays: call the same again to go on.", file=sys.stderr)
    return EXIT_OURS


def _record_options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(work=_record)
    parser.add_argument("--model", type=Path, default=MODEL, help="whose eager processes are recorded")
    parser.add_argument("--sets", type=_count(1), default=record.SETS, help="of each condition")
    parser.add_argument("--contenders", type=_count(record.CONTENDERS), default=record.CONTENDERS, help="in a set")
    parser.add_argument("--rounds", type=_count(1), default=ROUNDS)
    parser.add_argument("--condition", action="append", choices=list(BY_NAME), help="may be repeated; default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RECORDINGS, help="one folder a machine is made in it")


def _analyse_options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(work=_analyse)
    parser.add_argument("recording", type=Path, nargs="?", help="folder of one machine; default: the last recorded")
    parser.add_argument("--trials", type=_count(1), default=analyse.TRIALS, help="a condition and difference")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="default: benchmarks/results/calibration-<date of the recording>")


def _count(least: int) -> Callable[[str], int]:
    def count(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"{least} at least")
        return int(text)

    return count


def _record(options: argparse.Namespace) -> int:
    # ended by a time limit as by a person: the children and the neighbour must end with it
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen = [BY_NAME[name] for name in options.condition or BY_NAME]
    _say(f"Capturing {options.model.name}")
    with record.eager_processes(
        options.model, options.seed, contenders=options.contenders, rounds=options.rounds
    ) as contenders:
        record.record(options.out, contenders, say=_say, sets=options.sets, chosen=chosen)
    return EXIT_DONE


def _analyse(options: argparse.Namespace) -> int:
    recording = Recording(options.recording or last(RECORDINGS, "python -m benchmarks.calibration record"))
    report = analyse.analyse(recording, trials=options.trials, seed=options.seed, say=_say)
    folder = options.out or RESULTS / f"calibration-{report.conditions[0].began:%Y-%m-%d}"
    file = write_report(report, folder)
    _say(f"{file}: wrong verdicts {'within' if report.holds else 'BEYOND'} what is allowed")
    return EXIT_DONE if report.holds else EXIT_BEYOND


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
