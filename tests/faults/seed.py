"""`python -m tests.faults.seed NAME=CONTENT...`: a team with a token, a version of each content. Prints their ids."""

from __future__ import annotations

import json
import os
import sys

import django


def main(arguments: list[str]) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fuseworks.settings.testing")
    django.setup()
    from tests.platform import factories

    team = factories.make_team("faults")
    model = factories.make_model(team)
    versions = {}
    for argument in arguments:
        name, _, content = argument.partition("=")
        versions[name] = str(factories.make_version(model, content.encode()).pk)
    print(json.dumps({"token": factories.make_token(factories.make_member(team)), "versions": versions}))


if __name__ == "__main__":
    main(sys.argv[1:])
