"""The report of a calibration: `report.md` for people, `report.json` with every figure, `power.svg`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.calibration.analyse import PAIRS, POWER, SHARE_CONFIDENCE, ConditionReport, Report
from benchmarks.calibration.chart import power_curve
from benchmarks.calibration.replay import BLOCK, BLOCKS
from optimizer.benchmarking.statistics import CONFIDENCE

CHART = "power.svg"
TITLE = "Judgements that found a planted difference"


def write_report(report: Report, folder: Path) -> Path:
    """Returns the path of `report.md`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(report.model_dump_json(indent=2) + "\n")
    (folder / CHART).write_text(chart(report))
    file = folder / "report.md"
    file.write_text(markdown(report))
    return file


def chart(report: Report) -> str:
    series = {
        one.in_words: [(t.difference, t.power, *t.power_interval) for t in one.planted] for one in report.conditions
    }
    return power_curve(series, TITLE)


def markdown(report: Report) -> str:
    header, looks = report.header, ", ".join(map(str, report.looks))
    parts = [
        f"# Calibration, {report.conditions[0].began:%Y-%m-%d}",
        f"Identical eager processes of `{header.model}`, {header.contenders} a set, {header.rounds} rounds a set, "
        f"recorded on this machine: {header.fixed.get('cpu')}, {header.fixed.get('threads')} threads, fingerprint "
        f"`{header.fingerprint[:12]}`. Trials are recorded sets drawn anew and judged by the judge itself (looks at "
        f"{looks} sets, {_whole(CONFIDENCE)} over all looks, the floor from the same sets). docs/measuring.md says "
        "how.",
        _headline(report),
        "## Equal processes",
        "Every `faster` or `slower` is wrong here. *Missed* are intervals that leave out 1. *In blocks*: "
        f"{BLOCK} neighbouring sets are drawn together, as they were recorded; *single*: each by itself. The ranges "
        f"are {_whole(SHARE_CONFIDENCE)} intervals of a share of so many trials; *other sets* is the range of the "
        "wrong share (5th to 95th percentile) when the recorded sets themselves are drawn anew.",
        _equal(report.conditions),
        "## Planted differences",
        "One half of the trials has the other faster by so much, the other half slower. *Same* says that no difference "
        "beyond max(floor, 2 %) is there; it is wrong where the difference is larger than that (*same, beyond*). "
        "*Interval beyond 1* is what would be found without the floor.",
        f"![{TITLE}, by condition, over differences from 1 to 10 per cent]({CHART})",
        *(_planted(one) for one in report.conditions),
        f"### Pairs that find it in {_whole(POWER)} of the judgements",
        f"The least `max_pairs` of a policy, of {', '.join(map(str, PAIRS))}.",
        _needed(report.conditions),
        "## Time to verdict",
        "Between equal processes, in recorded seconds of sets of three processes. A run's judgement has the best peer "
        "and the baseline in default settings beside, and takes the longer for it.",
        _times(report.conditions),
        "## What was recorded",
        _recorded(report.conditions),
        *_dependences(report.conditions),
    ]
    return "\n\n".join(parts) + "\n"


def _headline(report: Report) -> str:
    worst = max(
        ((tally.wrong_share, one.in_words) for one in report.conditions for tally in one.equal),
        key=lambda pair: pair[0],
    )
    sign = "holds" if report.holds else "**does not hold**"
    return (
        f"At most {_whole(report.allowed_wrong)} of the verdicts on equal processes may be wrong: that {sign}. The "
        f"worst is {_percent(worst[0])} ({worst[1]}) over {report.trials} trials."
    )


def _equal(conditions: Sequence[ConditionReport]) -> str:
    rows = [
        [
            one.in_words,
            "in blocks" if tally.scheme == BLOCKS else "single",
            str(tally.trials),
            f"{_percent(tally.wrong_share)} {_range(tally.wrong_interval)}",
            _percent(tally.missed / tally.trials),
            _range(one.shaken_wrong) if tally.scheme == BLOCKS else "",
            _percent(tally.same / tally.trials),
            _percent(tally.cannot_tell / tally.trials),
            _percent(tally.stopped / tally.trials),
            _percent(tally.floor_median),
            _percent(tally.half_width_median),
        ]
        for one in conditions
        for tally in one.equal
    ]
    head = ["condition", "sets", "trials", "wrong", "missed", "other sets", "same", "cannot tell", "stopped"]
    return _table([*head, "floor", "half width"], rows)


