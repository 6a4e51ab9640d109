"""The tabs of an operator during a drill, and the pictures that are kept of them.

A tab is opened once and never loaded again: what it shows later was replaced by its own script. A
tab that is not in front asks for nothing, so each look brings it there first.
Every picture is kept at each width, light and dark. Some are those of docs/operate.md: they are
written when MEDUSA_DOCS_PICTURES names a folder.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.hosting.browsing import Person
from tests.pages.browsed import SCHEMES, WIDTHS, overflow_px

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

OF_DOCS = (
    "drill-1-before",
    "drill-2-cut",
    "drill-3-tentative",
    "drill-4-to-do",
    "drill-5-corrected",
    "drill-6-certificates",
)
"""The pictures of docs/operate.md, in the order of the page."""

BYTES_MAX = 120_000
"""So large a picture of the documentation is at most."""

SIZE_OF_DOCS = (1120, 640)
SEEN_S_MAX = 600


@dataclass(frozen=True)
class Tab:
    """A page of Medusa that stays open."""

    page: Page

    @classmethod
    def opened(cls, person: Person, path: str) -> Tab:
        page = person.context.new_page()
        page.goto(f"{person.url}/medusa/{path}", wait_until="domcontentloaded")
        page.evaluate("window.opened = 1")
        return cls(page)

    def sees(self, where: str, words: str | re.Pattern[str]) -> Locator:
        """Wait until a part of the page shows the words."""
        self.page.bring_to_front()
        found = self.page.locator(where).get_by_text(words).first
        found.wait_for(timeout=SEEN_S_MAX * 1_000)
        return found

    def row(self, table: str, *words: str) -> str:
        """Wait until a row of a table has all the words; its text."""
        self.page.bring_to_front()
        found = self.page.locator(f"{table} tbody tr")
        for one in words:
            found = found.filter(has_text=one)
        found.first.wait_for(timeout=SEEN_S_MAX * 1_000)
        return " ".join(found.first.inner_text().split())

    def buckets(self, kind: str) -> int:
        """How many buckets of a kind the timeline counts; 0 where it has no such lane."""
        self.page.bring_to_front()
        return int(
            self.page.evaluate(
                """kind => { const label = [...document.querySelectorAll('.lane-label')]
                    .find(one => one.textContent.trim() === kind);
                    const row = label && [...label.classList].find(one => one.startsWith('row-'));
                    const total = row && document.querySelector('.lane-total.' + row);
                    return total ? Number(total.textContent.replaceAll(',', '')) : 0; }""",
                kind,
            )
        )

    def was_never_reloaded(self) -> bool:
        return bool(self.page.evaluate("window.opened === 1"))


@dataclass(frozen=True)
class Pictures:
    """Keeps pictures of tabs; `kept` is a folder of this run."""

    kept: Path
    of_docs: Path | None

    @classmethod
    def into(cls, kept: Path) -> Pictures:
        kept.mkdir(parents=True, exist_ok=True)
        for old in kept.glob("*.png"):
            old.unlink()
        named = os.environ.get("MEDUSA_DOCS_PICTURES")
        return cls(kept, Path(named) if named else None)

    def keep(self, tab: Tab, name: str) -> None:
        """The whole tab at each width, light and dark."""
        tab.page.bring_to_front()
        for width, (x, y) in WIDTHS.items():
            tab.page.set_viewport_size({"width": x, "height": y})
            for scheme in SCHEMES:
                tab.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                picture = self.kept / f"{name}-{width}-{scheme}.png"
                tab.page.screenshot(path=picture, full_page=True, animations="disabled")
            assert overflow_px(tab.page) <= 0, (name, width)

    def keep_for_docs(self, tab: Tab, name: str, part: str) -> None:
        """A part of the tab, as the documentation shows it."""
        tab.page.bring_to_front()
        assert name in OF_DOCS, name
        x, y = SIZE_OF_DOCS
        tab.page.set_viewport_size({"width": x, "height": y})
        tab.page.emulate_media(color_scheme="light")
        # In one step: the script may replace the part at any moment.
        box = tab.page.evaluate(
            """part => { const box = document.querySelector(part).getBoundingClientRect();
                return {top: box.top + window.scrollY, height: box.height}; }""",
            part,
        )
        clip = {"x": 0, "y": max(box["top"] - 4, 0), "width": x,
                "height": min(box["height"] + 8, y)}  # fmt: skip
        folder = self.of_docs or self.kept
        folder.mkdir(parents=True, exist_ok=True)
        picture = folder / f"{name}.png"
        tab.page.screenshot(path=picture, full_page=True, clip=clip, animations="disabled")  # type: ignore[arg-type]
        assert picture.stat().st_size < BYTES_MAX, name
