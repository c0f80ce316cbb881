"""The sandbox, by trying it: what confines a stranger's model on this machine."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.doctor.check import Check
from optimizer.sandbox.choose import Description, describe


def checks() -> Iterator[Check]:
    yield judge(describe())


def judge(description: Description) -> Check:
    remedy = description.remedy or ""
    if description.chosen is None:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in description.reasons.items())
        return Check("sandbox", "fail", reasons, "only files of your own run here, with --trusted", remedy)
    dropped = ", children run under a uid of their own" if description.drops_uid else ""
    found = f"{description.chosen}{dropped}"
    if description.chosen == "bubblewrap":
        return Check("sandbox", "ok", found)
    reason = description.reasons.get("bubblewrap")
    return Check(
        "sandbox",
        "warn",
        f"{found} (bubblewrap: {reason})",
        "a model is kept from reading, writing and connecting, but sees which files and processes exist",
        "let bubblewrap make namespaces: in a container, a seccomp profile that allows them",
    )
