"""Stands in for `python -m optimizer` while the story is told: answers with the documents of real runs.

An optimization and a replay wait at their last stage until the story lets them go on (`release`), so that the page can
be watched in between. Standard library only, to be quick.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

DOCUMENTS = Path(__file__).parents[1] / "platform" / "results" / "documents"
FOLDER = "STORY_FOLDER"
PATIENCE_S = 90.0
# A replay on the other model gains this much of what was gained where the recipe was found.
REPLAYED_SHARE = 0.8
PEERS = ("aot_inductor", "openvino", "onnxruntime", "inductor")
MANIFEST = {
    "backends": [{"name": name, "summary": "", "unavailable": None} for name in PEERS],
    "passes": [{"name": name} for name in ("hoist_constants", "split_target_attention", "merge_embedding_tables")],
    "devices": [{"target": "cpu", "name": "a processor of the story", "cores": 2, "memory_bytes": 8 << 30}],
}


def release(folder: Path, purpose: str, stem: str) -> None:
    """Lets the run of this purpose on the upload `stem.*` go on to its end."""
    (folder / f"{purpose}-{stem}").touch()


def main(verb: str, *rest: str) -> int:
    if verb == "manifest":
        print(json.dumps(MANIFEST))
        return 0
    assert verb == "run" and rest[1] == "--events-fd"
    return Told(json.loads(Path(rest[0]).read_text()), int(rest[2])).run()


class Told:
    def __init__(self, spec: dict[str, Any], events: int) -> None:
        self.spec, self.events = spec, events
        self.model, self.out = Path(spec["model"]), Path(spec["out"])
        self.began = time.monotonic()

    def run(self) -> int:
        document = stored("din")
        self.event("capturing", f"Capturing the graph of {self.model.name} in the sandbox")
        document["inspection"].update(
            format=self.model.suffix[1:],
            size_bytes=self.model.stat().st_size,
            sha256=hashlib.sha256(self.model.read_bytes()).hexdigest(),
        )
        purpose = self.spec["purpose"]
        answer: dict[str, Any] = getattr(self, purpose)(document)
        self.event("finished", answer["summary"])
        (self.out / "result.json").write_text(json.dumps(answer))
        return 0

    def event(self, kind: str, message: str, candidate: str | None = None, **more: object) -> None:
        event = {"kind": kind, "message": message, "candidate": candidate, **more}
        event.update(at_s=round(time.monotonic() - self.began, 3), budget_s=self.spec["policy"]["budget_s"])
        os.write(self.events, json.dumps(event).encode() + b"\n")

    def wait_for_release(self) -> None:
        path = Path(os.environ[FOLDER]) / f"{self.spec['purpose']}-{self.model.stem}"
        while not path.exists():
            assert time.monotonic() - self.began < PATIENCE_S, f"nobody made {path}"
            time.sleep(0.02)

    # ---- what is answered --------------------------------------------------------------------------------------------

    def inspect(self, document: dict[str, Any]) -> dict[str, Any]:
        kept = ("inspection", "workload", "rewrites", "sandbox")
        return {
            "purpose": "inspect",
            "status": "succeeded",
            "summary": "2,374,380 parameters, 41 operations; rewrites that fit: split_target_attention",
            **{name: document[name] for name in kept},
        }

    def optimize(self, document: dict[str, Any]) -> dict[str, Any]:
        winner = document["winner"]
        self.event("profiling", "41 operations, 10.7 ms a call")
        self.event("diagnosing", document["findings"][0]["title"])
        self.event("optimizing", "Rewrites that fit: hoist_constants, split_target_attention, merge_embedding_tables")
        for one in document["candidates"]:
            if one["screened_speedup"] is not None:
                name, speedup = one["candidate"]["name"], one["screened_speedup"]
                self.event("compiling", f"Built {name}", name)
                self.event("verifying", f"Comparing {name} with float64", name)
                data = {"speedup": speedup, "median_ms": one["performance"]["median_ms"]}
                self.event("benchmarking", f"{name}: {speedup:.2f}x", name, data=data)
        self.event("benchmarking", "Judging the winner", winner, done=5, total=12)
        self.wait_for_release()
        document["recipe"]["metadata"]["name"] = f"{self.model.stem.replace('_', '-')}-split-target-attention"
        self.leave(stored("din_samples"), document["recipe"])
        return document

    def replay(self, document: dict[str, Any]) -> dict[str, Any]:
        recipe = json.loads(Path(self.spec["recipe"]).read_text())
        name, found_as = recipe["metadata"]["name"], document["winner"]
        self.event("optimizing", f"Checking {name}'s precondition against the graph", name)
        self.event("compiling", f"Built {name}", name)
        self.event("benchmarking", "Judging the winner", name, done=5, total=12)
        self.wait_for_release()
        samples = {name if key == found_as else key: value for key, value in stored("din_samples").items()}
        self.leave(samples, recipe)
        return replayed(document, recipe)

    def leave(self, samples: dict[str, Any], recipe: dict[str, Any]) -> None:
        """The files of a run that found something."""
        (self.out / "samples.json").write_text(json.dumps(samples))
        (self.out / "recipe.yaml").write_text(json.dumps(recipe))  # JSON is YAML
        (self.out / "report.html").write_text("<!doctype html><title>Report</title><h1>Report</h1>")
        with zipfile.ZipFile(self.out / "package.zip", "w") as package:
            package.writestr("run.py", 'print("self-test passed")\n')
            package.writestr("manifest.json", json.dumps({"target": self.spec["target"], "steps": recipe["steps"]}))


def stored(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DOCUMENTS / f"{name}.json").read_text())
    return found


def replayed(found: dict[str, Any], recipe: dict[str, Any]) -> dict[str, Any]:
    """A replay of `recipe` whose winner gains `REPLAYED_SHARE` of what it did: every figure fits the others."""
    answer, name = copy.deepcopy(found), recipe["metadata"]["name"]
    before = answer["winner"]
    kept = {before, "aot_inductor", "baseline", "baseline (default settings)"}
    answer["candidates"] = [one for one in answer["candidates"] if one["candidate"]["name"] in kept]
    for one in answer["candidates"]:
        if one["candidate"]["name"] == before:
            one["candidate"].update(name=name, why=f"recipe {name}", steps=recipe["steps"])
            one["screened_speedup"] *= REPLAYED_SHARE
            for figure in ("median_ms", "mean_ms", "p90_ms", "p99_ms"):
                one["performance"][figure] /= REPLAYED_SHARE
    for one in answer["comparisons"]:
        if one["other"] == before:
            one.update(other=name, speedup=one["speedup"] * REPLAYED_SHARE, interval=_shared(one["interval"]))
            one["log_speedups"] = [value + math.log(REPLAYED_SHARE) for value in one["log_speedups"]]
    for figure in ("speedup", "speedup_as_deployed", "speedup_over_best_peer"):
        answer[figure] *= REPLAYED_SHARE
    for interval in ("speedup_ci", "speedup_as_deployed_ci"):
        answer[interval] = _shared(answer[interval])
    speedup, low, high = answer["speedup"], answer["speedup_ci"]["low"], answer["speedup_ci"]["high"]
    summary = f"{name} replayed: {speedup:.2f}x [{low:.2f}, {high:.2f}], faster. Accepted."
    best_ms = answer["best_ms"] / REPLAYED_SHARE
    answer.update(purpose="replay", summary=summary, winner=name, recipe=recipe, ablation=[], best_ms=best_ms)
    return answer


def _shared(interval: dict[str, Any]) -> dict[str, Any]:
    return {**interval, "low": interval["low"] * REPLAYED_SHARE, "high": interval["high"] * REPLAYED_SHARE}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
