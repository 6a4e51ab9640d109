"""One sequence of random commands drives both catalogs, two writers interleaved: every answer,
every class of error and every wait must be the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import Engine

from medusa_core.commits import Commit, CommitResult, Hold, Lane, Lease, OutputSegment
from medusa_core.errors import MedusaError, Refused
from medusa_core.grid import FOREVER_US
from medusa_core.knowledge import Limits
from medusa_core.names import Epoch, PlanId, StreamName, Version
from medusa_core.segments import Stability
from medusa_core.trims import TrimResult
from pipelines.catalog.interface import Catalog, Session
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.tables import LEASES
from pipelines.catalog.records import Deployment, StepRecord
from pipelines.catalog.server.home_databases import HomeUrls
from tests.catalog import building as a
from tests.catalog.homes_under_test import Call, HomeUnderTest, MemoryHome, PostgresHome, wipe
from tests.sweeps import examples

WRITERS = ("w0", "w1")
LIMITS = Limits(records_per_step_max=12, buckets_per_step_max=3)
FRAGMENTS = a.some_fragments()

# Hypothesis tends to the first of a list: what is usual stands there.
fragments = st.sampled_from([a.MAIN, a.LANDING, a.TAIL])
lanes = st.sampled_from([Lane.LIVE, Lane.BACKLOG])
epochs = st.sampled_from([a.FIRST, a.SECOND])
ttls_ms = st.sampled_from([a.HOUR_MS] * 5 + [0])
stabilities = st.sampled_from([Stability.TENTATIVE] * 4 + [Stability.STABLE] * 2 + [Stability.GAP])
some_rows = st.dictionaries(st.integers(0, 7), st.integers(1, 9), max_size=4)


def seldom(draw: st.DrawFn, one_in: int) -> bool:
    """True once in so many draws."""
    return draw(st.integers(1, one_in)) == one_in


@st.composite
def segments(draw: st.DrawFn, stream: StreamName) -> OutputSegment:
    from_bucket = draw(st.integers(0, 12))
    to_bucket = from_bucket + draw(st.integers(1, 4))
    stability = draw(stabilities)
    rows = {
        from_bucket + at: n for at, n in draw(some_rows).items() if from_bucket + at < to_bucket
    }
    if stability is Stability.GAP and not seldom(draw, 4):
        rows = {}  # a gap with rows is refused
    path = "files/shared" if seldom(draw, 8) else None
    file = a.a_file(sum(rows.values()), path) if rows and path else None
    missing = (a.SRC,) if stability is Stability.TENTATIVE and draw(st.booleans()) else ()
    segment = a.a_segment(
        from_bucket, to_bucket, stability, stream=stream, rows=rows, file=file, missing=missing
    )
    if not rows and seldom(draw, 20):
        return replace(segment, range=replace(segment.range, to_us=segment.range.to_us + 1))
    return segment


@st.composite
def leases(draw: st.DrawFn, writer: str, held: list[Lease]) -> Lease:
    """Most often one that the writer holds, else any."""
    mine = [lease for lease in held if lease.holder == writer]
    if mine and not seldom(draw, 6):
        return draw(st.sampled_from(mine))
    return a.a_lease(draw(fragments), draw(st.sampled_from(WRITERS)), draw(epochs), draw(lanes))


@st.composite
def commits(draw: st.DrawFn, lease: Lease) -> Commit:
    stream = a.BIG if seldom(draw, 20) else a.WRITES[lease.key.fragment]
    written = draw(st.lists(segments(stream), min_size=1, max_size=2))
    lineage = tuple(
        a.a_read(stream, a.SRC, a.buckets(at, at + 1), at)
        for at in draw(st.lists(st.integers(0, 3), max_size=2))
    )
    return a.a_commit(
        *written,
        lease=lease,
        lineage=lineage,
        quarantine=(a.a_bad_record(),) if seldom(draw, 3) else (),
        ends=seldom(draw, 12),
        plan=PlanId("unknown") if seldom(draw, 15) else a.PLAN,
    )


NEXT_EPOCH = a.a_deployment(
    assignments=(*a.a_deployment().assignments, a.an_assignment(a.MAIN, a.SECOND))
)


def deployments() -> st.SearchStrategy[Deployment]:
    return st.sampled_from(
        [
            a.a_deployment(),
            a.a_deployment(),
            a.a_deployment(),
            NEXT_EPOCH,
            a.a_deployment(assignments=(a.an_assignment(a.MAIN, Epoch(7)),)),
            a.a_deployment(widths_us={a.SUMS: 20_000_000}),
        ]
    )


class CatalogMachine(RuleBasedStateMachine):
    """Both homes, with a session for each of two writers in each."""

    urls: HomeUrls
    watcher: Engine

    def __init__(self) -> None:
        super().__init__()
        self.ends = ExitStack()
        wipe(self.watcher)
        postgres = PostgresHome(self.urls, self.watcher)
        self.ends.callback(postgres.close)
        self.memory = MemoryHome()
        self.homes: tuple[HomeUnderTest, ...] = (self.memory, postgres)
        self.sessions: dict[str, tuple[Session, ...]] = {
            writer: tuple(home.session() for home in self.homes) for writer in WRITERS
        }
        self.open: set[str] = set()
        self.made: list[Commit] = []

    def teardown(self) -> None:
        with self.ends:
            for writer in sorted(self.open):
                for session in self.sessions[writer]:
                    session.end(keep=True)
            seen = [read_everything(home.catalog) for home in self.homes]
            assert seen[0] == seen[1]

    @initialize(is_empty=st.sampled_from([False] * 9 + [True]))
    def deploy_the_example(self, is_empty: bool) -> None:
        for home in self.homes:
            if is_empty:
                continue
            home.catalog.deploy(a.a_deployment())
            for fragment in (a.LANDING, a.MAIN, a.TAIL):
                for lane, holder in zip((Lane.LIVE, Lane.BACKLOG), WRITERS, strict=True):
                    home.catalog.acquire_lease(a.a_key(fragment, lane), a.FIRST, holder, a.HOUR_MS)
                first = a.a_segment(0, 1, stream=a.WRITES[fragment])
                home.catalog.commit(a.a_commit(first, lease=a.a_lease(fragment, "w0")))

    def held(self) -> list[Lease]:
        """Who holds what, as the model has it committed: to draw commands that mean something."""
        rows = Transaction(self.memory.store).rows(LEASES)
        return [
            Lease(key=key, epoch=Epoch(row.epoch), holder=row.holder, expires_at_ms=0)
            for key, row in rows.items()
        ]

    # transactions

    @rule(writer=st.sampled_from(WRITERS), snapshot=st.sampled_from([False, False, True]))
    def begin(self, writer: str, snapshot: bool) -> None:
        if writer in self.open:
            return
        self.open.add(writer)
        for session in self.sessions[writer]:
            session.begin(snapshot=snapshot)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), keep=st.sampled_from([True, True, False]))
    def end(self, data: st.DataObject, keep: bool) -> None:
        self.end_of(data.draw(st.sampled_from(sorted(self.open))), keep=keep)

    def end_of(self, writer: str, *, keep: bool) -> None:
        self.open.discard(writer)
        for session in self.sessions[writer]:
            session.end(keep=keep)

    def both(self, writer: str, call: Call, keep: bool = True) -> Any:
        """Make a call in both homes; if it waits, the other writer's transaction ends first."""
        pending = [
            home.start(session, call)
            for home, session in zip(self.homes, self.sessions[writer], strict=True)
        ]
        waits = [p.is_waiting for p in pending]
        if any(waits):
            (other,) = set(WRITERS) - {writer}
            assert other in self.open, f"waits {waits} for nobody"
            self.end_of(other, keep=keep)
        answers = [outcome(p.answer) for p in pending]
        assert len(set(waits)) == 1, f"memory and Postgres wait differently: {waits} {answers}"
        assert answers[0] == answers[1]
        if isinstance(answers[0], type) and writer in self.open:
            # The transaction has failed: nothing goes on in it, and nothing of it is kept.
            failed = [outcome(session.catalog.streams) for session in self.sessions[writer]]
            assert failed == [Refused, Refused]
            self.end_of(writer, keep=keep)
        return answers[0]

    # commands; what is drawn more often stands for more rules

    @rule(data=st.data(), writer=st.sampled_from(WRITERS), keep=st.booleans())
    def commit_to_a_line_of_both(self, data: st.DataObject, writer: str, keep: bool) -> None:
        mine = [ls for ls in self.held() if ls.holder == writer and ls.key.fragment == a.MAIN]
        if mine:
            commit = data.draw(commits(mine[0]))
            self.made.append(commit)
            self.both(writer, lambda catalog: catalog.commit(commit), keep)

    @rule(data=st.data(), writer=st.sampled_from(WRITERS), keep=st.booleans())
    def commit(self, data: st.DataObject, writer: str, keep: bool) -> None:
        commit = data.draw(commits(data.draw(leases(writer, self.held()))))
        self.made.append(commit)
        self.both(writer, lambda catalog: catalog.commit(commit), keep)

    @precondition(lambda self: self.made)
    @rule(data=st.data(), writer=st.sampled_from(WRITERS), keep=st.booleans())
    def commit_again(self, data: st.DataObject, writer: str, keep: bool) -> None:
        commit = data.draw(st.sampled_from(self.made))
        self.both(writer, lambda catalog: catalog.commit(commit), keep)

    @rule(data=st.data(), writer=st.sampled_from(WRITERS), ttl_ms=ttls_ms, keep=st.booleans())
    def lease(self, data: st.DataObject, writer: str, ttl_ms: int, keep: bool) -> None:
        lease = data.draw(leases(writer, self.held()))
        calls: list[Call] = [
            lambda catalog: catalog.acquire_lease(lease.key, lease.epoch, lease.holder, ttl_ms),
            lambda catalog: catalog.renew_lease(lease, ttl_ms),
            lambda catalog: catalog.release_lease(lease),
        ]
        self.both(writer, data.draw(st.sampled_from([calls[0], calls[0], *calls])), keep)

    @rule(data=st.data(), writer=st.sampled_from(WRITERS), keep=st.booleans())
    def land(self, data: st.DataObject, writer: str, keep: bool) -> None:
        lease = a.a_lease(a.LANDING, writer, lane=data.draw(lanes))
        write_quarantine = (a.a_bad_record(),) if data.draw(st.booleans()) else ()
        batch = a.a_batch(
            data.draw(st.integers(0, 3)), data.draw(some_rows), quarantine=write_quarantine
        )
        self.both(writer, lambda catalog: catalog.land(lease, batch), keep)

    @rule(data=st.data(), writer=st.sampled_from(WRITERS), origin=st.sampled_from([0, 0, 0, 1]),
          boundary=st.integers(0, 9), end=st.sampled_from([None, None, 0, 8, 9]),
          keep=st.booleans())  # fmt: skip
    def promise(
        self, data: st.DataObject, writer: str, origin: int, boundary: int, end: int | None,
        keep: bool,
    ) -> None:  # fmt: skip
        fragment = data.draw(st.sampled_from([a.LANDING, a.LANDING, a.MAIN]))
        lease = a.a_lease(fragment, writer, lane=data.draw(lanes))
        stream = a.WRITES[fragment]
        boundary_us = FOREVER_US if boundary == 9 else boundary * a.WIDTH_US
        self.both(
            writer,
            lambda catalog: catalog.promise(
                lease,
                stream,
                origin_us=origin * a.WIDTH_US,
                boundary_us=boundary_us,
                end_us=None if end is None else end * a.WIDTH_US,
            ),
            keep,
        )

    @rule(writer=st.sampled_from(WRITERS), boundary=st.integers(1, 8), back=st.integers(0, 2),
          keep=st.booleans())  # fmt: skip
    def promise_and_promise_less(self, writer: str, boundary: int, back: int, keep: bool) -> None:
        """S1: the second is refused if it is lower, whatever else was promised before."""
        lane = Lane.LIVE if writer == "w0" else Lane.BACKLOG
        lease = a.a_lease(a.LANDING, writer, lane=lane)
        for promised in (boundary, boundary - back):
            self.both(
                writer,
                lambda catalog, at=promised: catalog.promise(
                    lease, a.SRC, origin_us=0, boundary_us=at * a.WIDTH_US, end_us=None
                ),
                keep,
            )

    @rule(data=st.data(), writer=st.sampled_from(WRITERS), keep=st.booleans())
    def deploy_or_hold(self, data: st.DataObject, writer: str, keep: bool) -> None:
        deployment = data.draw(deployments())
        hold = Hold(stream=a.SUMS, holder="reader", purpose="reading", from_us=3)
        calls: list[Call] = [
            lambda catalog: catalog.place_hold(hold),
            lambda catalog: catalog.release_hold(a.SUMS, "reader", "reading"),
            lambda catalog: catalog.deploy(deployment),
        ]
        self.both(writer, data.draw(st.sampled_from(calls)), keep)

    @rule(data=st.data(), writer=st.sampled_from(WRITERS), keep=st.booleans())
    def trim(self, data: st.DataObject, writer: str, keep: bool) -> None:
        stream = data.draw(st.sampled_from([a.SUMS, a.SUMS, a.SRC, a.BIG]))
        before_us = data.draw(st.integers(1, 9)) * a.WIDTH_US
        read = {} if data.draw(st.booleans()) else {a.MAIN: FOREVER_US, a.TAIL: FOREVER_US}
        explain = data.draw(st.booleans())
        self.both(
            writer,
            lambda catalog: catalog.trim(
                stream, a.ME, before_us, needed=read, segments_max=9, explain=explain
            ),
            keep,
        )

    @precondition(lambda self: not self.open)
    @rule(data=st.data(), keep=st.booleans())
    def race(self, data: st.DataObject, keep: bool) -> None:
        """One commits and does not end; the other then wants something of the same."""
        self.begin("w0", snapshot=False)
        self.commit_to_a_line_of_both(data, "w0", keep)
        if "w0" in self.open and data.draw(st.sampled_from([False, False, True])):
            # What the other waits for brings a newer epoch along (S8).
            self.both("w0", lambda catalog: catalog.deploy(NEXT_EPOCH), keep)
        if self.made:
            wants = [self.commit_to_a_line_of_both, self.commit_again, self.land, self.trim_sums]
            data.draw(st.sampled_from(wants))(data, "w1", keep)

    def trim_sums(self, data: st.DataObject, writer: str, keep: bool) -> None:
        before_us = data.draw(st.integers(1, 9)) * a.WIDTH_US
        read = {a.TAIL: FOREVER_US}
        self.both(
            writer,
            lambda catalog: catalog.trim(a.SUMS, a.ME, before_us, needed=read, segments_max=9),
            keep,
        )

    @precondition(lambda self: self.open)
    @rule(writer=st.sampled_from(WRITERS))
    def look(self, writer: str) -> None:
        self.both(writer, read_everything)


