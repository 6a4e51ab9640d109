"""The driver of the simulation: the calls of `pipelines/driver.py` in the same order, cut at gaps.

It decides nothing: `medusa_core.decide` does. Steps are computed by the tiny engine; everything
else that a step is made of, knowledge, decisions, lineage, commits, is the product's own.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, assert_never

from medusa_core import decide as deciding
from medusa_core.commits import Cause, Commit, Lane, LeaseKey, OutputSegment, StepMetrics
from medusa_core.decide import CloseBuckets, ComputeStep, Decision, Wait
from medusa_core.errors import Conflict, OutcomeUnknown, Unavailable
from medusa_core.exchange import import_fragment
from medusa_core.knowledge import Knowledge
from medusa_core.names import Epoch, StreamName
from medusa_core.segments import Producer, SegmentFile, Stability
from pipelines.catalog.memory_tables import LineRow
from pipelines.simulation import early
from pipelines.simulation.calls import REPLY_MS, commit_until_known, short
from pipelines.simulation.evaluate import digests
from pipelines.simulation.homes import LineKey, SimulatedHome
from pipelines.simulation.processes import Ended, Process, Rest, Work
from pipelines.simulation.scenario import FIRST_EPOCH, Row, landing_of

if TYPE_CHECKING:
    from pipelines.simulation.world import World

LEASE_MS = 4_000
POLL_MS = 2_000
BACKLOG_MS = 1_000
"""How often those who correct look; news does not wake them."""

READ_MS, DECIDE_MS, WRITE_MS, ACKNOWLEDGE_MS = 4, 1, 10, 2
RETRY_MS = 700
Made = Generator[Rest, None, Commit]


def drive(world: World, process: Process) -> Work:
    """The long-lived loop: take leases, then tick; sleep when there was nothing to do."""
    home = world.homes[process.participant]
    yield from take(world, process, home)
    while True:
        try:
            look_at_leases(process)
            has_applied = yield from tick(world, process, home)
        except Conflict as error:
            world.emit(process.name, "conflict", why=str(error))
            yield from take(world, process, home)
            continue
        except Unavailable as error:
            world.emit(process.name, "away", why=str(error))
            yield Rest(RETRY_MS, is_timer=True)
            continue
        except OutcomeUnknown as error:
            raise Ended(str(error)) from error
        if not has_applied:
            yield Rest(BACKLOG_MS if process.lane is Lane.BACKLOG else POLL_MS, sleeps=True)


def look_at_leases(process: Process) -> None:
    """Raises Conflict once a lease was lost, whoever needs it: what waits for it would not say."""
    for problem in process.lost.values():
        raise Conflict(problem)


def take(world: World, process: Process, home: SimulatedHome) -> Work:
    """Take all leases; a driver that finds another one at work ends before its first commit."""
    while True:
        try:
            knowledge = yield from short(lambda: world.read(home))
            for key, epoch in wanted(world, process, knowledge):
                lease = yield from short(
                    lambda key=key, epoch=epoch: home.reach().acquire_lease(  # type: ignore[misc]
                        key, epoch, process.name, LEASE_MS
                    )
                )
                process.leases[key] = lease
                process.lost.pop(key, None)
        except Conflict as error:
            world.emit(process.name, "refused", why=str(error))
            if process.is_double or world.another_runs(process):
                raise Ended("another driver has its leases") from error
        except Unavailable as error:
            world.emit(process.name, "away", why=str(error))
        else:
            world.emit(process.name, "leases", f"{len(process.leases)} taken")
            return
        yield Rest(RETRY_MS, is_timer=True)


def wanted(world: World, process: Process, knowledge: Knowledge) -> list[tuple[LeaseKey, Epoch]]:
    """What a process of its lane needs leases for, under the epochs that its home knows."""
    keys = [
        (LeaseKey(fragment=f.fragment.id, producer=f.producer, lane=process.lane), f.epoch)
        for f in knowledge.fragments
    ]
    if process.lane is Lane.BACKLOG:
        return keys
    me = Producer(process.participant)
    keys += [(landing_key(k.stream, k.producer), k.epoch) for k in knowledge.landings]
    return keys + [
        (import_key(stream, me), FIRST_EPOCH) for stream in world.imports[process.participant]
    ]


def landing_key(stream: StreamName, producer: Producer) -> LeaseKey:
    """The lease under which a source lands and is closed."""
    return LeaseKey(fragment=landing_of(stream), producer=producer)


def import_key(stream: StreamName, reader: Producer) -> LeaseKey:
    """The lease under which a partner's stream is brought in."""
    return LeaseKey(fragment=import_fragment(stream), producer=reader)


