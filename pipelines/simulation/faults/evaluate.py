"""A tiny engine: the boxes of a fragment over tuples of integers, in memory.

It takes the place of Spark in the product and is as pure: the rows of a step's output follow from
the rows it read. It knows the few expressions that simulated networks use and refuses any other.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import assert_never

from medusa_core.digest import TAG_INTEGER, Digest, digest_of
from medusa_core.fragments import Fragment
from medusa_core.grid import floor_us
from medusa_core.names import StreamName
from medusa_core.network import (
    Aggregate,
    Box,
    Deduplicate,
    Every,
    Filter,
    Function,
    Join,
    Lookup,
    Map,
    Network,
    Port,
    Rank,
    Resample,
    Running,
    Session,
    Union,
    inputs_of,
)
from pipelines.simulation.faults.scenario import Row

Inputs = Mapping[StreamName, Sequence[Row]]
Holds = Callable[[Row], bool]
_CONDITION = re.compile(r"(\w+)(?: % (\d+))? (=|>=) (\d+)")
_SUM = re.compile(r"sum\((\w+)\)")


class Evaluator:
    """The boxes of one fragment, their expressions read once."""

    def __init__(self, fragment: Fragment) -> None:
        self._fragment = fragment
        self._boxes = {box.name: box for box in fragment.boxes}
        network = fragment.network
        self._ports = {
            box.name: [network.port(reference, box.name) for reference in inputs_of(box)]
            for box in fragment.boxes
        }
        self._cases = {
            box.name: {
                name: condition(text, positions(network, self._ports[box.name][0]))
                for name, text in box.cases.items()
            }
            for box in fragment.boxes
            if isinstance(box, Filter)
        }

    def rows(self, output: StreamName, inputs: Inputs) -> list[Row]:
        """The rows of an output from the rows of the input streams."""
        return self._of_port(self._fragment.outputs[output], inputs)

    def _of_port(self, port: Port, inputs: Inputs) -> list[Row]:
        if port in self._fragment.inputs:
            return list(inputs[self._fragment.inputs[port]])
        box = self._boxes[port.owner]
        ports = self._ports[box.name]
        read = [self._of_port(port_, inputs) for port_ in ports]
        return self._apply(box, port.port, read)

    def _apply(self, box: Box, port: str, read: list[list[Row]]) -> list[Row]:
        rows = [row for rows in read for row in rows]
        match box:
            case Union():
                return rows
            case Filter():
                cases = self._cases[box.name]
                return [row for row in rows if case_of(row, cases, box.otherwise) == port]
            case Aggregate():
                return windows(box, rows, self._positions_behind(box))
            case Join() | Lookup():
                network = self._fragment.network
                left_at, right_at = (positions(network, port_) for port_ in self._ports[box.name])
                left, right = read
                if isinstance(box, Join):
                    return joined(box, left, right, left_at, right_at)
                return looked_up(box, left, right, left_at, right_at)
            case Session():
                return sessions(box, rows, self._positions_behind(box))
            case Rank():
                return ranked(box, rows, self._positions_behind(box))
            case Deduplicate():
                return firsts(box, rows, self._positions_behind(box))
            case Running():
                return running(box, rows, self._positions_behind(box))
            case Every():
                return counted_out(box, rows, self._positions_behind(box))
            case Map() | Resample() | Function():
                raise AssertionError(f"the simulated engine has no {type(box).__name__}")
        assert_never(box)

    def _positions_behind(self, box: Box) -> Mapping[str, int]:
        """Where the columns of what a box reads stand."""
        return positions(self._fragment.network, self._ports[box.name][0])


def case_of(row: Row, cases: Mapping[str, Holds], otherwise: str | None) -> str | None:
    """The port by which a row leaves a Filter, or None if it is dropped."""
    return next((name for name, holds in cases.items() if holds(row)), otherwise)


def windows(box: Aggregate, rows: Sequence[Row], at: Mapping[str, int]) -> list[Row]:
    """The rows of an Aggregate: a window's last instant, its start, the group, the columns."""
    assert box.every is None, "the simulated engine has no calendar windows"
    assert not box.emits_empty, "the simulated engine has no rows of empty windows"
    return [
        (key[0] + box.size_us - 1, *key, *(fold(text, group, at) for text in box.columns.values()))
        for key, group in groups_of_windows(box, rows, at).items()
    ]


