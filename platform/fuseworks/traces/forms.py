"""Forms of the traces' pages. What they let through is validated again by the services."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from fuseworks.registry.forms import SHOWN_VERSIONS, UploadForm
from fuseworks.registry.models import Kind, ModelVersion
from fuseworks.registry.selectors import comparable_versions
from optimizer.uploads.traces import ACCEPTED


class ManyFilesInput(forms.ClearableFileInput):
    allow_multiple_selected = True


class ManyFilesField(forms.FileField):
    """One file or several: always a list."""

    widget = ManyFilesInput

    def clean(self, data: Any, initial: Any = None) -> list[Any]:
        files = data if isinstance(data, (list, tuple)) else [data]
        return [super(ManyFilesField, self).clean(one, initial) for one in files or [None]]


class TraceForm(UploadForm):
    """`model` is a job of the team, or empty for a new one called `model_name`."""

    kind = Kind.JOB
    accepted = ACCEPTED

    file = ManyFilesField(  # type: ignore[assignment]
        label=_("Traces: drop them here, or choose them"), max_length=200, allow_empty_file=True
    )

    def __init__(self, data: Any = None, files: Any = None, **more: Any) -> None:
        super().__init__(data, files, **more)
        self.fields["model"].label = _("Job")
        self.fields["model"].empty_label = _("a new job")  # type: ignore[attr-defined]
        self.fields["model_name"].label = _("Name of the new job")
        self.fields["file"].help_text = _("Of one job and the same steps: one rank, or several files, one a rank.")


class AgainstForm(forms.Form):
    """Another trace of the team: what was before."""

    against = forms.ModelChoiceField(queryset=ModelVersion.objects.none(), label=_("Trace before"))

    def __init__(self, data: Any = None, *, trace: ModelVersion) -> None:
        super().__init__(data)
        field = self.fields["against"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = comparable_versions(version=trace)
        field.widget.attrs["class"] = "form-select"
        # jobs are traced often: the list ends somewhere, what may be chosen does not
        shown = field.queryset[:SHOWN_VERSIONS]
        field.choices = [("", "---------"), *((one.pk, f"{one} · {one.filename}") for one in shown)]
