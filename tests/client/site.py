"""The web site for tests of the command: a team, a token, and a thread that plays dispatcher and worker.

No optimizer works here: what a run answers is said by the test, `site.answers(purpose, play)`, and filed by the same
services that a worker's requests reach. The thread hears of a run when the transaction that made it commits.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import queue
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.db import connections, transaction
from django.db.models.signals import post_save

from fuseworks.accounts.models import Team, User
from fuseworks.registry.models import ModelVersion
from fuseworks.runs.models import Attempt, Run
from fuseworks.runs.services import artifact_store, attempt_claim, attempt_open, events_append, run_finish
from optimizer.result import Inspection
from tests.platform import factories
from tests.platform.runs.steps import event

WAIT_S = 30.0


@dataclass
class Turn:
    """A queued run, and what a worker may do with it."""

    run: Run
    attempt: Attempt | None = None
    events: int = 0

    def claim(self) -> None:
        opened = attempt_open(run_id=self.run.pk)
        assert opened is not None
        self.attempt = opened.attempt
        attempt_claim(attempt=self.attempt, worker="played")

    def say(self, message: str, kind: str = "compiling") -> None:
        assert self.attempt is not None
        events_append(attempt=self.attempt, first=self.events, events=[event(kind, message)])
        self.events += 1

    def leave(self, name: str, content: bytes) -> None:
        assert self.attempt is not None
        sha256 = hashlib.sha256(content).hexdigest()
        artifact_store(attempt=self.attempt, name=name, stream=io.BytesIO(content), expected_sha256=sha256)

    def finish(self, document: dict[str, Any]) -> None:
        assert self.attempt is not None
        run_finish(attempt=self.attempt, document=document)


Play = Callable[[Turn], None]


def ends(document: dict[str, Any] | Callable[[Run], dict[str, Any]]) -> Play:
    """Claims the run, says one thing and answers with the document (or what the function makes for the run)."""

    def play(turn: Turn) -> None:
        turn.claim()
        turn.say("Building inductor")
        turn.finish(document(turn.run) if callable(document) else document)

    return play


def problem(side: str, message: str = "torch.export cannot trace this", id_: str = "") -> dict[str, Any]:
    """Of a run that the model (`user`) or Fuseworks (`ours`) brought down."""
    status = {"user": "failed", "ours": "errored"}[side]
    id_ = id_ or f"capturing:{side}:x"
    told = {"id": id_, "side": side, "message": message, "remedy": "Mend it.", "place": "model.py:4"}
    nothing = dict.fromkeys(
        ("baseline_ms", "best_ms", "speedup", "speedup_ci", "speedup_as_deployed", "speedup_as_deployed_ci")
    )
    return factories.result_document(
        status=status, summary=message, problem=told, verdict=None, winner=None, numerics=[], **nothing
    )


def inspected(run: Run) -> dict[str, Any]:
    found = Inspection(
        format="py", sha256=run.version.sha256, size_bytes=run.version.size_bytes, parameters=0, parameter_bytes=0
    )
    return factories.result_document(purpose="inspect", verdict=None, inspection=found)


@dataclass
class Site:
    """Team `ads-ranking` with one member, whose token is good for everything."""

    url: str
    team: Team
    user: User
    token: str
    runs: dict[str, list[Run]] = field(default_factory=dict)
    _plays: dict[str, Play] = field(default_factory=lambda: {"inspect": ends(inspected)})
    _queued: queue.Queue[uuid.UUID | None] = field(default_factory=queue.Queue)
    _over: queue.Queue[BaseException | None] = field(default_factory=queue.Queue)

    @classmethod
    @contextlib.contextmanager
    def opened(cls, url: str) -> Iterator[Site]:
        team = factories.make_team("ads-ranking")
        user = factories.make_member(team, "owner")
        site = cls(url, team, user, factories.make_token(user))
        post_save.connect(site._saved, sender=Run)
        thread = threading.Thread(target=site._work, name="played worker")
        thread.start()
        try:
            yield site
        finally:
            post_save.disconnect(site._saved, sender=Run)
            site._queued.put(None)
            thread.join(WAIT_S)
        failure = site._over.get(timeout=WAIT_S)
        if failure is not None:
            raise failure

    def answers(self, purpose: str, play: Play | dict[str, Any]) -> None:
        """What becomes of the next runs of this purpose; without it they stay in the queue."""
        self._plays[purpose] = play if callable(play) else ends(play)

    def version(self, content: bytes = b"class Model: old\n", name: str = "model") -> ModelVersion:
        """An earlier version of the team's model, as if uploaded before."""
        from fuseworks.registry.models import Model

        model = Model.objects.filter(team=self.team, name=name).first() or factories.make_model(self.team, name)
        return factories.make_version(model, content)

    def _saved(self, instance: Run, created: bool, **_: Any) -> None:
        if created:
            transaction.on_commit(lambda: self._queued.put(instance.pk))

    def _work(self) -> None:
        failure: BaseException | None = None
        try:
            while (run_id := self._queued.get()) is not None:
                run = Run.objects.select_related("version", "against").get(pk=run_id)
                self.runs.setdefault(run.purpose, []).append(run)
                if run.purpose in self._plays:
                    self._plays[run.purpose](Turn(run))
        except BaseException as error:
            failure = error
        finally:
            connections.close_all()
            self._over.put(failure)
