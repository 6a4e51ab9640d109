"""The oracle: a network computed again from its records, all at once and by independent rules.

DuckDB computes the boxes whose expressions are known to mean the same there; Spark computes the
others, each in one batch, from the expressions as they are written. The certificate names the
engine of each box. There are no steps, panes, corrections or lineage here, and nothing of the
compiler: only the parser of `pipelines.language` is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from medusa_core.columns import Column
from medusa_core.grid import Range
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
    ports_of,
)
from pipelines.language.parsing import parse
from pipelines.quality.duck_tables import arrow_of, make_table
from pipelines.quality.emitted_groups import (
    WINDOW_END,
    EmittedGroups,
    Lives,
    OfNothing,
    columns_of_groups,
)
from pipelines.quality.period_bounds import DAY_US, offset_spans
from pipelines.quality.plain_functions import (
    declare_functions,
    over_nothing,
    over_records,
    refusals,
    user_call,
)
from pipelines.quality.port_columns import (
    Columns,
    columns_of_join,
    columns_of_lookup,
    port_columns,
)
from pipelines.quality.ranges import needed_parts, needed_parts_of_all
from pipelines.quality.spark_boxes import SparkBatch
from pipelines.quality.spark_types import column_type
from pipelines.quality.stored_rows import STIME, row_schema
from pipelines.quality.transpile_aggregates import AggregateTranspiler
from pipelines.quality.transpile_functions import ScalarTranspiler
from pipelines.quality.transpiled import (
    NotTranspiled,
    Transpiled,
    any_of,
    duckdb_type,
    floor_mod,
    quoted_name,
    quoted_text,
)

DUCKDB = "DuckDB"
SPARK = "Spark"
UNKNOWN_CAUSE = "cause not known: computed by Spark"
_FAILS, _CASE, _WINDOW, _END, _SAMPLE = "_fails", "_case", "_window", "_window_end", "_sample"
_SPAN, _PLACE, _UP_TO = "_span", "_place", "up_to"
_NO_REASON = "CAST(NULL AS VARCHAR)"

Records = Callable[[str, Columns, Sequence[Range]], pa.Table]
"""Reads a source's records: its name, its columns, and the ranges that are needed."""


def recompute(
    network: Network,
    ranges: Mapping[Port, Sequence[Range]],
    records: Records,
    batch: SparkBatch,
    lives: Lives,
) -> Recomputation:
    """A recomputation for some ranges of some ports, from the records that those ranges need.

    `lives` are those of the sources and of the streams between fragments.
    `rows` gives these ports and ranges only. Raises NoSuchType if the oracle's rules do
    not cover an expression, and what `records` raises.
    """
    columns = port_columns(network)
    parts = needed_parts(network, ranges)
    sources = {}
    for source in network.sources:
        of_source = columns[Port(source.name)]
        sources[source.name] = (
            records(source.name, of_source, parts[source.name])
            if source.name in parts
            else row_schema(of_source).empty_table()
        )
    return Recomputation(network, sources, batch, lives, needed_parts_of_all(network, ranges))


