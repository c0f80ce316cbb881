"""In CI (FUSEWORKS_CI=1, set by `.ci/run`) a test that is skipped has failed: CI installs what tests need, and a tool
that went missing there must not take its tests with it in silence. Loaded by `-p tests.no_skips`.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

# What a reason begins with that holds in CI too.
ALLOWED = ("needs a GPU", "needs ../shared", "run as another user")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    return _no_skip((yield), item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    return _no_skip((yield), collector.nodeid)


def _no_skip(report: Any, name: str) -> Any:
    if os.environ.get("FUSEWORKS_CI") != "1" or not report.skipped or hasattr(report, "wasxfail"):
        return report
    reason = str(report.longrepr[2]).removeprefix("Skipped: ")
    if not reason.startswith(ALLOWED):
        report.outcome = "failed"
        report.longrepr = f"{name} is skipped, and in CI nothing is: {reason}"
    return report
