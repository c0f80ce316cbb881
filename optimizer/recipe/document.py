"""The recipe document: a typed, versioned YAML whose identity is the SHA-256 of its canonical JSON (RFC 8785).

Reads, checks, writes and digests it. Whether it applies to a model is `matching`'s business.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import rfc8785
import yaml
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import Discriminator, Field, Tag, ValidationError, field_validator, model_validator

import optimizer.recipe.errors  # noqa: F401 -- files the error texts
from optimizer import plain_yaml
from optimizer.errors import FuseworksError
from optimizer.spec import BackendStep, Mode, PassStep, PrecisionStep, RuntimeStep, Strict

MAX_BYTES = 256 << 10
_STEP_KEYS = ("runtime", "pass", "precision", "backend")
_SEMVER = r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$"
_SLUG = r"^[a-z0-9]+(-[a-z0-9]+)*$"


class Metadata(Strict):
    name: str = Field(pattern=_SLUG, max_length=80, description="a slug: small letters, digits and single hyphens")
    version: str = Field(pattern=_SEMVER, max_length=30, description="semantic version")
    title: str = Field(default="", max_length=200)
    summary: str = Field(default="", max_length=4000)
    tags: list[Annotated[str, Field(pattern=_SLUG, max_length=40)]] = Field(default_factory=list, max_length=20)
    derived_from: str | None = Field(default=None, max_length=200, description="digest or name@version of a recipe")


class Target(Strict):
    kind: Literal["cpu", "cuda", "rocm"]
    isa: list[str] = Field(
        default_factory=list, description="features that must all be there: CPU flags or a GPU's arch"
    )


class GraphCondition(Strict):
    """The pass must apply at least `min_matches` times; with `options`, when it runs with exactly these."""

    pass_: str = Field(alias="pass")
    min_matches: int = Field(default=1, ge=1)
    options: dict[str, Any] | None = None


class GraphPrecondition(Strict):
    all: list[GraphCondition] = Field(default_factory=list)


class AppliesTo(Strict):
    mode: Mode = Mode.INFERENCE
    target: Target
    toolchain: dict[str, str] = Field(default_factory=dict, description="library name to version specifier (PEP 440)")
    graph: GraphPrecondition = GraphPrecondition()

    @field_validator("toolchain")
    @classmethod
    def _specifiers(cls, toolchain: dict[str, str]) -> dict[str, str]:
        for library, specifier in toolchain.items():
            try:
                SpecifierSet(specifier)
            except InvalidSpecifier as error:
                raise ValueError(f"{library}: {specifier!r} is no version specifier such as '>=2.13,<2.14'") from error
        return toolchain


class Accept(Strict):
    """What the replay must reach on the new model for the recipe to count as a success there."""

    max_error_ratio: float = Field(default=3.0, gt=0, allow_inf_nan=False)
    min_speedup: float = Field(default=1.0, gt=0, allow_inf_nan=False)


def _step_key(step: Any) -> str | None:
    keys = [
        k for k in _STEP_KEYS if (k in step if isinstance(step, dict) else hasattr(step, k.replace("pass", "pass_")))
    ]
    return keys[0] if len(keys) == 1 else None


# one tag per step, so that an error speaks of the step that was meant and not of all four kinds
RecipeStep = Annotated[
    Annotated[RuntimeStep, Tag("runtime")]
    | Annotated[PassStep, Tag("pass")]
    | Annotated[PrecisionStep, Tag("precision")]
    | Annotated[BackendStep, Tag("backend")],
    Discriminator(
        _step_key,
        custom_error_type="step_kind",
        custom_error_message="a step has exactly one of the keys runtime, pass, precision, backend",
    ),
]


class Recipe(Strict):
    api_version: Literal["fuseworks.io/v1"] = Field(alias="apiVersion")
    kind: Literal["Recipe"]
    metadata: Metadata
    applies_to: AppliesTo
    steps: list[RecipeStep] = Field(min_length=1, max_length=100)
    accept: Accept = Accept()

    @model_validator(mode="after")
    def _steps_in_order(self) -> Recipe:
        kinds = [_step_key(step) for step in self.steps]
        if kinds.count("backend") != 1 or kinds[-1] != "backend":
            raise ValueError("steps: exactly one backend step is needed, and it comes last")
        for kind in ("precision", "runtime"):
            if kinds.count(kind) > 1:
                raise ValueError(f"steps: at most one {kind} step")
        passes = {step.pass_ for step in self.steps if isinstance(step, PassStep)}
        for condition in self.applies_to.graph.all:
            if condition.pass_ not in passes:
                raise ValueError(f"applies_to.graph: {condition.pass_} is a condition but not among the steps")
        return self


def as_document(recipe: Recipe) -> dict[str, Any]:
    """The JSON form. Defaults are left out, so a field that a later schema adds changes no digest."""
    document: dict[str, Any] = recipe.model_dump(by_alias=True, exclude_defaults=True, mode="json")
    return document


def digest(recipe: Recipe) -> str:
    return hashlib.sha256(rfc8785.dumps(as_document(recipe))).hexdigest()


def dump(recipe: Recipe) -> str:
    """YAML text that `load_recipe` reads back to an equal recipe."""
    return yaml.safe_dump(as_document(recipe), sort_keys=False, allow_unicode=True, width=110)


def json_schema() -> dict[str, Any]:
    schema = Recipe.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "urn:fuseworks:recipe:v1", **schema}


def load_recipe(source: Path | str) -> Recipe:
    """From a path, or from a text of more than one line. Raises FuseworksError `recipe:user:...` naming the field."""
    is_text = isinstance(source, str) and ("\n" in source or source.lstrip().startswith("{"))
    place = None if is_text else str(source)
    text = str(source) if is_text else _read_file(Path(source))
    if len(text.encode()) > MAX_BYTES:
        raise _unreadable(f"it is larger than {MAX_BYTES >> 10} KiB", place)
    try:
        document = plain_yaml.read(text)
    except plain_yaml.NotPlain as error:
        line = f"{place or 'line'}:{error.line}" if error.line is not None else place
        raise FuseworksError("recipe:user:not-yaml", place=line, text=error.reason) from error
    if not isinstance(document, dict):
        raise FuseworksError(
            "recipe:user:invalid", place=place, field="(document)", text="it must be a mapping of fields"
        )
    return parse(document, place)


def parse(document: dict[str, Any], place: str | None = None) -> Recipe:
    """From plain data, as an API gets it."""
    try:
        recipe = Recipe.model_validate(document)
    except ValidationError as error:
        first, *others = error.errors(include_url=False)
        text = re.sub(r"^Value error, ", "", first["msg"])
        if others:
            text += f" (and {len(others)} more: {', '.join(dict.fromkeys(_field(e['loc']) for e in others))})"
        raise FuseworksError("recipe:user:invalid", place=place, field=_field(first["loc"]), text=text) from error
    for field, value in document.items():
        try:
            rfc8785.dumps(value)
        except (rfc8785.CanonicalizationError, RecursionError) as error:
            # NaN, infinities and integers beyond 2**53 have no canonical JSON: such a recipe would have no identity
            raise FuseworksError("recipe:user:invalid", place=place, field=field, text=str(error)) from error
        if _holds_nul(value):
            raise FuseworksError("recipe:user:invalid", place=place, field=field, text="a text holds the character NUL")
    return recipe


def _holds_nul(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_holds_nul(key) or _holds_nul(one) for key, one in value.items())
    return any(map(_holds_nul, value)) if isinstance(value, list) else isinstance(value, str) and "\0" in value


def _field(location: tuple[int | str, ...]) -> str:
    parts = list(location)
    if len(parts) > 2 and parts[0] == "steps" and parts[2] in _STEP_KEYS:
        del parts[2]  # the union's tag, not a field
    text = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in parts)
    return text.lstrip(".") or "(document)"


def _read_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        return raw.decode()
    except UnicodeDecodeError as error:
        raise _unreadable("it is not UTF-8 text", str(path)) from error
    except OSError as error:
        raise _unreadable(error.strerror or str(error), str(path)) from error


def _unreadable(text: str, place: str | None) -> FuseworksError:
    return FuseworksError("recipe:user:unreadable", place=place, text=text, limit_kib=MAX_BYTES >> 10)
