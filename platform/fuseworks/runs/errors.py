"""Errors of runs: what callers do wrong, what workers are told, and why a run did not succeed.

Those of a run's end (`runs:ours:...`, `runs:user:...`) are stored in its `problem`; they are no answers of a request.
"""

from __future__ import annotations

from django.utils.functional import Promise

from fuseworks.core.errors import PlatformError, catalogue, english


def wrong_field(field: str, text: str | Promise) -> PlatformError:
    """What is wrong with one field of what was asked for. `text`: a lazy translation, or another's words."""
    fields = {field: [english(text)]}
    return PlatformError("runs:usage:field", place=field, extra={"fields": fields}, field=field, text=text)


catalogue(
    {
        "runs:usage:field": (
            400,
            "{field}: {text}",
            "Correct the named field and send it again.",
        ),
        "runs:usage:version-deleted": (
            409,
            "The file of {version} was deleted.",
            "Upload the model again and run that version.",
        ),
        "runs:usage:other-teams-version": (
            409,
            "{version} is not of {team}, to all of which the run would show what it finds in it.",
            "Upload that file to {team} too, and compare with that version.",
        ),
        "runs:usage:recipe-not-shared": (
            409,
            "Not all of {team} may see {name} {version}, and the run would show them its steps.",
            "Derive a draft of it in {team} and apply that, or ask its own team to publish it more widely.",
        ),
        "runs:usage:over": (
            409,
            "This run is over: {status}.",
            "Retry it to run it once more.",
        ),
        "runs:usage:not-over": (
            409,
            "This run is still {status}.",
            "Wait for its end, or cancel it first.",
        ),
        "runs:usage:stale": (
            409,
            "Attempt {attempt} is not this run's current one any more.",
            "Stop working on it: the run is over, was cancelled, or goes on in another attempt.",
        ),
        "runs:usage:too-large": (
            413,
            "The {what} has more than the {limit_bytes} bytes that are allowed.",
            "Send less.",
        ),
        "runs:usage:quota": (
            507,
            "{name} is not kept: {team} has used {used_mib} of its {quota_mib} MiB.",
            "Delete versions that nobody needs any more, with their packages, or ask for a larger quota; then run it "
            "again.",
        ),
        "runs:ours:disk-full": (
            507,
            "The site's storage is full.",
            "Whoever runs this site must make room; what the run measured is kept, its files come with a retry.",
        ),
        "runs:usage:digest": (
            422,
            "{name} arrived with the SHA-256 {got}; {expected} was announced.",
            "Send it again.",
        ),
        "runs:usage:artifact-name": (
            400,
            "No run leaves a file called {name}.",
            "Use one of: {allowed}.",
        ),
        "runs:usage:event": (
            400,
            "Event {number} is not valid: {text}",
            "Send events of the schema of optimizer.result.Event.",
        ),
        "runs:ours:timed-out": (
            500,
            "The run worked for {limit_s} s, its limit, and was ended.",
            "Ask for a smaller budget or for fewer backends; the site's own limit is FUSEWORKS_RUN_TIME_LIMIT_S.",
        ),
        "runs:user:inspection-failed": (
            409,
            "{version} is not run, because its inspection failed: {text}",
            "{remedy} Upload what you mended as a new version. If the model was not at fault, inspect it again on its "
            "page, or give the run a workload.",
        ),
        "runs:user:version-gone": (
            500,
            "The file of {version} was deleted while the run waited.",
            "Upload the model again and run that version.",
        ),
        "runs:ours:worker-lost": (
            500,
            "The worker ended or fell silent in each of {claims} attempts; the last was {worker}.",
            "Retry the run. When it happens again, look at the worker's log: a host out of memory is the usual cause.",
        ),
        "runs:ours:not-handed-in": (
            500,
            "{worker} had an answer and could not hand it in for {hours} hours, in the last of {claims} attempts.",
            "Look at the site's log and disk, and at the worker's line to the site; then retry the run.",
        ),
        "runs:ours:gave-up": (
            500,
            "No worker was able to do this run ({claims} attempts). The last said: {reason}",
            "Mend the worker's host (fuseworks doctor tells what it lacks), then retry the run.",
        ),
        "runs:ours:bad-result": (
            500,
            "The worker's answer is no valid result: {text}",
            "This is a fault of Fuseworks, or worker and site are of different versions: bring both to one version.",
        ),
        "runs:ours:not-filed": (
            500,
            "The result arrived and could not be filed ({text}).",
            "This is a fault of Fuseworks: please report it with the site's log. The run's files are kept.",
        ),
    }
)
