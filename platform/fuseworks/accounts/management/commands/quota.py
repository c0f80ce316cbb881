"""`manage.py quota`: what a team may store, and what it does store.

    manage.py quota --team ads-ranking
    manage.py quota --team ads-ranking --set "50 GiB"

The first tells, the second changes; `--set default` gives it the site's, FUSEWORKS_TEAM_QUOTA_BYTES.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fuseworks.accounts import services
from fuseworks.accounts.models import Team
from fuseworks.accounts.sizes import bytes_of
from fuseworks.core.errors import PlatformError
from fuseworks.core.figures import size
from fuseworks.registry.usage import usage

DEFAULT = "default"


class Command(BaseCommand):
    help = "Tells or changes what a team may store. The change stands in the team's audit log."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--team", required=True, help="its slug, as it stands in the team's address")
        parser.add_argument("--set", help="a size as '50 GiB' or '1048576'; 'default' for the site's")

    def handle(self, *args: Any, **options: Any) -> None:
        team = Team.objects.filter(slug=options["team"]).first()
        if team is None:
            raise CommandError(f"There is no team {options['team']!r}. Its slug stands in the address of its page.")
        wanted = options["set"]
        if wanted is not None:
            try:
                quota_bytes = None if wanted == DEFAULT else bytes_of(wanted)
            except PlatformError as error:
                raise CommandError(f"{error.message} {error.remedy}") from error
            team = services.quota_change(actor=None, team=team, quota_bytes=quota_bytes)
        found = usage(team=team)
        whose = ", the site's default" if found.quota_is_default else ""
        self.stdout.write(f"{team.slug}: {size(found.stored_bytes)} of {size(found.quota_bytes)}{whose}.")
