"""A chain in the simulator: production code on a virtual clock, steps as long as measured ones.

Three participants land a source each, the head joins them, each hop passes them on. The
simulator's event time is cut into buckets of 10 s; here a bucket of it passes in `bucket_ms` of
the virtual clock, by which times are measured. The laws of the simulator, S6 among them, are
checked after every event, against its oracle for a chain that changes nothing. Its loops tick
every second without a notification, those of real processes every half second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from bench.dpc.history import History, Version, by_bucket
from bench.dpc.metrics import CellFigures, Episode, Lost, measure
from medusa_core.bounds import Bound
from medusa_core.fragments import fragments_of
from medusa_core.grid import FOREVER_US
from medusa_core.knowledge import Limits
from medusa_core.names import Participant, StreamName
from medusa_core.network import Filter, Network, Output, Source, Union
from medusa_core.plans import Plan
from medusa_core.segments import Producer
from pipelines.base.failpoints import visited_by
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.tables import CommitRow, SegmentRow
from pipelines.exchange.importer import SEGMENTS_PER_NEWS_MAX
from pipelines.simulation.faults.expected import expected_of
from pipelines.simulation.faults.scenario import FeedBatch, Row, Scenario, bucket_of, landing_of
from pipelines.simulation.faults.schedule_shapes import WHOLE
from pipelines.simulation.faults.simulated_networks import COLUMNS, WIDTH_S, WIDTH_US, Form, Rules
from pipelines.simulation.faults.stream_laws import Laws
from pipelines.simulation.faults.world import World

BEGINS_MS = 20_000
"""When the first input is lost: the laws leave everybody alone for the first 14 s, and what steps
cost is known by then."""

AFTER_MS = 30_000
SOURCES = ("first", "second", "third")
LANDERS = ("north", "south", "east")
NEVER_TRIMMED_US = 10**15
_RULES = Rules(form=Form.CHAIN, modulus=2, remainder=0, loud_from=0, counts_size=1,
               counts_advance=1, sums_size=1, is_cut_finely=True)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCell:
    """A chain, what is promised at its end, and which inputs are lost (source, from s, to s)."""

    depth: int
    bucket_ms: int
    bound: Bound
    lost: tuple[tuple[str, float, float], ...]
    seed: int = 1
    rows_per_bucket: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What came of it; `is_whole`: every bucket is final in the end and as the oracle says."""

    figures: CellFigures
    is_whole: bool


class ChainLaws(Laws):
    """The simulator's laws, with every stream of the chain holding what its sources hold."""

    def expect(self, scenario: Scenario, streams: Sequence[StreamName]) -> None:
        """What the streams behind the sources must hold: all that the head joins."""
        everything: dict[int, Counter[Row]] = {}
        for row, times in expected_of(scenario)["gathered"].items():
            everything.setdefault(bucket_of(row[0]), Counter())[row] += times
        self._expected = {**self._expected, **dict.fromkeys(streams, everything)}


class ChainWorld(World):
    """A world in which nothing but the cell's failures happens, and steps last as measured."""

    def __init__(self, scenario: Scenario, steps_ms: Sequence[float]) -> None:
        super().__init__(scenario)
        self._steps_ms = [max(round(ms), 1) for ms in steps_ms]
        laws = ChainLaws(scenario, self.homes, self.is_disturbed)
        laws.expect(scenario, [s for f in scenario.fragments.values() for s in f.outputs])
        self.laws = laws

    def compute_ms(self) -> int:
        """One of the measured steps."""
        return self.chance.choice(self._steps_ms)


def simulate(cell: SimulatedCell, steps_ms: Sequence[float]) -> Simulated:
    """Run a cell; raises Violation if a law is broken, AssertionError where nothing came."""
    scenario = scenario_of(cell)
    lost = tuple(
        Lost(source=s, from_ms=BEGINS_MS + from_s * 1e3, to_ms=BEGINS_MS + to_s * 1e3)
        for s, from_s, to_s in cell.lost
    )
    world = ChainWorld(scenario, steps_ms)
    head = Participant("hop1")
    with closing(world), visited_by(world.pass_point):
        for one in lost:
            lander = Participant(LANDERS[SOURCES.index(one.source)])
            until_ms = int(one.to_ms)
            world.after(int(one.from_ms), lambda x=lander, t=until_ms: world.links.cut(x, head, t))
        world.run(until=lambda: world.now_ms > scenario.fed_ms + AFTER_MS)
    history = history_of(world, scenario, cell)
    settled_ms = _settled_ms(history, lost)
    episode = Episode(began_ms=BEGINS_MS, settled_ms=settled_ms, lost=lost)
    return Simulated(figures=measure(history, episode), is_whole=_is_whole(world))


def _settled_ms(history: History, lost: Sequence[Lost]) -> float:
    """The first time behind the last heal at which nothing in the chain is tentative."""
    owed = sorted(
        (versions[0].committed_ms, versions[-1].committed_ms)
        for of in history.hops
        for versions in by_bucket(of, history.width_us).values()
        if len(versions) > 1
    )
    at_ms = max(one.to_ms for one in lost) + 1_000
    for from_ms, to_ms in owed:
        if from_ms <= at_ms < to_ms:
            at_ms = to_ms
    return at_ms


