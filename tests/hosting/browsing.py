"""A person before Airflow's pages, in the machine's Chromium; what is seen is kept as pictures."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SIZE = {"width": 1440, "height": 1000}
WAIT_MS = 60_000


@dataclass
class Person:
    """Somebody who is looked over the shoulder: each `see` is a picture, numbered in order."""

    context: BrowserContext
    page: Page
    url: str
    pictures: Path
    asked: list[str]

    def see(self, name: str, *, whole: bool = False) -> Path:
        """Keep what is on the page now."""
        number = len(list(self.pictures.glob("*.png"))) + 1
        picture = self.pictures / f"{number:02d}-{name}.png"
        self.page.screenshot(path=picture, full_page=whole, animations="disabled")
        return picture

    def finds(self, words: str | re.Pattern[str]) -> None:
        """Wait until the words are on the page; what is there instead is kept, too."""
        from playwright.sync_api import TimeoutError as TooLate

        try:
            self.page.get_by_text(words).first.wait_for()
        except TooLate:
            self.see("instead")
            raise

    def go(self, path: str) -> None:
        self.page.goto(f"{self.url}{path}", wait_until="domcontentloaded")

    def logs_in(self, password: str) -> None:
        self.go("/")
        self.page.fill("input[name=username]", "admin")
        self.page.fill("input[name=password]", password)
        self.see("login")
        self.page.click("button[type=submit]")
        self.page.wait_for_url(re.compile(r"^(?!.*login)"))

    def triggers(self, dag: str, form: Mapping[str, str | bool], picture: str) -> str:
        """Open the form of a DAG, fill fields by their names, press the button; the run's name."""
        self.go(f"/dags/{dag}")
        self.page.get_by_role("button", name=re.compile("Trigger")).first.click()
        for name, value in form.items():
            self._fills(name, value)
        self.see(picture)
        dialog = self.page.get_by_role("dialog")
        with self.page.expect_response(
            lambda answer: answer.request.method == "POST" and "/dagRuns" in answer.url
        ) as answered:
            dialog.get_by_role("button", name=re.compile("Trigger")).last.click()
        return str(answered.value.json()["dag_run_id"])

    def _fills(self, name: str, value: str | bool) -> None:
        field = self.page.locator(f"[name='element_{name}']")
        if isinstance(value, bool):
            if field.is_checked() != value:
                self.page.locator(f"label:has([name='element_{name}'])").click()
            return
        field.fill(value)

    def follows(self, link: str) -> None:
        """Press one of a task's links (among its details), which lead to pages of ours."""
        self.page.get_by_role("link", name=link, exact=True).click()
        self.page.wait_for_url("**/medusa/pages/**")


@contextmanager
def person(url: str, pictures: Path) -> Iterator[Person]:
    """Somebody with a browser of their own, which asks this machine alone."""
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not on this machine: install Debian's chromium")
    from playwright.sync_api import sync_playwright

    pictures.mkdir(parents=True, exist_ok=True)
    profile = Path(tempfile.mkdtemp(prefix="medusa-browser-"))
    asked: list[str] = []
    try:
        with sync_playwright() as playwright:
            context = playwright.chromium.launch_persistent_context(
                profile, executable_path=CHROMIUM, headless=True, args=list(FLAGS), viewport=SIZE,
                locale="en-GB",
            )  # fmt: skip
            context.set_default_timeout(WAIT_MS)
            context.on("request", lambda request: asked.append(request.url))
            page = context.pages[0] if context.pages else context.new_page()
            try:
                yield Person(context, page, url, pictures, asked)
            finally:
                context.close()
    finally:
        shutil.rmtree(profile, ignore_errors=True)
