"""The scenario of a schedule, drawn from its seed: participants, the network, the records.

The form of the network is one of a few (`networks`); its parameters, the cut into fragments and
participants, the records and the order of their arrival are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from medusa_core.bounds import Bound, Policy
from medusa_core.drops.utility import Qos
from medusa_core.exchange import import_fragment
from medusa_core.fragments import Fragment, fragments_of
from medusa_core.grid import FOREVER_US, Range, floor_us
from medusa_core.knowledge import Limits
from medusa_core.names import Epoch, NetworkName, Participant, PlanId, StreamName
from medusa_core.network import Network
from medusa_core.plans import Plan
from medusa_core.segments import IMPORT, Producer
from pipelines.catalog.records import Assignment, Deployment, StreamRecord
from pipelines.language.check import check_network, fragments_for
from pipelines.simulation.faults.drawn_moves import (
    NO_MOVES,
    DrawnMoves,
    draw_moves,
    draw_providers,
    placed_with_payers,
)
from pipelines.simulation.faults.drawn_overloads import draw_qos
from pipelines.simulation.faults.drawn_replicas import NO_REPLICAS, Replicas, draw_replicas
from pipelines.simulation.faults.drawn_revisions import (
    NO_REVISIONS,
    Revisions,
    draw_late_sources,
    draw_revisions,
)
from pipelines.simulation.faults.schedule_shapes import WHOLE, Shape
from pipelines.simulation.faults.simulated_networks import (
    DRAWN_BY_CHANCE,
    WIDE,
    WIDTH_US,
    Form,
    Rules,
    network_of,
)
from pipelines.spark.deployment import plan_of_widths, streams_of

Row = tuple[int, ...]
"""A record: its event time in microseconds, then its columns in declared order."""

Wired = dict[str, tuple[tuple[StreamName, ...], tuple[StreamName, ...]]]
"""Fragment -> the streams that it reads and those that it writes."""

NAMES = ("alpha", "beta", "gamma", "delta")
FIRST_EPOCH = Epoch(1)
LATE_MS = (3_000, 7_000)
"""When a participant begins that begins late."""

BOUND_MS = (1_500, 4_000)
"""Within which time outputs are promised."""

SEEDS_IN_A_ROUND = 16
FORM_AT = {
    3: Form.RANKS, 5: Form.NEWEST, 7: Form.PAIRS, 9: Form.RUNNING, 11: Form.FIRSTS,
    12: Form.SESSIONS, 14: Form.EVERY,
    15: Form.ABSENCE,
}  # fmt: skip
"""The forms of some seeds of a round: by the number, so that the others stay what they were."""

WITHIN_S = ((-15, 5), (0, 20), (-10, 0), (5, 25), (-25, -5), (-5, -5), (0, 0))
"""The bounds of such a Join in seconds, of buckets of 10 s."""

MAX_AGES_S = (1, 5, 10, 25)
"""How old a record may be that a Lookup finds, in seconds."""

ORIGINS_US = (0, -13 * WIDTH_US, 1_700_000_000_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedBatch:
    """What a source brings at a time: records in the order they came, and then a promise.

    `at_ms` counts from the start of the schedule. The last batch promises the end.
    """

    batch_id: int
    at_ms: int
    records: tuple[Row, ...]
    boundary_us: int
    end_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything that is given before a schedule begins.

    `backlog` names those with a process for corrections, `readers` who reads which stream of its
    own with a cursor; `retention_us` is how much of a line a home keeps without a hold; at
    `starts_ms` a participant's processes begin, whose home is there from the beginning. Of what
    has a `qos` an overload drops records.
    """

    seed: int
    shape: Shape
    participants: tuple[Participant, ...]
    backlog: tuple[Participant, ...]
    network: Network
    plan: Plan
    plan_id: PlanId
    plan_document: str
    widths_us: Mapping[StreamName, int]
    rules: Rules
    fragments: Mapping[str, Fragment]
    owners: Mapping[str, Participant]
    origin_us: int
    buckets: int
    feeds: Mapping[StreamName, tuple[FeedBatch, ...]]
    limits: Limits
    news_segments_max: int
    segments_per_trim_max: int
    retention_us: Mapping[Participant, int]
    readers: Mapping[Participant, StreamName]
    clock_offsets_ms: Mapping[Participant, int]
    starts_ms: Mapping[Participant, int]
    bound: Bound
    replicas: Replicas = NO_REPLICAS
    revisions: Revisions = NO_REVISIONS
    moves: DrawnMoves = NO_MOVES
    qos: Mapping[StreamName, Qos] = field(default_factory=dict)

    @property
    def whole(self) -> Range:
        """The event time of the sources."""
        return Range(self.origin_us, self.origin_us + self.buckets * WIDTH_US)

    @property
    def fed_ms(self) -> int:
        """When the last batch of the last source comes."""
        return max(feed[-1].at_ms for feed in self.feeds.values())

    def all_owners(self, fragment: str) -> tuple[Participant, ...]:
        """Who computes or lands something, by name."""
        return tuple(sorted((self.owners[fragment], *self.replicas.others.get(fragment, ()))))

    def producers(self, fragment: str) -> tuple[Producer, ...]:
        """The same as producers: replicas are numbered by name, as contracts number them."""
        return tuple(Producer(p, n) for n, p in enumerate(self.all_owners(fragment)))

    def writers(self) -> dict[StreamName, tuple[Producer, ...]]:
        """Who writes each stream."""
        return {
            stream: self.producers(name)
            for name, (_, outputs) in wiring(self).items()
            for stream in outputs
        }

    def imports(self, reader: Participant) -> dict[StreamName, tuple[Producer, ...]]:
        """The streams of partners that a participant's fragments read, and their producers."""
        found = {
            stream: tuple(writer for writer in writers if writer.participant != reader)
            for stream, writers in self._read_by(reader).items()
        }
        return {stream: partners for stream, partners in found.items() if partners}

    def chosen(self, reader: Participant) -> tuple[StreamName, ...]:
        """The streams of which a participant chooses what it reads among several producers."""
        return tuple(s for s, writers in self._read_by(reader).items() if len(writers) > 1)

    def line_read(self, reader: Participant, stream: StreamName) -> Producer:
        """The line that a participant reads of a stream that it writes or has chosen."""
        if stream in self.chosen(reader):
            return Producer(reader, IMPORT)
        return next(w for w in self.writers()[stream] if w.participant == reader)

    def _read_by(self, reader: Participant) -> dict[StreamName, tuple[Producer, ...]]:
        writers = self.writers()
        return {
            stream: writers[stream]
            for name, fragment in self.fragments.items()
            if reader in self.all_owners(name)
            for stream in fragment.input_streams
        }

    def depth(self) -> int:
        """The length of the longest chain of fragments, a landing and an import not counted."""
        deep: dict[StreamName, int] = {}
        for fragment in self.fragments.values():
            level = 1 + max(deep.get(stream, 0) for stream in fragment.input_streams)
            deep.update(dict.fromkeys(fragment.outputs, level))
        return max(deep.values())


