"""A partner that is silent holds up nobody: what is asked comes back in a moment, or is away."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from medusa_core.errors import Unavailable
from medusa_core.exchange import LineNews, PublishedSegment
from medusa_core.grid import Range
from medusa_core.names import Participant, PlanId, StreamName, Version
from medusa_core.segments import Producer, Segment, SegmentFile, Stability
from pipelines.exchange.exchange_port import REQUESTS_AT_ONCE, Awaited, NewsRequest
from pipelines.exchange.nonblocking import OVERDUE_S, UNCLAIMED_S, NonBlockingExchange
from tests.waiting import until

STREAM, QUICK, SLOW = StreamName("one"), Participant("quick"), Participant("slow")


def some_news(partner: Participant, after: Version) -> LineNews:
    segment = Segment(
        stream=STREAM,
        producer=Producer(partner),
        range=Range(0, 10),
        stability=Stability.STABLE,
        version=Version(after + 1),
        plan=PlanId("p"),
        age_ms=100,
    )
    return LineNews(
        stream=STREAM,
        producer=Producer(partner),
        after=after,
        version=Version(after + 1),
        origin_us=0,
        end_us=None,
        segments=(PublishedSegment(segment=segment, begin_version=Version(after + 1)),),
    )


class Partners:
    """`quick` answers at once, `slow` when it is let."""

    def __init__(self) -> None:
        self.lets = threading.Event()
        self.asked: list[str] = []

    def line_news(self, stream: StreamName, producer: Producer, after: Version, *,
                  segments_max: int) -> LineNews:  # fmt: skip
        self.asked.append(f"news after {after} of {producer.participant}")
        if producer.participant == SLOW:
            assert self.lets.wait(60)
        return some_news(producer.participant, after)

    def fetch_all(self, partner: Participant, files: Mapping[SegmentFile, Path]) -> None:
        raise Unavailable("the disk is away")

    def acknowledge(self, partner: Participant, stream: StreamName, through_us: int,
                    limit_ms: int, path_ms: int, *, replica: int,
                    version: Version) -> None:  # fmt: skip
        self.asked.append(f"ack {through_us}")

    def close(self) -> None:
        self.lets.set()


@pytest.fixture
def partners() -> Partners:
    return Partners()


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def exchange(partners: Partners, clock: Clock) -> Iterator[NonBlockingExchange]:
    patient = NonBlockingExchange(partners, moment_s=60, now_s=clock)
    yield patient
    patient.close()


@contextmanager
def asked_in_vain(exchange: NonBlockingExchange, match: str = "slow") -> Iterator[None]:
    """A moment is short where no answer can come; where one does come, a slow machine has time."""
    long_s, exchange._moment_s = exchange._moment_s, 0.05
    with pytest.raises(Unavailable, match=match):
        yield
    exchange._moment_s = long_s


def request_of(stream: StreamName, partner: Participant = SLOW, after: int = 0) -> NewsRequest:
    return NewsRequest(
        stream=stream, producer=Producer(partner), after=Version(after), segments_max=9
    )


def is_answered(exchange: NonBlockingExchange, partner: Participant) -> bool:
    return all(pending.answer.done() for pending in exchange._pending[partner].values())


def news(
    exchange: NonBlockingExchange, partner: Participant, after: int = 0, upto: int = 9
) -> LineNews:
    return exchange.line_news(STREAM, Producer(partner), Version(after), segments_max=upto)


def test_a_silent_partner_is_away_and_the_others_are_heard(exchange: NonBlockingExchange) -> None:
    with asked_in_vain(exchange, "slow has not answered"):
        news(exchange, SLOW)
    assert news(exchange, QUICK).version == 1
    exchange.acknowledge(QUICK, STREAM, 5, 9, 0, replica=0, version=Version(1))


def test_a_late_answer_is_used_once_and_is_older_by_as_much(
    exchange: NonBlockingExchange, partners: Partners, clock: Clock
) -> None:
    with asked_in_vain(exchange):
        news(exchange, SLOW)
    partners.lets.set()
    until(lambda: is_answered(exchange, SLOW), "it has answered")
    clock.now_s += 7.0
    late = news(exchange, SLOW, upto=3)  # less fits by now: no other question
    assert late.segments[0].segment.age_ms == 7_100
    assert news(exchange, SLOW).segments[0].segment.age_ms == 100
    assert partners.asked == ["news after 0 of slow"] * 2


def test_a_request_is_waited_for_once_and_is_a_problem_when_it_is_overdue(
    exchange: NonBlockingExchange, clock: Clock
) -> None:
    exchange._moment_s = 0.05
    with pytest.raises(Awaited):
        news(exchange, SLOW)
    exchange._moment_s = 2.0
    clock.now_s += 2.0
    began_s = time.monotonic()
    with pytest.raises(Awaited):
        news(exchange, SLOW)
    clock.now_s += OVERDUE_S
    said = []
    for _ in range(2):
        with pytest.raises(Unavailable, match="for 3 s or more") as error:
            news(exchange, SLOW)
        assert not isinstance(error.value, Awaited)
        said.append(str(error.value))
        clock.now_s += 1.0
    assert said[0] == said[1], "one problem, however long it lasts"
    assert time.monotonic() - began_s < 5, "nobody waits for two seconds, three times"


def test_an_answer_to_an_abandoned_call_is_dropped(
    exchange: NonBlockingExchange, partners: Partners
) -> None:
    with asked_in_vain(exchange):
        news(exchange, SLOW)
    with asked_in_vain(exchange, "its answer is used"):
        news(exchange, SLOW, after=4)
    partners.lets.set()
    until(lambda: is_answered(exchange, SLOW), "it has answered")
    assert news(exchange, SLOW, after=4).after == 4


def test_requests_of_several_lines_are_answered_side_by_side(clock: Clock) -> None:
    """None of them is answered before all of them have arrived."""
    lines = [StreamName(f"line_{number}") for number in range(REQUESTS_AT_ONCE)]
    together = threading.Barrier(len(lines), timeout=60)

    class Slow(Partners):
        def line_news(self, stream: StreamName, producer: Producer, after: Version, *,
                      segments_max: int) -> LineNews:  # fmt: skip
            together.wait()
            return some_news(producer.participant, after)

    with closing(NonBlockingExchange(Slow(), moment_s=60, now_s=clock)) as exchange:
        exchange.begin([request_of(line) for line in lines])
        for line in lines:
            assert exchange.line_news(line, Producer(SLOW), Version(0), segments_max=9).version == 1


def test_a_request_that_has_begun_is_made_once_and_its_answer_is_older_by_the_wait(
    exchange: NonBlockingExchange, partners: Partners, clock: Clock
) -> None:
    exchange.begin([request_of(STREAM, QUICK)])
    until(lambda: is_answered(exchange, QUICK), "it has answered")
    clock.now_s += 7.0
    assert news(exchange, QUICK).segments[0].segment.age_ms == 7_100
    assert partners.asked == ["news after 0 of quick"]


def test_an_answer_that_nobody_comes_for_is_forgotten_with_the_next_requests(
    exchange: NonBlockingExchange, partners: Partners
) -> None:
    for after in range(3 * REQUESTS_AT_ONCE):
        exchange.begin([request_of(STREAM, QUICK, after)])
        until(lambda: is_answered(exchange, QUICK), "it has answered")
    assert len(exchange._pending[QUICK]) == 1
    assert len(partners.asked) == 3 * REQUESTS_AT_ONCE


def test_nothing_further_is_begun_at_a_silent_partner(
    exchange: NonBlockingExchange, partners: Partners
) -> None:
    exchange.begin([request_of(STREAM, SLOW, after) for after in range(2)])
    with asked_in_vain(exchange):
        news(exchange, SLOW)
    exchange.begin([request_of(STREAM, SLOW, after) for after in range(4)])
    with asked_in_vain(exchange, "its answer is used"):
        news(exchange, SLOW, after=3)
    until(lambda: len(partners.asked) == 2, "both that had begun were asked")
    partners.lets.set()
    assert [news(exchange, SLOW, after).after for after in range(4)] == [0, 1, 2, 3]


def test_a_late_answer_is_used_whatever_is_requested_before_it(
    exchange: NonBlockingExchange, partners: Partners
) -> None:
    """A line that is slow each time would never have news beside lines that are answered."""
    slow, other = request_of(STREAM, SLOW), request_of(StreamName("other"), SLOW)
    exchange.begin([slow])
    with asked_in_vain(exchange):
        news(exchange, SLOW)
    partners.lets.set()
    until(lambda: is_answered(exchange, SLOW), "it has answered")
    exchange.begin([request_of(STREAM, SLOW, after=9)])  # such as acknowledgements, or files
    exchange.begin([other, slow])
    for line in (other, slow):
        exchange.line_news(line.stream, line.producer, line.after, segments_max=9)
    assert partners.asked.count("news after 0 of slow") == 2, "each of the two lines once"


def test_an_answer_that_was_awaited_in_vain_is_forgotten_after_a_while(
    exchange: NonBlockingExchange, partners: Partners, clock: Clock
) -> None:
    with asked_in_vain(exchange):
        news(exchange, SLOW)
    partners.lets.set()
    until(lambda: is_answered(exchange, SLOW), "it has answered")
    clock.now_s += UNCLAIMED_S
    exchange.begin([request_of(STREAM, SLOW, after=9)])
    assert len(exchange._pending[SLOW]) == 1


def test_what_is_wrong_with_a_partner_is_told_as_it_says_it(
    exchange: NonBlockingExchange, tmp_path: Path
) -> None:
    file = SegmentFile(path="a", size_bytes=1, sha256="0", rows=1)
    with pytest.raises(Unavailable, match="the disk is away"):
        exchange.fetch_all(QUICK, {file: tmp_path / "a"})
