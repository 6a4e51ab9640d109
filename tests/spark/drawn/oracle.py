"""The evaluation of a drawn network by DuckDB, over all records at once.

Every relation becomes a table: the declared columns and `_stime`. What a box fails on is a row of
the table `failed`: the box, the expression as the user wrote it, the reason, the event time, and
whether it is a group of a window. The failure names all outputs that can be reached from the box.

A failure is expected of the step that computes the first output row that needs the failed row. The
oracle finds that row by following every reader of the box, window by window. What fails before
every window of its fragment is expected of the step that holds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa

from tests.calendars import period_starts
from tests.spark.drawn.expressions import (
    EVENT_TIME,
    Aggregation,
    Expression,
    duck_type,
    one_zero,
)
from tests.spark.drawn.spec import (
    SOURCE_COLUMNS,
    Aggregate,
    Box,
    Deduplicate,
    Drawn,
    Every,
    Filter,
    Function,
    Join,
    Lookup,
    Map,
    Rank,
    Resample,
    Running,
    Session,
    Union,
)

SECOND_US = 1_000_000
SOURCES_BEGIN_S = -60
"""The start of the first bucket of all sources."""
YEARS = range(1968, 1985)
"""The drawn records lie in 1969 and 1970; windows over windows lie later."""
Row = tuple[Any, ...]
Failed = tuple[str, str, str, frozenset[str], int]
Failure = tuple[str, str, str, int, bool]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Expected:
    """Reference -> rows, `_stime` last; and what was put in quarantine."""

    net: Drawn
    rows: Mapping[str, list[Row]]
    failed: list[Failure]

    def of(self, ref: str, from_us: int, to_us: int) -> Counter[Row]:
        """The rows of a relation within a range of event time."""
        return Counter(row for row in self.rows[ref] if from_us <= row[-1] < to_us)

    def failed_in(self, boxes: Iterable[str], from_us: int, to_us: int) -> Counter[Failed]:
        """What a step of a fragment of these boxes reports.

        Box, expression, reason, the outputs that lack the row, and event time.
        """
        fragment = Reporting(self.net, frozenset(boxes))
        return Counter(
            (box, field, reason, fragment.outputs_from(box), at_us)
            for box, field, reason, at_us, is_window in self.failed
            if box in fragment.boxes
            and from_us <= fragment.reported_at(box, at_us, is_window) < to_us
        )


@dataclass(frozen=True)
class Reporting:
    """Where a fragment of a drawn network reports what its boxes fail on."""

    net: Drawn
    boxes: frozenset[str]

    def reported_at(self, name: str, at_us: int, is_window: bool) -> int:
        """The position of the first output row that needs the failed row."""
        (box,) = (b for b in self.net.boxes if b.name == name)
        if is_window:
            return self._needed_at(name, at_us)
        if not any(self._has_windows(ref) for ref in _inputs(box)):
            return at_us
        if isinstance(box, Aggregate | Rank):
            at_us = _first_end(box, at_us)
        return self._needed_at(name, at_us)

    def outputs_from(self, name: str) -> frozenset[str]:
        """The outputs that can be reached from a box, in this fragment or another."""
        direct = {o for o, ref in self.net.outputs.items() if ref.partition(".")[0] == name}
        readers = (
            box.name for box in self.net.boxes
            if name in (ref.partition(".")[0] for ref in _inputs(box))
        )  # fmt: skip
        return frozenset(direct.union(*map(self.outputs_from, readers)))

    def _needed_at(self, name: str, at_us: int) -> int:
        """The first output position that needs a row of a box."""
        needs = []
        if any(ref.partition(".")[0] == name for ref in self.net.outputs.values()):
            needs.append(at_us)
        for box in self.net.boxes:
            if name not in (ref.partition(".")[0] for ref in _inputs(box)):
                continue
            if box.name not in self.boxes:
                # What crosses to another fragment is an output of this one.
                needs.append(at_us)
                continue
            own_us = _first_end(box, at_us) if isinstance(box, Aggregate | Rank) else at_us
            if isinstance(box, Join):
                own_us = min(_first_rows(box, name, at_us))
            needs.append(self._needed_at(box.name, own_us))
        return min(needs)

    def _has_windows(self, ref: str) -> bool:
        """Whether a box whose rows depend on several is in the fragment is before a relation."""
        name = ref.partition(".")[0]
        found = [b for b in self.net.boxes if b.name == name and name in self.boxes]
        return any(
            not isinstance(b, Filter | Map | Union | Function)
            or any(self._has_windows(r) for r in _inputs(b))
            for b in found
        )


def _first_rows(box: Join, name: str, at_us: int) -> Iterable[int]:
    """The first event time of rows of a Join that a row of one of its inputs may change."""
    is_certain, hi_us = box.how in ("semi", "anti"), box.within[1]
    if box.left.partition(".")[0] == name:
        yield at_us + (box.certain_us if is_certain else max(box.within[0], 0))
    if box.right.partition(".")[0] == name:
        # The earliest row on the left that it meets is `hi` before it.
        yield max(at_us, at_us - hi_us)


def _inputs(box: Box) -> tuple[str, ...]:
    if isinstance(box, Join):
        return (box.left, box.right)
    if isinstance(box, Lookup):
        return (box.input, box.table)
    return box.inputs if isinstance(box, Union) else (box.input,)


def _first_end(box: Aggregate | Rank, at_us: int) -> int:
    """The event time of the first window that holds a record."""
    if isinstance(box, Aggregate) and box.calendar is not None:
        return next(start for start in _starts(*box.calendar) if start > at_us) - 1
    start = at_us // (box.advance_s * SECOND_US) * box.advance_s
    while (start - box.advance_s + box.size_s) * SECOND_US > at_us:
        start -= box.advance_s
    return (start + box.size_s) * SECOND_US - 1


class Oracle:
    """One DuckDB for many evaluations: opening it takes longer than to evaluate a network."""

    def __init__(self) -> None:
        self._db = duckdb.connect()
        self._db.execute("SET TimeZone = 'UTC'; SET threads = 1")

    def expected(self, net: Drawn, records: Mapping[str, pa.Table]) -> Expected:
        """What the network gives for these records of its sources, with a column `_stime`."""
        db = self._db
        db.execute("DROP SCHEMA IF EXISTS drawn CASCADE; CREATE SCHEMA drawn; USE drawn")
        db.execute(
            "CREATE TABLE failed (box VARCHAR, field VARCHAR, reason VARCHAR, at_us BIGINT, "
            "is_window BOOLEAN)"
        )
        for source in net.sources:
            db.register("given", records[source])
            columns = ", ".join(f"CAST({n} AS {duck_type(t)}) AS {n}" for n, t in SOURCE_COLUMNS)
            db.execute(f"CREATE TABLE {source} AS SELECT {columns}, {EVENT_TIME} FROM given")
        for box in net.boxes:
            for statement in _statements(net, box):
                db.execute(statement)
        rows = {
            ref: normalised(db.sql(f'SELECT * FROM "{ref}"').to_arrow_table())
            for ref in net.relations
            if ref not in net.sources
        }
        failed = db.execute("SELECT * FROM failed").fetchall()
        db.execute("USE main")
        return Expected(net, rows, failed)


def normalised(table: pa.Table) -> list[Row]:
    """Rows that compare as equal where digests do: one NaN, one zero, instants as numbers."""
    columns = [[_normal(v) for v in column.to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True))


def _normal(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(microseconds=1)
    return value.toordinal() if isinstance(value, date) else value


def _statements(net: Drawn, box: Box) -> Iterable[str]:
    match box:
        case Filter():
            return _filter(net, box)
        case Map():
            return _map(box)
        case Union():
            parts = (f'SELECT * FROM "{ref}"' for ref in box.inputs)
            return [f'CREATE TABLE "{box.name}" AS {" UNION ALL ".join(parts)}']
        case Aggregate():
            return _aggregate(net, box)
        case Session():
            return _session(net, box)
        case Join():
            return _join(box)
        case Lookup():
            return _lookup(net, box)
        case Resample():
            return _resample(net, box)
        case Rank():
            return _rank(net, box)
        case Deduplicate():
            return [_first(net, box)]
        case Running():
            return _running(net, box)
        case Every():
            return _every(net, box)
        case Function():
            rows = f'SELECT k, i, {EVENT_TIME} FROM "{box.input}"'
            if box.kind == "thinned":
                made = (
                    f"SELECT upper(k) AS k, i + 1 AS i, {EVENT_TIME} FROM ({rows}) WHERE i % 2 = 0"
                )
            else:
                made = f"{rows} UNION ALL {rows}"
            return [f'CREATE TABLE "{box.name}" AS {made}']


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _fails(
    box: str, columns: Iterable[tuple[str, Expression | Aggregation]], relation: str, *,
    is_window: bool = False,
) -> str:  # fmt: skip
    """Put the rows of a relation with a number in `_failed` into the table of failures."""
    named = [(name, e.spark) for name, e in columns]
    fields = ", ".join(_text(spark) for _, spark in named)
    wheres = ", ".join(_text(f"column {name} of box {box}: ") for name, _ in named)
    return (
        f"INSERT INTO failed SELECT {_text(box)}, [{fields}][_failed], "
        f"[{wheres}][_failed] || _why, {EVENT_TIME}, {is_window} "
        f"FROM {relation} WHERE _failed IS NOT NULL"
    )


def _filter(net: Drawn, box: Filter) -> Iterable[str]:
    ports = [port for port, _ in box.cases] + ([box.otherwise] if box.otherwise else [])
    whens = whys = ""
    for at, (_, predicate) in enumerate(box.cases):
        whys += f" WHEN {at + 1} THEN {predicate.why}"
        if predicate.fails:
            whens += f" WHEN {predicate.fails} THEN {-1 - at}"
        whens += f" WHEN {predicate.duck} THEN {at}"
    columns = ", ".join(name for name, _ in net.relations[box.input])
    yield (
        f"CREATE OR REPLACE TABLE cased AS SELECT *, CASE{whens} ELSE {len(box.cases)} END "
        f"AS _case, CASE WHEN _case < 0 THEN -_case END AS _failed, CASE _failed{whys} END AS _why "
        f'FROM "{box.input}"'
    )
    for at, port in enumerate(ports):
        ref = f"{box.name}.{port}" if len(ports) > 1 else box.name
        yield (
            f'CREATE TABLE "{ref}" AS SELECT {columns}, {EVENT_TIME} FROM cased WHERE _case = {at}'
        )
    yield _fails(box.name, box.cases, "cased")


def _first_that_fails(conditions: Iterable[tuple[str | None, str]]) -> str:
    """The number of the first condition that is true, as `_failed`, and its reason, as `_why`."""
    given = [(at + 1, *pair) for at, pair in enumerate(conditions) if pair[0]]
    if not given:
        return "CAST(NULL AS INTEGER) AS _failed, '' AS _why"
    numbers = " ".join(f"WHEN {c} THEN {at}" for at, c, _ in given)
    whys = " ".join(f"WHEN {c} THEN {why}" for _, c, why in given)
    return f"CASE {numbers} END AS _failed, CASE {whys} END AS _why"


def _map(box: Map) -> Iterable[str]:
    failed = _first_that_fails((e.fails, e.why) for _, e in box.columns)
    made = ", ".join(f"CAST({e.duck} AS {duck_type(e.type)}) AS {n}" for n, e in box.columns)
    yield f'CREATE OR REPLACE TABLE tried AS SELECT *, {failed} FROM "{box.input}"'
    yield (
        f'CREATE TABLE "{box.name}" AS SELECT {made}, {EVENT_TIME} FROM tried WHERE _failed IS NULL'
    )
    yield _fails(box.name, box.columns, "tried")


def _aggregate(net: Drawn, box: Aggregate) -> Iterable[str]:
    record_failed = _first_that_fails((a.record_fails, a.why) for _, a in box.columns)
    yield f'CREATE OR REPLACE TABLE tried AS SELECT *, {record_failed} FROM "{box.input}"'
    yield _fails(box.name, box.columns, "tried")
    if box.calendar is not None:
        starts = _starts(*box.calendar)
        yield f"CREATE OR REPLACE TABLE starts AS SELECT unnest({list(starts)}) AS _window"
        held = "SELECT _window, lead(_window) OVER (ORDER BY _window) AS _end FROM starts"
        yield (
            f"CREATE OR REPLACE TABLE windowed AS SELECT tried.*, _window, _end FROM tried "
            f"ASOF JOIN ({held}) AS held ON {EVENT_TIME} >= _window WHERE _failed IS NULL"
        )
    else:
        yield _windowed(box, "tried", "_failed IS NULL")
    yield from _grouped(net, box, box.group_by, ["make_timestamp(_window) AS window_start"])


def _session(net: Drawn, box: Session) -> Iterable[str]:
    """A run begins with a record that no other one precedes by less than the gap.

    The part of a run that a record is in is told by the number of cuts that lie before it.
    """
    record_failed = _first_that_fails((a.record_fails, a.why) for _, a in box.columns)
    yield f'CREATE OR REPLACE TABLE tried AS SELECT *, {record_failed} FROM "{box.input}"'
    yield _fails(box.name, box.columns, "tried")
    types = dict(net.relations[box.name])
    keys = ", ".join(f"{one_zero(n, types[n])} AS _{n}" for n in box.by)
    yield (
        f"CREATE OR REPLACE TABLE keyed AS SELECT *{keys and ', '}{keys} FROM tried "
        "WHERE _failed IS NULL"
    )
    same = " AND ".join(["true", *(f"a._{n} IS NOT DISTINCT FROM b._{n}" for n in box.by)])
    yield (
        f"CREATE OR REPLACE TABLE starts AS SELECT * FROM keyed AS a WHERE NOT EXISTS ("
        f"SELECT 1 FROM keyed AS b WHERE {same} AND b.{EVENT_TIME} < a.{EVENT_TIME} "
        f"AND b.{EVENT_TIME} > a.{EVENT_TIME} - {box.gap_us})"
    )
    length, first = box.length_us, "_first"
    multiples = " - ".join(
        f"(({at}) - ((({at}) % {length}) + {length}) % {length}) // {length}"
        for at in (EVENT_TIME, f"{first} + {length}")
    )
    yield (
        "CREATE OR REPLACE TABLE parted AS SELECT *, CASE WHEN "
        f"{EVENT_TIME} < {first} + {length} THEN 0 ELSE 1 + {multiples} END AS _part FROM ("
        f"SELECT *, (SELECT max(b.{EVENT_TIME}) FROM starts AS b "
        f"WHERE {same} AND b.{EVENT_TIME} <= a.{EVENT_TIME}) AS _first FROM keyed AS a)"
    )
    part = f"OVER (PARTITION BY _first, _part{''.join(f', _{n}' for n in box.by)})"
    yield (
        f"CREATE OR REPLACE TABLE windowed AS SELECT *, min({EVENT_TIME}) {part} AS _window, "
        f"max({EVENT_TIME}) {part} + {box.gap_us} AS _end FROM parted"
    )
    starts = ["make_timestamp(_window) AS window_start", "make_timestamp(_end) AS window_end"]
    yield from _grouped(net, box, box.by, starts)


def _grouped(
    net: Drawn, box: Aggregate | Session, by: tuple[str, ...], columns: list[str]
) -> Iterable[str]:
    """The rows of the windows and groups of the table `windowed`."""
    types = dict(net.relations[box.name])
    keys = [one_zero(g, types[g]) for g in by]
    grouped = ", ".join(["_window", "_end", *keys])
    # Within expressions a key is the group's own value, whichever of its rows it is read from.
    columns += [f"{key} AS {g}" for key, g in zip(keys, by, strict=True)]
    columns += [f"CAST({a.duck} AS {duck_type(a.type)}) AS {n}" for n, a in box.columns]
    failed = _first_that_fails((a.group_fails, a.why) for _, a in box.columns)
    yield (
        f"CREATE OR REPLACE TABLE grouped AS SELECT {', '.join(columns)}, "
        f"_end - 1 AS {EVENT_TIME}, {failed} FROM windowed "
        f"GROUP BY {grouped}"
    )
    if isinstance(box, Aggregate) and box.keys is not None:
        yield from _emitted(net, box, failed)
    good = "SELECT * EXCLUDE (_failed, _why) FROM grouped WHERE _failed IS NULL"
    yield f'CREATE TABLE "{box.name}" AS {good}'
    yield _fails(box.name, box.columns, "grouped", is_window=True)


def _emitted(net: Drawn, box: Aggregate, failed: str) -> Iterable[str]:
    """Add the declared groups that no record is in, from the first bucket of the sources on."""
    assert box.keys is not None
    sizes_s = sum(b.size_s for b in net.boxes if isinstance(b, Aggregate | Rank))
    types = dict(net.relations[box.name])
    size, advance = box.size_s * SECOND_US, box.advance_s * SECOND_US
    first = SOURCES_BEGIN_S // box.advance_s - box.size_s // box.advance_s - 1
    last = (SOURCES_BEGIN_S + 400 + 3 * sizes_s) // box.advance_s
    grid = f"(SELECT n * {advance} AS _window FROM range({first}, {last}) AS numbers(n))"
    for name, values in box.keys:
        listed = ", ".join(f"({_literal(value)}::{duck_type(types[name])})" for value in values)
        grid += f" CROSS JOIN (VALUES {listed}) AS of_{name}(key_{name})"
    made = ", ".join(f"CAST({a.duck} AS {duck_type(a.type)}) AS {n}" for n, a in box.columns)
    yield (
        f"CREATE OR REPLACE TABLE of_nothing AS SELECT {made}, {failed} "
        "FROM (SELECT * FROM windowed WHERE false)"
    )
    is_there = " AND ".join(
        ["g.window_start = make_timestamp(_window)"]
        + [f"g.{name} IS NOT DISTINCT FROM key_{name}" for name, _ in box.keys]
    )
    listed = "".join(f", key_{name} AS {name}" for name, _ in box.keys)
    values = ", ".join(name for name, _ in box.columns)
    yield (
        f"INSERT INTO grouped BY NAME SELECT make_timestamp(_window) AS window_start{listed}, "
        f"{values}, _window + {size - 1} AS {EVENT_TIME}, _failed, _why FROM ({grid}), of_nothing "
        f"WHERE _window + {size} > {SOURCES_BEGIN_S * SECOND_US} "
        f"AND NOT EXISTS (SELECT 1 FROM grouped AS g WHERE {is_there})"
    )


def _literal(value: Any) -> str:
    return "NULL" if value is None else _text(value) if isinstance(value, str) else str(value)


@cache
def _starts(every: str, offsets: str) -> tuple[int, ...]:
    return tuple(period_starts(every, offsets, YEARS))


def _windowed(box: Aggregate | Rank, records: str, condition: str) -> str:
    """Every record that meets the condition, once for each window that holds it.

    The last window that holds a record starts at the greatest multiple of the advance that is not
    behind it; the first one starts behind the record less the size.
    """
    size, advance = box.size_s * SECOND_US, box.advance_s * SECOND_US
    last = f"({EVENT_TIME} - (({EVENT_TIME} % {advance}) + {advance}) % {advance})"
    return (
        f"CREATE OR REPLACE TABLE windowed AS SELECT *, {last} - n * {advance} AS _window, "
        f"_window + {size} AS _end "
        f"FROM {records}, range({size // advance + 1}) AS numbers(n) "
        f"WHERE {condition} AND _window > {EVENT_TIME} - {size}"
    )


def _rank(net: Drawn, box: Rank) -> Iterable[str]:
    """The rows of each window and group as a sorted list, of which the first are taken."""
    columns = net.relations[box.input]
    compared = {n: one_zero(n, t) for n, t in columns}
    order = [
        f"{compared[n]} {'DESC' if is_descending else 'ASC'} NULLS LAST"
        for n, is_descending in box.order
    ]
    order += [f"{key} ASC NULLS FIRST" for key in (EVENT_TIME, *compared.values())]
    yield _windowed(box, f'"{box.input}"', "true")
    groups = ", ".join(["_window", *(compared[g] for g in box.group_by)])
    first = "" if box.k is None else f"[:{box.k}]"
    yield (
        "CREATE OR REPLACE TABLE sorted AS SELECT _window, "
        f"list(windowed ORDER BY {', '.join(order)}){first} AS best FROM windowed "
        f"GROUP BY {groups}"
    )
    made = [f"best[number].{n} AS {n}" for n, _ in columns]
    if "window_start" not in compared:
        made.insert(0, "make_timestamp(_window) AS window_start")
    yield (
        f'CREATE TABLE "{box.name}" AS SELECT {", ".join(made)}, number AS {box.column}, '
        f"_window + {box.size_s * SECOND_US - 1} AS {EVENT_TIME} "
        "FROM (SELECT *, unnest(range(1, len(best) + 1)) AS number FROM sorted)"
    )


def _first(net: Drawn, box: Deduplicate) -> str:
    """The rows of each span and key as a sorted list, of which the first one is taken."""
    columns = net.relations[box.input]
    compared = {n: one_zero(n, t) for n, t in columns}
    span = f"(({EVENT_TIME} % {box.within_us}) + {box.within_us}) % {box.within_us}"
    groups = ", ".join([f"{EVENT_TIME} - {span}", *(compared[n] for n in box.by)])
    order = ", ".join(f"{key} ASC NULLS FIRST" for key in (EVENT_TIME, *compared.values()))
    row = f"list(found ORDER BY {order})[1] AS row"
    made = ", ".join(f"row.{n} AS {n}" for n in (*compared, EVENT_TIME))
    grouped = f'SELECT {row} FROM "{box.input}" AS found GROUP BY {groups}'
    return f'CREATE TABLE "{box.name}" AS SELECT {made} FROM ({grouped})'


def _placed(net: Drawn, box: Running | Every) -> Iterable[str]:
    """The rows that a box can use, with their span and their place among those of their key."""
    columns = net.relations[box.input]
    compared = {n: one_zero(n, t) for n, t in columns}
    failed = _first_that_fails((a.record_fails, a.why) for _, a in box.columns)
    yield f'CREATE OR REPLACE TABLE tried AS SELECT *, {failed} FROM "{box.input}"'
    yield _fails(box.name, box.columns, "tried")
    span = f"floor({EVENT_TIME}::DECIMAL(30,0) / {box.within_us})"
    keys = ", ".join(("_span", *(compared[name] for name in box.by)))
    order = ", ".join(f"{key} ASC NULLS FIRST" for key in (EVENT_TIME, *compared.values()))
    yield (
        "CREATE OR REPLACE TABLE placed AS SELECT * EXCLUDE (_failed, _why), "
        f"row_number() OVER (PARTITION BY {keys} ORDER BY {order}) AS _place, "
        "row_number() OVER () AS _row "
        f"FROM (SELECT *, {span} AS _span FROM tried) WHERE _failed IS NULL"
    )


def _running(net: Drawn, box: Running) -> Iterable[str]:
    """Each row is a group of its own: all rows of its key and span up to its place."""
    yield from _placed(net, box)
    types = dict(net.relations[box.input])
    same = [
        f"{one_zero(f'a.{n}', types[n])} IS NOT DISTINCT FROM {one_zero(f'b.{n}', types[n])}"
        for n in box.by
    ]
    is_before = " AND ".join(("a._span = b._span", *same, "b._place <= a._place"))
    yield (
        "CREATE OR REPLACE TABLE up_to AS SELECT a._row AS _of, b.* FROM placed AS a "
        f"JOIN placed AS b ON {is_before}"
    )
    keys = ", ".join(("_of", *(one_zero(n, types[n]) for n in box.by)))
    values = ", ".join(f"CAST({a.duck} AS {duck_type(a.type)}) AS {n}" for n, a in box.columns)
    failed = _first_that_fails((a.group_fails, a.why) for _, a in box.columns)
    yield (
        f"CREATE OR REPLACE TABLE grouped AS SELECT _of, {values}, {failed} FROM up_to "
        f"GROUP BY {keys}"
    )
    own = ", ".join(f"placed.{n}" for n in types)
    made = ", ".join(f"grouped.{n}" for n, _ in box.columns)
    yield (
        f"CREATE OR REPLACE TABLE whole AS SELECT {own}, {made}, placed.{EVENT_TIME}, _failed, "
        "_why FROM placed JOIN grouped ON _row = _of"
    )
    good = "SELECT * EXCLUDE (_failed, _why) FROM whole WHERE _failed IS NULL"
    yield f'CREATE TABLE "{box.name}" AS {good}'
    yield _fails(box.name, box.columns, "whole", is_window=True)


def _every(net: Drawn, box: Every) -> Iterable[str]:
    """The rows by the number of their group; those of full groups."""
    yield from _placed(net, box)
    types = dict(net.relations[box.input])
    keys = [one_zero(name, types[name]) for name in box.by]
    columns = [f"{key} AS {n}" for key, n in zip(keys, box.by, strict=True)]
    columns += [f"CAST({a.duck} AS {duck_type(a.type)}) AS {n}" for n, a in box.columns]
    failed = _first_that_fails((a.group_fails, a.why) for _, a in box.columns)
    last = f"max({EVENT_TIME}) AS {EVENT_TIME}"
    yield (
        f"CREATE OR REPLACE TABLE grouped AS SELECT {', '.join(columns)}, {last}, {failed} "
        f"FROM placed GROUP BY {', '.join(('_span', *keys, f'(_place - 1) // {box.n}'))} "
        f"HAVING count(*) = {box.n}"
    )
    good = "SELECT * EXCLUDE (_failed, _why) FROM grouped WHERE _failed IS NULL"
    yield f'CREATE TABLE "{box.name}" AS {good}'
    yield _fails(box.name, box.columns, "grouped", is_window=True)


def _join(box: Join) -> Iterable[str]:
    """Every pair of rows is looked at, and rows on the left are numbered to tell them apart."""
    keys = " AND ".join(f"a.{left} = b.{right}" for left, right in box.on)
    lo_us, hi_us = box.within
    apart = f"b.{EVENT_TIME} - a.{EVENT_TIME}"
    yield (
        "CREATE OR REPLACE TABLE numbered AS SELECT *, row_number() OVER () AS _row "
        f'FROM "{box.left}"'
    )
    yield (
        f'CREATE OR REPLACE TABLE met AS SELECT a._row FROM numbered AS a, "{box.right}" AS b '
        f"WHERE {keys} AND {apart} >= {lo_us} AND {apart} <= {hi_us}"
    )
    pairs = ", ".join(f"{'a' if side == 'left' else 'b'}.{c} AS {n}" for n, side, c in box.columns)
    alone = ", ".join(f"{f'a.{c}' if side == 'left' else 'NULL'} AS {n}"
                      for n, side, c in box.columns)  # fmt: skip
    paired = (
        f"SELECT {pairs}, CASE WHEN {apart} > 0 THEN b.{EVENT_TIME} ELSE a.{EVENT_TIME} END "
        f'AS {EVENT_TIME} FROM numbered AS a, "{box.right}" AS b '
        f"WHERE {keys} AND {apart} BETWEEN {lo_us} AND {hi_us}"
    )
    certain = (
        f"SELECT {alone}, a.{EVENT_TIME} + {box.certain_us} AS {EVENT_TIME} FROM numbered AS a"
    )
    has_met = "(SELECT _row FROM met)"
    made = {
        "inner": paired,
        "left": f"{paired} UNION ALL {certain} WHERE _row NOT IN {has_met}",
        "semi": f"{certain} WHERE _row IN {has_met}",
        "anti": f"{certain} WHERE _row NOT IN {has_met}",
    }[box.how]
    yield f'CREATE TABLE "{box.name}" AS {made}'


def _lookup(net: Drawn, box: Lookup) -> Iterable[str]:
    """Every record of the table that a row could take, of which the last is taken."""
    keys = " AND ".join(f"a.{one} = b.{other}" for one, other in box.on)
    order = [f"b.{EVENT_TIME}", *(f"b.{n}" for n, _ in net.relations[box.table])]
    last_first = ", ".join(f"{column} DESC NULLS LAST" for column in order)
    yield (
        "CREATE OR REPLACE TABLE numbered AS SELECT *, row_number() OVER () AS _row "
        f'FROM "{box.input}"'
    )
    columns = ", ".join(
        f"{'a' if side == 'input' else 'b'}.{c} AS {n}" for n, side, c in box.columns
    )
    yield (
        f"CREATE OR REPLACE TABLE met AS SELECT {columns}, a.{EVENT_TIME}, a._row, "
        f"row_number() OVER (PARTITION BY a._row ORDER BY {last_first}) AS _from_last "
        f'FROM numbered AS a, "{box.table}" AS b WHERE {keys} '
        f"AND a.{EVENT_TIME} - b.{EVENT_TIME} BETWEEN 0 AND {box.max_age_us}"
    )
    found = "SELECT * EXCLUDE (_row, _from_last) FROM met WHERE _from_last = 1"
    alone = ", ".join(f"{f'a.{c}' if side == 'input' else 'NULL'} AS {n}"
                      for n, side, c in box.columns)  # fmt: skip
    without = (
        f"SELECT {alone}, a.{EVENT_TIME} FROM numbered AS a "
        "WHERE _row NOT IN (SELECT _row FROM met)"
    )
    made = found if box.how == "inner" else f"{found} UNION ALL {without}"
    yield f'CREATE TABLE "{box.name}" AS {made}'


def _resample(net: Drawn, box: Resample) -> Iterable[str]:
    """For every key and every time, the records around it are looked at."""
    step, age = box.step_us, box.max_age_us
    key = f"[{', '.join(f'coalesce({n}::VARCHAR, chr(1))' for n in box.by) or chr(39) * 2}]"
    columns = [n for n, _ in net.relations[box.input]]
    yield f'CREATE OR REPLACE TABLE keyed AS SELECT *, {key} AS _key FROM "{box.input}"'
    yield (
        "CREATE OR REPLACE TABLE samples AS SELECT DISTINCT _key, n * "
        f"{step} AS _at FROM keyed, range(-{200 * SECOND_US // step}, {300 * SECOND_US // step}) "
        "AS numbers(n)"
    )
    for name, distance, direction in (
        ("before", f"_at - {EVENT_TIME}", "DESC NULLS LAST"),
        ("after", f"{EVENT_TIME} - _at", "ASC NULLS FIRST"),
    ):
        order = ", ".join(f"{column} {direction}" for column in (EVENT_TIME, *columns))
        yield (
            f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM samples JOIN keyed USING (_key) "
            f"WHERE {distance} BETWEEN 0 AND {age} "
            f"QUALIFY row_number() OVER (PARTITION BY _key, _at ORDER BY {order}) = 1"
        )
    made = ["make_timestamp(_at) AS sample_time", *(f"a.{n} AS {n}" for n in box.by)]
    for n, type_ in box.columns:
        value = f"a.{n}"
        if box.method == "linear" and type_ in ("int", "bigint", "double"):
            first, last = (f"CAST({side}.{n} AS DOUBLE)" for side in ("a", "b"))
            past = f"CAST(_at - a.{EVENT_TIME} AS DOUBLE)"
            whole = f"CAST(b.{EVENT_TIME} - a.{EVENT_TIME} AS DOUBLE)"
            line = f"{first} + ({last} - {first}) * ({past} / {whole})"
            value = f"CASE WHEN {past} = 0 THEN {first} ELSE {line} END"
        made.append(f"{value} AS {n}")
    rows, later = "before AS a", 0
    if box.method == "linear":
        rows, later = "before AS a JOIN after AS b USING (_key, _at)", age
    yield (
        f'CREATE TABLE "{box.name}" AS SELECT {", ".join(made)}, _at + {later} AS {EVENT_TIME} '
        f"FROM {rows}"
    )
