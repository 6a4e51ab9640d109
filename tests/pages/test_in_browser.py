"""The page in a real browser: current without reload, for everybody, at any width, after faults."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.base.settings import REPOSITORY
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import RECORD
from tests.hosting.browsing import CHROMIUM, Person, person
from tests.pages.browsed import SCHEMES, WIDTHS, Served, overflow_px, served, violations
from tests.pages.pages_under_test import ALPHA, BETA, OPERATOR, Shown
from tests.pages.stream_home import CORRECTED_AT, WIDTH_US, stream_home

pytestmark = pytest.mark.browser

PICTURES = Path(os.environ.get("MEDUSA_PICTURES") or REPOSITORY / ".medusa" / "pictures") / "page"
PAGES = (
    "federation", "streams", "streams?stream=given", "contracts", "to-do", "docs/alarms",
    "federation?participant=nobody", "streams?stream=none", "actions",
    "federation?participant=alpha",
)  # fmt: skip


@pytest.fixture
def site(shown: Shown) -> Iterator[Served]:
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not on this machine: install Debian's chromium")
    with served(shown) as made:
        yield made


@pytest.fixture
def viewer(site: Served) -> Iterator[Person]:
    with person(f"{site.url}/medusa", PICTURES) as one:
        yield one
        assert [url for url in one.asked if not url.startswith((site.url, "data:"))] == []


def in_table(viewer: Person, words: str) -> None:
    """Wait until the table of fragments shows the words."""
    viewer.page.locator("#fragments-table").get_by_text(words).first.wait_for(timeout=20_000)


def test_every_page_can_be_used_by_everybody_at_both_widths_in_light_and_dark(
    shown: Shown, viewer: Person
) -> None:
    record = shown.settings.directory / RECORD
    homes = record.read_text()
    for path in (*PAGES, "empty"):
        if path == "empty":
            record.write_text('{"participants": {}}')
        address = f"/{'federation' if path == 'empty' else path}"
        check_usable(viewer, address, re.sub(r"\W+", "-", path))
    record.write_text(homes)


def check_usable(viewer: Person, path: str, name: str) -> None:
    """Its picture is kept at each width, light and dark; nothing hinders anybody, or is cut off."""
    for width, (x, y) in WIDTHS.items():
        for scheme in SCHEMES:
            viewer.page.set_viewport_size({"width": x, "height": y})
            viewer.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            viewer.go(path)
            viewer.see(f"{name}-{width}-{scheme}", whole=True)
            assert violations(viewer.page) == [], (path, width, scheme)
            assert overflow_px(viewer.page) <= 0, (path, width)


def test_a_stream_and_a_bucket_of_it_can_be_used_by_everybody(
    postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    paths = {
        "stream": "/streams?home=alpha&stream=sums",
        "bucket": f"/streams?home=alpha&stream=sums&bucket={CORRECTED_AT[0] * WIDTH_US}us",
        "source": "/streams?home=alpha&stream=src&span=all",
    }
    with (
        stream_home(postgres_server, tmp_path) as home,
        served(home.shown) as site,
        person(f"{site.url}/medusa", PICTURES) as viewer,
    ):
        for name, path in paths.items():
            check_usable(viewer, path, name)
        viewer.go(paths["stream"])
        viewer.page.locator(".lane-hits a").nth(CORRECTED_AT[0]).click()
        viewer.finds(re.compile("Rows before and after"))
        viewer.page.get_by_label("from, UTC").fill("1970-01-01T00:06:40")
        viewer.page.get_by_role("button", name="Show").click()
        viewer.page.wait_for_url(re.compile("from=1970"))


def test_what_changes_in_a_home_is_shown_without_a_reload_and_without_a_jump(
    shown: Shown, viewer: Person
) -> None:
    page = viewer.page
    viewer.go("/federation")
    page.evaluate("""() => { window.mark = 1; window.jumps = 0;
        new PerformanceObserver(list => list.getEntries().forEach(e => window.jumps += e.value))
            .observe({type: 'layout-shift', buffered: true}); }""")
    page.focus("#links-table")
    page.evaluate("window.scrollTo(0, 120)")
    shown.sql(BETA, "UPDATE medusa.transition SET because = 'without changed'")
    in_table(viewer, "without changed")
    assert page.evaluate("window.mark") == 1
    assert page.evaluate("document.activeElement.id") == "links-table"
    assert page.evaluate("window.scrollY") == 120
    assert page.evaluate("window.jumps") < 0.1


def test_a_server_that_is_away_is_said_and_the_page_continues_when_it_is_back(
    shown: Shown, site: Served, viewer: Person
) -> None:
    viewer.go("/federation")
    viewer.finds("live")
    site.stop()
    viewer.finds(re.compile("does not serve this page now"))
    viewer.see("away", whole=True)
    in_table(viewer, "kept/main")
    shown.sql(BETA, "UPDATE medusa.transition SET because = 'without back'")
    site.start()
    in_table(viewer, "without back")
    assert not viewer.page.locator("#lost").is_visible()


def test_a_login_that_has_ended_is_said_and_the_page_continues_after_another(
    shown: Shown, viewer: Person
) -> None:
    viewer.go("/federation")
    shown.viewer = None
    viewer.finds(re.compile("Your login has ended"))
    viewer.see("logged-out", whole=True)
    shown.viewer = OPERATOR
    viewer.page.locator("#lost").wait_for(state="hidden")


def test_a_home_that_cannot_be_read_is_said_in_the_page(shown: Shown, viewer: Person) -> None:
    viewer.go("/federation")
    (shown.settings.directory / "keys" / "beta" / "logins" / "page").rename(
        shown.settings.directory / "kept"
    )
    shown.readings.close()
    viewer.finds(re.compile("home of beta"))
    viewer.see("home-away", whole=True)
    assert violations(viewer.page) == []
    (shown.settings.directory / "kept").rename(
        shown.settings.directory / "keys" / "beta" / "logins" / "page"
    )


def test_times_are_in_the_zone_of_the_browser_and_in_utc_when_pointed_at(
    shown: Shown, viewer: Person
) -> None:
    session = viewer.page.context.new_cdp_session(viewer.page)
    session.send("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Kolkata"})
    shown.sql(ALPHA, "UPDATE medusa.stream_producer SET boundary_us = 1767603600000000")
    viewer.go("/federation")
    time = viewer.page.locator("#streams-table time").first
    time.wait_for()
    assert time.inner_text() == "2026-01-05 14:30:00"
    assert time.get_attribute("title") == "2026-01-05 09:00:00 UTC"


def test_everything_is_reached_with_the_keyboard_alone(shown: Shown, viewer: Person) -> None:
    viewer.go("/to-do")
    page = viewer.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.textContent"))
    assert {"Federation", "What to do", "findings of medusa status"} <= reached