def read_everything(catalog: Catalog) -> list[Any]:
    """What every reading call answers."""
    return [strip(call(catalog)) for call in readings()]


def readings() -> Iterator[Call]:
    """Every reading call."""
    yield lambda catalog: (catalog.streams(), catalog.lines())
    for stream in (a.SRC, a.SUMS, a.BIG):
        for as_of in (None, Version(1), Version(2)):
            yield lambda catalog, s=stream, v=as_of: catalog.segments(s, as_of=v)
        yield lambda catalog, s=stream: catalog.segments(s, a.buckets(2, 4), producer=a.ME)
        yield lambda catalog, s=stream: [catalog.lineage(x) for x in catalog.segments(s)]
    yield lambda catalog: catalog.read_knowledge(FRAGMENTS, LIMITS)
    yield lambda catalog: [strip(step) for step in catalog.steps()]
    yield lambda catalog: [strip(step) for step in catalog.steps(2)]
    yield lambda catalog: catalog.quarantined(3)
    yield lambda catalog: (catalog.quarantine_count(), catalog.quarantine_reasons(2))
    yield lambda catalog: (catalog.assignments(), catalog.plans(), catalog.step_counts())
    yield lambda catalog: [(strip(found.lease), found.is_held) for found in catalog.leases()]
    yield lambda catalog: catalog.holds(a.SUMS)
    yield lambda catalog: catalog.landed_files(a.SRC, a.buckets(1, 3))
    yield lambda catalog: (catalog.landed_extent(a.SRC), catalog.landed_queries(a.SRC))
    yield lambda catalog: catalog.landed_batches(a.SRC, "query")


def outcome(answer: Callable[[], Any]) -> Any:
    """The answer without what the two clocks say, or the class of the error."""
    try:
        return strip(answer())
    except MedusaError as error:
        return type(error)


def strip(value: Any) -> Any:
    """A value without times of the catalog's clock."""
    if isinstance(value, Lease):
        return replace(value, expires_at_ms=0)
    if isinstance(value, CommitResult | StepRecord):
        return replace(value, committed_at_ms=0)
    if isinstance(value, TrimResult) and value.held_by is not None:
        return replace(value, held_by=replace(value.held_by, since_ms=None))
    return value


@pytest.mark.sweep
def test_both_catalogs_give_the_same_answers_errors_and_waits(
    home_urls: HomeUrls, watcher: Engine
) -> None:
    class Machine(CatalogMachine):
        urls = home_urls

    Machine.watcher = watcher
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples(3, 60),
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            database=None,
            # Shrinking waits through every race again: minutes. Add Phase.shrink when it fails.
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