def _planted(one: ConditionReport) -> str:
    rows = [
        [
            f"{tally.difference * 100:g} %",
            f"{_percent(tally.power)} {_range(tally.power_interval)}",
            _percent(tally.wrong_share),
            _percent(tally.same / tally.trials),
            _percent(tally.same_beyond / tally.trials),
            _percent(tally.cannot_tell / tally.trials),
            _percent(tally.stopped / tally.trials),
            _percent(tally.missed / tally.trials),
            _percent(tally.apart / tally.trials),
            f"{tally.pairs_mean:.1f}",
            f"{tally.seconds_median:.0f} s",
        ]
        for tally in one.planted
    ]
    head = ["difference", "found", "wrong way", "same", "same, beyond", "cannot tell", "stopped", "missed"]
    head += ["interval beyond 1", "pairs, mean", "time, median"]
    return f"### {one.in_words[0].upper()}{one.in_words[1:]}\n\n{_table(head, rows)}"


def _needed(conditions: Sequence[ConditionReport]) -> str:
    differences = [tally.difference for tally in conditions[0].planted]
    rows = [
        [one.in_words, *(_pairs(one.pairs_needed[f"{difference:g}"]) for difference in differences)]
        for one in conditions
    ]
    return _table(["condition", *(f"{difference * 100:g} %" for difference in differences)], rows)


def _pairs(needed: int | None) -> str:
    return f"more than {PAIRS[-1]}" if needed is None else str(needed)


def _times(conditions: Sequence[ConditionReport]) -> str:
    rows = []
    for one in conditions:
        tally = one.equal[0]
        looks = " / ".join(_percent(tally.decided_at_look.get(look, 0) / tally.trials) for look in (1, 2, 3))
        rows.append(
            [
                one.in_words,
                f"{one.seconds_a_set:.1f} s",
                f"{tally.pairs_mean:.1f}",
                f"{tally.seconds_median:.0f} s",
                f"{tally.seconds_p90:.0f} s",
                looks,
            ]
        )
    return _table(["condition", "a set", "pairs, mean", "median", "90th percentile", "told at look 1 / 2 / 3"], rows)


def _recorded(conditions: Sequence[ConditionReport]) -> str:
    rows = [
        [
            one.in_words,
            str(one.sets),
            ", ".join(f"{count} {error}" for error, count in one.lost.items()) or "none",
            str(one.processes),
            f"{one.call_ms:.2f} ms",
            _percent(one.process_sd),
            f"{one.load_median:.1f} ({one.load_most:.1f})",
            _percent(one.disturbed_share),
            str(one.refused_bursts),
            f"{one.page_faults_per_call:.0f}",
        ]
        for one in conditions
    ]
    head = ["condition", "sets", "lost", "processes", "a call", "processes differ (sd)", "load, median (most)"]
    return _table([*head, "disturbed bursts", "refused bursts", "page faults a call"], rows)


def _dependences(conditions: Sequence[ConditionReport]) -> Iterable[str]:
    """One line each: what neighbouring sets and places in the order of starting have in common."""
    for one in conditions:
        found = one.dependence
        if found is None:
            continue
        seen = ", ".join(found.seen) or "nothing that chance would not give"
        yield (
            f"{one.in_words[0].upper()}{one.in_words[1:]}: {seen} (next set's level {found.level:+.2f}, p "
            f"{found.level_p:.3f}; next set's spread {found.spread:+.2f}, p {found.spread_p:.3f}; place of starting "
            f"{_percent(found.place)}, p {found.place_p:.3f}; {_percent(found.shared)} of the variance is the set's)."
        )


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %" if share < 0.1 else f"{share * 100:.0f} %"


def _whole(share: float) -> str:
    return f"{share * 100:.0f} %"


def _range(ends: tuple[float, float]) -> str:
    return f"[{ends[0] * 100:.1f}, {ends[1] * 100:.1f}]"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
