"""Homes are read at the same time, and one that hangs is shown as not answering."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from pipelines.catalog.server.server_address import server_address
from pipelines.homes.home import RECORD
from pipelines.pages.page_home import Snapshot
from pipelines.pages.readings import HomePart
from pipelines.pages.shared_time import SharedTime
from pipelines.pages.to_do_figures import problem_kind
from tests.pages.pages_under_test import ALPHA, BETA, Shown
from tests.waiting import until


def test_homes_are_read_at_the_same_time(shown: Shown) -> None:
    both = threading.Barrier(2)

    def read(snapshot: Snapshot) -> str:
        both.wait(60)
        return str(snapshot.participant)

    parts = [HomePart(home, "both", read) for home in (ALPHA, BETA)]
    assert [one.value for one in shown.readings.current(parts)] == [ALPHA, BETA]


@pytest.fixture
def by_record(shown: Shown) -> Iterator[Shown]:
    """The same homes at the addresses of the folder's record, waited for half a second."""
    settings = replace(shown.settings, catalog_url=None)
    made = Shown(settings, shown.server, wait_s=0.5)
    with closing(made.readings):
        yield made


def servers_are(shown: Shown, beta: int | None = None) -> None:
    """Both homes are on the suite's server, or beta's is at a port that hangs."""
    here = server_address(shown.server.superuser_url())
    record = shown.settings.directory / RECORD
    document = json.loads(record.read_text())
    there = here if beta is None else server_address(f"postgresql://127.0.0.1:{beta}/")
    document["servers"] = {"alpha": here, "beta": there}
    record.write_text(json.dumps(document))


@contextmanager
def hanging_server() -> Iterator[int]:
    """A port that takes connections and says nothing; they break when the block ends."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(64)
        yield server.getsockname()[1]


def unread(shown: Shown) -> list[str]:
    """The homes that the page cannot read."""
    return [one["home"] for one in shown.document("federation.json")["problems"]]


def test_a_home_whose_server_hangs_is_shown_as_not_answering_beside_the_others(
    by_record: Shown,
) -> None:
    with hanging_server() as port:
        servers_are(by_record, beta=port)
        until(lambda: unread(by_record) == [BETA], "alpha alone is read", 60)
        document = by_record.document("federation.json")
        problem = next(one for one in document["problems"] if one["home"] == BETA)
        assert problem["because"] == "it has not answered within 0.5 s: it is asked again"
        assert problem_kind(problem["because"]) == "catalog_away"
        assert any(one["participant"] == ALPHA for one in document["fragments"])
        assert "not answered within 0.5 s" in by_record.part("to-do")


def test_the_last_figures_of_a_home_that_hangs_stay_until_it_answers_again(
    by_record: Shown,
) -> None:
    servers_are(by_record)
    until(lambda: unread(by_record) == [], "both are read", 60)
    with hanging_server() as port:
        servers_are(by_record, beta=port)
        by_record.readings.close()  # the connection that there is would still serve
        first = by_record.document("federation.json")
        again = by_record.document("federation.json")
        of_beta = [
            next(one for one in document["problems"] if one["home"] == BETA)
            for document in (first, again)
        ]
        assert of_beta[0]["read_at_ms"] is not None
        assert of_beta[1]["since_ms"] == of_beta[0]["since_ms"]
        assert any(one["participant"] == BETA for one in again["fragments"]), "the last figures"
    servers_are(by_record)
    until(lambda: unread(by_record) == [], "beta answers again", 60)


def test_time_is_divided_among_what_runs_at_once_and_not_to_what_waits() -> None:
    shared = SharedTime()
    one = shared.begin(10.0)
    other = shared.begin(11.0)  # one had a second for itself
    waits = shared.begin(13.0)  # both had one of the two seconds
    assert shared.end(waits, 16.0) == pytest.approx(1.0)
    assert shared.end(one, 18.0) == pytest.approx(1.0 + 1.0 + 1.0 + 1.0)
    assert shared.end(other, 19.0) == pytest.approx(1.0 + 1.0 + 1.0 + 1.0)
    later = shared.begin(100.0)
    assert shared.end(later, 100.5) == pytest.approx(0.5), "nobody is charged while nothing runs"


def test_a_reading_that_was_begun_by_another_request_meanwhile_is_not_taken_for_a_hanging_one(
    shown: Shown,
) -> None:
    problems: list[object] = []

    def look() -> None:
        for _ in range(10):
            problems.extend(shown.document("federation.json")["problems"])

    both = [threading.Thread(target=look) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join(120)
    assert problems == []


def test_a_large_home_that_is_not_waited_for_is_charged_for_its_reading(shown: Shown) -> None:
    made = Shown(shown.settings, shown.server, fresh_s=0.001, wait_s=0.0)

    def read(_snapshot: Snapshot) -> int:
        return sum(range(2_000_000))

    with closing(made.readings):
        until(
            lambda: made.readings.current([HomePart(ALPHA, "large", read)])[0].error is None,
            "it has been read", 60,
        )  # fmt: skip
        assert made.readings.allowed_age_s > 0.1
