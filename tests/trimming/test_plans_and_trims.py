"""Whatever plans come and go: what a bucket that is owed reads, under the plan it is owed under, is
never trimmed. The oracle counts windows one by one and shares nothing with what it checks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.commits import Lease
from medusa_core.fragments import fragments_of
from medusa_core.grid import FOREVER_US
from medusa_core.knowledge import FragmentKnowledge, Limits
from medusa_core.names import Epoch, NetworkName, PlanId
from medusa_core.network import Aggregate, Network, Output, Source
from medusa_core.plans import Plan
from medusa_core.segments import Stability
from medusa_core.trims import earliest_bucket_us
from pipelines.catalog.records import Assignment, Deployment, StreamStatus
from pipelines.homes.deployed_fragments import fragments_in_force
from pipelines.participant.trimming import needs_here, trim_once
from tests.catalog import building as a
from tests.catalog.homes_under_test import MemoryHome
from tests.sweeps import examples

W = a.WIDTH_US
MAIN, LANDING = "example/main", a.LANDING
LOOKED_AT = 40
"""How many buckets behind the frontier the oracle looks at: windows are shorter than that."""

Window = tuple[int, int]
"""Size and advance, in buckets."""

windows = st.tuples(st.integers(1, 12), st.integers(1, 4)).filter(lambda w: w[1] <= w[0])


@dataclass(frozen=True)
class Day:
    """What happens, in this order, before a trim: counts are of buckets."""

    lands: int
    plan: Window | None
    later: int
    computes: int
    guesses: int
    corrects: int
    trim: int | None


days = st.builds(
    Day,
    lands=st.integers(0, 12),
    plan=st.none() | windows,
    later=st.integers(0, 15),
    computes=st.integers(0, 12),
    guesses=st.sampled_from([0, 0, 2]),
    corrects=st.integers(0, 2),
    trim=st.none() | st.integers(0, 60),
)


def a_plan(window: Window) -> Plan:
    size, advance = (f"{n * W // 1_000_000}s" for n in window)
    network = Network(
        name="example",
        sources=(Source(name="src", columns={"at": "bigint"}, time="at"),),
        boxes=(
            Aggregate(name="sums", input="src", size=size, advance=advance,
                      columns={"n": "count(*)"}),
        ),
        outputs=(Output(name="big", input="sums"),),
        bucket="10s",
    )  # fmt: skip
    return Plan(network=network, widths_us={}, function_sources={}, engine={})


def begins_by_hand(window: Window, bucket: int) -> int | None:
    """The first bucket that the windows read which end in a bucket; None: none ends there."""
    size, advance = window
    starts = [at * advance for at in range(-100, 200)]
    ending = [start for start in starts if start + size == bucket + 1]
    return min(ending, default=None)


class World:
    """A home of one source and one fragment, and the log of its plans."""

    def __init__(self, window: Window) -> None:
        self.catalog = MemoryHome().catalog
        self.log: list[tuple[int, Window]] = []
        self.plans: dict[PlanId, Window] = {}
        self.tentative: list[tuple[int, Window]] = []
        self.deploy(window, None)

    def deploy(self, window: Window, first: int | None) -> None:
        plan = a_plan(window)
        epoch = Epoch(len(self.log) + 1)
        assignments = tuple(
            Assignment(fragment=name, producer=a.ME, epoch=epoch, plan=plan.id,
                       from_us=None if first is None else first * W)
            for name in (LANDING, MAIN)
        )  # fmt: skip
        self.catalog.deploy(
            Deployment(
                network=NetworkName("example"),
                document=plan.document,
                plan=plan.id,
                plan_document=plan.document,
                streams=(a.a_stream(a.SRC, "source"), a.a_stream(a.BIG)),
                fragments={LANDING: ((), (a.SRC,)), MAIN: ((a.SRC,), (a.BIG,))},
                assignments=assignments,
            )
        )
        self.log.append((-1 if first is None else first, window))
        self.plans[plan.id] = window
        self.leases: dict[str, Lease] = {
            name: self.catalog.acquire_lease(a.a_key(name), epoch, "me", a.HOUR_MS)
            for name in (LANDING, MAIN)
        }

    # ------------------------------------------------------------ how it stands

    def line(self, stream: str) -> StreamStatus:
        return next(s for s in self.catalog.streams() if s.stream.name == stream)

    def reached(self, stream: str) -> int:
        return max(self.line(stream).boundary_us // W, 0)

    def known(self) -> FragmentKnowledge:
        fragments = fragments_in_force(self.catalog)
        (known,) = self.catalog.read_knowledge(fragments, Limits()).fragments
        return known

    def owed(self) -> list[tuple[int, Window]]:
        """Every bucket that is left to compute or to correct, each under its plan."""
        next_ = self.reached(a.BIG)
        left = range(next_, next_ + LOOKED_AT)
        return [*self.tentative, *((at, self.window_of(at)) for at in left)]

    def window_of(self, bucket: int) -> Window:
        return [window for first, window in self.log if first <= bucket][-1]

    # ------------------------------------------------------------ what happens

    def land(self, count: int) -> None:
        at = self.reached(a.SRC)
        if not count:
            return
        segment = a.a_segment(at, at + count, stream=a.SRC, rows={at: 1})
        plan = list(self.plans)[-1]
        self.catalog.commit(a.a_commit(segment, lease=self.leases[LANDING], plan=plan))

    def compute(self, count: int, stability: Stability = Stability.STABLE) -> None:
        known, at = self.known(), self.reached(a.BIG)
        assert self.plans[known.plan] == self.window_of(at)
        end = min(at + count, self.reached(a.SRC), known.until_us // W)
        if end <= at:
            return
        for bucket in range(at, end):
            segment = a.a_segment(bucket, bucket + 1, stability, stream=a.BIG)
            commit = a.a_commit(segment, lease=self.leases[MAIN], plan=known.plan)
            self.catalog.commit(commit)
        if stability is Stability.TENTATIVE:
            self.tentative += [(bucket, self.window_of(bucket)) for bucket in range(at, end)]

    def correct(self) -> None:
        if self.tentative:
            bucket, _ = self.tentative.pop(0)
            segment = a.a_segment(bucket, bucket + 1, stream=a.BIG)
            self.catalog.commit(
                a.a_commit(segment, lease=self.leases[MAIN], plan=self.known().plan)
            )

    def plan(self, window: Window, later: int) -> None:
        """A new plan from a bucket behind all that is final, if what it reads is still there."""
        first = max(self.reached(a.SRC), self.reached(a.BIG)) + later
        if self.line(a.SRC).origin_us is None:
            return
        (fragment,) = fragments_of(a_plan(window).network)
        trimmed_us = self.line(a.SRC).trimmed_us
        kept = {} if trimmed_us is None else {a.SRC: trimmed_us}
        works = earliest_bucket_us(fragment, first * W, W, kept) // W
        by_hand = [begins_by_hand(window, at) for at in range(first, first + 60)]
        short = [i for i, at in enumerate(by_hand) if at is not None and trimmed_us is not None
                 and at * W < trimmed_us]  # fmt: skip
        assert works >= first + max(short, default=-1) + 1, "every bucket from there on is whole"
        assert works == first or short, "nothing is refused without a reason"
        if works == first:
            self.deploy(window, first)

    def trim(self, before: int | None) -> None:
        before_us = FOREVER_US if before is None else before * W
        trim_once(self.catalog, self.line(a.SRC), before_us, needs_here(self.catalog))
        self.check()

    def check(self) -> None:
        trimmed_us = self.line(a.SRC).trimmed_us
        for bucket, window in self.owed() if trimmed_us is not None else ():
            first = begins_by_hand(window, bucket)
            assert first is None or max(first, 0) * W >= trimmed_us, (bucket, window, self.log)


@pytest.mark.sweep
@given(windows, st.lists(days, max_size=12))
@settings(max_examples=examples(15, 200), deadline=None)
def test_nothing_that_an_owed_bucket_reads_under_its_own_plan_is_ever_trimmed(
    window: Window, happens: list[Day]
) -> None:
    world = World(window)
    for day in happens:
        world.land(day.lands)
        if day.plan is not None:
            world.plan(day.plan, day.later)
        world.compute(day.computes)
        world.compute(day.guesses, Stability.TENTATIVE)
        for _ in range(day.corrects):
            world.correct()
        world.trim(day.trim)
    world.trim(None)


def trimmed(world: World) -> int | None:
    trimmed_us = world.line(a.SRC).trimmed_us
    return None if trimmed_us is None else trimmed_us // W


def test_wider_windows_of_the_plan_before_are_kept_until_its_buckets_are_computed() -> None:
    world = World((10, 1))
    world.land(20)
    world.compute(15)
    world.plan((1, 1), 5)
    world.trim(None)
    assert trimmed(world) == 6, "bucket 15 is the old plan's, with windows of ten buckets"
    world.land(10)
    world.compute(30)
    world.compute(30)
    world.trim(None)
    assert trimmed(world) == 30, "all that is left is the new plan's"


def test_wider_windows_of_a_plan_to_come_are_kept_from_the_day_it_is_known() -> None:
    world = World((1, 1))
    world.land(20)
    world.compute(20)
    world.plan((12, 1), 0)
    world.trim(None)
    assert trimmed(world) == 9


def test_a_plan_that_is_no_longer_readable_holds_all_of_its_inputs() -> None:
    world = World((1, 1))
    world.land(20)
    world.compute(10)
    strange = replace(a_plan((1, 1)), engine={"engine": "another"})
    unreadable = strange.document.replace("count(*)", "no_such_function(*)")
    (record,) = world.catalog.plans()
    world.catalog.deploy(
        Deployment(
            network=NetworkName("example"),
            document=unreadable,
            plan=PlanId("unreadable"),
            plan_document=unreadable,
            streams=(a.a_stream(a.SRC, "source"), a.a_stream(a.BIG)),
            fragments={LANDING: ((), (a.SRC,)), MAIN: ((a.SRC,), (a.BIG,))},
            assignments=tuple(
                Assignment(fragment=name, producer=a.ME, epoch=Epoch(2), plan=plan, from_us=30 * W)
                for name, plan in ((LANDING, record.id), (MAIN, PlanId("unreadable")))
            ),
        )
    )
    world.trim(None)
    assert trimmed(world) is None