@dataclass
class Recomputation:
    """A network over the records of its sources; a box is computed when its rows are read.

    `columns` are those of every port, derived from the sources' columns. `engines`: box -> the
    engine that computed it, and why it was not DuckDB; `failed`: box -> records or groups that it
    failed on, by the column and the cause (UNKNOWN_CAUSE, where Spark computed it). `needed`:
    box -> the ranges of its rows that are needed: those without records are made for these.
    """

    network: Network
    sources: Mapping[str, pa.Table]
    batch: SparkBatch
    lives: Lives = field(default_factory=dict)
    needed: Mapping[str, Sequence[Range]] = field(default_factory=dict)
    columns: Mapping[Port, Columns] = field(init=False)
    engines: dict[str, str] = field(default_factory=dict)
    failed: dict[str, Mapping[str, int]] = field(default_factory=dict)
    _tables: dict[Port, str] = field(default_factory=dict)
    _emitted: EmittedGroups = field(init=False)

    def __post_init__(self) -> None:
        self.columns = port_columns(self.network)
        self._emitted = EmittedGroups(self.network, self.lives)
        self._connection = duckdb.connect()
        # A certificate is made while streams run: it takes one core.
        self._connection.execute("SET threads = 1")
        self._connection.execute("SET preserve_insertion_order = false")

    def __enter__(self) -> Recomputation:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def rows(self, port: Port, parts: Iterable[Range]) -> pa.Table:
        """A port's rows with event time in the ranges: declared columns and `_stime`."""
        at = quoted_name(STIME)
        inside = [f"({at} >= {part.from_us} AND {at} < {part.to_us})" for part in parts]
        return self._read(port, f"WHERE {' OR '.join(inside) or 'false'}")

    def _read(self, port: Port, where: str = "") -> pa.Table:
        found = self._connection.sql(f"SELECT * FROM {self._table(port)} {where}")
        return arrow_of(found, self.columns[port])

    def _table(self, port: Port) -> str:
        """The name of the table with a port's rows, which is computed at the first call."""
        if port in self._tables:
            return self._tables[port]
        if self.network.is_source(port.owner):
            return self._put(port, self.sources[port.owner])
        box = self.network.box(port.owner)
        inputs = [self.network.port(reference, box.name) for reference in inputs_of(box)]
        tables = [self._table(port) for port in inputs]
        given, made = [self.columns[input_] for input_ in inputs], self.columns[port]
        failed: Mapping[str, int]
        emitted: pa.Table | None = None
        if isinstance(box, Aggregate) and box.emits_empty:
            emitted = self._emitted.rows(box, given[0], self.needed.get(box.name, ()))
        try:
            statements = _Statements.of(box, given, made)
        except NotTranspiled as reason:
            self.engines[box.name] = f"{SPARK}: {reason}"
            found = self.batch(box, given[0], made, self._read(inputs[0]), emitted)
            for each, rows in found.ports.items():
                self._put(each, rows)
            failed = {UNKNOWN_CAUSE: found.failed} if found.failed else {}
        else:
            self.engines[box.name] = DUCKDB
            if isinstance(box, Aggregate) and emitted is not None:
                tables = [*tables, "emitted"]
                columns = columns_of_groups(box, given[0])
                self._connection.execute("DROP TABLE IF EXISTS emitted")
                make_table(self._connection, "emitted", emitted, columns)
            if isinstance(box, Aggregate):
                declare_functions(self._connection, box)
            with refusals(box):
                failed = self._run(statements, tables)
        if failed:
            self.failed[box.name] = failed
        return self._tables[port]

    def _put(self, port: Port, rows: pa.Table) -> str:
        """Make a table of rows that are given."""
        self._tables[port] = table = f"t{len(self._tables)}"
        make_table(self._connection, table, rows, self.columns[port])
        return table

    def _run(self, statements: _Statements, inputs: list[str]) -> Mapping[str, int]:
        """Compute a box from the tables of its inputs; what it failed on, by the reason."""
        own = f"b{len(self.engines)}"
        names = {f"in{at}": table for at, table in enumerate(inputs)}
        for suffix, sql in statements.steps.items():
            made = sql.format(own=own, **names)
            self._connection.execute(f"CREATE TEMP TABLE {own}{suffix} AS {made}")
        for port, sql in statements.ports.items():
            self._tables[port] = table = f"t{len(self._tables)}"
            self._connection.execute(f"CREATE TEMP TABLE {table} AS {sql.format(own=own, **names)}")
        failed: dict[str, int] = {}
        for suffix in statements.steps:
            counted = f"SELECT {_FAILS}, count(*) FROM {own}{suffix} GROUP BY ALL ORDER BY ALL"
            for reason, count in self._connection.execute(counted).fetchall():
                if reason is not None:
                    failed[reason] = failed.get(reason, 0) + count
            self._connection.execute(f"DROP TABLE {own}{suffix}")
        return failed


