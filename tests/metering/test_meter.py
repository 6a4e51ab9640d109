"""The meter of a loop: what was done has its CPU, period by period, whatever the catalog does."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import pytest

from medusa_core.commits import Cause, Lane
from medusa_core.errors import OutcomeUnknown, Refused, Unavailable
from medusa_core.loads import ActivityKind, FragmentSpan, LoadKey, LoadSample
from medusa_core.names import StreamName
from pipelines.base import cpu_meter
from pipelines.base.cpu_meter import PENDING_MAX, CpuMeter
from pipelines.participant.attribution import import_spans, landing_spans
from pipelines.sources.live.live_source import Polled
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("patient")
MAIN = LoadKey("net.main", 0, Cause.NORMAL)
CORRECTED = LoadKey("net.main", 0, Cause.CORRECTION)


@dataclass
class Home:
    """Where samples go: it may be away, or refuse them."""

    samples: list[LoadSample] = field(default_factory=list)
    problem: Exception | None = None
    lost_replies: int = 0
    asked: int = 0

    def record(self, sample: LoadSample) -> bool:
        self.asked += 1
        if self.problem is not None:
            raise self.problem
        self.samples.append(sample)
        if self.lost_replies:
            self.lost_replies -= 1
            raise OutcomeUnknown("the reply was lost")
        return True


@dataclass
class Metered:
    """A meter whose clocks are moved by hand."""

    home: Home = field(default_factory=Home)
    told: list[Exception] = field(default_factory=list)
    spent_us: int = 5_000
    now_s: float = 100.0

    def __post_init__(self) -> None:
        self.meter = CpuMeter(
            self.home.record,
            driver="me",
            lane=Lane.BACKLOG,
            on_error=self.told.append,
            spent_ns=lambda: self.spent_us * 1_000,
            now_s=lambda: self.now_s,
        )

    def spend(
        self, us: int, *works: FragmentSpan, kind: ActivityKind = ActivityKind.UNATTRIBUTED
    ) -> None:
        self.spent_us += us
        self.meter.did(*works, kind=kind)

    def period(self) -> None:
        """Ten seconds go by, and the loop looks again."""
        self.now_s += 10
        self.meter.look()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that records has time, on a machine that stands still for seconds too."""
    monkeypatch.setattr(cpu_meter, "FLUSH_S_MAX", 60.0)


@pytest.fixture
def metered() -> Metered:
    return Metered()


def test_a_period_tells_what_was_spent_on_what(metered: Metered) -> None:
    metered.meter.tick()
    metered.spend(15, kind=ActivityKind.DECIDING)
    metered.spend(100, FragmentSpan(of=MAIN))
    metered.spend(50, FragmentSpan(of=CORRECTED))
    metered.meter.tick()
    metered.spend(3, kind=ActivityKind.DECIDING)
    metered.spend(7, kind=ActivityKind.HOUSEKEEPING)
    metered.spend(2)
    metered.now_s += 9.9
    metered.meter.look()
    metered.meter.flush()
    (sample,) = metered.home.samples
    assert (sample.driver, sample.number, sample.lane) == ("me", 1, Lane.BACKLOG)
    assert sample.length_ms == 9_900
    assert sample.shares.by_key == {MAIN: 110, CORRECTED: 55}
    kinds = {ActivityKind.DECIDING: 3, ActivityKind.HOUSEKEEPING: 7, ActivityKind.UNATTRIBUTED: 2}
    assert sample.shares.kinds == kinds


def test_periods_follow_each_other_without_a_gap(metered: Metered) -> None:
    for _ in range(3):
        metered.spend(1_000, FragmentSpan(of=MAIN))
        metered.period()
    metered.meter.close()
    samples = metered.home.samples
    assert [s.number for s in samples] == [1, 2, 3, 4]
    assert [s.shares.total_us for s in samples] == [1_000, 1_000, 1_000, 0]
    assert [s.length_ms for s in samples] == [10_000, 10_000, 10_000, 1]


def test_what_could_not_be_recorded_is_sent_again_with_its_own_time(metered: Metered) -> None:
    metered.home.problem = Unavailable("the catalog is away")
    metered.spend(10, FragmentSpan(of=MAIN))
    metered.period()
    until(lambda: metered.home.asked, "it is tried")
    metered.meter.flush()
    assert metered.home.samples == []
    metered.home.problem = None
    metered.now_s += 30
    metered.meter.flush()
    sent = {s.number: s for s in metered.home.samples}
    assert sorted(sent) == [1, 2, 3]
    assert sent[1].shares.by_key == {MAIN: 10}
    assert sent[1].ended_ago_ms == 30_000
    assert metered.told == []


