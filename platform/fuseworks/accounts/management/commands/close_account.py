"""`manage.py close_account`: closes the account of somebody who is no longer there to do it, for ever.

    manage.py close_account --email someone@example.com

Refused while a team would be left without an owner: `manage.py create_owner` makes another one of it first.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fuseworks.accounts import services
from fuseworks.core.errors import PlatformError


class Command(BaseCommand):
    help = "Closes an account for ever: its sessions and tokens end at once, what it made stays."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--email", required=True, help="by which the account signs in")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            services.account_close_by_operator(email=options["email"])
        except PlatformError as error:
            hint = " manage.py create_owner makes one." if error.id == "accounts:usage:last-owner-of" else ""
            raise CommandError(f"{error.message} {error.remedy}{hint}") from error
        self.stdout.write(f"The account {options['email'].strip().lower()} is closed.")