@dataclass(frozen=True, slots=True)
class _Statements:
    """A box as SQL over tables {in0}, {in1}, …: a query for each port.

    `steps` are tables {own}… that the box needs before, each with a column that says why the box
    failed on a record or group: NULL if it did not.
    """

    ports: Mapping[Port, str]
    steps: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(box: Box, inputs: Sequence[Columns], made: Columns) -> _Statements:
        """The box as SQL; NotTranspiled if a part of it may mean something else in DuckDB."""
        given = inputs[0]
        match box:
            case Filter():
                return _filter(box, given)
            case Map():
                return _map(box, given, made)
            case Union():
                listed = _listed(made)
                parts = (f"SELECT {listed} FROM {{in{at}}}" for at in range(len(box.inputs)))
                return _Statements({Port(box.name): " UNION ALL ".join(parts)})
            case Aggregate() | Session():
                return _aggregate(box, given, made)
            case Join():
                return _join(box, *inputs)
            case Lookup():
                return _lookup(box, *inputs)
            case Resample():
                return _resample(box, given, made)
            case Rank():
                return _rank(box, given, made)
            case Deduplicate():
                return _deduplicate(box, given)
            case Running():
                return _running(box, given, made)
            case Every():
                return _every(box, given, made)
            case Function():
                raise NotTranspiled("a Function")


def _filter(box: Filter, given: Columns) -> _Statements:
    transpiler = ScalarTranspiler({c.name: c for c in given})
    whens, reasons = [], []
    for at, (port, text) in enumerate(box.cases.items()):
        case = transpiler.transpile(parse(text, "expression"))
        if case.fails:
            whens.append(f"WHEN {case.fails} IS NOT NULL THEN -1")
            reasons.append(f"WHEN {case.fails} IS NOT NULL THEN {_reason(port, case.fails)}")
        whens.append(f"WHEN {case.sql} THEN {at}")
        reasons.append(f"WHEN {case.sql} THEN NULL")
    chosen = f"CASE {' '.join(whens)} ELSE {len(box.cases)} END"
    fails = f"CAST(CASE {' '.join(reasons)} END AS VARCHAR)"
    tried = f"SELECT *, {_braces(chosen)} AS {_CASE}, {_braces(fails)} AS {_FAILS} FROM {{in0}}"
    listed = _listed(given)
    ports = {
        Port(box.name, port): f"SELECT {listed} FROM {{own}}tried WHERE {_CASE} = {at}"
        for at, port in enumerate(ports_of(box))
    }
    return _Statements(ports, {"tried": tried})


def _map(box: Map, given: Columns, made: Columns) -> _Statements:
    transpiler = ScalarTranspiler({c.name: c for c in given})
    values = {n: transpiler.transpile(parse(t, "expression")) for n, t in box.columns.items()}
    fails = _first_reason({name: value.fails for name, value in values.items()})
    rows = f"SELECT {_values(values, made)}, {quoted_name(STIME)} FROM"
    if fails is None:
        return _Statements({Port(box.name): f"{rows} {{in0}}"})
    tried = f"SELECT *, {_braces(fails)} AS {_FAILS} FROM {{in0}}"
    rows = f"{rows} {{own}}tried WHERE {_FAILS} IS NULL"
    return _Statements({Port(box.name): rows}, {"tried": tried})


