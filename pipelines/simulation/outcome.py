"""The end of a schedule: nothing is owed, nothing tentative, and every row is the oracle's.

Rows are compared with the oracle's as multisets, read from the files that live segments name; the
copies that readers keep must be their partners' lines, row for row, from their trims on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from medusa_core.grid import FOREVER_US
from medusa_core.names import Participant, StreamName
from medusa_core.segments import Producer, Stability
from pipelines.simulation.events import Violation
from pipelines.simulation.expected import expected_of
from pipelines.simulation.homes import SimulatedHome
from pipelines.simulation.networks import WIDTH_US
from pipelines.simulation.scenario import Row, Scenario

Homes = Mapping[Participant, SimulatedHome]


def unsettled(scenario: Scenario, homes: Homes) -> list[str]:
    """The lines that have not ended or hold something tentative, in their home and in copies."""
    open_ = []
    for home, stream, producer in kept_lines(scenario, homes):
        line = home.lines().get((stream, producer))
        is_ended = line is not None and line.boundary_us == FOREVER_US
        if line is None or not is_ended or has_tentative(line.live):
            open_.append(f"{stream} in the home of {home.participant}")
    return open_


def has_tentative(rows: object) -> bool:
    """Whether one of a line's rows may still change."""
    return any(row.segment.stability is Stability.TENTATIVE for row in rows)  # type: ignore[attr-defined]


def kept_lines(
    scenario: Scenario, homes: Homes
) -> list[tuple[SimulatedHome, StreamName, Producer]]:
    """Every line in the home that writes it and in those that bring it in."""
    written = [(homes[p.participant], stream, p) for stream, p in scenario.writers().items()]
    copied = [
        (homes[reader], stream, producer)
        for reader in scenario.participants
        for stream, producer in scenario.imports(reader).items()
    ]
    return [*written, *copied]


def buckets_owed(scenario: Scenario, homes: Homes) -> int:
    """How many buckets are not final where they are written; an upper bound."""
    owed = 0
    for stream, producer in scenario.writers().items():
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
    return owed


def check_outcome(scenario: Scenario, homes: Homes) -> int:
    """L1 and L2 and the copies; the number of rows compared."""
    open_ = unsettled(scenario, homes)
    if open_:
        raise Violation("L1", f"not settled: {', '.join(open_)}")
    expected = expected_of(scenario)
    compared = 0
    for home, stream, producer in kept_lines(scenario, homes):
        trimmed_us = home.lines()[stream, producer].trimmed_us
        found = kept(rows_of(home, stream, producer), trimmed_us)
        compared += found.total()
        wanted = kept(expected[stream], trimmed_us)
        if found != wanted:
            lost, extra = wanted - found, found - wanted
            raise Violation(
                "L2",
                f"{stream} in the home of {home.participant} lacks {sorted(lost)[:3]} "
                f"and has {sorted(extra)[:3]} too many",
            )
    return compared


def kept(rows: Counter[Row], trimmed_us: int | None) -> Counter[Row]:
    """The rows that a trim has left."""
    return (
        rows
        if trimmed_us is None
        else Counter({r: n for r, n in rows.items() if r[0] >= trimmed_us})
    )


def rows_of(home: SimulatedHome, stream: StreamName, producer: Producer) -> Counter[Row]:
    """The rows of a line, from the files that its live segments name."""
    found: Counter[Row] = Counter()
    for live in home.lines()[stream, producer].live:
        for file in live.segment.files:
            found.update(r for r in home.storage.read(file) if live.segment.range.holds(r[0]))
    return found
