"""The compose file is valid, asks for every secret, and starts what it says; nothing of it runs here in containers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.deploy.compose import ENVIRONMENT, ROOT, services

COMPOSE = shutil.which("docker-compose")
needs_compose = pytest.mark.skipif(COMPOSE is None, reason="needs docker-compose (apt install docker-compose)")


def config(**environment: str) -> subprocess.CompletedProcess[str]:
    assert COMPOSE is not None
    given = {k: v for k, v in os.environ.items() if not k.startswith("FUSEWORKS_")} | environment
    return subprocess.run(
        [COMPOSE, "-f", str(ROOT / "docker-compose.yml"), "config"], env=given, capture_output=True, text=True
    )


@needs_compose
def test_the_compose_file_is_valid():
    answer = config(**ENVIRONMENT)
    assert answer.returncode == 0, answer.stderr
    for name in ("proxy", "web", "dispatcher", "worker-cpu", "database", "broker", "migrate"):
        assert f"  {name}:\n" in answer.stdout


@needs_compose
@pytest.mark.parametrize("missing", sorted(ENVIRONMENT))
def test_each_secret_must_be_given(missing: str):
    answer = config(**{k: v for k, v in ENVIRONMENT.items() if k != missing})
    assert answer.returncode != 0
    assert missing in answer.stderr


def test_the_example_names_every_variable_that_must_be_given():
    text = (ROOT / "docker-compose.yml").read_text()
    required = set(re.findall(r"\$\{(\w+):\?", text))
    example = set(re.findall(r"^(\w+)=", (ROOT / ".env.example").read_text(), re.M))
    assert required == set(ENVIRONMENT)
    assert required <= example


def test_workers_hold_no_database_credentials():
    for name, service in services().items():
        if name.startswith("worker"):
            said = " ".join(map(str, service["environment"].values()))
            assert "DATABASE" not in " ".join(service["environment"])
            assert ENVIRONMENT["FUSEWORKS_DATABASE_PASSWORD"] not in said
            assert ENVIRONMENT["FUSEWORKS_SECRET_KEY"] not in said


def test_only_the_proxy_is_reached_from_outside():
    assert [name for name, service in services().items() if service.get("ports")] == ["proxy"]


def test_what_runs_strangers_code_or_serves_strangers_gains_no_privileges():
    for name in ("web", "dispatcher", "migrate", "worker-cpu", "worker-gpu"):
        assert "no-new-privileges:true" in services()[name]["security_opt"], name


def test_each_worker_has_a_name_that_outlives_its_container():
    names = [service["hostname"] for name, service in services().items() if name.startswith("worker")]
    assert len(set(names)) == len(names) == 2


def test_the_broker_keeps_what_is_queued():
    assert services()["broker"]["command"][1:3] == ["--appendonly", "yes"]


@pytest.mark.parametrize("name", ["web", "worker"])
def test_images_copy_what_exists_and_what_the_context_lets_through(name: str):
    text = (ROOT / "deploy" / f"{name}.Dockerfile").read_text()
    let_through = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = [part for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.M) for part in line.split()[:-1]]
    assert copied
    for part in copied:
        assert (ROOT / part).exists(), part
        assert part.split("/")[0] in let_through, part


def test_the_web_image_installs_all_that_the_site_imports_and_no_engine():
    wanted = [line for line in (ROOT / "deploy/web-requirements.txt").read_text().splitlines() if line[:1].isalpha()]
    program = f"""
import importlib.abc, importlib.metadata as metadata, re, sys
wanted = {wanted!r}
normal = lambda name: re.sub(r"[-_.]+", "-", name.split("[")[0]).lower()
installed, todo = set(), [normal(w) for w in wanted] + ["psycopg-binary"]
while todo:
    name = todo.pop()
    if name in installed:
        continue
    installed.add(name)
    try:
        needs = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        continue
    todo += [normal(re.match(r"[\\w.-]+", need)[0]) for need in needs if "extra ==" not in need]
owners = metadata.packages_distributions()

class AsInTheImage(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in owners and not any(normal(d) in installed for d in owners[top]):
            if "fuseworks" not in owners[top]:
                raise ModuleNotFoundError(f"{{name}} is not in the image", name=name)
        return None

sys.meta_path.insert(0, AsInTheImage())
import django
django.setup()
from django.urls import get_resolver
get_resolver().url_patterns
import fuseworks.asgi, fuseworks.fleet.dispatcher
print("started")
"""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "fuseworks.settings.testing"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "platform")])
    answer = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip() == "started"
