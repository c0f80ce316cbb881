"""Endpoints of the registry, runs, results, recipes, gates and fleet apps."""

from __future__ import annotations

from tests.platform.recipes.documents import document
from tests.platform.scoping.other_pages import (
    a_deprecated,
    a_diagnosis,
    a_draft,
    a_file,
    a_kernel,
    a_model,
    a_published,
    a_queued_run,
    a_recipe,
    a_run,
    a_trace,
    a_version,
    two_runs,
)
from tests.platform.scoping.rules import Case, anyone, case, team, workers
from tests.platform.scoping.world import PYTHON

# From an offset that is wrong: what is appended to a file no roll-back takes away.
STREAM = {"Content-Type": "application/offset+octet-stream", "Upload-Offset": "5"}
WRONG_OFFSET = dict.fromkeys(("member", "maintainer", "owner", "token"), 409)

REGISTRY: dict[str, Case] = {
    "model-list": case(GET=anyone(), POST=team("member", lambda w: {"team": w.team.slug, "name": "New one"})),
    "model-detail": case(a_model, GET=team("viewer"), PATCH=team("member", lambda w: {"description": "d"})),
    "model-version-list": case(a_model, GET=team("viewer")),
    "version-detail": case(lambda w: {"version_id": w.idle_version.pk}, GET=team("viewer"), DELETE=team("maintainer")),
    "version-file": case(a_version, GET=team("viewer")),
    "version-workload-list": case(
        a_version, GET=team("viewer"), POST=team("member", lambda w: {"document": w.workload.document})
    ),
    "upload-list": case(
        GET=anyone(),
        POST=team("member", lambda w: {"model": str(w.model.pk), "filename": "model.py", "length_bytes": 10}),
    ),
    "upload-detail": case(
        lambda w: {"upload_id": w.upload.pk},
        GET=team("viewer"),
        PATCH=team("member", but=WRONG_OFFSET, raw=b"import torch\n", headers=STREAM),
        DELETE=team("member"),
    ),
    "upload-file": case(
        lambda w: {"team": w.team.slug, "model_name": "New one", "filename": "model.py"},
        PUT=team("member", raw=PYTHON + b"# put\n", headers={"Content-Type": "application/octet-stream"}),
    ),
}
RUNS: dict[str, Case] = {
    "runs": case(GET=anyone(), POST=team("member", lambda w: {"version": str(w.version.pk)})),
    "run-detail": case(a_run, GET=team("viewer")),
    "run-events": case(a_run, GET=team("viewer")),
    "run-artifacts": case(a_run, GET=team("viewer")),
    "run-artifact": case(a_file, GET=team("viewer")),
    "run-cancel": case(a_queued_run, POST=team("member")),
    "run-retry": case(a_run, POST=team("member")),
}
WORKERS: dict[str, Case] = {
    "worker-hello": case(POST=workers()),
    "worker-alive": case(POST=workers()),
    "worker-goodbye": case(POST=workers()),
    "worker-claim": case(a_queued_run, POST=workers()),
    "worker-heartbeat": case(a_queued_run, POST=workers()),
    "worker-events": case(a_queued_run, POST=workers()),
    "worker-finish": case(a_queued_run, POST=workers()),
    "worker-give-up": case(a_queued_run, POST=workers()),
    "worker-artifact": case(lambda w: {"run_id": w.queued.pk, "name": "log.txt"}, PUT=workers()),
    "worker-file": case(lambda w: {"run_id": w.queued.pk, "role": "model"}, GET=workers()),
}
RESULTS: dict[str, Case] = {
    "run-result": case(a_run, GET=team("viewer")),
    "predicted-gains": case(GET=anyone()),
    "predicted-gain-tracks": case(GET=anyone()),
    "comparisons": case(GET=team("viewer", query=two_runs)),
}
TRACES: dict[str, Case] = {
    "trace-list": case(GET=anyone()),
    "trace-detail": case(a_trace, GET=team("viewer")),
    "trace-file": case(
        lambda w: {"team": w.team.slug, "job": "New one", "filename": "t.json"},
        PUT=team("member", raw=b'{"traceEvents": [ ]}', headers={"Content-Type": "application/octet-stream"}),
    ),
    "run-diagnosis": case(a_diagnosis, GET=team("viewer")),
}
RECIPES: dict[str, Case] = {
    "recipe-list": case(
        GET=anyone(), POST=team("member", lambda w: {"team": w.team.slug, "document": document("another")})
    ),
    "kernel-list": case(GET=anyone()),
    "kernel-detail": case(a_kernel, GET=anyone()),
    "recipe-detail": case(a_recipe, GET=team("viewer"), PATCH=team("maintainer", lambda w: {"visibility": "unit"})),
    "recipe-version-detail": case(
        a_draft,
        GET=team("viewer"),
        PATCH=team("member", lambda w: {"document": document("edited")}),
        DELETE=team("member"),
    ),
    "recipe-version-file": case(a_published, GET=team("viewer")),
    "recipe-version-evidence": case(a_published, GET=team("viewer")),
    "recipe-version-publish": case(a_draft, POST=team("maintainer", lambda w: {"visibility": "unit"})),
    "recipe-version-deprecate": case(a_published, POST=team("maintainer", lambda w: {"reason": "slower now"})),
    "recipe-version-undeprecate": case(a_deprecated, POST=team("maintainer")),
    "recipe-version-derive": case(a_published, POST=team("member", lambda w: {"team": w.team.slug})),
    "recipe-version-apply": case(a_published, POST=team("member", lambda w: {"version": str(w.version.pk)})),
    "run-recipe": case(a_run, POST=team("member")),
}
REST: dict[str, Case] = {
    "gates": case(GET=anyone()),
    "gate-detail": case(lambda w: {"run_id": w.gate.pk}, GET=team("viewer")),
    "workers": case(GET=anyone()),
}
ENDPOINTS = {**REGISTRY, **RUNS, **WORKERS, **RESULTS, **TRACES, **RECIPES, **REST}
