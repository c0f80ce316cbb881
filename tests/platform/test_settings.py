"""Settings: what production demands, and the development secret. Each case is a process of its own."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from fuseworks.settings.environment import development_secret, flag

ROOT = Path(__file__).resolve().parents[2]
SECRET = "k" * 25 + "5ecret-with-more-than-50-characters"
GOOD = {
    "DATABASE_URL": "postgresql://fuseworks:secret@database.example:5432/fuseworks",
    "REDIS_URL": "redis://:secret@broker.example:6379/0",
    "FUSEWORKS_SECRET_KEY": SECRET,
    "FUSEWORKS_HOSTS": "fuseworks.example, localhost",
    "FUSEWORKS_WORKER_TOKEN": "t" * 43,
}
SERVERS = ("DATABASE_URL", "REDIS_URL")


def manage(*arguments: str, settings: str = "production", **environment: str) -> subprocess.CompletedProcess[str]:
    ours = ("FUSEWORKS_", "DJANGO_", *(SERVERS if settings == "production" else ()))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={**kept, "DJANGO_SETTINGS_MODULE": f"fuseworks.settings.{settings}", **environment},
        capture_output=True,
        text=True,
    )


def test_production_passes_djangos_deployment_checks() -> None:
    answer = manage("check", "--deploy", "--fail-level", "WARNING", **GOOD)
    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize("missing", GOOD)
def test_production_does_not_start_without_what_only_the_operator_knows(missing: str) -> None:
    answer = manage("check", **{name: value for name, value in GOOD.items() if name != missing})
    assert answer.returncode != 0
    assert f"Set the environment variable {missing}" in answer.stderr


def test_a_misspelt_switch_is_an_error_and_not_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSEWORKS_PLAIN_HTTP", "yes")
    with pytest.raises(ImproperlyConfigured) as caught:
        flag("FUSEWORKS_PLAIN_HTTP")
    assert "FUSEWORKS_PLAIN_HTTP is 1 or 0" in str(caught.value)


def test_no_model_lacks_a_migration() -> None:
    answer = manage("makemigrations", "--check", "--dry-run", settings="testing")
    assert answer.returncode == 0, answer.stdout


def test_the_web_process_imports_no_engine_and_no_optimizer() -> None:
    program = (
        "import fuseworks.asgi, sys\n"
        "found = {'torch', 'triton', 'onnxruntime', 'openvino', 'kernels'} & set(sys.modules)\n"
        "assert not found, found"
    )
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "fuseworks.settings.testing",
        "PYTHONPATH": str(ROOT / "platform"),
    }
    answer = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr


def test_the_development_secret_is_drawn_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    first = development_secret(tmp_path / "state")
    assert development_secret(tmp_path / "state") == first
    assert development_secret(tmp_path / "other") != first
    assert len(first) >= 50
    assert stat.S_IMODE((tmp_path / "state" / "secret-key").stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["secret-key"]


def test_the_process_that_was_first_decides_the_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def another_was_first(source: Path, target: Path) -> None:
        target.write_text("theirs")
        raise FileExistsError(target)

    monkeypatch.setattr(os, "link", another_was_first)
    assert development_secret(tmp_path) == "theirs"
