"""Users, business units, teams, memberships with a role, invitations, API tokens and the audit log."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.base_user import BaseUserManager
from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Lower
from django.utils import translation
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop

from fuseworks.core.models import Row, Scoped

CLOSED = gettext_noop("closed account")


class Users(BaseUserManager["User"]):
    def create_user(self, email: str, password: str | None = None, **fields: Any) -> User:
        user = self.model(email=self.normalize_email(email).lower(), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> User:
        return self.create_user(email, password, is_staff=True, is_superuser=True, **fields)

    def get_by_natural_key(self, username: str | None) -> User:
        return self.get(email__iexact=username)


class User(AbstractUser):
    """Signs in by e-mail address. `is_staff`: an operator of this installation, who sets the teams' quotas; it lets him
    see nothing else of them. A closed account keeps its row, for what it made, and nothing of the person."""

    username = None  # type: ignore[assignment]
    first_name = None  # type: ignore[assignment]
    last_name = None  # type: ignore[assignment]
    email = models.EmailField(unique=True)
    name = models.CharField(max_length=100, blank=True)
    language = models.CharField(max_length=10, blank=True, help_text="'en' or 'zh-hans'; empty: what the browser asks")
    closed_at = models.DateTimeField(null=True)

    USERNAME_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []
    objects: ClassVar[Users] = Users()  # type: ignore[assignment]

    class Meta:
        constraints: ClassVar[list[Any]] = [models.UniqueConstraint(Lower("email"), name="one_user_an_address")]

    def __str__(self) -> str:
        return translation.gettext(CLOSED) if self.closed_at is not None else self.name or self.email

    @property
    def name_in_api(self) -> str:
        """As `str`, but English, whatever the caller's language."""
        return CLOSED if self.closed_at is not None else str(self)


class BusinessUnit(Row):
    name = models.CharField(max_length=80, unique=True)
    slug = models.SlugField(max_length=60, unique=True)

    def __str__(self) -> str:
        return self.name


class Team(Row):
    """Owns models, runs and recipes. Its slug is unique in the whole installation: it stands in addresses."""

    business_unit = models.ForeignKey(BusinessUnit, models.PROTECT, related_name="teams")
    name = models.CharField(max_length=80)
    slug = models.SlugField(max_length=60, unique=True)
    quota_bytes = models.BigIntegerField(null=True, blank=True, help_text="of stored uploads; null: the site's default")

    class Meta:
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["business_unit", "name"], name="one_team_a_name_and_unit")
        ]

    def __str__(self) -> str:
        return self.name


class Role(models.TextChoices):
    """Each may do all that those before it may."""

    VIEWER = "viewer", _("Viewer")
    MEMBER = "member", _("Member")
    MAINTAINER = "maintainer", _("Maintainer")
    OWNER = "owner", _("Owner")


class Membership(Row):
    user = models.ForeignKey(User, models.CASCADE, related_name="memberships")
    team = models.ForeignKey(Team, models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=12, choices=Role.choices)

    objects = Scoped.as_manager()

    class Meta:
        constraints: ClassVar[list[Any]] = [models.UniqueConstraint(fields=["user", "team"], name="one_role_a_team")]


class Invitation(Row):
    """Whoever holds the link may join once, until it expires. Only the token's hash is stored."""

    team = models.ForeignKey(Team, models.CASCADE, related_name="invitations")
    email = models.EmailField()
    role = models.CharField(max_length=12, choices=Role.choices)
    token_sha256 = models.CharField(max_length=64, unique=True)
    invited_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    objects = Scoped.as_manager()


class Scope(models.TextChoices):
    """What a token may be used for, at most; its user's role in the team still bounds it."""

    READ = "read", _("Read models, runs, results and recipes")
    SUBMIT = "submit", _("Upload models and start runs")
    RECIPES = "recipes", _("Save and publish recipes")
    MANAGE = "manage", _("Manage members and teams")


class ApiToken(Row):
    """A user's key for scripts, good in one team (or all of the user's, when `team` is null). Shown once."""

    user = models.ForeignKey(User, models.CASCADE, related_name="api_tokens")
    team = models.ForeignKey(Team, models.CASCADE, null=True, blank=True, related_name="api_tokens")
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=12, help_text="its first characters, by which its owner knows it")
    token_sha256 = models.CharField(max_length=64, unique=True)
    scopes = ArrayField(models.CharField(max_length=12, choices=Scope.choices))
    expires_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    @property
    def scope_titles(self) -> list[str]:
        return [str(Scope(scope).label) for scope in self.scopes]


class IdempotencyKey(Row):
    """A request that started something, by the key that its sender gave it (`accounts.idempotency`)."""

    user = models.ForeignKey(User, models.CASCADE, related_name="+")
    token = models.ForeignKey(ApiToken, models.CASCADE, null=True, related_name="+", help_text="null: a session")
    key = models.CharField(max_length=200)
    request_sha256 = models.CharField(max_length=64, help_text="of method, path and body")
    made = models.UUIDField(null=True, help_text="the id of what the request made; null until it has")

    class Meta:
        indexes: ClassVar[list[Any]] = [models.Index(fields=["created_at"])]
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["user", "token", "key"], nulls_distinct=False, name="one_request_a_key")
        ]


class AuditEntry(Row):
    """Who did what to whom. Written by services, in the transaction of what they do."""

    actor = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    team = models.ForeignKey(Team, models.SET_NULL, null=True, related_name="audit_entries")
    action = models.CharField(max_length=60, help_text="noun.verb: member.invite, recipe.publish")
    object_type = models.CharField(max_length=40, blank=True)
    object_id = models.UUIDField(null=True)
    detail = models.JSONField(default=dict)
    address = models.GenericIPAddressField(null=True)

    objects = Scoped.as_manager()

    class Meta:
        indexes: ClassVar[list[Any]] = [models.Index(fields=["team", "-created_at"])]