def _aggregate(box: Aggregate | Session, given: Columns, made: Columns) -> _Statements:
    values = _Aggregates.of(box, given, made)
    keys = box.by if isinstance(box, Session) else box.group_by
    group = [quoted_name(name) for name in keys]
    end = [f"{_END} AS {quoted_name('window_end')}"] if isinstance(box, Session) else []
    parts = (
        f"{_WINDOW} AS {quoted_name('window_start')}",
        *end,
        *group,
        values.listed,
        f"{_END} - 1 AS {quoted_name(STIME)}",
        values.fails,
    )
    by = ", ".join((_WINDOW, _END, *group))
    records, usable = "{own}tried", f"{_FAILS} IS NULL"
    if isinstance(box, Session):
        windows = _in_sessions(box, {c.name: c for c in given})
    else:
        windows = _in_periods(box) if box.every is not None else _windows(box, records, usable)
    grouped = f"SELECT {', '.join(parts)} FROM ({windows}) GROUP BY {by}"
    if isinstance(box, Aggregate) and box.emits_empty:
        grouped = _with_emitted(box, given, made, grouped)
    rows = f"SELECT {_listed(made)} FROM {{own}}grouped WHERE {_FAILS} IS NULL"
    return _Statements({Port(box.name): rows}, {"tried": values.tried, "grouped": grouped})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Aggregates:
    """The aggregates of a box: `tried` is its input with why it fails on records.

    `listed` are the values by column; `fails` is the column that says why the box fails on a row.
    """

    tried: str
    listed: str
    fails: str

    @staticmethod
    def of(
        box: Aggregate | Session | Running | Every,
        given: Columns,
        made: Columns,
        window: str | None = None,
    ) -> _Aggregates:
        """The aggregates over groups, or over a window of SQL, which are the last of `made`."""
        transpiler = AggregateTranspiler({c.name: c for c in given}, window)
        values, of_records = {}, {}
        for name, text in box.columns.items():
            known = len(transpiler.record_fails)
            call = user_call(box, text)
            if call is None:
                values[name] = transpiler.transpile(parse(text, "expression"))
            else:
                values[name] = over_records(call, transpiler)
            of_records[name] = any_of(*transpiler.record_fails[known:])
        unusable = _first_reason(of_records) or _NO_REASON
        lost = _first_reason({name: value.fails for name, value in values.items()}) or _NO_REASON
        return _Aggregates(
            tried=f"SELECT *, {_braces(unusable)} AS {_FAILS} FROM {{in0}}",
            listed=_values(values, made[len(made) - len(values) :]),
            fails=f"{_braces(lost)} AS {_FAILS}",
        )


def _running(box: Running, given: Columns, made: Columns) -> _Statements:
    """Each record with aggregates over a frame that ends with it."""
    values = _Aggregates.of(box, given, made, _UP_TO)
    own = ", ".join(quoted_name(c.name) for c in given)
    rows = (
        f"SELECT {own}, {values.listed}, {quoted_name(STIME)}, {values.fails} FROM "
        f"(SELECT * EXCLUDE ({_FAILS}) FROM {{own}}tried WHERE {_FAILS} IS NULL) "
        f"WINDOW {_UP_TO} AS ({_in_canonical_order(box, given)} "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    )
    good = f"SELECT {_listed(made)} FROM {{own}}rows WHERE {_FAILS} IS NULL"
    return _Statements({Port(box.name): good}, {"tried": values.tried, "rows": rows})


def _every(box: Every, given: Columns, made: Columns) -> _Statements:
    """Records by their place in the span, and the groups that reach n."""
    values, stime = _Aggregates.of(box, given, made), quoted_name(STIME)
    place = f"row_number() OVER ({_in_canonical_order(box, given)})"
    placed = (
        f"SELECT *, {_span(box)} AS {_SPAN}, ceil({place} / {box.n}::DOUBLE) AS {_PLACE} "
        f"FROM {{own}}tried WHERE {_FAILS} IS NULL"
    )
    keys = [quoted_name(name) for name in box.by]
    grouped = (
        f"SELECT {', '.join((*keys, values.listed))}, max({stime}) AS {stime}, {values.fails} "
        f"FROM ({placed}) GROUP BY {', '.join((_SPAN, *keys, _PLACE))} HAVING count(*) = {box.n}"
    )
    rows = f"SELECT {_listed(made)} FROM {{own}}grouped WHERE {_FAILS} IS NULL"
    return _Statements({Port(box.name): rows}, {"tried": values.tried, "grouped": grouped})