def test_a_sample_whose_reply_was_lost_is_sent_again_under_its_number(metered: Metered) -> None:
    """The home knows a sample by its number: under another one it would count twice."""
    metered.home.lost_replies = 2
    metered.spend(10, FragmentSpan(of=MAIN))
    metered.meter.flush()
    metered.spend(7, FragmentSpan(of=MAIN))
    metered.meter.flush()
    metered.meter.flush()
    sent = metered.home.samples
    assert len(sent) > len({s.number for s in sent}), "one at least was sent again"
    assert {s.number: s.shares.by_key.get(MAIN, 0) for s in sent} == {1: 10, 2: 7, 3: 0}
    for number in (1, 2, 3):
        assert len({repr(s.shares) for s in sent if s.number == number}) == 1
    asked = metered.home.asked
    metered.meter.flush()
    assert metered.home.asked == asked + 1, "what was taken is not sent again"


def test_a_catalog_that_is_away_for_long_costs_no_more_than_an_hours_samples(
    metered: Metered,
) -> None:
    metered.home.problem = Unavailable("the catalog is away")
    for _ in range(PENDING_MAX + 10):
        metered.period()
    metered.meter.flush()
    metered.home.problem = None
    metered.meter.flush()
    numbers = [s.number for s in metered.home.samples]
    assert len(numbers) == PENDING_MAX
    assert numbers[-1] == PENDING_MAX + 12


def test_a_refused_sample_is_reported_and_the_next_one_recorded(metered: Metered) -> None:
    metered.home.problem = Refused("no such fragment: deploy it")
    metered.spend(10, FragmentSpan(of=MAIN))
    metered.meter.flush()
    metered.home.problem = None
    metered.meter.flush()
    assert [str(error) for error in metered.told] == ["no such fragment: deploy it"]
    assert [s.number for s in metered.home.samples] == [2]


def test_what_a_thread_of_deliveries_spends_is_no_steps() -> None:
    home = Home()
    meter = CpuMeter(home.record, driver="me", spent_ns=time.process_time_ns)
    begun, go_on = threading.Event(), threading.Event()

    def deliver() -> None:
        with meter.delivering():
            spin(0.1)
            begun.set()
            go_on.wait(30)
            spin(0.1)

    thread = threading.Thread(target=deliver)
    thread.start()
    assert begun.wait(60)
    meter.did(FragmentSpan(of=MAIN))
    go_on.set()
    thread.join(60)
    meter.did(FragmentSpan(of=MAIN))
    meter.close()
    (sample,) = home.samples
    delivered_us = sample.shares.kinds[ActivityKind.DELIVERY]
    assert delivered_us >= 190_000, "what was under way at the first look, and what came after"
    assert delivered_us + sum(sample.shares.by_key.values()) <= sample.shares.total_us


def spin(seconds: float) -> None:
    ends = time.thread_time() + seconds
    while time.thread_time() < ends:
        pass


def test_a_feeds_landing_belongs_to_the_streams_that_it_brought_something_of() -> None:
    one, two, three = map(StreamName, ("one", "two", "three"))
    members = {one: Polled(landed=30), two: Polled(landed=8, quarantined=2), three: Polled()}
    spans = landing_spans(one, Polled(landed=38, members=members))
    assert {w.of.fragment: w.weight for w in spans} == {"landing/one": 30, "landing/two": 10}
    assert {w.of.cause for w in spans} == {Cause.LANDING}
    idle = landing_spans(one, Polled(members=dict.fromkeys(members, Polled())))
    assert {w.of.fragment: w.weight for w in idle} == {
        "landing/one": 1, "landing/two": 1, "landing/three": 1,
    }  # fmt: skip
    assert [w.of.fragment for w in landing_spans(one, None)] == ["landing/one"]


def test_an_imports_part_grows_with_its_segments() -> None:
    spans = import_spans([(StreamName("few"), 0), (StreamName("many"), 9)])
    assert [(w.of, w.weight) for w in spans] == [
        (LoadKey("import/few", 0, Cause.IMPORT), 1),
        (LoadKey("import/many", 0, Cause.IMPORT), 10),
    ]