def wiring(scenario: Scenario) -> Wired:
    """Input and output streams of every fragment, those that land the sources first."""
    landings: Wired = {landing_of(stream): ((), (stream,)) for stream in scenario.feeds}
    computed: Wired = {
        name: (fragment.input_streams, tuple(fragment.outputs))
        for name, fragment in scenario.fragments.items()
    }
    return {**landings, **computed}


def landing_of(stream: StreamName) -> str:
    """The fragment under which a source lands (the name is that of `streams.landing`)."""
    return f"landing/{stream}"


def draw_scenario(seed: int, shape: Shape = WHOLE) -> Scenario:
    """The scenario of a seed."""
    chance = Random(f"scenario {seed}")
    participants = tuple(Participant(name) for name in NAMES[: chance.randint(3, len(NAMES))])
    sources = [StreamName(f"s{i}") for i in range(chance.randint(2, 3))]
    counts_advance = chance.choice((1, 1, 2))
    form = chance.choice(DRAWN_BY_CHANCE)
    rules = Rules(
        form=FORM_AT.get(seed % SEEDS_IN_A_ROUND, form),
        modulus=chance.randint(2, 4),
        remainder=chance.randint(0, 1),
        loud_from=chance.randint(1, 3),
        counts_size=counts_advance * chance.randint(1, 3),
        counts_advance=counts_advance,
        sums_size=chance.choice((1, 2, 3, 6)),
        is_cut_finely=chance.random() < 0.6,
        within_s=Random(f"join {seed}").choice(WITHIN_S),
        max_age_s=Random(f"lookup {seed}").choice(MAX_AGES_S),
    )
    network = network_of(rules, sources, draw_late_sources(seed, shape, sources))
    wide_us = WIDTH_US * chance.choice((1, 1, 2))
    fragments = {fragment.id: fragment for fragment in fragments_of(network)}
    streams = [*sources, *(s for fragment in fragments.values() for s in fragment.outputs)]
    widths_us = {s: wide_us if s in WIDE[rules.form] else WIDTH_US for s in streams}
    providers = draw_providers(seed, shape, participants)
    plan = _plan(network, widths_us, is_moved=bool(providers))
    origin_us, buckets = chance.choice(ORIGINS_US), chance.randint(*shape.buckets)
    tasks = [*(landing_of(s) for s in sources), *fragments]
    # Everybody gets something to do; beyond that, chance.
    owners = [*participants, *(chance.choice(participants) for _ in tasks)][: len(tasks)]
    chance.shuffle(owners)
    placed = dict(zip(tasks, owners, strict=True))
    placed = placed_with_payers(seed, providers, fragments, placed)
    written = {p: written_by(sources, fragments, placed, p) for p in participants}
    writers = [p for p in participants if p not in providers and written[p]]
    readers = {p: chance.choice(written[p]) for p in writers if chance.random() < shape.reads}
    computing = {placed[name] for name in fragments}
    backlog = tuple(p for p in participants if p in computing and chance.random() < shape.backlog)
    feeds = {stream: draw_feed(chance, shape, origin_us, buckets) for stream in sources}
    return Scenario(
        seed=seed,
        shape=shape,
        participants=participants,
        backlog=backlog,
        network=network,
        plan=plan,
        plan_id=plan.id,
        plan_document=plan.document,
        widths_us=widths_us,
        rules=rules,
        fragments=fragments,
        owners=placed,
        origin_us=origin_us,
        buckets=buckets,
        feeds=feeds,
        limits=Limits(buckets_per_step_max=chance.randint(*shape.buckets_per_step)),
        news_segments_max=chance.randint(1, 6),
        segments_per_trim_max=chance.randint(1, 4),
        retention_us={p: WIDTH_US * chance.randint(*shape.retention_buckets) for p in participants},
        readers=readers,
        clock_offsets_ms={p: chance.randint(0, 3_600_000) for p in participants},
        starts_ms={
            p: chance.randint(*LATE_MS) if chance.random() < shape.late else 0 for p in participants
        },
        bound=draw_bound(chance),
        replicas=draw_replicas(seed, shape, participants, fragments, placed),
        revisions=draw_revisions(seed, shape, participants, feeds, streams),
        moves=draw_moves(seed, shape, providers, fragments, placed, feeds),
        qos=draw_qos(seed, shape, (StreamName(output.name) for output in network.outputs)),
    )