def _in_canonical_order(box: Running | Every, given: Columns) -> str:
    """The records of a span and key in canonical order, for OVER."""
    value = {c.name: _one_zero(c) for c in given}
    keys = ", ".join((_span(box), *(value[name] for name in box.by)))
    order = ", ".join(f"{by} ASC NULLS FIRST" for by in (quoted_name(STIME), *value.values()))
    return f"PARTITION BY {keys} ORDER BY {order}"


def _span(box: Deduplicate | Running | Every) -> str:
    """The beginning of the span that holds a record."""
    stime = quoted_name(STIME)
    return f"{stime} - {floor_mod(stime, box.within_us)}"


def _with_emitted(box: Aggregate, given: Columns, made: Columns, grouped: str) -> str:
    """The groups with records, and those in the table {in1} that have none."""
    transpiler = OfNothing({c.name: c for c in given})
    values = {}
    for name, text in box.columns.items():
        call = user_call(box, text)
        if call is None:
            values[name] = transpiler.transpile(parse(text, "expression"))
        else:
            values[name] = over_nothing(call)
    group = [quoted_name(name) for name in box.group_by]
    lost = _first_reason({name: value.fails for name, value in values.items()}) or _NO_REASON
    parts = (
        f"e.{quoted_name(STIME)} AS {quoted_name('window_start')}",
        *group,
        _values(values, made[len(made) - len(values) :]),
        f"{quoted_name(WINDOW_END)} - 1 AS {quoted_name(STIME)}",
        f"{_braces(lost)} AS {_FAILS}",
    )
    is_there = [f"g.{quoted_name('window_start')} = e.{quoted_name(STIME)}"]
    is_there += [f"g.{name} IS NOT DISTINCT FROM e.{name}" for name in group]
    return (
        f"WITH grouped AS ({grouped}) SELECT * FROM grouped UNION ALL "
        f"SELECT {', '.join(parts)} FROM {{in1}} AS e "
        f"WHERE NOT EXISTS (SELECT 1 FROM grouped AS g WHERE {' AND '.join(is_there)})"
    )


