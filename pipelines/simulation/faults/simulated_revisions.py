"""Operators who revise sources, those who agree to what partners have revised, and late records.

The command is `medusa revise`: production code says which ranges the records lie in, what is
computed from them, and makes the revision. Reading and writing rows is simulated. An operator
whose command was killed, or failed because something was away, looks whether the revision was
made, and else runs the command again with the same file.
"""

from __future__ import annotations

from ast import literal_eval
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from medusa_core.commits import LateRow, QuarantinedRecord
from medusa_core.errors import Conflict, MedusaError, OutcomeUnknown, Refused, Unavailable
from medusa_core.grid import Range, floor_us
from medusa_core.late_records import LateRecord
from medusa_core.line_revisions import RevisionAgreement
from medusa_core.names import Participant, StreamName
from medusa_core.revisions import RevisedSegment, RevisionRequest
from medusa_core.segments import Producer, Segment, SegmentFile
from pipelines.base.failpoints import reached
from pipelines.catalog.memory.store import Waiting
from pipelines.catalog.records import LineStatus
from pipelines.participant.revising import (
    RevisionAction,
    make_revision,
    reach_of,
    revised_parts,
    revised_segments,
)
from pipelines.simulation.faults.clients import CatalogClient
from pipelines.simulation.faults.drawn_revisions import DrawnRevision, RevisionFile
from pipelines.simulation.faults.engine import SimulatedEngine
from pipelines.simulation.faults.evaluate import digest_of_row, digests
from pipelines.simulation.faults.events import Violation
from pipelines.simulation.faults.scenario import Row
from pipelines.simulation.faults.simulated_networks import WIDTH_US
from pipelines.simulation.faults.simulated_processes import Process

if TYPE_CHECKING:
    from pipelines.simulation.faults.world import World

AGAIN_MS = (200, 1_500)
AGREE_MS = (300, 4_000)
"""After how long an operator looks again at what partners have revised."""

BUCKETS = (1, 3)
"""Of how many buckets the records of a file are."""

TRIES_MAX = 40
EXPECTED = ("trimmed", "outside of what is stable and kept", "is not in the stream")
"""What a revision may be refused for: other work went on while it was prepared."""

Parts = tuple[tuple[Range, Segment], ...]


class LateContents:
    """`late_admission.LateContents` over rows in memory."""

    def __init__(self, world: World, process: Process, catalog: CatalogClient) -> None:
        self._catalog = catalog
        self._engine = SimulatedEngine(world, process, catalog)
        self._storage = world.homes[process.participant].storage

    def write(self, line: LineStatus, records: Sequence[LateRecord]) -> tuple[RevisedSegment, ...]:
        """See `late_admission.LateContents.write`."""
        given: list[Row] = [literal_eval(record.row.decode()) for record in records]
        parts, before = self.read(line, given)
        return self.write_rows(line, parts, [*before, *given])

    def remove(self, path: str) -> None:
        """See `late_admission.LateContents.remove`."""
        self._storage.remove(path)

    def read(self, line: LineStatus, given: Iterable[Row]) -> tuple[Parts, list[Row]]:
        """The ranges of the buckets of some records, and the rows that these hold."""
        width_us = line.stream.width_us
        starts = sorted({floor_us(row[0], width_us) for row in given})
        whole = Range(starts[0], starts[-1] + width_us)
        segments = self._catalog.segments(line.stream.name, whole, producer=line.producer)
        parts = revised_parts(line, segments, starts)
        rows = [
            row
            for part, segment in parts
            for file in segment.files
            for row in self._storage.read(file)
            if part.holds(row[0])
        ]
        return parts, rows

    def write_rows(
        self, line: LineStatus, parts: Parts, rows: Sequence[Row]
    ) -> tuple[RevisedSegment, ...]:
        """The segments of a revision, whose rows are written as one file."""
        files: tuple[SegmentFile, ...] = self._engine.write(line.stream.name, sorted(rows))
        buckets = digests(rows, line.stream.width_us)
        return revised_segments(line.stream.name, parts, buckets, files)


def late_records(rows: Iterable[tuple[int, Row]], stream: StreamName) -> list[QuarantinedRecord]:
    """Late records as a source keeps them, each with its number among those of the source."""
    return [
        QuarantinedRecord(
            stream=stream,
            origin="feed",
            position=number,
            field="at",
            reason="is late",
            content=str(row),
            late=LateRow(stime_us=row[0], row=repr(row).encode(), digest=digest_of_row(row)),
        )
        for number, row in rows
    ]


