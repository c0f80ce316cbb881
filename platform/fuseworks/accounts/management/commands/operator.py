"""`manage.py operator`: makes an account an operator of this installation, or takes that away.

    manage.py operator --email someone@example.com
    manage.py operator --email someone@example.com --withdraw

An operator changes the quotas of teams, by page or API, and sees for it their names and how much they store; it is no
right in any team.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fuseworks.accounts import services
from fuseworks.core.errors import PlatformError


class Command(BaseCommand):
    help = "Makes an account an operator of this installation: who changes quotas."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--email", required=True, help="by which the account signs in")
        parser.add_argument("--withdraw", action="store_true", help="no longer")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            user = services.operator_appoint(email=options["email"], operator=not options["withdraw"])
        except PlatformError as error:
            raise CommandError(f"{error.message} {error.remedy}") from error
        self.stdout.write(f"{user.email} is {'' if user.is_staff else 'not '}an operator.")
