"""Reads of the catalog. A recipe may be seen beyond its team; what a run's evidence tells depends on who reads it."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.contrib.postgres.search import SearchQuery, SearchRank
from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet

from fuseworks.accounts.models import Team
from fuseworks.accounts.permissions import READ, Actor, teams_where
from fuseworks.core.errors import PlatformError
from fuseworks.fleet.selectors import targets_served
from fuseworks.recipes.documents import read
from fuseworks.recipes.models import Evidence, Recipe, RecipeState, RecipeVersion, Visibility
from fuseworks.registry.forms import FAMILIES
from fuseworks.registry.models import Family, ModelVersion
from fuseworks.results.models import RunResult
from fuseworks.runs.models import Purpose, Run
from optimizer.recipe.matching import check_graph
from optimizer.result import Rewrite

MAX_MATCHED = 200
PURPOSES_THAT_MATCH = (Purpose.OPTIMIZE, Purpose.INSPECT)
log = logging.getLogger(__name__)
FACETS = ("target", "mode", "pass", "unit", "backend", "state")
SORTS = {"newest": "-published_at", "gain": "-best_gain", "name": "recipe__name"}


def recipes_visible_to(actor: Actor) -> QuerySet[Recipe]:
    versions = recipe_versions_visible_to(actor).filter(recipe=OuterRef("pk"))
    return Recipe.objects.filter(Exists(versions))


def recipe_versions_visible_to(actor: Actor) -> QuerySet[RecipeVersion]:
    return _visible_in(teams_where(actor, READ))


def seen_by_all_of(team: Team) -> QuerySet[RecipeVersion]:
    """Those that every member of the team may see, whatever other teams he is in."""
    return _visible_in(Team.objects.filter(pk=team.pk))


def _visible_in(teams: QuerySet[Team]) -> QuerySet[RecipeVersion]:
    """Drafts of these teams; what is published or deprecated, as far as its visibility reaches."""
    units = Team.objects.filter(pk__in=teams).values("business_unit")
    shared = Q(recipe__visibility=Visibility.COMPANY) | Q(
        recipe__visibility=Visibility.UNIT, recipe__team__business_unit__in=units
    )
    # whoever reads in no team at all is a stranger to the company's catalog too
    shared &= Q(Exists(teams))
    return RecipeVersion.objects.filter(
        Q(recipe__team__in=teams) | (shared & ~Q(state=RecipeState.DRAFT))
    ).select_related("recipe__team__business_unit")


def reaches(*, recipe: Recipe, but: RecipeVersion) -> list[Visibility]:
    """As far as `but`, a draft of it, can be published, the narrowest first: never less far than the recipe reaches by
    versions that are or were published."""
    known = recipe.versions.exclude(pk=but.pk).exclude(state=RecipeState.DRAFT).exists()
    return list(Visibility)[list(Visibility).index(Visibility(recipe.visibility)) if known else 0 :]


def applied_visible(*, actor: Actor, run: Run) -> RecipeVersion | None:
    """The recipe that a run replays, when the reader may see it: who may find it can have been narrowed since the run
    was started. Nothing else may show `run.recipe_version` to a reader."""
    if run.recipe_version_id is None:
        return None
    return recipe_versions_visible_to(actor).filter(pk=run.recipe_version_id).first()


@dataclass(frozen=True)
class CatalogQuery:
    """What a reader of the catalog asks for; every field is a parameter of the address."""

    q: str = ""
    target: str = ""
    mode: str = ""
    pass_: str = ""
    unit: str = ""
    backend: str = ""
    state: str = RecipeState.PUBLISHED
    min_gain: float | None = None
    sort: str = "newest"


def catalog(*, actor: Actor, query: CatalogQuery) -> QuerySet[RecipeVersion]:
    """The newest fitting version of each recipe. `best_gain` is the best lower bound that evidence shows."""
    found = _filtered(recipe_versions_visible_to(actor), query)
    newest = found.filter(recipe=OuterRef("recipe")).order_by(F("published_at").desc(nulls_last=True), "-created_at")
    rows = with_best_gain(found.filter(pk=newest.values("pk")[:1]))
    if query.q and query.sort == "newest":
        return rows.annotate(rank=SearchRank(F("search"), _search(query.q))).order_by("-rank", "recipe__name")
    key = SORTS.get(query.sort, SORTS["newest"])
    name = key.lstrip("-")
    return rows.order_by(F(name).desc(nulls_last=True) if key.startswith("-") else F(name), "recipe__name")


def with_best_gain(versions: QuerySet[RecipeVersion]) -> QuerySet[RecipeVersion]:
    """`best_gain`: the best lower bound of `evidence_faster` outcomes out of `evidence_all`. The best of several is a
    selection, so that pages show the counts beside it."""
    of_this = Q(evidence__plan_digest=F("plan_digest"))
    faster = of_this & Q(evidence__outcome="faster")
    return versions.annotate(
        best_gain=Max("evidence__speedup_low", filter=faster),
        evidence_faster=Count("evidence", filter=faster),
        evidence_all=Count("evidence", filter=of_this),
    )


def facets(*, actor: Actor, query: CatalogQuery) -> dict[str, list[tuple[str, int]]]:
    """Values of each facet with how many recipes have them, the other facets applied."""
    out: dict[str, list[tuple[str, int]]] = {}
    for facet in FACETS:
        field = "pass_" if facet == "pass" else facet
        others = CatalogQuery(**{**query.__dict__, field: "", **({"state": query.state} if facet != "state" else {})})
        counted: dict[str, set[Any]] = {}
        rows = _filtered(recipe_versions_visible_to(actor), others).values_list("recipe_id", *_FACET_FIELDS[facet])
        for recipe_id, value in rows:
            for one in value if isinstance(value, list) else [value]:
                counted.setdefault(one, set()).add(recipe_id)
        out[facet] = sorted(((value, len(ids)) for value, ids in counted.items()), key=lambda pair: (-pair[1], pair[0]))
    return out


_FACET_FIELDS = {
    "target": ("target_kind",),
    "mode": ("mode",),
    "pass": ("passes",),
    "unit": ("recipe__team__business_unit__slug",),
    "backend": ("backend",),
    "state": ("state",),
}


def _filtered(versions: QuerySet[RecipeVersion], query: CatalogQuery) -> QuerySet[RecipeVersion]:
    if query.q:
        versions = versions.filter(Q(search=_search(query.q)) | Q(recipe__name__icontains=query.q))
    if query.target:
        versions = versions.filter(target_kind=query.target)
    if query.mode:
        versions = versions.filter(mode=query.mode)
    if query.pass_:
        versions = versions.filter(passes__contains=[query.pass_])
    if query.unit:
        versions = versions.filter(recipe__team__business_unit__slug=query.unit)
    if query.backend:
        versions = versions.filter(backend=query.backend)
    if query.state:
        versions = versions.filter(state=query.state)
    if query.min_gain is not None:
        gained = Evidence.objects.filter(
            recipe_version=OuterRef("pk"),
            plan_digest=OuterRef("plan_digest"),
            outcome="faster",
            speedup_low__gte=query.min_gain,
        )
        versions = versions.filter(Exists(gained))
    return versions


def _search(words: str) -> SearchQuery:
    return SearchQuery(words, config="simple", search_type="websearch")


@dataclass(frozen=True)
class EvidenceRow:
    """`run` is None for a reader who may not see it: then neither model nor team is told, only figures and family."""

    evidence: Evidence
    run: Run | None

    @property
    def model_name(self) -> str:
        return str(self.run.version) if self.run is not None else ""

    @property
    def family(self) -> Any:
        """In the reader's language."""
        return FAMILIES[Family(self.evidence.family)]


