"""What a process records of its links, and how often it reports that."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.errors import Unavailable
from medusa_core.names import Participant
from pipelines.catalog.partner_records import LinkReport, LinkState
from pipelines.exchange.link_recorder import CHANGED_S, REPORT_S, LinkRecorder

SHOP, BANK = Participant("shop"), Participant("bank")


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Reports:
    """A home that stores reports, unless it is away."""

    def __init__(self) -> None:
        self.all: list[LinkReport] = []
        self.writes = 0
        self.is_away = False

    def __call__(self, reports: Sequence[LinkReport]) -> None:
        if self.is_away:
            raise Unavailable("the home is away")
        self.writes += 1
        self.all += reports


@pytest.fixture
def now() -> Clock:
    return Clock()


@pytest.fixture
def recorder(now: Clock) -> LinkRecorder:
    return LinkRecorder(now_s=now)


def test_a_report_says_what_has_happened_since_the_last_one(
    recorder: LinkRecorder, now: Clock
) -> None:
    reports = Reports()
    for took_s in (0.010, 0.020, 0.900):
        recorder.note_answer(SHOP, took_s=took_s)
    recorder.note_bytes(SHOP, received=700, sent=30)
    recorder.note_file(SHOP)
    recorder.note_delay(SHOP, 45)
    now.now_s += 2
    recorder.report(reports)
    (one,) = reports.all
    assert (one.partner, one.state, one.state_ago_ms) == (SHOP, LinkState.REACHABLE, 2_000)
    assert (one.requests, one.failures, one.files) == (3, 0, 1)
    assert (one.bytes_received, one.bytes_sent) == (700, 30)
    assert (one.answer_ms, one.answer_ms_max) == (20, 900)
    assert (one.delay_ms, one.delay_ms_max, one.answered_ago_ms) == (45, 45, 2_000)
    assert (one.error, one.failed_ago_ms) == (None, None)
    now.now_s += REPORT_S
    recorder.report(reports)
    assert reports.writes == 1, "nothing has happened since"


def test_many_requests_are_one_write_in_some_seconds(recorder: LinkRecorder, now: Clock) -> None:
    reports = Reports()
    for _ in range(1_000):
        recorder.note_answer(SHOP, took_s=0.001)
        recorder.note_answer(BANK, took_s=0.001)
        recorder.report(reports)
        now.now_s += 0.01
    assert reports.writes <= 1 + 10 / REPORT_S
    now.now_s += REPORT_S
    recorder.report(reports)
    assert sum(one.requests for one in reports.all) == 2_000


def test_a_link_that_breaks_is_reported_within_a_second(recorder: LinkRecorder, now: Clock) -> None:
    reports = Reports()
    recorder.note_answer(SHOP)
    recorder.report(reports)
    now.now_s += CHANGED_S
    recorder.note_failure(SHOP, "no route to host", LinkState.UNREACHABLE)
    recorder.report(reports)
    assert (reports.all[-1].state, reports.all[-1].error) == (
        LinkState.UNREACHABLE,
        "no route to host",
    )
    now.now_s += 7
    recorder.note_failure(SHOP, "a file is damaged")
    recorder.report(reports)
    assert reports.all[-1].state is LinkState.UNREACHABLE
    assert (reports.all[-1].state_ago_ms, reports.all[-1].failed_ago_ms) == (7_000, 0)


def test_what_could_not_be_reported_is_reported_later(recorder: LinkRecorder, now: Clock) -> None:
    reports = Reports()
    recorder.note_answer(SHOP)
    recorder.note_bytes(SHOP, received=5)
    reports.is_away = True
    with pytest.raises(Unavailable):
        recorder.report(reports)
    reports.is_away = False
    recorder.note_answer(SHOP)
    now.now_s += REPORT_S
    recorder.report(reports)
    (one,) = reports.all
    assert (one.requests, one.bytes_received) == (2, 5)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10**6), st.booleans()), max_size=50))
def test_nothing_is_lost_or_counted_twice(calls: list[tuple[bool, int, bool]]) -> None:
    now, reports = Clock(), Reports()
    recorder = LinkRecorder(now_s=now)
    for is_away, received, is_due in calls:
        recorder.note_answer(SHOP, took_s=0.1)
        recorder.note_bytes(SHOP, received=received)
        reports.is_away = is_away
        now.now_s += REPORT_S if is_due else 0.5
        try:
            recorder.report(reports)
        except Unavailable:
            assert is_away
    reports.is_away = False
    now.now_s += REPORT_S
    recorder.report(reports)
    assert sum(one.requests for one in reports.all) == len(calls)
    assert sum(one.bytes_received for one in reports.all) == sum(r for _, r, _ in calls)