def ranked(box: Rank, rows: Sequence[Row], at: Mapping[str, int]) -> list[Row]:
    """The rows of a Rank: a window's last instant, its start, the columns, the rank."""
    found: list[Row] = []
    for (start_us, *_), group in groups_of_windows(box, rows, at).items():
        # A row begins with its event time, so that sorted rows are in canonical order.
        in_order = sorted(group)
        for name, is_descending in reversed(box.keys):
            in_order.sort(key=itemgetter(at[name]), reverse=is_descending)
        for rank, row in enumerate(in_order[: box.k], start=1):
            found.append((start_us + box.size_us - 1, start_us, *row[1:], rank))
    return found


def firsts(box: Deduplicate, rows: Sequence[Row], at: Mapping[str, int]) -> list[Row]:
    """The first row of each span and key in canonical order."""
    found: dict[tuple[int, ...], Row] = {}
    for row in sorted(rows):
        key = (floor_us(row[0], box.within_us), *(row[at[name]] for name in box.by))
        found.setdefault(key, row)
    return list(found.values())


def sessions(box: Session, rows: Sequence[Row], at: Mapping[str, int]) -> list[Row]:
    """The rows of a Session: its last instant, its bounds, the key, the columns."""
    runs: dict[tuple[int, ...], list[list[Row]]] = {}
    for row in sorted(rows):
        of_key = runs.setdefault(tuple(row[at[name]] for name in box.by), [])
        if not of_key or row[0] - of_key[-1][-1][0] >= box.gap_us:
            of_key.append([])
        of_key[-1].append(row)
    found: list[Row] = []
    for key, run in ((key, run) for key, of_key in runs.items() for run in of_key):
        cut_us = run[0][0] + box.length_us_max
        pieces: dict[int, list[Row]] = {}
        for row in run:
            later_us = max(cut_us, floor_us(row[0], box.length_us_max))
            pieces.setdefault(run[0][0] if row[0] < cut_us else later_us, []).append(row)
        for piece in pieces.values():
            end_us = piece[-1][0] + box.gap_us
            values = (fold(text, piece, at) for text in box.columns.values())
            found.append((end_us - 1, piece[0][0], end_us, *key, *values))
    return found


def running(box: Running, rows: Sequence[Row], at: Mapping[str, int]) -> list[Row]:
    """Each row, and the columns over the rows of its span and key up to it."""
    return [
        (*row, *(fold(text, group[: number + 1], at) for text in box.columns.values()))
        for group in groups_of_spans(box, rows, at).values()
        for number, row in enumerate(group)
    ]


def counted_out(box: Every, rows: Sequence[Row], at: Mapping[str, int]) -> list[Row]:
    """The rows of an Every: the time of the last row of a group, the key, the columns."""
    found: list[Row] = []
    for (_, *key), group in groups_of_spans(box, rows, at).items():
        for end in range(box.n, len(group) + 1, box.n):
            full = group[end - box.n : end]
            found.append(
                (full[-1][0], *key, *(fold(text, full, at) for text in box.columns.values()))
            )
    return found


def groups_of_spans(
    box: Running | Every, rows: Sequence[Row], at: Mapping[str, int]
) -> dict[tuple[int, ...], list[Row]]:
    """The rows of each span and key in canonical order, by the span's start and the key."""
    groups: dict[tuple[int, ...], list[Row]] = {}
    for row in sorted(rows):
        key = (floor_us(row[0], box.within_us), *(row[at[name]] for name in box.by))
        groups.setdefault(key, []).append(row)
    return groups


def groups_of_windows(
    box: Aggregate | Rank, rows: Sequence[Row], at: Mapping[str, int]
) -> dict[tuple[int, ...], list[Row]]:
    """The rows of each window and group, by the window's start and the group."""
    groups: dict[tuple[int, ...], list[Row]] = {}
    for row in rows:
        key = tuple(row[at[name]] for name in box.group_by)
        start_us = floor_us(row[0], box.advance_us)
        while start_us > row[0] - box.size_us:
            groups.setdefault((start_us, *key), []).append(row)
            start_us -= box.advance_us
    return groups


