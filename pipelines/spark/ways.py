"""The ways in which a step's job is run, chosen by how many records there are.

All give the same rows (laws I2, I3); they differ in what Spark must do before the first record.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from medusa_core.fragments import Fragment
from medusa_core.network import Aggregate, Function, Port, inputs_of

AT_ONCE_ROWS_MAX = 20_000
"""Up to how many records, counted once per output, nothing is kept between boxes."""

HANDED_OVER_RECORDS_MAX = 20_000
"""Up to how many records a step hands its inputs over as Arrow tables."""

RESULT_ROWS_IN_DRIVER_MAX = 100_000
"""Up to how many rows a step's results come to the driver; more are written by the Spark tasks."""

ROWS_OUT_PER_AGGREGATED_RECORD = 0.25


SETS_RECORDS_MAX = 1_000_000
"""Up to how many records a step may hold in sets."""

TRIES, STEPS_PER_LOOK = 2, 50


class Way(Enum):
    """How a step reads its input and is planned."""

    AT_ONCE = "prepared, in one partition, each output from the records on"
    PREPARED = "prepared, what several boxes read is computed once"
    PREPARED_SETS = "prepared, with a set per group for count(distinct)"
    HANDED_OVER = "planned anew, records handed over"
    SCANNED = "planned anew, records scanned"


def way_of(fragment: Fragment, records: int, rows_out: float, *, is_whole: bool) -> Way:
    """The way for a step over so many records, of which about so many rows come out.

    `is_whole`: the files hold no other records. Only plans made anew can take bounds, call
    Functions, or leave writing to their tasks.
    """
    has_function = any(isinstance(box, Function) for box in fragment.boxes)
    if not has_function and rows_out <= RESULT_ROWS_IN_DRIVER_MAX:
        if records * len(fragment.outputs) <= AT_ONCE_ROWS_MAX:
            return Way.AT_ONCE
        if is_whole:
            return Way.PREPARED
    return Way.HANDED_OVER if records <= HANDED_OVER_RECORDS_MAX else Way.SCANNED


class Pace:
    """Which form of `count(distinct)` is the faster one here, found out by trying both in turn.

    Sets win where groups have few distinct values, Spark's own plan where they have many; which it
    is can change with the stream, so the slower one is looked at again from time to time.
    """

    def __init__(self) -> None:
        self._steps = 0
        self._tried = {Way.PREPARED_SETS: 0, Way.PREPARED: 0}
        self._ms_per_record: dict[Way, float] = {}

    def choose(self, records: int) -> Way:
        """The form for a step over so many records."""
        if records > SETS_RECORDS_MAX:
            return Way.PREPARED
        for way, tried in self._tried.items():
            if tried < TRIES:
                return way
        ordered = sorted(self._tried, key=lambda way: self._ms_per_record[way])
        self._steps += 1
        return ordered[1 if self._steps % STEPS_PER_LOOK == 0 else 0]

    def note(self, way: Way, ms: float, records: int) -> None:
        """How long a step took; the latest counts."""
        self._tried[way] += 1
        self._ms_per_record[way] = ms / max(records, 1)


def rows_out_guess(fragment: Fragment) -> float:
    """Rows out per record in, before the first step has told: few behind Aggregates, else all."""
    network = fragment.network

    def is_aggregated(port: Port) -> bool:
        if port in fragment.inputs:
            return False
        box = network.box(port.owner)
        behind: Sequence[Port] = [network.port(r, box.name) for r in inputs_of(box)]
        return isinstance(box, Aggregate) or all(is_aggregated(p) for p in behind)

    if all(is_aggregated(port) for port in fragment.outputs.values()):
        return ROWS_OUT_PER_AGGREGATED_RECORD
    return float(len(fragment.outputs))
