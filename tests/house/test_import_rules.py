"""The import rules hold, and each of them would notice a breach."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ["kernels", "optimizer", "workers", "platform/fuseworks", "client/fuseworks_client"]
COORDINATOR_SIDE = [
    "optimizer.spec",
    "optimizer.result",
    "optimizer.errors",
    "optimizer.inputs",
    "optimizer.machine",
    "optimizer.sandbox",
    "optimizer.recipe",
    "optimizer.uploads.identify",
    "optimizer.packaging",
    "optimizer.reporting",
    "optimizer.benchmarking.statistics",
    "optimizer.optimizing.planner",
    "optimizer.coordinator.run",
    "optimizer.doctor",
    "optimizer.__main__",
]
BREACHES = {
    "kernels/breach.py": "import optimizer.spec",
    "optimizer/diagnosing/breach.py": "import django",
    "optimizer/coordinator/breach.py": "def late():\n    import torch",
    "workers/breach.py": "import optimizer.coordinator.run",
    "workers/breach_django.py": "import django",
    "platform/fuseworks/breach.py": "import optimizer.inputs",
    "platform/fuseworks/breach_torch.py": "import torch",
    "client/fuseworks_client/breach.py": "import optimizer.result",
}


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(folder / root) for root in ("", "platform", "client"))
    command = [Path(sys.executable).parent / "lint-imports", "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("house")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def test_the_rules_hold() -> None:
    answer = lint(ROOT)
    assert answer.returncode == 0, answer.stdout


@pytest.mark.parametrize("place", BREACHES)
def test_a_planted_breach_is_found(copy: Path, place: str) -> None:
    planted = copy / place
    planted.write_text(f'"""A breach."""\n\n{BREACHES[place]}\n')
    try:
        answer = lint(copy)
    finally:
        planted.unlink()
    assert answer.returncode == 1
    assert "breach" in answer.stdout


def test_the_coordinators_side_leaves_torch_alone_when_imported() -> None:
    program = (
        "import importlib, sys\n"
        f"for name in {COORDINATOR_SIDE}:\n"
        "    importlib.import_module(name)\n"
        "    guilty = {'torch', 'triton', 'django'} & set(sys.modules)\n"
        "    assert not guilty, f'{name} imports {guilty}'\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
