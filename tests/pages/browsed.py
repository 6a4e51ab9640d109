"""The site under test at a port of its own, which can be stopped and started again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from playwright.sync_api import Page

from pipelines.base.settings import REPOSITORY
from tests.hosting.platforms import port_of_ones_own
from tests.pages.pages_under_test import Shown
from tests.waiting import until

AXE = REPOSITORY / "third_party" / "axe-core" / "axe.min.js"
WIDTHS = {"wide": (1280, 900), "narrow": (390, 844)}
SCHEMES = ("light", "dark")


class Served:
    """A server of the site in a thread of this process."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self.port = port_of_ones_own()
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        config = uvicorn.Config(self._shown.application, port=self.port, log_level="error")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        until(lambda: self._server.started, "the site answers", 30)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(30)


@contextmanager
def served(shown: Shown) -> Iterator[Served]:
    site = Served(shown)
    site.start()
    try:
        yield site
    finally:
        site.stop()


def violations(page: Page) -> list[str]:
    """What axe finds against WCAG 2.2 AA, a line each."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate(
        """async () => (await axe.run(document, {runOnly: {type: 'tag', values: [
            'wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}})).violations
            .map(v => v.id + ': ' + v.help + ' ' + v.nodes.slice(0, 3).map(n => n.html + ' '
                + n.failureSummary).join(' | '))"""
    )
    return [str(one) for one in found]


def overflow_px(page: Page) -> int:
    """How much wider than its window the page is."""
    return int(page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    ))  # fmt: skip