def evidence_of(*, recipe_version: RecipeVersion, outcome: str = "") -> QuerySet[Evidence]:
    """Newest first, good and bad alike; of this very document: a draft that was edited since is another plan."""
    of_this = recipe_version.evidence.filter(plan_digest=recipe_version.plan_digest)
    if outcome:
        of_this = of_this.filter(outcome=outcome)
    return of_this.select_related("run__version__model", "run__team").order_by("-created_at", "pk")


def as_seen_by(actor: Actor, evidence: Iterable[Evidence]) -> list[EvidenceRow]:
    """A page of evidence as this reader may see it."""
    rows = list(evidence)
    readable = set(Run.objects.visible_to(actor).filter(evidence__in=rows).values_list("pk", flat=True))
    return [EvidenceRow(row, row.run if row.run_id in readable else None) for row in rows]


@dataclass(frozen=True)
class Match:
    """Whether a recipe's graph precondition holds on a version, as far as its runs show: `reason` says why not.

    ISA and toolchain are the worker's, and are checked when it is applied.
    """

    recipe_version: RecipeVersion
    reason: str | None


def matches(*, actor: Actor, version: ModelVersion) -> list[Match]:
    """Published recipes against what the passes did to this version in its newest run that says so, be it only the
    inspection of the upload; those that apply first. Empty when no run of this version has tried the passes yet."""
    result = (
        RunResult.objects.visible_to(actor)
        .select_related("run")
        .filter(run__version=version, run__purpose__in=PURPOSES_THAT_MATCH, run__status="succeeded")
        .order_by("-created_at")
        .first()
    )
    if result is None:
        return []
    rewrites = [Rewrite.model_validate(r) for r in result.document.get("rewrites") or []]
    workload = result.document.get("workload") or {}
    published = seen_by_all_of(version.model.team).filter(
        state=RecipeState.PUBLISHED, target_kind__in=_target_kinds(result.run), mode=workload.get("mode", "")
    )
    found = []
    for candidate in with_best_gain(published).order_by(F("best_gain").desc(nulls_last=True))[:MAX_MATCHED]:
        try:
            recipe = read(candidate.document)
        except PlatformError as error:  # one that an older schema let in must not hide the others
            log.warning("recipe version %s cannot be read: %s", candidate.pk, error)
            continue
        found.append(Match(candidate, check_graph(recipe, rewrites)))
    return sorted(found, key=lambda match: match.reason is not None)


def _target_kinds(run: Run) -> set[str]:
    """An inspection's graph is that of every target, wherever it ran."""
    served = targets_served() if run.purpose == Purpose.INSPECT else []
    return {target.partition(":")[0] for target in (run.target, *served)}


def targets_for(*, recipe_version: RecipeVersion) -> list[str]:
    """The targets, served by workers that live, on which it may be applied. Never empty for a CPU: a run may wait."""
    kind = recipe_version.target_kind
    served = [target for target in targets_served() if target.partition(":")[0] == kind]
    return served or (["cpu"] if kind == "cpu" else [])