def keep(world: World, process: Process) -> Work:
    """Renew what is held at every third of a lease; what is refused is lost."""
    home = world.homes[process.participant]
    while True:
        yield Rest(LEASE_MS // 3, is_timer=True)
        for key, lease in list(process.leases.items()):
            if key in process.lost:
                continue
            try:
                renewed = yield from short(
                    lambda lease=lease: home.reach().renew_lease(lease, LEASE_MS)  # type: ignore[misc]
                )
            except Conflict as error:
                process.lost[key] = str(error)
                world.emit(process.name, "lost", str(key), str(error))
            except Unavailable:
                break  # at the next beat again; the lease decides at the commit
            else:
                process.leases[key] = renewed


def tick(world: World, process: Process, home: SimulatedHome) -> Generator[Rest, None, bool]:
    """One round: read, decide, apply in order. False when there was nothing to do."""
    # 1
    knowledge = yield from short(lambda: world.read(home))
    seen = home.lines()
    world.emit(process.name, "read")
    yield Rest(READ_MS, gap="1-2")
    # 2
    decisions = deciding.decide(knowledge, knowledge.clock_ms)
    due = due_here(process, decisions)
    world.emit_decisions(process.name, decisions if process.lane is Lane.LIVE else due)
    yield Rest(DECIDE_MS, gap="2-3")
    for decision in due:
        yield from apply(world, process, home, decision, seen)
    if due or process.lane is not Lane.LIVE:
        return bool(due)
    guess = yield from early.answer_early(world, process, home, knowledge)
    if guess is not None:
        yield from apply(world, process, home, guess.step, guess.seen, guess.missing)
    return guess is not None


def due_here(process: Process, decisions: Iterable[Decision]) -> list[CloseBuckets | ComputeStep]:
    """What a process applies: all of it, or corrections alone in the backlog's lane.

    Where both lanes find a correction, the first commit wins and the other is a Conflict.
    """
    due: list[CloseBuckets | ComputeStep] = []
    for decision in decisions:
        match decision:
            case Wait():
                continue
            case CloseBuckets():
                is_correction = False
            case ComputeStep():
                is_correction = decision.cause is Cause.CORRECTION
            case _:
                assert_never(decision)
        if is_correction or process.lane is Lane.LIVE:
            due.append(decision)
    return due


def apply(
    world: World,
    process: Process,
    home: SimulatedHome,
    decision: CloseBuckets | ComputeStep,
    seen: Mapping[LineKey, LineRow],
    missing: tuple[StreamName, ...] = (),
) -> Work:
    """Carry a decision out: 3, 4, 5 and 6."""
    if isinstance(decision, CloseBuckets):
        commit = yield from close(world, process, home, decision)
    else:
        commit = yield from compute(world, process, home, decision, missing)
    # 5
    world.laws.check_lineage(home.participant, commit, seen)
    what = ", ".join(f"{s.stream} {s.range}" for s in commit.segments)
    committed = yield from commit_until_known(world, process, home, commit)
    world.emit(process.name, "commit", what, f"v{max(committed.versions.values())}")
    yield Rest(REPLY_MS, gap="5-6")
    if world.takes_order("commit again", process.participant):
        world.send_again(home, commit)
    # 6
    yield Rest(ACKNOWLEDGE_MS)


def close(world: World, process: Process, home: SimulatedHome, decision: CloseBuckets) -> Made:
    """Write the segment of a run of buckets from the landed files."""
    landing, part = decision.landing, decision.range
    lease = process.lease(landing_key(landing.stream, landing.producer))
    # 3
    files = yield from short(lambda: home.reach().landed_files(landing.stream, part))
    rows = [row for f in files for row in home.storage.read(f) if part.holds(row[0])]
    yield Rest(world.compute_ms(), gap="3-4")
    # 4
    buckets = digests(rows, landing.width_us)
    promised = {at: n for at, n in landing.counts.items() if part.holds(at)}
    found = {at: digest.rows for at, digest in buckets.items()}
    if promised != found and not world.laws.may_write(home, lease):
        raise Conflict(f"{landing.stream} {part} was closed by another driver, and trimmed")
    world.laws.check_landed(landing.stream, promised, found)
    written = yield from write_rows(world, process, home, landing.stream, rows)
    segment = OutputSegment(
        stream=landing.stream,
        range=part,
        stability=Stability.STABLE,
        buckets=buckets,
        files=written,
    )
    return Commit(
        lease=lease,
        plan=world.scenario.plan,
        cause=Cause.LANDING,
        segments=(segment,),
        metrics=StepMetrics(records_in=len(rows), records_out=len(rows)),
        ends=decision.ends,
    )


def compute(
    world: World,
    process: Process,
    home: SimulatedHome,
    step: ComputeStep,
    missing: tuple[StreamName, ...] = (),
) -> Made:
    """Compute a step's outputs from what its lineage names, and write them."""
    known = step.fragment
    # 3
    outputs = {name: output_rows(world, home, step, name) for name in step.outputs}
    yield Rest(world.compute_ms(), gap="3-4")
    # 4
    segments = []
    for name, rows in outputs.items():
        written = yield from write_rows(world, process, home, name, rows)
        segments.append(
            OutputSegment(
                stream=name,
                range=step.range,
                stability=step.stability,
                buckets=digests(rows, known.outputs[name].width_us),
                files=written,
                missing=missing,
            )
        )
    lease = process.lease(
        LeaseKey(
            fragment=known.fragment.id,
            producer=known.producer,
            partition=known.partition,
            lane=process.lane,
        )
    )
    return Commit(
        lease=lease,
        plan=known.plan,
        cause=step.cause,
        segments=tuple(segments),
        lineage=step.reads,
        ends=step.ends,
    )


def output_rows(
    world: World, home: SimulatedHome, step: ComputeStep, output: StreamName
) -> list[Row]:
    """The rows of one output in the step's range, from the files that its lineage names."""
    inputs: dict[StreamName, list[Row]] = {name: [] for name in step.fragment.inputs}
    for read in step.reads:
        if read.output != output:
            continue
        for segment in step.fragment.inputs[read.input].segments:
            same = (segment.producer, segment.version) == (read.producer, read.version)
            if same and segment.range.overlaps(read.range):
                inputs[read.input] += [
                    row
                    for file in segment.files
                    for row in home.storage.read(file)
                    if read.range.holds(row[0]) and segment.range.holds(row[0])
                ]
    rows = world.evaluators[step.fragment.fragment.id].rows(output, inputs)
    return [row for row in rows if step.range.holds(row[0])]


def write_rows(
    world: World, process: Process, home: SimulatedHome, stream: StreamName, rows: list[Row]
) -> Generator[Rest, None, tuple[SegmentFile, ...]]:
    """Write a file under a name of its own, none for no rows; a crash on the way leaves it torn."""
    if not rows:
        yield Rest(1, gap="4-5")
        return ()
    path = f"{stream}/{process.name}-{world.next_number()}"
    home.storage.begin(path, rows)
    yield Rest(WRITE_MS, gap="4-5")
    return (home.storage.write(path, rows),)
