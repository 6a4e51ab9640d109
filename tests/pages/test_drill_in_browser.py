"""A whole drill as the page shows it: cut, tentative, heal, corrected, certificate.

On Airflow's own server, over four participants that run. The link is cut and healed by command:
the DAG heals it as soon as there are tentative answers, and here each stage lasts until it was
looked at. Pictures are kept in `.medusa/pictures/drill` (or MEDUSA_PICTURES); `make pictures` makes
those of docs/operate.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.base.settings import REPOSITORY
from pipelines.base.time_text import iso
from tests.hosting.browsing import CHROMIUM, Person, person
from tests.hosting.live import BETA, Live, live_federation
from tests.pages.drill_pictures import OF_DOCS, SEEN_S_MAX, Pictures, Tab
from tests.waiting import until

pytestmark = pytest.mark.browser

FOLDER = Path(os.environ.get("MEDUSA_PICTURES") or REPOSITORY / ".medusa" / "pictures") / "drill"
STREAM = "streams?home=beta&stream=lower&from="
BOUNDS = {"lower": "30s", "pages": "45s"}
"""On a busy machine nothing else than the cut makes answers tentative."""

BEGUN = 20
"""So many final buckets are on the page before the drill."""


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not on this machine: install Debian's chromium")
    with live_federation(BOUNDS) as made:
        yield made


@pytest.fixture
def operator(live: Live) -> Iterator[Person]:
    with person(f"http://127.0.0.1:{live.platform.port}", FOLDER) as one:
        one.logs_in(live.password)
        yield one


def test_a_drill_is_seen_on_the_page_from_the_cut_to_the_certificate_without_a_reload(
    live: Live, operator: Person
) -> None:
    doctor = live.platform.type("doctor", "--page")
    assert doctor.returncode == 0, doctor.stdout
    pictures = Pictures.into(FOLDER)
    federation = Tab.opened(operator, "federation")
    # What was computed while the participants started was late, and is not of the drill.
    stream = Tab.opened(operator, f"{STREAM}{iso(live.stable_us(BETA, 'lower') or 0)}")
    to_do = Tab.opened(operator, "to-do")
    see_all_stable(federation, stream, pictures)
    begins_us = live.stable_us(BETA, "lower") or 0
    live.platform.succeed("fault", "cut", "beta", "alpha", "--for", "20m")
    see_cut(federation, pictures)
    see_tentative(stream, to_do, pictures)
    live.platform.succeed("fault", "heal", "beta", "alpha")
    see_corrected(federation, stream, to_do, pictures)
    assert all(tab.was_never_reloaded() for tab in (federation, stream, to_do))
    ends_us = live.stable_us(BETA, "lower") or 0
    check(live, begins_us, ends_us)
    see_certificate(stream, pictures)
    made = {one.stem for one in (pictures.of_docs or pictures.kept).glob("drill-*.png")}
    assert made == set(OF_DOCS)


def see_all_stable(federation: Tab, stream: Tab, pictures: Pictures) -> None:
    """Everything is STABLE, every link is up, and nothing is tentative."""
    for fragment in ("kept/main", "kept/tail"):
        federation.row("#fragments-table", fragment, "STABLE")
    federation.row("#links-table", "beta", "alpha", "reachable")
    until(lambda: stream.buckets("stable") >= BEGUN, "there are final buckets", SEEN_S_MAX)
    until(lambda: stream.buckets("tentative") == 0, "all of them are final", SEEN_S_MAX)
    pictures.keep(federation, "1-before-federation")
    pictures.keep(stream, "1-before-stream")
    pictures.keep_for_docs(federation, "drill-1-before", "#overview")


def see_cut(federation: Tab, pictures: Pictures) -> None:
    """The fragment that lacks an input fails, by name; so does the one that reads from it."""
    main = federation.row("#fragments-table", "kept/main", "UP_FAILURE")
    assert "given" in main, "the missing input is named"
    federation.row("#links-table", "beta", "alpha", "unreachable", "cut by a drill")
    federation.row("#fragments-table", "landing/given", "STABLE")
    pictures.keep(federation, "2-cut-federation")
    pictures.keep_for_docs(federation, "drill-2-cut", "#overview")


def see_tentative(stream: Tab, to_do: Tab, pictures: Pictures) -> None:
    """Answers go on without the input: they are counted, and what they lack is named."""
    until(lambda: stream.buckets("tentative") > 3, "there are tentative buckets", SEEN_S_MAX)
    stream.row("#missing-table", "given")
    stream.sees("#head", "tentative")
    to_do.page.bring_to_front()
    card = to_do.page.locator("#findings article").filter(has_text="lack").first
    card.wait_for(timeout=SEEN_S_MAX * 1_000)
    pictures.keep(stream, "3-tentative-stream")
    pictures.keep_for_docs(stream, "drill-3-tentative", "#timeline")
    pictures.keep(to_do, "3-tentative-to-do")
    pictures.keep_for_docs(to_do, "drill-4-to-do", "#main")


def see_corrected(federation: Tab, stream: Tab, to_do: Tab, pictures: Pictures) -> None:
    """Nothing is tentative any more, and what was is counted as corrected."""
    until(lambda: stream.buckets("corrected") > 3, "buckets were corrected", SEEN_S_MAX)
    until(lambda: stream.buckets("tentative") == 0, "none is tentative", SEEN_S_MAX)
    assert stream.page.locator("#missing-table").count() == 0
    for fragment in ("kept/main", "kept/tail"):
        federation.row("#fragments-table", fragment, "STABLE")
    federation.row("#links-table", "beta", "alpha", "reachable")
    pictures.keep(federation, "4-corrected-federation")
    pictures.keep(stream, "4-corrected-stream")
    pictures.keep(to_do, "4-corrected-to-do")
    pictures.keep_for_docs(stream, "drill-5-corrected", "#timeline")


def check(live: Live, from_us: int, to_us: int) -> None:
    """Certify what was answered during the drill, as the DAG does; a busy machine may be late."""
    ended = live.run("medusa_quality", participant="beta", stream="lower",
                     **{"from": iso(from_us), "to": iso(to_us)})  # fmt: skip
    broken = set(re.findall(r"broke (\w+) \(", ended["note"] or ""))
    assert ended["state"] == "success" or broken == {"S6"}, ended["note"]


def see_certificate(stream: Tab, pictures: Pictures) -> None:
    """The check of the corrected rows, which another engine computed again, and its page."""
    converged = stream.row("#laws-table", "L2", "converged", "passed")
    assert re.search(r"([\d,]+) rows and \1 again by DuckDB", converged), converged
    pictures.keep_for_docs(stream, "drill-6-certificates", "#certificates")
    link = stream.page.locator("#certificates").get_by_role("link", name="Data Docs")
    link.click()
    stream.page.wait_for_url(re.compile("/medusa/pages/quality/"))
    pictures.keep(stream, "5-certificate")
