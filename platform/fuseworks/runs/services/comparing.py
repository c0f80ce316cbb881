"""What a comparison measures of its two versions: settled when the run is made, and kept with it."""

from __future__ import annotations

from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from fuseworks.registry.models import ModelVersion, Workload
from fuseworks.runs.errors import wrong_field
from fuseworks.runs.models import CompareAs, Purpose, Run


def compare_as_asked(purpose: str, given: str | None) -> str:
    """Empty for other purposes. Raises PlatformError."""
    if purpose != Purpose.COMPARE:
        if given is not None:
            raise wrong_field("compare_as", _("only for the purpose compare"))
        return ""
    if given is None:
        return str(CompareAs.AUTO)
    if given not in CompareAs.values:
        raise wrong_field("compare_as", format_lazy(_("one of {choices}"), choices=", ".join(CompareAs.values)))
    return str(CompareAs(given))


def packaging_run(asked: str, against: ModelVersion | None, workload: Workload | None, target: str) -> Run | None:
    """The run of the version before whose recipe packages both; None when both are measured as uploaded.

    Raises PlatformError when packages are asked for and the version before has none: to measure something else than
    what was asked for could pass a gate that should not.
    """
    if against is None or asked == CompareAs.UPLOADED:
        return None
    from fuseworks.results.deployed import deployed_by  # results build on runs

    found = deployed_by(version=against, workload=workload, target=target)
    if found is None and asked == CompareAs.PACKAGED:
        text = _("no run of {version} left a package for this workload and target: optimize it, or ask for auto")
        raise wrong_field("compare_as", format_lazy(text, version=str(against)))
    return found
