"""How a version is deployed: by the recipe of its latest run that left a package.

Asked when a comparison is made, to package both of its versions by the same steps.
"""

from __future__ import annotations

from fuseworks.registry.models import ModelVersion, Workload
from fuseworks.runs.models import Purpose, Run, Status
from optimizer import spec

PACKAGING = (Purpose.OPTIMIZE, Purpose.REPLAY)


def deployed_by(*, version: ModelVersion, workload: Workload | None, target: str) -> Run | None:
    """The run of the version's own team that ended last, among those that succeeded on this target and workload and
    left a package; whether its file is still kept does not matter. With its result; None when there is no such run.

    Each version has workloads of its own: the same one is one of the same name and mode. Without a `workload`, which
    means what the upload says, it is the version's current one, or any where that is not known either.
    """
    from fuseworks.registry.selectors import current_workload  # the registry's selectors build on results

    runs = Run.objects.filter(
        team=version.model.team,
        version=version,
        purpose__in=PACKAGING,
        status=Status.SUCCEEDED,
        target=target,
        result__document__artifacts__contains=[{"name": "package"}],
        result__document__recipe__kind="Recipe",
    )
    known = workload or current_workload(version=version)
    if known is not None:
        wanted = spec.Workload.model_validate(known.document)
        runs = runs.filter(
            result__document__workload__name=wanted.name, result__document__workload__mode=wanted.mode.value
        )
    return runs.select_related("result").order_by("-ended_at", "-created_at").first()
