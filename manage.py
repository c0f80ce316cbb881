#!/usr/bin/env python
"""Django's command line for the web platform: `python manage.py check`."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    # Works before the editable install too: `platform/` is the source root that holds `fuseworks`.
    sys.path.insert(0, str(Path(__file__).resolve().parent / "platform"))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fuseworks.settings.development")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