def joined(
    box: Join,
    left: Sequence[Row],
    right: Sequence[Row],
    left_at: Mapping[str, int],
    right_at: Mapping[str, int],
) -> list[Row]:
    """The rows of a Join: pairs, or rows of left that are certain, in the columns that it names."""
    by_key: dict[tuple[int, ...], list[Row]] = {}
    for row in right:
        by_key.setdefault(tuple(row[right_at[name]] for _, name in box.keys), []).append(row)
    found: list[Row] = []
    for row in left:
        key = tuple(row[left_at[name]] for name, _ in box.keys)
        first_us, last_us = row[0] + box.lo_us, row[0] + box.hi_us
        met = [other for other in by_key.get(key, ()) if first_us <= other[0] <= last_us]
        for at_us, other in rows_of_left(box, row, met):
            values = (
                row[left_at[column]] if side == "left" else other[right_at[column]]
                for side, column in box.references.values()
            )
            found.append((at_us, *values))
    return found


def looked_up(
    box: Lookup,
    rows: Sequence[Row],
    table: Sequence[Row],
    input_at: Mapping[str, int],
    table_at: Mapping[str, int],
) -> list[Row]:
    """The rows of a Lookup that find a record, in the columns that it names."""
    assert box.how == "inner", "rows of the simulated engine have no NULL"
    by_key: dict[tuple[int, ...], list[Row]] = {}
    for row in sorted(table):
        by_key.setdefault(tuple(row[table_at[name]] for _, name in box.keys), []).append(row)
    found: list[Row] = []
    for row in rows:
        records = by_key.get(tuple(row[input_at[name]] for name, _ in box.keys), [])
        before = bisect_right(records, row[0], key=itemgetter(0))
        if before and records[before - 1][0] >= row[0] - box.max_age_us:
            values = (
                row[input_at[column]] if side == "input" else records[before - 1][table_at[column]]
                for side, column in box.references.values()
            )
            found.append((row[0], *values))
    return found


def rows_of_left(box: Join, row: Row, met: Sequence[Row]) -> list[tuple[int, Row]]:
    """When the rows lie that a row on the left gives, and with which row of the right."""
    certain = [(row[0] + box.certain_us, row)]
    match box.how:
        case "inner":
            return [(max(row[0], other[0]), other) for other in met]
        case "semi":
            return certain if met else []
        case "anti":
            return [] if met else certain
    raise AssertionError(f"the simulated engine has no {box.how} join: its rows have no NULL")


def fold(text: str, rows: Sequence[Row], at: Mapping[str, int]) -> int:
    """One aggregate over the rows of a group."""
    if text == "count(*)":
        return len(rows)
    column = _SUM.fullmatch(text)
    assert column, f"the simulated engine does not know {text}"
    return sum(row[at[column[1]]] for row in rows)


def positions(network: Network, port: Port) -> dict[str, int]:
    """Where each column of a port stands in its rows; event time stands first."""
    if network.is_source(port.owner):
        columns = list(network.source(port.owner).columns)
    else:
        box = network.box(port.owner)
        if isinstance(box, Join | Lookup):
            return {column: at for at, column in enumerate(box.references, start=1)}
        if isinstance(box, Session):
            columns = ["window_start", "window_end", *box.by, *box.columns]
            return {column: at for at, column in enumerate(columns, start=1)}
        if not isinstance(box, Aggregate):
            behind = positions(network, network.port(inputs_of(box)[0], box.name))
            if isinstance(box, Rank):
                columns = ["window_start", *behind, box.column]
            elif isinstance(box, Running):
                columns = [*behind, *box.columns]
            elif isinstance(box, Every):
                columns = [*box.by, *box.columns]
            else:
                return behind
            return {column: at for at, column in enumerate(columns, start=1)}
        columns = ["window_start", *box.group_by, *box.columns]
    return {column: at for at, column in enumerate(columns, start=1)}


def condition(text: str, at: Mapping[str, int]) -> Holds:
    """The predicate that an expression says."""
    found = _CONDITION.fullmatch(text)
    assert found, f"the simulated engine does not know {text}"
    position, value = at[found[1]], int(found[4])
    modulus = int(found[2]) if found[2] else None
    is_equal = found[3] == "="

    def holds(row: Row) -> bool:
        seen = row[position] if modulus is None else row[position] % modulus
        return seen == value if is_equal else seen >= value

    return holds


@lru_cache(maxsize=50_000)
def digest_of_row(row: Row) -> Digest:
    """The digest of one row, every field an integer."""
    return digest_of([row], [TAG_INTEGER] * len(row))


def digests(rows: Sequence[Row], width_us: int) -> dict[int, Digest]:
    """The digest of each bucket that has rows, by its start."""
    found: dict[int, Digest] = {}
    for row in sorted(rows):
        at_us = floor_us(row[0], width_us)
        digest = digest_of_row(row)
        found[at_us] = found[at_us] + digest if at_us in found else digest
    return found
