"""The end of a schedule: nothing is owed, nothing tentative, and every row is the oracle's.

Rows are compared with the oracle's as multisets, read from the files that live segments name; the
copies that readers keep must be their partners' lines, row for row, from their trims on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.names import Participant, StreamName
from medusa_core.segments import IMPORT, Producer, Stability
from pipelines.catalog.memory.tables import SegmentRow
from pipelines.simulation.faults.events import Violation
from pipelines.simulation.faults.expected import expected_of
from pipelines.simulation.faults.revision_laws import RevisionLaws
from pipelines.simulation.faults.scenario import Row, Scenario
from pipelines.simulation.faults.simulated_homes import SimulatedHome
from pipelines.simulation.faults.simulated_networks import WIDTH_US

Homes = Mapping[Participant, SimulatedHome]


@dataclass(frozen=True, slots=True)
class Excused:
    """What the end of a schedule is not held to: who is gone for good, and what a producer's wrong
    row may have reached, by stream and from when on.

    Where rows are disputed, what follows from them stays tentative, row by row: one that begins
    before is corrected as a whole or not at all. What is chosen of the stream itself (`disputed`)
    is final up to the bucket. A wrong row that nobody can see (`disputed` is None) delays nothing.
    """

    gone: frozenset[Participant] = frozenset()
    spoilt_us: Mapping[StreamName, int] = field(default_factory=dict)
    disputed: StreamName | None = None

    def final_us(self, stream: StreamName) -> int:
        """Before when all of a stream must be final."""
        if self.disputed is None:
            return FOREVER_US
        if stream in self.spoilt_us and stream != self.disputed:
            return BEGINNING_US
        return self.spoilt_us.get(stream, FOREVER_US)


NOTHING_EXCUSED = Excused()


def unsettled(
    scenario: Scenario, homes: Homes, excused: Excused = NOTHING_EXCUSED,
    revisions: RevisionLaws | None = None,
) -> list[str]:  # fmt: skip
    """The lines that have not ended, hold something tentative or owe something for a revision, in
    their home and in copies."""
    open_ = []
    for home, stream, producer in kept_lines(scenario, homes, excused):
        line = home.lines().get((stream, producer))
        is_ended = line is not None and line.boundary_us == FOREVER_US
        final_us = excused.final_us(stream)
        is_open = line is None or not is_ended or has_tentative(line.live, final_us)
        if is_open or (revisions and line and revisions.owed((stream, producer), line)):
            open_.append(f"{stream} by {producer} in the home of {home.participant}")
    return open_ + (revisions.late_waiting() if revisions else [])


def has_tentative(rows: Iterable[SegmentRow], before_us: int = FOREVER_US) -> bool:
    """Whether one of a line's rows may still change."""
    return any(
        row.segment.stability is Stability.TENTATIVE and row.segment.range.from_us < before_us
        for row in rows
    )


def kept_lines(
    scenario: Scenario, homes: Homes, excused: Excused = NOTHING_EXCUSED
) -> list[tuple[SimulatedHome, StreamName, Producer]]:
    """Every line in the home that writes it and in those that bring it in, and every choice."""
    there = [p for p in scenario.participants if p not in excused.gone]
    written = [
        (homes[producer.participant], stream, producer)
        for stream, producers in scenario.writers().items()
        for producer in producers
        if producer.participant in there
    ]
    copied = [
        (homes[reader], stream, producer)
        for reader in there
        for stream, producers in scenario.imports(reader).items()
        for producer in producers
        if producer.participant in there
    ]
    chosen = [
        (homes[reader], stream, Producer(reader, IMPORT))
        for reader in there
        for stream in scenario.chosen(reader)
    ]
    return [*written, *copied, *chosen]


def buckets_owed(scenario: Scenario, homes: Homes, revisions: RevisionLaws | None = None) -> int:
    """How many buckets are not final where they are written, or owed for a revision; an upper
    bound."""
    owed = 0
    for stream, producer in ((s, p) for s, ps in scenario.writers().items() for p in ps):
        line = homes[producer.participant].lines().get((stream, producer))
        final = sum(
            row.segment.range.to_us - row.segment.range.from_us
            for row in (line.live if line else ())
            if row.segment.stability is not Stability.TENTATIVE
        )
        if line and line.trimmed_us is not None:
            final += line.trimmed_us - scenario.origin_us
        width_us = scenario.widths_us[stream]
        owed += max(0, scenario.buckets * WIDTH_US - final) // width_us + 1
        if revisions and line:
            owed += revisions.buckets_owed((stream, producer), line)
    return owed


def check_outcome(
    scenario: Scenario, homes: Homes, excused: Excused = NOTHING_EXCUSED,
    revisions: RevisionLaws | None = None,
) -> int:  # fmt: skip
    """L1 and L2, the copies and the choices; the number of rows compared."""
    open_ = unsettled(scenario, homes, excused, revisions)
    if open_:
        raise Violation("L1", f"not settled: {', '.join(open_)}")
    expected = expected_of(scenario) if revisions is None else revisions.expected()
    compared = 0
    for home, stream, producer in kept_lines(scenario, homes, excused):
        line = home.lines()[stream, producer]
        # A gap may be in a copy where a hold ran out, and a tentative row where rows are disputed;
        # elsewhere each is a finding before this.
        lost = [r.segment.range for r in line.live if r.segment.stability is not Stability.STABLE]
        # What cannot be computed again for a revision, because what it needs is trimmed.
        lost += revisions.excused((stream, producer), line) if revisions else []
        right_us = excused.spoilt_us.get(stream, FOREVER_US)
        found = kept(rows_of(home, stream, producer), line.trimmed_us, right_us, lost)
        compared += found.total()
        requested = kept(expected[stream], line.trimmed_us, right_us, lost)
        if found != requested:
            missing, extra = requested - found, found - requested
            raise Violation(
                "L2",
                f"{stream} by {producer} in the home of {home.participant} lacks "
                f"{sorted(missing)[:3]} "
                f"and has {sorted(extra)[:3]} too many",
            )
    return compared


def kept(
    rows: Counter[Row], trimmed_us: int | None, right_us: int, lost: Sequence[Range]
) -> Counter[Row]:
    """The rows that a trim has left, before what a wrong row may have reached, and not lost."""
    from_us = BEGINNING_US if trimmed_us is None else trimmed_us
    return Counter(
        {
            row: n
            for row, n in rows.items()
            if from_us <= row[0] < right_us and not any(part.holds(row[0]) for part in lost)
        }
    )


def rows_of(home: SimulatedHome, stream: StreamName, producer: Producer) -> Counter[Row]:
    """The rows of a line, from the files that its live segments name."""
    found: Counter[Row] = Counter()
    for live in home.lines()[stream, producer].live:
        for file in live.segment.files:
            found.update(r for r in home.storage.read(file) if live.segment.range.holds(r[0]))
    return found
