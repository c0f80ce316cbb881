"""A worker's settings: what is missing or wrong is named, and secrets stay out of every text."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from workers.coordinator import environment
from workers.settings import SettingsError, from_environment

GOOD = {
    "REDIS_URL": "redis://:password-of-redis@host/0",
    "FUSEWORKS_WORKER_API_URL": "https://fuseworks.example",
    "FUSEWORKS_WORKER_TOKEN": "worker-token-of-this-site",
}


def test_the_least_that_is_needed_serves_the_processor_with_this_python() -> None:
    settings = from_environment(GOOD)
    assert (settings.target, settings.name) == ("cpu", f"{settings.host} cpu")
    assert settings.coordinator == (sys.executable, "-m", "optimizer")
    assert settings.scratch.is_absolute() and settings.device_locks == settings.scratch / "devices"


def test_everything_can_be_said() -> None:
    more = {
        "FUSEWORKS_TARGET": "cuda:sm_90",
        "FUSEWORKS_WORKER_NAME": "left one",
        "FUSEWORKS_WORKER_SCRATCH": "/big/disk",
        "FUSEWORKS_DEVICE_LOCKS": "/run/locks",
        "FUSEWORKS_COORDINATOR": "/opt/python -m 'optimizer'",
    }
    settings = from_environment({**GOOD, **more})
    assert (settings.target, settings.name) == ("cuda:sm_90", "left one")
    assert (settings.scratch, settings.device_locks) == (Path("/big/disk"), Path("/run/locks"))
    assert settings.coordinator == ("/opt/python", "-m", "optimizer")


@pytest.mark.parametrize(
    ("target", "gpu", "device"),
    [("cpu", "1", "cpu"), ("cuda:sm_90", None, "cuda:sm_90 0"), ("cuda:sm_90", "0", "cuda:sm_90 0")],
)
def test_a_worker_locks_the_gpu_that_is_its_own(target: str, gpu: str | None, device: str) -> None:
    visible = {} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu}
    assert from_environment({**GOOD, **visible, "FUSEWORKS_TARGET": target}).device == device


def test_two_workers_with_a_gpu_each_do_not_wait_for_one_another() -> None:
    first, second = (
        from_environment({**GOOD, "FUSEWORKS_TARGET": "cuda:sm_90", "CUDA_VISIBLE_DEVICES": gpu}) for gpu in "01"
    )
    assert first.device != second.device


@pytest.mark.parametrize("name", GOOD)
def test_what_is_missing_is_named(name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        from_environment({key: value for key, value in GOOD.items() if key != name})


@pytest.mark.parametrize(("name", "value"), [("FUSEWORKS_TARGET", "gpu"), ("FUSEWORKS_WORKER_TOKEN", "short")])
def test_what_is_wrong_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        from_environment({**GOOD, name: value})


def test_no_secret_is_in_the_text_form() -> None:
    text = repr(from_environment(GOOD))
    assert "password-of-redis" not in text and "worker-token" not in text


def test_a_coordinator_gets_the_workers_environment_without_its_secrets(tmp_path: Path) -> None:
    given = {
        **GOOD,
        "DATABASE_URL": "x",
        "FUSEWORKS_SECRET_KEY": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "Registry_Password": "x",
        "PATH": "/bin",
        "CXX": "clang++",
        "TMPDIR": "/tmp",
    }
    assert environment(tmp_path, given) == {
        "FUSEWORKS_WORKER_API_URL": "https://fuseworks.example",
        "PATH": "/bin",
        "CXX": "clang++",
        "TMPDIR": str(tmp_path),
    }