def _is_whole(world: World) -> bool:
    """Whether all that was begun has come to its end and is final; the laws saw what it holds."""
    lines = [line for home in world.homes.values() for line in home.lines().values() if line.live]
    return bool(lines) and all(
        line.boundary_us == FOREVER_US and all(r.segment.stability.is_final for r in line.live)
        for line in lines
    )


def network_of(depth: int) -> Network:
    """Three sources joined at the head, and a filter that keeps everything at each hop behind."""
    boxes: list[Union | Filter] = [Union(name="gathered", inputs=SOURCES, fragment="hop1")]
    before = "gathered"
    for hop in range(2, depth + 1):
        boxes.append(
            Filter(
                name=f"passed{hop}",
                input=before,
                cases={"kept": "value >= 0"},
                fragment=f"hop{hop}",
            )
        )
        before = f"passed{hop}.kept"
    return Network(
        name="chain",
        sources=tuple(Source(name=s, columns=COLUMNS, time="at") for s in SOURCES),
        boxes=tuple(boxes),
        outputs=(Output(name="answers", input=before),),
        bucket=f"{WIDTH_S}s",
    )


def scenario_of(cell: SimulatedCell) -> Scenario:
    """The scenario of a cell: nothing in it is drawn but what the seed says of small delays."""
    network = network_of(cell.depth)
    fragments = {fragment.id: fragment for fragment in fragments_of(network)}
    hops = tuple(Participant(f"hop{number}") for number in range(1, cell.depth + 1))
    participants = (*(Participant(name) for name in LANDERS), *hops)
    streams = [StreamName(s) for s in SOURCES]
    computed = [s for fragment in fragments.values() for s in fragment.outputs]
    widths_us = dict.fromkeys([*streams, *computed], WIDTH_US)
    plan = Plan(
        network=network, widths_us=widths_us, function_sources={}, engine={"engine": "simulated"}
    )
    owners = {landing_of(s): Participant(p) for s, p in zip(streams, LANDERS, strict=True)}
    owners |= {name: hops[at] for at, name in enumerate(sorted(fragments))}
    ends_s = max(to_s for _, _, to_s in cell.lost)
    buckets = round((BEGINS_MS + ends_s * 1e3 + AFTER_MS / 2) / cell.bucket_ms)
    return Scenario(
        seed=cell.seed,
        shape=WHOLE,
        participants=participants,
        backlog=(),
        network=network,
        plan=plan,
        plan_id=plan.id,
        plan_document=plan.document,
        widths_us=widths_us,
        rules=_RULES,
        fragments=fragments,
        owners=owners,
        origin_us=0,
        buckets=buckets,
        feeds={s: _feed(cell, at, buckets) for at, s in enumerate(streams)},
        limits=Limits(),
        news_segments_max=SEGMENTS_PER_NEWS_MAX,
        segments_per_trim_max=1,
        retention_us=dict.fromkeys(participants, NEVER_TRIMMED_US),
        readers={},
        clock_offsets_ms=dict.fromkeys(participants, 0),
        starts_ms=dict.fromkeys(participants, 0),
        bound=cell.bound,
    )


def _feed(cell: SimulatedCell, source: int, buckets: int) -> tuple[FeedBatch, ...]:
    """A bucket's records come when it is over, with the promise that there are no more."""
    return tuple(
        FeedBatch(
            batch_id=at,
            at_ms=(at + 1) * cell.bucket_ms,
            records=tuple(
                (at * WIDTH_US + n, at * WIDTH_US + n, source, n)
                for n in range(cell.rows_per_bucket)
            ),
            boundary_us=FOREVER_US if at == buckets - 1 else (at + 1) * WIDTH_US,
            end_us=buckets * WIDTH_US if at == buckets - 1 else None,
        )
        for at in range(buckets)
    )


def history_of(world: World, scenario: Scenario, cell: SimulatedCell) -> History:
    """The catalogs' rows as values; an event time becomes the virtual time at which it passed."""

    def versions(stream: StreamName, participant: Participant) -> tuple[Version, ...]:
        home = world.homes[participant]
        commits: Mapping[str, CommitRow] = home.store.committed.get(tables.COMMITS.name, {})  # type: ignore[assignment]
        line = home.lines()[stream, Producer(participant)]
        rows = [_version(row, commits[row.commit_key], cell) for row in
                (*line.live, *line.superseded)]  # fmt: skip
        return tuple(sorted(rows, key=lambda v: (v.commit, v.from_us)))

    return History(
        width_us=cell.bucket_ms * 1_000,
        landed={
            str(s): versions(StreamName(s), Participant(p))
            for s, p in zip(SOURCES, LANDERS, strict=True)
        },
        hops=tuple(
            versions(next(iter(scenario.fragments[name].outputs)), scenario.owners[name])
            for name in sorted(scenario.fragments)
        ),
    )


def _version(row: SegmentRow, made: CommitRow, cell: SimulatedCell) -> Version:
    segment, width_us = row.segment, cell.bucket_ms * 1_000

    def passed_us(event_us: int) -> int:
        return event_us // WIDTH_US * width_us

    return Version(
        commit=made.number,
        committed_ms=made.committed_at_ms,
        cause=made.commit.cause.value,
        stability=segment.stability.value,
        from_us=passed_us(segment.range.from_us),
        to_us=passed_us(segment.range.to_us),
        missing=tuple(str(name) for name in segment.missing),
        rows={passed_us(at): digest.rows for at, digest in segment.buckets.items()},
        step_ms=sum(made.commit.metrics.phases_ms.values()),
    )
