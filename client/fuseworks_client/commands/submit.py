"""`fuseworks submit`: give a model to the server; wait for it, or gate a pipeline on it."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import click

from fuseworks_client import exits, options, uploads
from fuseworks_client.remote import STDERR, Ended, awaited, prepare, server
from fuseworks_client.server import Server, ServerProblem

SAME_BYTES = "registry:usage:same-bytes"
LATEST = "latest"
Version = dict[str, Any]


class Against(click.ParamType):
    """`latest`, a version's number (`3`, `v3`) or its id."""

    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value).strip().lower()
        number = text.removeprefix("v")
        if text == LATEST or (number.isascii() and number.isdecimal()):
            return number if text != LATEST else text
        try:
            return str(uuid.UUID(text))
        except ValueError:
            self.fail(f"{value!r} is neither `latest` nor a version's number or id", param, ctx)


@click.command(
    "submit",
    short_help="Give a model to the server: to optimize, or as a gate.",
    epilog="""\b
Examples:
  fuseworks submit model.py --team ads-ranking
  fuseworks submit model.py --wait --out result
  fuseworks submit model.py --wait --against latest --max-latency-ratio 1.05
  fuseworks submit model.py --wait --against latest --max-latency-ratio 1.05 --as packaged

\b
In pipelines set FUSEWORKS_URL and FUSEWORKS_TOKEN; `fuseworks login --help` tells more of them.

\b
Exit codes:
  0    done; with --against: the gate passes; without --wait: the run is in the queue
  1    the gate fails: slower than --max-latency-ratio allows
  2    the gate cannot tell: the interval holds the limit, or the other version cannot be packaged any more
  3    Fuseworks' or a machine's fault, or the run was cancelled or ended by its time limit
  4    the model's fault; the message says what to mend. Also when the other version's steps do not package it
  64   the command makes no sense as it was typed
  130  interrupted; the run goes on""",
)
@click.argument("model", type=options.MODEL)
@click.option("--team", metavar="SLUG", help="Whose model it is. Default: the team of the token, or your only one.")
@click.option("--name", metavar="NAME", help="The model's name on the server. Default: the file's.")
@click.option("--wait", is_flag=True, help="Follow the run to its end and answer with its outcome.")
@click.option(
    "--against",
    type=Against(),
    metavar="VERSION",
    help="Compare with this version of the model: its number, or `latest`, the newest other one. Or the id of any.",
)
@click.option(
    "--max-latency-ratio",
    type=click.FloatRange(0, min_open=True),
    metavar="RATIO",
    help="Fail when this version's time over the other's is above it, 1.05 say.",
)
@click.option(
    "--as",
    "compare_as",
    type=click.Choice(["auto", "packaged", "uploaded"]),
    help="What --against measures. packaged: both built by the steps of the other version's latest run that left a "
    "package, which is how it is deployed. uploaded: each as its own framework runs it. auto (the default): packaged "
    "where there is such a run, else uploaded; the answer says which.",
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="With --wait: the files.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document; without --wait: the run.")
@click.option("--workload", type=options.MODEL, metavar="FILE", help="How the model is called (YAML or JSON).")
@click.option("--target", default="cpu", show_default=True, help="What it shall run on.")
@options.measuring
@options.precision
@click.option("--backend", multiple=True, metavar="NAME", help="An engine that may be used; repeatable.")
def command(model: Path, **given: Any) -> int:
    """Upload MODEL and optimize it on the server, or compare it with another version.

    The very same file is not uploaded twice: the version that the server has is used.
    """
    if (given["against"] is None) != (given["max_latency_ratio"] is None):
        raise click.UsageError("--against and --max-latency-ratio go together")
    if given["compare_as"] is not None and given["against"] is None:
        raise click.UsageError("--as needs --against: it says how the two are compared")
    if given["out"] is not None and not given["wait"]:
        raise click.UsageError("--out needs --wait: there are no files before the run is over")
    prepare(given["out"])
    workload = options.read_workload(given["workload"]) if given["workload"] else None
    try:
        with server() as api:
            version, against = _versions(api, model, given)
            run = api.post("runs/", _request(api, version, against, workload, given))
            if against is not None:
                STDERR.print(_compared_as(api, run), markup=False, highlight=False, soft_wrap=True)
            if given["budget"] < options.SHORT_BUDGET_S:
                text = f"{given['budget']:g} s are a short budget: below {options.SHORT_BUDGET_S} s a run rarely comes"
                STDERR.print(f"{text} to a verdict.", style="yellow", markup=False, highlight=False, soft_wrap=True)
            if not given["wait"]:
                _say_when_unserved(run)
                click.echo(json.dumps(run, indent=2) if given["as_json"] else f"{api.url}/runs/{run['id']}/")
                return exits.DONE
            run, code = awaited(api, run["id"], out=given["out"], as_json=given["as_json"])
            return code if against is None else _gate(api, run)
    except Ended as ended:
        return ended.code