def revise(world: World, process: Process, command: DrawnRevision) -> None:
    """Run `medusa revise` until its revision is made, or refused."""
    catalog = CatalogClient(world, process)
    for _ in range(TRIES_MAX):
        try:
            done = [r for r in catalog.recalls(command.stream) if r.because == command.because]
            if done or _revise_once(world, process, catalog, command):
                break
        except (Conflict, Unavailable, OutcomeUnknown) as error:
            world.emit(process.name, "no revision", command.stream, str(error))
        except Refused as error:
            if not any(expected in str(error) for expected in EXPECTED):
                raise Violation("REFUSED", str(error)) from error
            world.emit(process.name, "no revision", command.stream, str(error))
            break
        world.rest(world.chance.randint(*AGAIN_MS), is_timer=True)
    world.commands.discard(command.number)


def _revise_once(
    world: World, process: Process, catalog: CatalogClient, command: DrawnRevision
) -> bool:
    """Revise; False if nothing is final and kept yet."""
    contents = LateContents(world, process, catalog)
    producer = Producer(process.participant)
    line = next(s for s in catalog.lines(command.stream) if s.producer == producer)
    file = world.laws.revisions.files.get(command.because) or _file_of(
        world, contents, line, command
    )
    if file is None:
        return False
    world.laws.revisions.files[command.because] = file
    parts, before = contents.read(line, file.rows)
    rows = _after(before, file)
    reach = reach_of(catalog, line, [part for part, _ in parts])
    reached("revise.decided")
    segments = contents.write_rows(line, parts, rows)
    reached("revise.written")
    request = RevisionRequest(
        stream=command.stream,
        producer=producer,
        generation=line.generation,
        segments=segments,
        because=command.because,
        who=f"operator_{process.participant}",
        behind=reach.behind,
        needed=reach.needed,
    )
    make_revision(catalog, request, contents.remove)
    reached("revise.made")
    return True


def _after(before: Sequence[Row], file: RevisionFile) -> list[Row]:
    if file.action is RevisionAction.REPLACE:
        return list(file.rows)
    if file.action is RevisionAction.ADD:
        return [*before, *file.rows]
    gone, held = Counter(file.rows), Counter(before)
    if gone - held:
        raise Refused(f"record {min(gone - held)} is not in the stream")
    return sorted((held - gone).elements())


def _file_of(
    world: World, contents: LateContents, line: LineStatus, command: DrawnRevision
) -> RevisionFile | None:
    """The file of a command: records of some buckets that are final and kept now."""
    chance, from_us, through_us = world.chance, line.kept_from_us, line.stable_through_us
    if from_us is None or through_us is None or from_us >= through_us:
        return None
    starts = range(from_us, through_us, WIDTH_US)
    chosen = sorted(chance.sample(starts, min(chance.randint(*BUCKETS), len(starts))))
    if command.action is RevisionAction.REMOVE:
        places = [(at, at, 0, 0) for at in chosen]
        held = sorted(contents.read(line, places)[1])
        rows = chance.sample(held, min(len(held), len(chosen)))
    else:
        times = [at + chance.randrange(WIDTH_US) for at in chosen]
        rows = [(at, at, chance.randrange(3), chance.randrange(10)) for at in times]
    return RevisionFile(command.action, tuple(sorted(rows))) if rows else None


def begin(world: World) -> None:
    """Let operators look at what partners have revised, where no contract says to follow it."""
    revisions = world.scenario.revisions
    for reader, imports in world.imports.items() if revisions.occur else ():
        for stream, (producer, *_) in imports.items():
            if (reader, stream) not in revisions.follows:
                look = partial(look_for_revisions, world, reader, stream, producer)
                world.after(world.chance.randint(*AGREE_MS), look)


def look_for_revisions(
    world: World, reader: Participant, stream: StreamName, producer: Producer
) -> None:
    """Agree to what a partner has revised, again and again."""
    with suppress(Waiting, MedusaError):
        _agree(world, reader, stream, producer)
    again_ms = world.chance.randint(*AGREE_MS) if world.is_operated_late else AGREE_MS[0]
    world.after(again_ms, partial(look_for_revisions, world, reader, stream, producer))


def _agree(world: World, reader: Participant, stream: StreamName, producer: Producer) -> None:
    home, writer = world.homes[reader], producer.participant
    line = home.lines().get((stream, producer))
    if line is None or not line.version:
        return
    world.check_link(reader, writer)
    world.check_link(writer, reader)
    revision = (
        world.homes[writer]
        .reach()
        .line_news(stream, producer, line.version, segments_max=1)
        .revision
    )
    agreed = world.agreed.get((reader, stream), 0)
    if revision is None or revision.last_generation <= agreed:
        return
    agreement = RevisionAgreement(
        stream=stream,
        producer=producer,
        generation=revision.last_generation,
        from_us=revision.from_us,
        because=revision.because,
        who=f"operator_{reader}",
    )
    home.reach().agree_to_revisions(agreement)
    world.agreed[reader, stream] = revision.last_generation
    world.emit(reader, "agree", stream, f"generation {revision.last_generation} of {writer}")
