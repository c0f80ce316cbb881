"""One team with everything that a team can have, and somebody of another unit who has a team and a model of his own.

Every name of the team contains SECRET, so that a test can look for it where it must not be.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.utils import timezone

from fuseworks.accounts.models import ApiToken, Invitation, Membership, Scope, User
from fuseworks.accounts.permissions import Actor
from fuseworks.accounts.services import account_close, member_remove
from fuseworks.core.storage import store
from fuseworks.fleet.models import Worker
from fuseworks.gates.models import GateCheck
from fuseworks.recipes.models import RecipeState, RecipeVersion
from fuseworks.recipes.services import recipe_save
from fuseworks.registry import incoming
from fuseworks.registry.models import Upload
from fuseworks.runs.models import Artifact, Run, RunEvent
from tests.platform.factories import (
    PASSWORD,
    make_member,
    make_model,
    make_result,
    make_run,
    make_team,
    make_token,
    make_unit,
    make_user,
    make_version,
    make_workload,
    result_document,
)
from tests.platform.recipes.documents import document
from tests.platform.results.support import compared
from tests.platform.traces.support import TRACE, diagnosis_run, make_job, make_trace, slow

SECRET = "zebra"
ROLES = ("viewer", "member", "maintainer", "owner")
# The owner is told his own address in whatever team he works.
EMAIL = {role: f"zebra-{role}@example.com" for role in ROLES} | {"owner": "boss@example.com"}
PYTHON = b"import torch\n\n\nclass Model(torch.nn.Module): ...\n"

# its page tells which recipes use a kernel
FUSING = [{"pass": "split_target_attention"}, {"pass": "fuse_operations"}, {"backend": "aot_inductor"}]


@dataclass
class World:
    people: dict[str, User] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._teams()
        self._models()
        self._runs()
        self._recipes()
        self._traces()
        self._across()

    def _teams(self) -> None:
        self.unit = make_unit("Zebra unit")
        self.team = make_team("zebra-team", self.unit)
        self.people = {role: make_member(self.team, role, make_user(EMAIL[role])) for role in ROLES}
        owner = self.people["owner"]
        self.memberships = {role: Membership.objects.get(user=user) for role, user in self.people.items()}
        self.invitation = Invitation.objects.create(
            team=self.team,
            email="zebra-guest@example.com",
            role="member",
            token_sha256="a" * 64,
            invited_by=owner,
            expires_at=timezone.now() + timedelta(days=1),
        )
        other_team = make_team("quagga-team", make_unit("Quagga unit"))
        self.people["outsider"] = make_member(other_team, "owner")
        make_member(other_team, "owner", owner)
        self.people["operator"] = make_user("operator@example.com", is_staff=True)
        self.people["removed"] = make_member(self.team, "maintainer", make_user("gone@example.com"))
        self.people["closed"] = make_member(self.team, "owner", make_user("closed@example.com"))
        self.tokens = {
            "token": make_token(owner, name="zebra token"),
            "reader": make_token(owner, scopes=(Scope.READ,), name="zebra reader"),
            "elsewhere": make_token(owner, other_team, name="quagga token"),
            "expired": make_token(owner, name="zebra expired", expires_at=timezone.now() - timedelta(seconds=1)),
            "left": make_token(self.people["removed"]),
        }
        member_remove(actor=Actor(owner), membership=Membership.objects.get(user=self.people["removed"]))
        account_close(actor=Actor(self.people["closed"]), password=PASSWORD)
        self.token_row = ApiToken.objects.get(name="zebra token")
        self.own_version = make_version(make_model(other_team, "Quagga model"), b"# quagga\n")

    def _models(self) -> None:
        self.model = make_model(self.team, "Zebra model")
        self.before = make_version(self.model, PYTHON + b"# before\n", inspection=None)
        self.version = make_version(self.model, PYTHON)
        self.workload = make_workload(self.version)
        make_workload(self.before)
        self.idle_version = make_version(self.model, PYTHON + b"# idle\n")
        self.upload = Upload.objects.create(
            team=self.team,
            model=self.model,
            model_name=self.model.name,
            filename="zebra.py",
            length_bytes=1000,
            created_by=self.people["owner"],
            expires_at=timezone.now() + timedelta(hours=1),
        )
        incoming.create(self.upload)

    def _runs(self) -> None:
        self.queued = make_run(self.version, workload=self.workload)
        recipe = document("zebra-found")
        found = result_document(recipe=recipe, recipe_digest="cd" * 32)
        self.finished, self.finished_too = [
            make_run(version, status="succeeded", workload=self.workload) for version in (self.version, self.before)
        ]
        for run in (self.finished, self.finished_too):
            make_result(run, found)
        stored = store(io.BytesIO(b"<p>zebra report</p>"), prefix="artifacts")
        Artifact.objects.create(
            run=self.finished,
            attempt=1,
            name="report.html",
            size_bytes=stored.size_bytes,
            sha256=stored.sha256,
            storage_key=stored.key,
        )
        RunEvent.objects.create(
            run=self.finished, attempt=1, number=1, kind="capturing", at_s=1.0, message="reads the zebra"
        )
        self.gate: Run = make_run(self.version, purpose="compare", against=self.before, workload=self.workload)
        GateCheck.objects.create(run=self.gate, max_latency_ratio=1.05)
        now = timezone.now()
        self.kernel = "rms_norm"
        told = {"kernels": [{"name": self.kernel}], "predicts": ["cuda:sm_90"]}
        Worker.objects.create(
            name="host-cpu-1", host="host", target="cpu", last_seen_at=now, started_at=now, manifest=told
        )

    def _traces(self) -> None:
        job = make_job(self.team, "Zebra job")
        self.trace, self.trace_before = make_trace(job), make_trace(job, TRACE, filename="zebra-before.json")
        self.diagnosis = diagnosis_run(self.trace, slow())

    def _across(self) -> None:
        """The owner, who is in both teams, has compared the other team's model with this team's: the outsider may see
        his team's run, and nothing of what it was compared with."""
        self.across = make_run(
            self.own_version,
            purpose="compare",
            status="succeeded",
            against=self.version,
            created_by=self.people["owner"],
        )
        found = compared(self.version, low=1.1, high=1.3, verdict="faster")
        found["inspection"]["operations"] = {"zebra.operation": 1}
        make_result(self.across, found)
        GateCheck.objects.create(run=self.across, max_latency_ratio=1.05)

    def _recipes(self) -> None:
        """A draft; a published and a deprecated one that the team alone may see."""
        actor = Actor(self.people["owner"])
        self.draft = recipe_save(actor=actor, team=self.team, document=document("zebra-draft", title="Zebra draft"))
        self.published = recipe_save(
            actor=actor, team=self.team, document={**document("zebra-recipe", title="Zebra recipe"), "steps": FUSING}
        )
        self.deprecated = recipe_save(actor=actor, team=self.team, document=document("zebra-old", title="Zebra old"))
        for one, state in ((self.published, RecipeState.PUBLISHED), (self.deprecated, RecipeState.DEPRECATED)):
            RecipeVersion.objects.filter(pk=one.pk).update(state=state, published_at=timezone.now())

    def recipe_document(self, **metadata: Any) -> dict[str, Any]:
        return document(**{"name": "new-recipe", **metadata})