def _windows(box: Aggregate | Rank, records: str, condition: str = "true") -> str:
    """Every usable record once for each window that holds it, with the window's start."""
    stime = quoted_name(STIME)
    last = f"{stime} - {floor_mod(stime, box.advance_us)}"
    windows = -(-box.size_us // box.advance_us)
    start = f"{last} - n.range * {box.advance_us}"
    return (
        f"SELECT r.*, {start} AS {_WINDOW}, {start} + {box.size_us} AS {_END} "
        f"FROM {records} AS r, range({windows}) AS n "
        f"WHERE {condition} AND {start} + {box.size_us} > {stime}"
    )


def _in_periods(box: Aggregate) -> str:
    """Every usable record with the start and the end of the calendar window that holds it.

    A zone is at most two days from UTC: the periods of the dates around a record hold its window
    and the one behind it. A period starts at the least of the instants at which clocks could first
    show its midnight or later.
    """
    stime = quoted_name(STIME)
    step = "INTERVAL 3 MONTH" if box.every == "quarter" else f"INTERVAL 1 {box.every}"
    spans = ", ".join(str(span) for span in offset_spans(str(box.zone_offsets)))
    return (
        f"WITH days AS (SELECT DISTINCT ({stime} - {floor_mod(stime, DAY_US)}) // {DAY_US} AS day "
        "FROM {own}tried), "
        f"dates AS (SELECT DISTINCT (date_trunc('{box.every}', DATE '1970-01-01' + (day + n)::INT) "
        f"+ k * {step})::DATE - DATE '1970-01-01' AS first FROM days, range(-2, 3) AS near(n), "
        "range(2) AS following(k)), "
        f"starts AS (SELECT DISTINCT min(greatest(since, first * {DAY_US} - shift)) AS {_WINDOW} "
        f"FROM dates, (VALUES {spans}) AS clock(since, before, shift) "
        f"WHERE greatest(since, first * {DAY_US} - shift) < before GROUP BY first), "
        f"periods AS (SELECT {_WINDOW}, lead({_WINDOW}) OVER (ORDER BY {_WINDOW}) AS {_END} "
        "FROM starts) "
        f"SELECT r.*, p.{_WINDOW}, p.{_END} FROM {{own}}tried AS r ASOF JOIN periods AS p "
        f"ON r.{stime} >= p.{_WINDOW} WHERE r.{_FAILS} IS NULL"
    )


def _in_sessions(box: Session, given: Mapping[str, Column]) -> str:
    """Every usable record with the first time of its session, and its last time + the gap.

    Runs are numbered, and a run is divided by the number of the multiple of the greatest length
    that is the last one before a record, but for the records less than one length behind its first.
    """
    stime = quoted_name(STIME)
    keys = "".join(f", {_one_zero(given[name])}" for name in box.by)
    in_order = f"OVER (PARTITION BY true{keys} ORDER BY {stime})"
    is_first = f"({stime} - lag({stime}) {in_order} < {box.gap_us}) IS NOT TRUE"
    flagged = f"SELECT *, ({is_first})::INT AS _is_first FROM {{own}}tried WHERE {_FAILS} IS NULL"
    numbered = (
        f"SELECT *, sum(_is_first) OVER (PARTITION BY true{keys} ORDER BY {stime} "
        f"RANGE UNBOUNDED PRECEDING) AS _run FROM ({flagged})"
    )
    first = f"min({stime}) OVER (PARTITION BY _run{keys})"
    number = f"({stime} - {floor_mod(stime, box.length_us_max)}) // {box.length_us_max}"
    divided = (
        f"SELECT *, CASE WHEN {stime} - {first} >= {box.length_us_max} THEN {number} END AS _part "
        f"FROM ({numbered})"
    )
    of_session = f"OVER (PARTITION BY _run, _part{keys})"
    return (
        f"SELECT *, min({stime}) {of_session} AS {_WINDOW}, "
        f"max({stime}) {of_session} + {box.gap_us} AS {_END} FROM ({divided})"
    )


def _rank(box: Rank, given: Columns, made: Columns) -> _Statements:
    """The first rows of each window and group: NULL last, then in canonical order."""
    value = {c.name: _one_zero(c) for c in given}
    group = ", ".join((_WINDOW, *(value[name] for name in box.group_by)))
    order = [
        f"{value[name]} {'DESC' if is_descending else 'ASC'} NULLS LAST"
        for name, is_descending in box.keys
    ]
    order += [f"{by} ASC NULLS FIRST" for by in (quoted_name(STIME), *value.values())]
    number = f"row_number() OVER (PARTITION BY {group} ORDER BY {', '.join(order)})"
    own = {"window_start": _WINDOW, box.column: number}
    listed = ", ".join(
        f"{quoted_name(c.name) if c.name in value else own[c.name]} AS {quoted_name(c.name)}"
        for c in made
    )
    rows = (
        f"SELECT {listed}, {_WINDOW} + {box.size_us - 1} AS {quoted_name(STIME)} "
        f"FROM ({_windows(box, '{in0}')})"
    )
    if box.k is not None:
        rows += f" QUALIFY {number} <= {box.k}"
    return _Statements({Port(box.name): rows})


def _deduplicate(box: Deduplicate, given: Columns) -> _Statements:
    """The first record of each span and key, as what stays of the sorted records."""
    value, stime = {c.name: _one_zero(c) for c in given}, quoted_name(STIME)
    keys = ", ".join((_span(box), *(value[name] for name in box.by)))
    order = ", ".join(f"{by} ASC NULLS FIRST" for by in (stime, *value.values()))
    rows = f"SELECT DISTINCT ON ({keys}) {_listed(given)} FROM {{in0}} ORDER BY {keys}, {order}"
    return _Statements({Port(box.name): rows})


def _one_zero(column: Column) -> str:
    """A column to compare by: 0.0 for -0.0."""
    name = quoted_name(column.name)
    return f"({name} + 0.0::DOUBLE)" if column.type == "double" else name


def _join(box: Join, left: Columns, right: Columns) -> _Statements:
    """Pairs, and rows of left with or without one, each by a query of its own."""
    at, columns = quoted_name(STIME), columns_of_join(box, left, right)
    conditions = [f"a.{quoted_name(one)} = b.{quoted_name(other)}" for one, other in box.keys]
    conditions += [f"b.{at} >= a.{at} + {box.lo_us}", f"b.{at} <= a.{at} + {box.hi_us}"]
    is_pair = " AND ".join(conditions)

    def rows(right: str, time: str, rest: str) -> str:
        """Rows of both inputs, with an expression for the columns of right."""
        listed = [
            f"{f'a.{quoted_name(n)}' if side == 'left' else right.format(quoted_name(n))} "
            f"AS {quoted_name(column.name)}"
            for side, n, column in columns
        ]
        return f"SELECT {', '.join(listed)}, {time} AS {at} FROM {{in0}} AS a {rest}"

    certain = f"a.{at} + {max(box.hi_us, 0)}"
    pairs = rows("b.{}", f"greatest(a.{at}, b.{at})", f"JOIN {{in1}} AS b ON {is_pair}")
    with_one = f"WHERE EXISTS (SELECT 1 FROM {{in1}} AS b WHERE {is_pair})"
    without = with_one.replace("EXISTS", "NOT EXISTS")
    sql = {
        "inner": pairs,
        "left": f"{pairs} UNION ALL {rows('NULL', certain, without)}",
        "semi": rows("NULL", certain, with_one),
        "anti": rows("NULL", certain, without),
    }[box.how]
    return _Statements({Port(box.name): sql})


def _lookup(box: Lookup, input_: Columns, table: Columns) -> _Statements:
    """One record of the table at each time and key, then the nearest of them behind each record."""
    at, columns = quoted_name(STIME), columns_of_lookup(box, input_, table)
    keys = ", ".join(quoted_name(key) for _, key in box.keys)
    order = ", ".join(f"{quoted_name(c.name)} DESC NULLS LAST" for c in table)
    last = (
        f"SELECT * FROM {{in1}} QUALIFY row_number() OVER (PARTITION BY {keys}, {at} "
        f"ORDER BY {order}) = 1"
    )
    # An ASOF join of DuckDB 2.0 misses pairs if a BLOB stands behind another key.
    binary = {column.name for column in input_ if column.type == "binary"}
    pairs = [
        (f"a.{quoted_name(one)}", f"b.{quoted_name(other)}", one in binary)
        for one, other in box.keys
    ]
    is_pair = " AND ".join(
        [
            *(f"hex({a}) = hex({b})" if is_binary else f"{a} = {b}" for a, b, is_binary in pairs),
            f"a.{at} >= b.{at}",
        ]
    )
    is_new = f"b.{at} >= a.{at} - {box.max_age_us}"
    listed = [
        f"{f'a.{name}' if side == 'input' else f'CASE WHEN {is_new} THEN b.{name} END'} "
        f"AS {quoted_name(column.name)}"
        for side, name, column in ((s, quoted_name(n), c) for s, n, c in columns)
    ]
    sql = (
        f"SELECT {', '.join(listed)}, a.{at} AS {at} FROM {{in0}} AS a "
        f"ASOF LEFT JOIN ({last}) AS b ON {is_pair}"
    )
    if box.how == "inner":
        sql += f" WHERE {is_new}"
    return _Statements({Port(box.name): sql})


def _resample(box: Resample, given: Columns, made: Columns) -> _Statements:
    """Every time that a record is near to, and of the records of a key and time the nearest one."""
    step_us, age_us, at = box.step_us, box.max_age_us, quoted_name(STIME)
    keys = [quoted_name(name) for name in box.by]
    candidates = -(-age_us // step_us) + 1

    def nearest(first: str, is_in_range: str, direction: str) -> str:
        order = ", ".join(f"{c} {direction}" for c in (at, *(quoted_name(c.name) for c in given)))
        by = ", ".join((*keys, _SAMPLE))
        return (
            f"SELECT * FROM (SELECT r.*, {first} + n.range * {step_us} AS {_SAMPLE} "
            f"FROM {{in0}} AS r, range({candidates}) AS n) WHERE {is_in_range} "
            f"QUALIFY row_number() OVER (PARTITION BY {by} ORDER BY {order}) = 1"
        )

    up = f"({at} + {floor_mod(f'(-{at})', step_us)})"
    before = nearest(up, f"{_SAMPLE} <= {at} + {age_us}", "DESC NULLS LAST")
    later = f"({at} - {age_us})"
    up = f"({later} + {floor_mod(f'(-{later})', step_us)})"
    after = nearest(up, f"{_SAMPLE} <= {at}", "ASC NULLS FIRST")
    is_linear = box.method == "linear"
    listed = [
        f"a.{_SAMPLE} AS {quoted_name('sample_time')}",
        *(f"a.{key} AS {key}" for key in keys),
    ]
    types = {column.name: column.type for column in given}
    for column in made[1 + len(keys) :]:
        name = quoted_name(column.name)
        value = f"a.{name}"
        if is_linear and types[column.name] in ("int", "bigint", "double"):
            first, last = (f"CAST({side}.{name} AS DOUBLE)" for side in ("a", "b"))
            share = f"(CAST(a.{_SAMPLE} - a.{at} AS DOUBLE) / CAST(b.{at} - a.{at} AS DOUBLE))"
            between = f"{first} + ({last} - {first}) * {share}"
            value = (
                f"(CASE WHEN a.{at} = a.{_SAMPLE} THEN {first} ELSE {between} END + 0.0::DOUBLE)"
            )
        listed.append(f"{value} AS {name}")
    sql = f"FROM ({before}) AS a"
    if is_linear:
        same = [f"a.{_SAMPLE} = b.{_SAMPLE}", *(f"a.{k} IS NOT DISTINCT FROM b.{k}" for k in keys)]
        sql += f" JOIN ({after}) AS b ON {' AND '.join(same)}"
    time = f"a.{_SAMPLE} + {age_us if is_linear else 0} AS {at}"
    return _Statements({Port(box.name): f"SELECT {', '.join(listed)}, {time} {sql}"})


def _reason(column: str, fails: str) -> str:
    """Why a box fails: the column and the cause, in SQL."""
    return f"{quoted_text(f'column {column}: ')} || {fails}"


def _first_reason(fails: Mapping[str, str | None]) -> str | None:
    """Why a box fails: the first of its columns that does, and why; None if none can."""
    return any_of(*(_reason(name, failure) for name, failure in fails.items() if failure))


def _values(values: Mapping[str, Transpiled], columns: Sequence[Column]) -> str:
    """The columns that a box makes, in their order."""
    listed = []
    for column in columns:
        value, type_ = values[column.name], column_type(column)
        assert value.type == type_, f"{column.name} is transpiled as {value.type}, not {type_}"
        sql = f"CAST({value.sql} AS {duckdb_type(type_)})"
        listed.append(f"{_braces(sql)} AS {quoted_name(column.name)}")
    return ", ".join(listed)


def _listed(columns: Iterable[Column]) -> str:
    return ", ".join(quoted_name(name) for name in (*(c.name for c in columns), STIME))


def _braces(sql: str) -> str:
    """SQL as a part of a text that is formatted later."""
    return sql.replace("{", "{{").replace("}", "}}")
