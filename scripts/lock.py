"""Writes requirements.lock anew from pyproject.toml: `make lock`, or `make lock UPGRADE=1` for the newest versions.

Each line carries the size of the download on Linux x86-64, so that set-up can say what it will fetch before it does.
Needs uv and the registry; nothing else of the project runs it. Not for adding a dependency: pyproject.toml is for that.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
HEADER = """\
# Exact versions of everything that set-up installs; written by `make lock`, used as constraints by `make setup`.
# After each: its download on Linux x86-64 in MB, and who alone needs it: `test` the tests, `node` machines without a
# Node of their own, `build` set-up itself, `cuda` the CUDA build of torch. The same versions hold on Python 3.11, 3.12
# and 3.13.
"""


def locked_pins() -> list[str]:
    """The pins of the present lock, so that a new bound does not move everything else."""
    if os.environ.get("UPGRADE") or not LOCK.exists():
        return []
    return [line.split("#")[0].strip() for line in LOCK.read_text().splitlines() if "==" in line.split("#")[0]]


def resolve(uv: str, folder: Path) -> dict[str, Any]:
    """uv's own lock of our pyproject, made in `folder`; without local wheels, whose versions (`+cpu`) others lack."""
    pins = "".join(f'    "{pin}",\n' for pin in locked_pins())
    text = (ROOT / "pyproject.toml").read_text() + f"\n[tool.uv]\nconstraint-dependencies = [\n{pins}]\n"
    (folder / "pyproject.toml").write_text(text)
    (folder / "README.md").touch()
    environment = {k: v for k, v in os.environ.items() if k not in {"PIP_FIND_LINKS", "UV_FIND_LINKS"}}
    subprocess.run([uv, "lock", "--quiet"], cwd=folder, env=environment, check=True)
    document: dict[str, Any] = tomllib.loads((folder / "uv.lock").read_text())
    return document


def exported(uv: str, folder: Path, *extras: str) -> set[str]:
    """Names of what an install with these extras takes."""
    command = [uv, "export", "--quiet", "--frozen", "--no-hashes", "--no-emit-project", "--no-annotate", *extras]
    output = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    return {match[1] for match in re.finditer(r"^([A-Za-z0-9_.-]+)==", output, re.MULTILINE)}


def download_mb(package: dict[str, Any]) -> float:
    """The largest wheel that fits Linux x86-64 and Python 3.11, else the source archive."""
    sizes = []
    for wheel in package.get("wheels", []):
        name = wheel["url"].rsplit("/", 1)[-1]
        fits_python = re.search(r"-(cp311|py3|py2\.py3|cp3\d+-abi3)", name)
        fits_machine = name.endswith("any.whl") or ("linux" in name and "x86_64" in name)
        if fits_python and fits_machine:
            sizes.append(wheel.get("size", 0))
    return float(max(sizes, default=package.get("sdist", {}).get("size", 0)) / 1e6)


def brought_by_cuda(packages: dict[str, dict[str, Any]]) -> set[str]:
    """What hangs below torch's CUDA dependencies only."""
    found: set[str] = set()
    left = [n for n in packages if n.startswith(("nvidia-", "cuda-"))]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += [d["name"] for d in packages[name].get("dependencies", [])]
    return found


def label(name: str, demo: set[str], extras: dict[str, set[str]]) -> str:
    """Who alone needs it; empty for what everybody needs."""
    if name in demo:
        return ""
    return next((extra for extra, names in extras.items() if name in names), "build")


def main() -> int:
    uv = sys.argv[1] if len(sys.argv) > 1 else "uv"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        document = resolve(uv, folder)
        demo = exported(uv, folder, "--no-default-groups")
        tests = exported(uv, folder, "--no-default-groups", "--extra", "test")
        node = exported(uv, folder, "--no-default-groups", "--extra", "node")
        everything = exported(uv, folder, "--all-extras", "--all-groups")
    packages = {p["name"]: p for p in document["package"]}
    cuda = brought_by_cuda(packages)
    lines = []
    for name in sorted(everything):
        note = "cuda" if name in cuda else label(name, demo, {"test": tests, "node": node})
        lines.append(
            f"{name}=={packages[name]['version']}  # {download_mb(packages[name]):.1f} MB {note}".rstrip() + "\n"
        )
    LOCK.write_text(HEADER + "".join(lines))
    print(f"Wrote {LOCK.name}: {len(lines)} packages.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
