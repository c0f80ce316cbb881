"""Models of a team: made by hand or by the first upload of a name, described, renamed."""

from __future__ import annotations

import unicodedata

from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils.text import slugify

from fuseworks.accounts.models import Team
from fuseworks.accounts.permissions import UPLOAD, Actor, audit, require
from fuseworks.core.errors import PlatformError
from fuseworks.registry import errors as _errors  # noqa: F401  its ids must be in the catalogue
from fuseworks.registry.models import Family, Kind, Model

MAX_NAME = 80


def model_create(*, actor: Actor, team: Team, name: str, description: str = "", family: str = Family.OTHER) -> Model:
    """Raises PlatformError: `registry:usage:model-name`, `registry:usage:model-exists`."""
    require(actor, team, UPLOAD)
    name, slug = checked_name(name)
    existing = Model.objects.filter(team=team, kind=Kind.MODEL, slug=slug).first()
    if existing is not None:
        raise _exists(existing)
    with transaction.atomic():
        model, is_new = Model.objects.get_or_create(
            team=team,
            kind=Kind.MODEL,
            slug=slug,
            defaults={"name": name, "description": description, "family": Family(family)},
        )
        if not is_new:
            raise _exists(model)
        audit(actor, "model.create", team=team, target=model, name=name)
    return model


def model_update(
    *,
    actor: Actor,
    model: Model,
    name: str | None = None,
    description: str | None = None,
    family: str | None = None,
) -> Model:
    """Changes what is given. Raises PlatformError as `model_create` does."""
    require(actor, model.team, UPLOAD)
    changed: dict[str, str] = {}
    if name is not None and name != model.name:
        changed["name"], changed["slug"] = checked_name(name)
    if description is not None and description != model.description:
        changed["description"] = description
    if family is not None and family != model.family:
        changed["family"] = Family(family)
    if not changed:
        return model
    try:
        with transaction.atomic():
            for field, value in changed.items():
                setattr(model, field, value)
            model.save(update_fields=[*changed, "updated_at"])
            audit(actor, "model.update", team=model.team, target=model, fields=sorted(changed))
    except IntegrityError as error:
        raise _exists(Model.objects.get(team=model.team, kind=model.kind, slug=changed["slug"])) from error
    return model


def checked_name(name: str) -> tuple[str, str]:
    """A model's name and the slug by which a team tells its models apart."""
    name = unicodedata.normalize("NFC", name).strip()
    slug = slugify(name, allow_unicode=True)[:MAX_NAME]
    if not slug.strip("-_") or len(name) > MAX_NAME or "/" in name or not name.isprintable():
        raise PlatformError("registry:usage:model-name", place="name", name=name[:MAX_NAME])
    return name, slug


def _exists(model: Model) -> PlatformError:
    address = reverse("model", args=[model.pk])
    extra = {"model": str(model.pk)}
    return PlatformError(
        "registry:usage:model-exists", place="name", team=model.team.name, address=address, extra=extra
    )
