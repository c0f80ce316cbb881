"""What a run found, in sentences that can be checked against its figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from fuseworks.core import figures
from fuseworks.results.reading.contenders import BASELINE
from fuseworks.results.sides import Sides
from optimizer.result import Comparison, Interval, Result, RunStatus, Verdict

BUSY_SHARE = 0.1  # of a contender's bursts: what else runs takes part in the measurement


@dataclass(frozen=True)
class Headline:
    """One judged figure. `sentence` says what it means, `why` why the verdict is what it is."""

    key: str
    title: str
    value: float
    interval: Interval
    verdict: Verdict | None
    sentence: str
    why: str = ""

    @property
    def confidence(self) -> str:
        return percent(self.interval.confidence)


def title(result: Result, seen: Sides | None = None, version: Any = None, against: Any = None) -> str:
    """One line: what was found. `seen` is of a `compare` run."""
    if seen is not None:
        return compared(seen, version, against)
    if result.purpose == "compare" and result.comparisons:
        return _("Measured, but the result does not say which upload is which")
    if result.status != RunStatus.SUCCEEDED:
        return _("The run ended without a verdict")
    if result.predicted is not None and result.verdict is None:
        return _("Predicted for %(device)s: nothing was measured") % {"device": result.predicted.device}
    if result.speedup is None or result.verdict is None:
        return _("No faster recipe found: no candidate was correct and measured")
    speedup = figures.speedup(result.speedup)
    return {
        Verdict.FASTER: _("%(speedup)s as fast as the original") % {"speedup": speedup},
        Verdict.SLOWER: _("No faster recipe found: the best candidate is slower (%(speedup)s)") % {"speedup": speedup},
        Verdict.SAME: _("No faster recipe found: no difference beyond the noise"),
        Verdict.CANNOT_TELL: _("Cannot tell: the interval is too wide for a verdict"),
    }[result.verdict]


def headlines(result: Result) -> list[Headline]:
    """Equal settings, as deployed, and over the best peer: those that were judged, in this order."""
    found = []
    same = equal_settings(result)
    if result.speedup is not None and result.speedup_ci is not None:
        found.append(
            Headline(
                "equal_settings",
                _("Under equal settings"),
                result.speedup,
                result.speedup_ci,
                result.verdict,
                _("The winner against the baseline, both under the same runtime settings (allocator, threads).")
                if result.verdict == Verdict.FASTER
                else _("The best candidate against the baseline, both under the same runtime settings."),
                why(same) if same is not None else "",
            )
        )
    if result.speedup_as_deployed is not None and result.speedup_as_deployed_ci is not None:
        deployed = as_deployed(result)
        judged = deployed or same
        found.append(
            Headline(
                "as_deployed",
                _("As deployed"),
                result.speedup_as_deployed,
                result.speedup_as_deployed_ci,
                judged.verdict if judged is not None else None,
                _("The same against the baseline in its default settings: what a service that runs it so today gains.")
                if deployed is not None
                else _("It runs in default settings, as the baseline does: both headlines are one measurement."),
                why(deployed) if deployed is not None else "",
            )
        )
    over = over_best_peer(result)
    if over is not None:
        found.append(
            Headline(
                "best_peer",
                _("Over the best peer"),
                over.speedup,
                over.interval,
                over.verdict,
                _("Against %(peer)s, the fastest engine without our rewrites.") % {"peer": over.base},
                why(over),
            )
        )
    return found


def nothing_offered(result: Result) -> str:
    """Why what was judged best is not offered; empty where something is."""
    if result.offered or result.verdict is None or result.winner is None:
        return ""
    if result.purpose == "replay" and result.not_accepted_because:
        return result.not_accepted_because
    deployed = as_deployed(result)
    if result.verdict == Verdict.FASTER:  # older documents do not say `offered`
        if deployed is None or deployed.verdict != Verdict.SLOWER:
            return ""
        return _("as deployed it is slower than the original in its default settings, which it would replace")
    return {
        Verdict.SLOWER: _("the best candidate is slower than the original"),
        Verdict.SAME: _("no candidate is faster than the original beyond the noise"),
        Verdict.CANNOT_TELL: _("whether the best candidate is faster than the original cannot be told"),
    }[result.verdict]


def disturbance(result: Result) -> str:
    """Beside a verdict that cannot tell: what else the cores were busy with meanwhile; empty where nothing is known."""
    observed = result.conditions.observed if result.conditions is not None else {}
    shares, loads = observed.get("disturbed_shares"), observed.get("load_averages")
    if result.verdict != Verdict.CANNOT_TELL or result.conditions is None or not shares:
        return ""
    share = max(shares.values())
    words = {
        "share": figures.percent(share),
        "floor": figures.percent(observed.get("noise_floor")),
        "load": f"{max(loads):.1f}" if loads else figures.MISSING,
        "cores": result.conditions.fixed.get("cores", figures.MISSING),
    }
    told = _(
        "Up to %(share)s of a contender's bursts had to wait for a core, the noise floor is %(floor)s, and the load "
        "was up to %(load)s on %(cores)s cores."
    )
    busy = _("The cores were busy with other work: measure again on a quiet machine.")
    return told % words + (f" {busy}" if share >= BUSY_SHARE else "")


def why(comparison: Comparison) -> str:
    """Why the interval gives this verdict: the rule with its numbers in it; in the result's own words where it was
    cut short."""
    if comparison.reason is not None:
        return comparison.reason
    words = {
        "interval": figures.interval(comparison.interval.low, comparison.interval.high),
        "confidence": percent(comparison.interval.confidence),
        "floor": figures.percent(comparison.noise_floor),
        "pairs": comparison.pairs,
    }
    texts = {
        Verdict.FASTER: _(
            "Over %(pairs)s pairs of fresh processes the whole %(confidence)s interval %(interval)s lies above 1 "
            "by more than this machine's noise floor of %(floor)s."
        ),
        Verdict.SLOWER: _(
            "Over %(pairs)s pairs of fresh processes the whole %(confidence)s interval %(interval)s lies below 1 "
            "by more than this machine's noise floor of %(floor)s."
        ),
        Verdict.SAME: _(
            "Over %(pairs)s pairs of fresh processes the whole %(confidence)s interval %(interval)s lies within what "
            "this machine (noise floor %(floor)s) calls no difference."
        ),
        Verdict.CANNOT_TELL: _(
            "Over %(pairs)s pairs of fresh processes the %(confidence)s interval %(interval)s does not clear 1 "
            "and the noise floor of %(floor)s. More pairs or a quieter machine would narrow it."
        ),
    }
    return texts[comparison.verdict] % words


def compared(seen: Sides, version: Any, against: Any) -> str:
    """The sentence of a `compare` run, from the version's side."""
    words = {
        "version": version,
        "against": against,
        "ratio": f"{seen.latency_ratio.value:.3f}",
        "interval": f"[{seen.latency_ratio.low:.3f}, {seen.latency_ratio.high:.3f}]",
        "confidence": percent(seen.latency_ratio.confidence),
    }
    texts = {
        Verdict.FASTER: _("%(version)s is faster than %(against)s"),
        Verdict.SLOWER: _("%(version)s is slower than %(against)s"),
        Verdict.SAME: _("%(version)s is as fast as %(against)s, within the noise"),
        Verdict.CANNOT_TELL: _("Whether %(version)s is faster than %(against)s cannot be told"),
    }
    tail = _("latency_ratio %(ratio)s, %(confidence)s interval %(interval)s")
    return f"{texts[seen.verdict] % words}: {tail % words}"


def equal_settings(result: Result) -> Comparison | None:
    """The comparison that the headline and the verdict come from."""
    return next((c for c in result.comparisons if c.other == result.winner and c.base == BASELINE), None)


def as_deployed(result: Result) -> Comparison | None:
    return next((c for c in result.comparisons if c.other == result.winner and not c.same_settings), None)


def over_best_peer(result: Result) -> Comparison | None:
    peer = result.best_peer.name if result.best_peer else None
    return next((c for c in result.comparisons if c.base == peer and c.other == result.winner), None)


def percent(share: float) -> str:
    """A confidence: 0.99 is `99 %`."""
    return f"{share * 100:g} %"
