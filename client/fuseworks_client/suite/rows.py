"""What the report keeps of one run: every peer's figures and ours, over the original and over each peer.

`ours` is what Fuseworks would have deployed: the winner where it is offered, else the original itself, which is then
1.0 times as fast as itself and as much slower than the best peer as that is faster. The best peer of a model is the
fastest in the judgement among the engines without our rewrites and the original: nobody has to pick an engine that
loses to what they have. These are speedups under the same runtime settings. `as_deployed` is over the original in its
default settings, and `over_best_peer_as_run` over the fastest of that and all peers in theirs; None where these were
not measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fuseworks_client.suite.runs import Run

Document = dict[str, Any]
DEPLOYED = "baseline (default settings)"
BASELINES = frozenset({"baseline", DEPLOYED})
ORIGINAL = "the original"
ITSELF: Document = {"speedup": 1.0, "low": 1.0, "high": 1.0, "verdict": "same"}


def row(run: Run) -> Document:
    result = run.result
    problem = result.get("problem") or {}
    judged = result.get("verdict") is not None and result.get("status") == "succeeded"
    peers = _peers(result)
    ours, best = (_ours(result, peers), _best(peers)) if judged else (None, None)
    measured = _figure(result.get("speedup"), result.get("speedup_ci"), result.get("verdict")) if judged else None
    errors = [(o["error"], o["allowed"]) for o in result.get("numerics") or []]
    conditions = result.get("conditions") or {}
    observed = conditions.get("observed") or {}
    first: Document = next(iter(result.get("comparisons") or []), {})
    return {
        "model": run.model.label,
        "sha256": run.model.sha256,
        "number": run.number,
        "outcome": str(result.get("verdict") if judged else result.get("status")),
        "reason": " ".join(filter(None, (problem.get("message"), problem.get("remedy")))) or result.get("summary", ""),
        "problem": problem.get("id"),
        "winner": result.get("winner") if judged else None,
        "winner_precision": _precision_of_winner(result) if judged else None,
        "winner_over_baseline": measured,
        "offered": bool(result.get("offered")),
        "baseline_ms": result.get("baseline_ms"),
        "winner_ms": result.get("best_ms"),
        "error": max(errors, key=lambda one: one[0] / one[1] if one[1] else one[0])[0] if errors and judged else None,
        "best_peer": best,
        "ours": ours,
        "peers": peers,
        "pairs": first.get("pairs"),
        "noise_floor": observed.get("noise_floor"),
        "fingerprint": conditions.get("fingerprint"),
        "wall_s": run.wall_s,
    }


def _peers(result: Mapping[str, Any]) -> list[Document]:
    """Those that were judged, fastest first; then those that were not, with what is known of them."""
    judged = {peer["name"]: peer for peer in result.get("judged_peers") or []}
    rows = []
    for evaluation in result.get("candidates") or []:
        candidate = evaluation["candidate"]
        name = candidate["name"]
        if not candidate.get("peer") or name in BASELINES:
            continue
        known = judged.get(name)
        over = known and _figure(known["winner_speedup"], known["winner_interval"], known["winner_verdict"])
        rows.append(
            {
                "name": name,
                "precision": known["precision"] if known else _precision(candidate["steps"]),
                "status": evaluation["status"],
                "reason": evaluation.get("reason"),
                "judged": known is not None,
                "ms": known["best_ms"] if known else None,
                "over_baseline": _figure(known["speedup"], known["interval"], None) if known else None,
                "winner_over_it": over,
                "winner_over_it_as_run": _as_run(known, over, result) if known else None,
                "screened_speedup": evaluation.get("screened_speedup"),
                "error": known["error"] if known else _error(evaluation),
            }
        )
    return sorted(rows, key=lambda peer: -(peer["over_baseline"] or {"speedup": 0.0})["speedup"])


def _best(peers: list[Document]) -> Document:
    """The name of the fastest that was judged, and its speedup over the original: of the original where none is."""
    leader = next((peer for peer in peers if peer["judged"]), None)
    if leader is None or leader["over_baseline"]["speedup"] <= 1.0:
        return {"name": ORIGINAL, "over_baseline": ITSELF}
    return {"name": leader["name"], "over_baseline": leader["over_baseline"]}


def _ours(result: Mapping[str, Any], peers: list[Document]) -> Document:
    """What is deployed, its speedup over the original, as deployed and over the best peer."""
    best = _best(peers)["name"]
    if not result.get("offered"):
        return {
            "what": ORIGINAL,
            "over_baseline": ITSELF,
            "as_deployed": ITSELF,
            "over_best_peer": ITSELF if best == ORIGINAL else _inverse(peers[0]["over_baseline"]),
            "over_best_peer_as_run": _original_as_run(result, peers),
        }
    over = _figure(result["speedup"], result["speedup_ci"], result["verdict"])
    deployed = _figure(result.get("speedup_as_deployed"), result.get("speedup_as_deployed_ci"), None)
    if best == ORIGINAL:
        over_best = over
    else:
        over_best = ITSELF if best == result["winner"] else peers[0]["winner_over_it"]
    as_run = [peer["winner_over_it_as_run"] for peer in peers if peer["judged"]]
    return {
        "what": result["winner"],
        "over_baseline": over,
        "as_deployed": deployed,
        "over_best_peer": over_best,
        "over_best_peer_as_run": None if None in as_run else _least([deployed, *as_run]),
    }


def _as_run(known: Document, over: Document | None, result: Mapping[str, Any]) -> Document | None:
    """The winner over a peer in default settings: the same figure where the winner has default settings itself."""
    if known.get("as_run"):
        return _figure(*(known["as_run"][name] for name in ("speedup", "interval", "verdict")))
    return (over or ITSELF) if result.get("speedup_as_deployed") == result.get("speedup") else None


def _original_as_run(result: Mapping[str, Any], peers: list[Document]) -> Document | None:
    """The original over the fastest peer, both in default settings."""
    found: list[Document | None] = [ITSELF]
    measured = {(c["base"], c["other"]): c for c in result.get("comparisons") or []}
    for peer in (peer for peer in peers if peer["judged"]):
        second = measured.get((DEPLOYED, f"{peer['name']} (default settings)"))
        if second is not None:
            found.append(_inverse({"speedup": second["speedup"], **second["interval"]}))
        elif result.get("speedup_as_deployed") == result.get("speedup"):
            found.append(_inverse(peer["over_baseline"]))
        else:
            return None
    return _least(found)


def _least(figures: list[Document | None]) -> Document | None:
    return min((one for one in figures if one), key=lambda one: one["speedup"], default=None)


def _figure(speedup: float | None, interval: Mapping[str, Any] | None, verdict: str | None) -> Document | None:
    if speedup is None or interval is None:
        return None
    return {"speedup": speedup, "low": interval["low"], "high": interval["high"], "verdict": verdict}


def _inverse(figure: Document) -> Document:
    return {
        "speedup": 1 / figure["speedup"],
        "low": 1 / figure["high"],
        "high": 1 / figure["low"],
        "verdict": None,
    }


def _precision_of_winner(result: Mapping[str, Any]) -> str | None:
    found = [e["candidate"] for e in result.get("candidates") or [] if e["candidate"]["name"] == result.get("winner")]
    return _precision(found[0]["steps"]) if found else None


def _precision(steps: list[Document]) -> str:
    return str(next((step["precision"] for step in steps if "precision" in step), "float32"))


def _error(evaluation: Mapping[str, Any]) -> float | None:
    outputs = (evaluation.get("verification") or {}).get("outputs") or []
    return max((output["error"] for output in outputs), default=None)
