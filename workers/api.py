"""The worker's API: what one attempt asks and posts, and how a worker says that it is there.

Each post carries the attempt's number, the fencing counter. An answer that the attempt is over is `Stale`: somebody
else has the run now, and this attempt has nothing more to say.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
from pydantic import BaseModel, ConfigDict, Field

from optimizer.errors import FuseworksError
from optimizer.result import Event, Result
from optimizer.spec import Policy, Purpose, Workload
from workers import errors as _errors  # noqa: F401  its ids must be in the catalogue
from workers.http import ANSWER_S, CHUNK_BYTES, ApiError, GoOn, Http, Refused, Unreachable
from workers.messages import RunMessage

SHORTEST_ANSWER_S = 1.0
STORED_BYTES_PER_S = 10 << 20
OVER = frozenset({401, 403, 404, 409, 410})


class Stale(ApiError):
    """The attempt is over for the platform: taken over, cancelled, ended, or never this worker's."""


class Answer(BaseModel):
    """What a later version adds is ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class File(Answer):
    address: str
    filename: str
    sha256: str
    size_bytes: int = Field(ge=0)


class Files(Answer):
    model: File
    against: File | None = None


class Claim(Answer):
    """What is to be done. `lease_s` is how long the platform bears silence, `time_left_s` what is left of the limit."""

    purpose: Purpose
    target: str
    policy: Policy
    workload: Workload | None = None
    files: Files
    recipe: dict[str, Any] | None = None
    lease_s: float = Field(gt=0)
    time_left_s: float


class Beat(Answer):
    lease_s: float = Field(gt=0)
    cancel: bool
    time_left_s: float


class WorkerApi:
    """For one attempt. Every method raises Stale, Unreachable, Refused; `go_on` says whether to try again."""

    def __init__(self, message: RunMessage, http: Http) -> None:
        self._http = http
        self._attempt = message.attempt
        self._run = f"worker/runs/{message.run_id}"
        self._answer_s = ANSWER_S

    def claim(self, worker: str, *, go_on: GoOn) -> Claim:
        """Its time limit counts from the first heartbeat that says that it works, not from here.

        Raises ValidationError too, when this version cannot read the order.
        """
        body = {"worker": worker, "works": False, "key": secrets.token_urlsafe(32)}  # one key for all tries
        claim = Claim.model_validate(self._post("claim", body, go_on))
        # waiting longer for one answer than the lease bears would only find out late that it is lost
        self._answer_s = min(ANSWER_S, max(SHORTEST_ANSWER_S, claim.lease_s / 2))
        return claim

    def heartbeat(self, works: bool) -> Beat:
        """One try: the caller beats again anyway. Not `works`: it waits for its device, or hands in its result."""
        return Beat.model_validate(self._post("heartbeat", {"works": works}, lambda: False))

    def events(self, first: int, events: Sequence[Event], *, go_on: GoOn) -> None:
        documents = [event.model_dump(mode="json", exclude_none=True) for event in events]
        self._post("events", {"first": first, "events": documents}, go_on)

    def finish(self, result: Result, *, go_on: GoOn) -> None:
        document = json.loads(result.model_dump_json(by_alias=True))  # a NaN becomes null, as in result.json
        self._post("finish", {"result": document}, go_on, timeout=ANSWER_S)

    def give_up(self, reason: str, *, stopping: bool, go_on: GoOn) -> None:
        """`stopping`: this worker was told to end, which is no fault of the run's."""
        self._post("give-up", {"reason": reason, "stopping": stopping}, go_on)

    def artifact(self, path: Path, *, go_on: GoOn) -> None:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        storing_s = ANSWER_S + path.stat().st_size / STORED_BYTES_PER_S  # answered when all of it is stored
        self._sent(
            "PUT",
            f"{self._run}/artifacts/{path.name}/",
            go_on,
            file=lambda: path.open("rb"),
            params={"attempt": self._attempt},
            timeout=httpx.Timeout(ANSWER_S, read=storing_s),
            headers={"X-Content-SHA256": sha256, "Content-Type": "application/octet-stream"},
        )

    def download(self, file: File, to: Path, *, go_on: GoOn) -> None:
        """Streamed; what arrives must be what was announced. Raises FuseworksError `worker:ours:bad-download` too."""

        def receive(response: httpx.Response) -> tuple[int, str]:
            digest, size = hashlib.sha256(), 0
            with to.open("wb") as out:
                for chunk in response.iter_bytes(CHUNK_BYTES):
                    if not go_on():
                        raise Unreachable(f"{file.filename} was given up half-way")
                    size += len(chunk)
                    if size > file.size_bytes:
                        break
                    digest.update(chunk)
                    out.write(chunk)
            return size, digest.hexdigest()

        try:
            size, sha256 = self._http.download(file.address, receive, go_on=go_on)
        except Refused as error:
            raise _over(error) or _bad(file, str(error)) from error
        if size != file.size_bytes:
            raise _bad(file, f"it has {size} bytes or more, not {file.size_bytes}")
        if sha256 != file.sha256:
            raise _bad(file, f"its SHA-256 is {sha256}, not {file.sha256}")

    def _post(self, verb: str, body: dict[str, Any], go_on: GoOn, **request: Any) -> Any:
        request = {"json": {"attempt": self._attempt, **body}, "timeout": self._answer_s, **request}
        return self._sent("POST", f"{self._run}/{verb}/", go_on, **request)

    def _sent(self, method: str, path: str, go_on: GoOn, **request: Any) -> Any:
        try:
            return self._http.send(method, path, go_on=go_on, **request)
        except Refused as error:
            raise _over(error) or error from error


def _over(error: Refused) -> Stale | None:
    return Stale(str(error)) if error.status in OVER else None


def _bad(file: File, text: str) -> FuseworksError:
    return FuseworksError("worker:ours:bad-download", name=file.filename, text=text)


class FleetApi:
    """How a worker says that it is there, with the installation's worker token. Raises Unreachable, Refused."""

    def __init__(self, http: Http, *, name: str, host: str, target: str) -> None:
        self._http, self._name, self._host, self._target = http, name, host, target

    def hello(self, manifest: dict[str, Any], floor: dict[str, Any], *, go_on: GoOn) -> float:
        """`floor` has noise_floor and noise_floor_conditions, or nothing. Returns the seconds between signs of life."""
        body = {"name": self._name, "host": self._host, "target": self._target, "manifest": manifest, **floor}
        answer = self._http.send("POST", "worker/hello/", go_on=go_on, json=body)
        return max(1.0, float(answer["heartbeat_s"]))

    def alive(self) -> None:
        self._http.send("POST", "worker/alive/", go_on=lambda: False, json={"name": self._name})

    def goodbye(self) -> None:
        self._http.send("POST", "worker/goodbye/", go_on=lambda: False, json={"name": self._name})
