"""`manage.py create_owner`: the first step of an installation, and the way back in when a team lost its owners.

    manage.py create_owner --unit Advertising --team "Ads ranking" --email someone@example.com

Asks for the password of a new account, or reads its first line from stdin with `--password-stdin`. An account that is
there already keeps its password.
"""

from __future__ import annotations

import getpass
import sys
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.validators import validate_email

from fuseworks.accounts import services
from fuseworks.accounts.models import User
from fuseworks.core.errors import PlatformError


class Command(BaseCommand):
    help = "Makes a business unit, a team and its owner, as far as they are missing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--unit", required=True, help="name of the business unit")
        parser.add_argument("--team", required=True, help="name of the team")
        parser.add_argument("--email", required=True, help="by which the owner signs in")
        parser.add_argument("--name", default="", help="of the owner, as others read it")
        parser.add_argument("--password-stdin", action="store_true", help="read the password from the first line")

    def handle(self, *args: Any, **options: Any) -> None:
        email = options["email"].strip().lower()
        try:
            validate_email(email)
        except ValidationError as error:
            raise CommandError(f"--email: {email!r} is no e-mail address") from error
        password = None if User.objects.filter(email__iexact=email).exists() else self._password(options)
        try:
            membership = services.owner_found(
                business_unit=options["unit"],
                team=options["team"],
                email=email,
                name=options["name"],
                password=password,
            )
        except PlatformError as error:
            raise CommandError(f"{error.message} {error.remedy}") from error
        if password is None:
            self.stdout.write("The account was there already; its password is unchanged.")
        team = membership.team
        self.stdout.write(f"{email} owns {team.name} ({team.slug}) of {team.business_unit.name}.")

    def _password(self, options: dict[str, Any]) -> str:
        if options["password_stdin"]:
            return sys.stdin.readline().rstrip("\r\n")
        password = getpass.getpass(f"Password of {options['email']}: ")
        if getpass.getpass("Again: ") != password:
            raise CommandError("The two passwords differ.")
        return password
