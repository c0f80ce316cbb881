"""Forms of the registry's pages. What they let through is validated again by the services."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.utils import timezone
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from fuseworks.accounts.models import Team
from fuseworks.accounts.permissions import Actor
from fuseworks.fleet.manifests import Manifest
from fuseworks.fleet.models import Worker
from fuseworks.fleet.selectors import workers_alive
from fuseworks.fleet.serving import PREDICTS
from fuseworks.registry.models import Family, Kind, Model, ModelVersion
from fuseworks.registry.selectors import comparable_versions, teams_to_upload
from fuseworks.runs.models import CompareAs
from optimizer.spec import SHORT_BUDGET_S, Policy
from optimizer.uploads.formats import ACCEPTED

PRECISIONS = (("float32", "float32"), ("bfloat16", "bfloat16"), ("int8", "int8"))
DEFAULTS = Policy()
SHOWN_VERSIONS = 30
BY_NAME = ("team__name", "name")
BUDGET_HINT = format_lazy(
    _("Time in the queue does not count. Below {least_s} seconds a run rarely comes to a verdict."),
    least_s=SHORT_BUDGET_S,
)


# Family's own labels are not translated.
FAMILIES = {
    Family.RANKING: _("ranking"),
    Family.RETRIEVAL: _("retrieval"),
    Family.SEARCH: _("search"),
    Family.ADVERTISING: _("advertising"),
    Family.VISION: _("vision"),
    Family.SPEECH: _("speech"),
    Family.LANGUAGE: _("language"),
    Family.OTHER: _("other"),
}


class Labelled(forms.ModelChoiceField):
    """Models of several teams in one list."""

    def label_from_instance(self, obj: Any) -> str:
        return f"{obj.team.name}: {obj.name}"


class SearchForm(forms.Form):
    q = forms.CharField(required=False, max_length=200, strip=True)
    team = forms.SlugField(required=False)
    page = forms.CharField(required=False, max_length=10)


class DescriptionForm(forms.Form):
    name = forms.CharField(max_length=80, label=_("Name"))
    family = forms.ChoiceField(
        label=_("Kind of model"),
        choices=list(FAMILIES.items()),
        help_text=_("The one thing that other business units see of it, where a recipe was tried on it."),
    )
    description = forms.CharField(
        required=False, max_length=4000, label=_("Description"), widget=forms.Textarea(attrs={"rows": 4})
    )

    def __init__(self, data: Any = None, *, initial: dict[str, Any] | None = None) -> None:
        super().__init__(data, initial=initial)
        _dress(self)


class RunForm(forms.Form):
    """What a run may spend and risk: the fields of the optimizer's Policy that people set."""

    target = forms.ChoiceField(label=_("Target"))
    budget_s = forms.FloatField(
        label=_("Time budget (seconds of work)"),
        min_value=1,
        initial=int(DEFAULTS.budget_s),
        help_text=BUDGET_HINT,
    )
    precisions = forms.MultipleChoiceField(
        label=_("Precisions"), choices=PRECISIONS, initial=DEFAULTS.precisions, widget=forms.CheckboxSelectMultiple
    )
    max_pairs = forms.IntegerField(
        label=_("Pairs of fresh processes, at most"),
        min_value=6,
        max_value=60,
        initial=DEFAULTS.max_pairs,
        help_text=_("More of them narrow the interval."),
    )
    backends = forms.MultipleChoiceField(
        label=_("Backends"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("None chosen: all that the worker has."),
    )

    def __init__(self, data: Any = None, *, prefix: str | None = None) -> None:
        super().__init__(data, prefix=prefix)
        workers = list(workers_alive(now=timezone.now()))
        targets = sorted({"cpu", *(worker.target for worker in workers)})
        self._choose("target", [(target, target) for target in targets])
        self._choose("backends", [(name, name) for name in sorted(_backends(workers))])
        self.fields["budget_s"].widget.attrs["max"] = settings.RUN_TIME_LIMIT_S
        _dress(self)
        if not _backends(workers):
            del self.fields["backends"]

    def _choose(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices

    def clean_budget_s(self) -> float:
        budget_s: float = self.cleaned_data["budget_s"]
        if budget_s > settings.RUN_TIME_LIMIT_S:
            raise forms.ValidationError(
                _("At most %(limit)s seconds."), params={"limit": settings.RUN_TIME_LIMIT_S}, code="limit"
            )
        return budget_s

    def policy(self) -> dict[str, Any]:
        """For `run_create`."""
        names = ("budget_s", "precisions", "max_pairs")
        policy = {name: self.cleaned_data[name] for name in names}
        if self.cleaned_data.get("backends"):
            policy["backends"] = self.cleaned_data["backends"]
        return policy


class PredictForm(forms.Form):
    """A GPU that is not there: those that the workers at hand predict for. None where no such worker is alive."""

    target = forms.ChoiceField(label=_("GPU"), help_text=_("It need not be there: nothing is run on it."))

    def __init__(self, data: Any = None, *, prefix: str | None = None) -> None:
        super().__init__(data, prefix=prefix)
        workers = workers_alive(now=timezone.now()).filter(target=PREDICTS)
        told = sorted({target for worker in workers for target in Manifest.of(worker.manifest).predicts})
        field = self.fields["target"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(target, target) for target in told]
        _dress(self)


class CompareForm(forms.Form):
    """Another version of the team, to be measured side by side with this one."""

    against = forms.ModelChoiceField(queryset=ModelVersion.objects.none(), label=_("Version before"))
    compare_as = forms.ChoiceField(
        label=_("What is measured"),
        required=False,
        choices=(
            (CompareAs.AUTO, _("as packaged, where the version before has a package")),
            (CompareAs.PACKAGED, _("as packaged")),
            (CompareAs.UPLOADED, _("as uploaded")),
        ),
        help_text=_(
            "As packaged: both are built by the steps of the latest run of the version before that left a package. "
            "As uploaded: each runs as its own framework runs it."
        ),
    )
    budget_s = forms.FloatField(
        label=_("Time budget (seconds of work)"),
        min_value=1,
        initial=int(DEFAULTS.budget_s),
        help_text=BUDGET_HINT,
    )

    def __init__(self, data: Any = None, *, version: ModelVersion) -> None:
        super().__init__(data)
        field = self.fields["against"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = comparable_versions(version=version)
        # CI uploads a version a commit: the list ends somewhere, what may be chosen does not
        field.choices = [("", "---------"), *((one.pk, str(one)) for one in field.queryset[:SHOWN_VERSIONS])]
        _dress(self)


class UploadForm(forms.Form):
    """`model` is one of the team's models, or empty for a new one called `model_name`."""

    kind = Kind.MODEL
    accepted = ACCEPTED

    team = forms.ModelChoiceField(queryset=Team.objects.none(), to_field_name="slug", label=_("Team"))
    model = Labelled(queryset=Model.objects.none(), required=False, label=_("Model"), empty_label=_("a new model"))
    model_name = forms.CharField(required=False, max_length=80, label=_("Name of the new model"))
    file = forms.FileField(label=_("File: drop it here, or choose it"), max_length=200, allow_empty_file=True)

    def __init__(
        self, data: Any = None, files: Any = None, *, actor: Actor, initial: dict[str, Any] | None = None
    ) -> None:
        super().__init__(data, files, initial=initial)
        teams = teams_to_upload(actor=actor)
        for name, queryset in (
            ("team", teams),
            ("model", Model.objects.filter(team__in=teams, kind=self.kind).select_related("team").order_by(*BY_NAME)),
        ):
            field = self.fields[name]
            assert isinstance(field, forms.ModelChoiceField)
            field.queryset = queryset
            if name == "team" and teams.count() == 1:
                field.empty_label = None
        self.fields["file"].widget.attrs["accept"] = ",".join(self.accepted)
        _dress(self)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        model, team = cleaned.get("model"), cleaned.get("team")
        if model is None and not cleaned.get("model_name", "").strip() and "model" not in self.errors:
            self.add_error("model_name", _("Name the new model, or choose one that is there."))
        if model is not None and team is not None and model.team_id != team.pk:
            self.add_error("model", _("This model belongs to another team."))
        return cleaned


def _dress(form: forms.Form) -> None:
    """Bootstrap's classes, which Django's own templates leave out."""
    for field in form.fields.values():
        is_list = isinstance(field.widget, forms.Select)
        field.widget.attrs.setdefault("class", "form-select" if is_list else "form-control")


def _backends(workers: list[Worker]) -> set[str]:
    """Those that the workers at hand say they have."""
    listed = [backend for worker in workers for backend in Manifest.of(worker.manifest).backends]
    return {backend.name for backend in listed if not backend.unavailable}
