"""`manage.py clean [--dry-run]`: removes what time takes away (`registry.services.retention`). Exit code 1 when a part
of it failed."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from fuseworks.registry.services import clean


class Command(BaseCommand):
    help = "Removes expired uploads and sessions, files past their retention and files that no row names."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")

    def handle(self, *args: Any, dry_run: bool = False, **options: Any) -> None:
        cleaned = clean(timezone.now(), dry_run=dry_run)
        verb = "would remove" if dry_run else "removed"
        self.stdout.write(
            f"{verb} {cleaned.uploads} uploads, the files of {cleaned.versions} versions "
            f"({cleaned.bytes / (1 << 20):.1f} MiB), what {cleaned.runs} runs left, {cleaned.stray_files} stray files, "
            f"{cleaned.keys} keys of requests, {cleaned.sessions} sessions, {cleaned.sign_ins} notes of sign-ins"
        )
        if cleaned.failed:
            raise CommandError(f"{cleaned.failed} parts could not be cleaned: the log above says why.")
