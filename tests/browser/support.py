"""A Chromium that watches itself: what its console complained of, what the policy refused, what axe finds.

FUSEWORKS_SCREENSHOTS=1 saves those pictures of `screenshot` that a document shows to docs/screenshots/.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Page

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
SCREENSHOTS = ROOT / "docs" / "screenshots"
NAMES = ("chromium", "google-chrome", "chromium-browser", "google-chrome-stable")
ARGUMENTS = [
    "--no-sandbox",  # CI is root, for whom Chromium has none
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LANGUAGES, THEMES = ("en", "zh-hans"), ("light", "dark")
GRAVE = ("serious", "critical")

# Chromium's console names most refusals; this catches those that it does not.
WATCH_POLICY = """
addEventListener('securitypolicyviolation', (event) =>
  console.error(`refused by the policy: ${event.violatedDirective} ${event.blockedURI}`))
"""


def executable() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@dataclass
class Watched:
    """A page and its complaints. `expected`: parts of complaints that a test provokes on purpose."""

    page: Page
    language: str
    theme: str
    complaints: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))

    def _console(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(f"{message.type}: {message.text} ({message.location['url']}) on {self.page.url}")

    @property
    def unexpected(self) -> list[str]:
        return [text for text in self.complaints if not any(part in text for part in self.expected)]

    def barriers(self) -> list[str]:
        """Grave findings of axe-core about the page as it is now: rule, element, what is wrong."""
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{violation['id']}: {node['target']} {node['failureSummary']}"
            for violation in found["violations"]
            if violation["impact"] in GRAVE
            for node in violation["nodes"]
        ]

    def screenshot(self, name: str, *, whole: bool = True) -> None:
        """Of the whole page or of what is in view, under a name that says language and theme too."""
        if os.environ.get("FUSEWORKS_SCREENSHOTS") == "1":
            path = SCREENSHOTS / f"{name}-{self.language}-{self.theme}.png"
            if any(f"/{path.name}" in document.read_text() for document in SCREENSHOTS.parent.glob("*.md")):
                SCREENSHOTS.mkdir(parents=True, exist_ok=True)
                self.page.screenshot(path=path, full_page=whole)


def prepare(context: BrowserContext, address: str, language: str) -> None:
    context.add_init_script(WATCH_POLICY)
    context.add_cookies([{"name": "django_language", "value": language, "url": address}])