def _plan(network: Network, widths_us: Mapping[StreamName, int], *, is_moved: bool) -> Plan:
    """The plan of a network; a provider makes it again, as the product does."""
    if is_moved:
        return plan_of_widths(network, check_network(network), widths_us, Path())
    return Plan(
        network=network, widths_us=widths_us, function_sources={}, engine={"engine": "simulated"}
    )


def draw_bound(chance: Random) -> Bound:
    """What is promised of every output: mostly to answer at once after the first wait."""
    policies = (Policy.PROCESS, Policy.PROCESS, Policy.PROCESS, Policy.DELAY)
    return Bound(
        bound_ms=chance.randint(*BOUND_MS),
        during_failure=chance.choice(policies),
        during_stabilization=chance.choice(policies),
    )


def written_by(
    sources: Sequence[StreamName],
    fragments: Mapping[str, Fragment],
    placed: Mapping[str, Participant],
    who: Participant,
) -> list[StreamName]:
    """The streams that a participant lands or computes."""
    landed = [s for s in sources if placed[landing_of(s)] == who]
    return landed + [s for name, f in fragments.items() if placed[name] == who for s in f.outputs]


def draw_feed(chance: Random, shape: Shape, origin_us: int, buckets: int) -> tuple[FeedBatch, ...]:
    """The batches of one source: out of order within a disorder that its promises allow for."""
    disorder_us = chance.choice((0, WIDTH_US // 2, 3 * WIDTH_US))
    end_us = origin_us + buckets * WIDTH_US
    records: list[Row] = []
    for at_us in range(origin_us, end_us, WIDTH_US):
        for _ in range(chance.choice((0, 0, 1, 1, 2, 3))):
            stime = at_us + chance.randrange(WIDTH_US)
            records.append((stime, stime, chance.randrange(3), chance.randrange(10)))
    if records and chance.random() < 0.5:
        records.append(records[chance.randrange(len(records))])  # equal records all count
    arrivals = sorted((row[0] + chance.randint(0, disorder_us), row) for row in records)
    batches: list[FeedBatch] = []
    at_ms, upto_us = chance.randint(50, 500), origin_us
    while upto_us < end_us + disorder_us:
        from_us, upto_us = upto_us, upto_us + chance.randint(*shape.buckets_per_batch) * WIDTH_US
        has_ended = upto_us >= end_us + disorder_us
        batches.append(
            FeedBatch(
                batch_id=len(batches),
                at_ms=at_ms,
                records=tuple(row for at, row in arrivals if from_us <= at < upto_us),
                boundary_us=FOREVER_US if has_ended else max(origin_us, upto_us - disorder_us),
                end_us=end_us if has_ended else None,
            )
        )
        at_ms += chance.randint(*shape.batch_every_ms)
    return tuple(batches)


def deployment_for(scenario: Scenario, home: Participant) -> Deployment:
    """What a home holds: all of the network, who computes it, and the imports of its own.

    An import writes a line of its own where it chooses among several producers.
    """
    imports: Wired = {import_fragment(stream): ((), ()) for stream in scenario.imports(home)}
    chosen: Wired = {import_fragment(s): ((), (s,)) for s in scenario.chosen(home)}
    wired = wiring(scenario)
    assigned = [(name, scenario.producers(name)) for name in wired]
    assigned += [(n, (Producer(home, IMPORT if n in chosen else 0),)) for n in imports]
    return Deployment(
        network=NetworkName(scenario.network.name),
        document=scenario.plan_document,
        plan=scenario.plan_id,
        plan_document=scenario.plan_document,
        streams=_records(scenario),
        fragments={**wired, **imports, **chosen},
        assignments=tuple(
            Assignment(fragment=name, producer=producer, epoch=Epoch(epoch), plan=scenario.plan_id)
            for name, producers in assigned
            for epoch, producer in enumerate(producers, FIRST_EPOCH)
        ),
    )


def _records(scenario: Scenario) -> tuple[StreamRecord, ...]:
    """The streams; what they hold is integers, whatever their columns are called."""
    if scenario.moves.occur:
        checked = check_network(scenario.network)
        return streams_of(checked, fragments_for(checked), scenario.widths_us)
    return tuple(
        StreamRecord(
            name=stream,
            kind="source" if stream in scenario.feeds else "derived",
            width_us=width_us,
            columns={"row": "bigint"},
        )
        for stream, width_us in scenario.widths_us.items()
    )


def bucket_of(time_us: int) -> int:
    """The start of the narrowest bucket that holds an event time."""
    return floor_us(time_us, WIDTH_US)
