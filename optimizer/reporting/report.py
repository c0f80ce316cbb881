"""One self-contained HTML file of a result: opened from a disk or an e-mail it loads nothing from anywhere.

Says what was found and why it may be believed. What the model wrote (names, messages) is escaped, never markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import jinja2
import yaml

from optimizer.diagnosing.exporting.figures import flat
from optimizer.reporting import words
from optimizer.reporting.charts import Bar, distribution, forest
from optimizer.reporting.icicle import icicle
from optimizer.reporting.memory_chart import memory
from optimizer.reporting.roofline import roofline
from optimizer.reporting.scatter import Dot, scatter
from optimizer.result import Comparison, Evaluation, Result, Verdict
from optimizer.spec import dump_step

MAX_OPERATIONS, MAX_AFTER = 60, 20
_TONES = {Verdict.FASTER: "good", Verdict.SLOWER: "bad"}
_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters.update(
    milliseconds=words.milliseconds,
    times=words.times,
    interval=words.interval,
    size=words.size,
    count=words.count,
    percent=words.percent,
    step=words.step,
    layers=words.layers,
    layer_precision=words.layer_precision,
    layer_shape=words.layer_shape,
    task_metric=words.task_metric,
    status=words.status,
    is_peer=words.is_peer,
    verdict=words.verdict,
    called=words.called,
    training_run=words.training_run,
    measure=words.measure,
    limit_name=words.limit_name,
    limit_value=words.limit_value,
    kept=words.kept,
    dump=dump_step,
)


def write_report(
    result: Result, out: Path, *, samples: Mapping[str, Sequence[float]] | None = None, name: str = "report.html"
) -> Path:
    """Writes `out/report.html`. `samples`: milliseconds of each call, by contender."""
    path = out / name
    path.write_text(render(result, samples or {}), encoding="utf-8")
    return path


def render(result: Result, samples: Mapping[str, Sequence[float]]) -> str:
    winner = next((e for e in result.candidates if e.candidate.name == result.winner), None)
    operations = result.profile.operations if result.profile else []
    after = result.profile_after.operations if result.profile_after else []
    judged = next(iter(result.comparisons), None)
    return _TEMPLATES.get_template("template.html").render(
        result=result,
        headline=words.headline(result),
        tone=_TONES.get(result.verdict, "plain") if result.verdict else "plain",
        winner=winner,
        offered=words.offered(result) if result.verdict and result.purpose != "compare" else "",
        notes=words.notes(result),
        judged=judged,
        comparisons=forest([_comparison_bar(c) for c in result.comparisons], "Judged speedups with their intervals"),
        ablation=forest(_ablation_bars(result), "What each step gives, with its interval"),
        front=scatter(_dots(result), "Time and memory of what is correct"),
        latencies=distribution(samples, "Latency of single calls"),
        icicle=icicle(operations, "The model's time by module and operation"),
        roofline=roofline(result.profile, "Operations under the machine's measured roofs"),
        memory=memory(result.profile.memory if result.profile else None, "Memory over one call"),
        operations=operations[:MAX_OPERATIONS],
        operations_left=len(operations) - MAX_OPERATIONS,
        after=after[:MAX_AFTER],
        after_left=len(after) - MAX_AFTER,
        verified=_verified(result.candidates),
        conditions=flat(result.conditions.fixed) if result.conditions else [],
        observed=flat(result.conditions.observed) if result.conditions else [],
        recipe=yaml.safe_dump(result.recipe, sort_keys=False, allow_unicode=True, width=100) if result.recipe else "",
    )


def _comparison_bar(comparison: Comparison) -> Bar:
    settings = "" if comparison.same_settings else " (as deployed)"
    return Bar(
        f"{comparison.other} / {comparison.base}{settings}",
        comparison.interval.low,
        comparison.speedup,
        comparison.interval.high,
        _TONES.get(comparison.verdict, "plain"),
    )


def _ablation_bars(result: Result) -> list[Bar]:
    return [
        Bar(
            words.step(row.step),
            row.interval.low,
            row.gain,
            row.interval.high,
            _TONES.get(row.verdict, "plain") if row.verdict else "plain",
        )
        for row in result.ablation
        if row.gain is not None and row.interval is not None
    ]


def _dots(result: Result) -> list[Dot]:
    return [
        Dot(
            point.candidate,
            point.latency_ms,
            point.peak_memory_bytes / (1 << 20),
            "good" if point.candidate == result.winner else "plain",
            point.dominated_by is None,
        )
        for point in result.front
    ]


def _verified(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    return [evaluation for evaluation in evaluations if evaluation.verification is not None]