def _versions(api: Server, model: Path, given: dict[str, Any]) -> tuple[Version, Version | None]:
    """The version that MODEL is, uploaded if need be, and the one to compare with. What is wrong with the latter is
    said before anything is sent."""
    sha256 = uploads.sha256_of(model)
    body = {"team": given["team"] or only_team(api), "model_name": given["name"] or model.stem}
    same = _same(api, sha256, body)
    # the team's quota may refuse an upload, but not a file that is there
    begun = uploads.begin(api, model, sha256, body) if same is None else {}
    try:
        known = _known(api, same["model"]["id"] if same is not None else begun["model"])
        same = same or next((version for version in known if version["sha256"] == sha256), None)
        against = _chosen(api, known, same, given["against"]) if given["against"] is not None else None
    except (click.UsageError, ServerProblem):
        if begun:
            uploads.cancel(api, begun)
        raise
    if same is not None:
        if begun:
            uploads.cancel(api, begun)
        STDERR.print("The server has this very file already: its version is used.")
    version = same or _uploaded(api, begun, model)
    named = f"{version['model']['name']} v{version['number']}"
    if against is not None:
        named += f", compared with {against['model']['name']} v{against['number']}"
    STDERR.print(f"{named}: {api.url}/versions/{version['id']}/", markup=False, highlight=False, soft_wrap=True)
    return version, against


def only_team(api: Server) -> str:
    me = api.get("me/")
    if me["token"] and me["token"]["team"]:
        return str(me["token"]["team"])
    teams = [team["slug"] for team in me["teams"] if team["role"] != "viewer"]
    if len(teams) != 1:
        raise click.UsageError(f"say whose model it is with --team: {', '.join(teams) or 'you may submit in no team'}")
    return str(teams[0])


def _same(api: Server, sha256: str, body: dict[str, str]) -> Version | None:
    """The version of the named model that is this very file, if it still has it."""
    for model in api.pages("models/", team=body["team"], name=body["model_name"]):
        for version in api.pages(f"models/{model['id']}/versions/", sha256=sha256, deleted="false"):
            return version
    return None


def _known(api: Server, model: str | None) -> list[Version]:
    """The model's versions that still have their files, newest first; empty for a new model."""
    if model is None:
        return []
    found = (version for version in api.pages(f"models/{model}/versions/") if not version["deleted_at"])
    return sorted(found, key=lambda version: -int(version["number"]))


def _chosen(api: Server, known: list[Version], same: Version | None, wanted: str) -> Version:
    """Raises click.BadParameter, ServerProblem. A version by its number or id may be the very same file."""
    if wanted == LATEST:
        for version in known:
            if same is None or version["id"] != same["id"]:
                return version
        text = "the model has no other version yet: submit it without --against first"
        raise click.BadParameter(text, param_hint="--against")
    if wanted.isdecimal():
        for version in known:
            if int(version["number"]) == int(wanted):
                return version
        numbers = ", ".join(str(version["number"]) for version in known) or "none"
        raise click.BadParameter(f"the model has no version {wanted}; it has: {numbers}", param_hint="--against")
    chosen: Version = api.get(f"versions/{wanted}/")
    return chosen


def _uploaded(api: Server, begun: dict[str, Any], model: Path) -> Version:
    def progress(done: int, total: int) -> None:
        if done == total or STDERR.is_terminal:
            text = f"Uploading {model.name}: {done:,} of {total:,} bytes"
            STDERR.print(text, end="\r" if done < total else "\n", markup=False, highlight=False)

    try:
        id_ = uploads.send(api, begun, model, progress)
    except ServerProblem as error:  # somebody else sent the same in this moment
        if error.problem["id"] != SAME_BYTES or not error.document.get("version"):
            raise
        id_ = str(error.document["version"])
    version: Version = api.get(f"versions/{id_}/")
    return version


def _request(
    api: Server, version: Version, against: Version | None, workload: dict[str, Any] | None, given: dict[str, Any]
) -> dict[str, Any]:
    spec = options.spec_document("optimize", Path("model"), {**given, "workload": None})
    body = {"version": version["id"], "purpose": "optimize", "target": given["target"], "policy": spec["policy"]}
    if workload is not None:
        body["workload"] = api.post(f"versions/{version['id']}/workloads/", {"document": workload})["id"]
    if against is not None:
        body |= {"purpose": "compare", "against": against["id"], "max_latency_ratio": given["max_latency_ratio"]}
        body["compare_as"] = given["compare_as"]
    return body


def _say_when_unserved(run: dict[str, Any]) -> None:
    """While it is awaited, following it tells the same."""
    if run["queue"] is not None and run["queue"]["waits_for"] == "worker":
        text = f"No worker serves {run['target']} at the moment. The run waits in the queue until one does."
        STDERR.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)


def _compared_as(api: Server, run: dict[str, Any]) -> str:
    if run["compared_as"] == "packaged":
        return f"Both are measured as packaged, by the steps of {api.url}/runs/{run['recipe_run']}/"
    why = ": no run of the other version left a package for this workload and target"
    return f"Both are measured as uploaded{why if run['compare_as'] == 'auto' else ''}."


def _gate(api: Server, run: dict[str, Any]) -> int:
    check = api.get(f"gates/{run['id']}/")
    text = f"Gate: {check['outcome'].replace('_', ' ')}, as {check['compared_as']}."
    if check["latency_ratio"] is not None:
        interval = f"[{check['latency_ratio_low']:.3f}, {check['latency_ratio_high']:.3f}]"
        text += (
            f" latency_ratio {check['latency_ratio']:.3f} {interval}, at most {check['max_latency_ratio']:g} allowed."
        )
    STDERR.print(text, markup=False, highlight=False)
    return int(check["exit_code"] if check["exit_code"] is not None else exits.OURS)
