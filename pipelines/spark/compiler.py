"""A fragment as Spark SQL: its boxes fused into one statement, all outputs in one relation.

The plan has the same shape whether or not an input has records, and no bucket bound is in its
text, so that Spark compiles its classes once and not once per step. Rows of all outputs come out
of one job: a tag names the output of a row, and columns of equal type share slots. Outputs that
only filter one relation are separated in one pass over it; a relation that several boxes read and
that has a box behind it that is no Filter, Map or Union is computed once and kept for the job (a
Statement).

Records on which an expression failed have a separate tag, for quarantine: the failed input record
as JSON, which expression it was and why. A failed record is in no output behind its box, whether
the output uses the value or not. The cause is computed for failed records only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

from medusa_core.columns import Column
from medusa_core.fragments import Fragment
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
    Port,
    Rank,
    Resample,
    Running,
    Session,
    Union,
    inputs_of,
    ports_of,
)
from medusa_core.ranks import WINDOW_START
from pipelines.language.aggregates import AggregateCall, CompiledAggregate, one_zero
from pipelines.language.check import (
    RECORDS,
    CheckedAggregate,
    CheckedEvery,
    CheckedFilter,
    CheckedJoin,
    CheckedLookup,
    CheckedMap,
    CheckedNetwork,
    CheckedResample,
    CheckedRunning,
    CheckedSession,
)
from pipelines.language.failure_causes import Failure, FailureCause
from pipelines.spark.calendar_periods import in_periods
from pipelines.spark.distinct import SHARE, VALUE, in_shares, in_two_groupings
from pipelines.spark.emitted_rows import END, stream_of
from pipelines.spark.nearest_records import looked_up, resampled
from pipelines.spark.session_windows import in_sessions
from pipelines.storage.arrow_schema import STIME

TAG = "_output"
ERROR = "_error"
WINDOW = "_window_us"
WINDOW_END = "_window_end_us"
RANK = "_rank"
EMITTED = "_emitted"
GROUP = "_group"

_Expressions: TypeAlias = tuple[tuple[str, str], ...]
"""The expressions of the user by column."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A relation that is made before the last one: SQL, then perhaps a function; then kept."""

    view: str
    sql: str
    function: Callable[[Any], Any] | None = None
    columns: tuple[Column, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputShape:
    """Where an output's columns lie in the tagged relation: one slot for each column."""

    stream: StreamName
    tag: int
    columns: tuple[Column, ...]
    slots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FallibleBox:
    """A box that can fail: what it failed on comes out under a tag of its own.

    `expressions` are those of the user by column (of a Filter: by port). `is_window`: it fails on
    groups of its windows, else on records that it reads. The first slot has the number of the
    failure, the second the row.
    """

    box: str
    tag: int
    expressions: tuple[tuple[str, str], ...]
    slots: tuple[str, ...]
    is_window: bool

    def failure(self, number: int) -> tuple[str, str, FailureCause]:
        """The column, its expression and the cause that a number stands for."""
        at, cause = divmod(number, len(FailureCause))
        return *self.expressions[at], FailureCause(cause)


@dataclass(frozen=True, slots=True)
class PaneShape:
    """A box whose panes are given from outside too, and come out under a tag of their own."""

    box: str
    tag: int
    columns: tuple[Column, ...]
    slots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompiledFragment:
    """What the step runs: statements in order, the last statement, and how to read its rows."""

    statements: tuple[Statement, ...]
    sql: str
    outputs: tuple[OutputShape, ...]
    fallible: tuple[FallibleBox, ...]
    panes: tuple[PaneShape, ...] = ()


def input_view(stream: StreamName) -> str:
    """The name under which the step offers an input's records."""
    return f"medusa_in_{stream}"


def pane_view(box: str) -> str:
    """The name under which the step offers the panes that a box has made before."""
    return f"medusa_panes_{box}"


def compile_fragment(
    fragment: Fragment, checked: CheckedNetwork, panes: Collection[str] = ()
) -> CompiledFragment:
    """The fragment as SQL; boxes of `panes` take some from outside, and give those they make."""
    return _Compiler(fragment, checked, panes).compile()


@dataclass
class _Compiler:
    """Collects relations by name, in an order in which each reads only earlier ones."""

    fragment: Fragment
    checked: CheckedNetwork
    panes: Collection[str]
    relations: dict[str, str] = field(default_factory=dict)
    reads: dict[str, tuple[str, ...]] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)
    failures: list[_FailedRows] = field(default_factory=list)
    filtered: dict[str, tuple[str, str]] = field(default_factory=dict)

    def compile(self) -> CompiledFragment:
        """Every box in order, then all outputs and failures as one tagged relation."""
        for port, stream in self.fragment.inputs.items():
            self._add(self._relation(port), f"SELECT * FROM {input_view(stream)}")
        for box in self.fragment.boxes:
            self._add_box(box)
        return self._last()

    # relations

    def _relation(self, port: Port) -> str:
        # Names of boxes and ports have no capitals, so these differ from them.
        return f"{port.owner}P{port.port}"

    def _add(self, name: str, sql: str, *reads: str) -> None:
        self.relations[name], self.reads[name] = sql, reads

    def _with(self, *names: str) -> str:
        """The WITH clause that these relations need."""
        needed: dict[str, None] = {}

        def visit(name: str) -> None:
            if name in needed or name in self.kept:
                return
            for read in self.reads[name]:
                visit(read)
            needed[name] = None

        for name in names:
            visit(name)
        parts = [f"{name} AS ({self.relations[name]})" for name in needed]
        return f"WITH {', '.join(parts)} " if parts else ""

    def _keep(self, name: str) -> None:
        """Make the relation a statement of its own, computed once."""
        self.statements.append(Statement(name, f"{self._with(name)}SELECT * FROM {name}"))
        self.kept.add(name)

    def _readers(self, port: Port) -> int:
        arcs = [a for a in self.fragment.network.box_arcs if a.start == port]
        inside = {b.name for b in self.fragment.boxes}
        read = sum(1 for a in arcs if a.end in inside)
        return read + sum(1 for p in self.fragment.outputs.values() if p == port)

    def _is_costly(self, port: Port) -> bool:
        """Whether a box that is no Filter, Map or Union lies between the port and what is kept."""
        if port in self.fragment.inputs or self._relation(port) in self.kept:
            return False
        box = self.fragment.network.box(port.owner)
        if not isinstance(box, Filter | Map | Union):
            return True
        return any(self._is_costly(self.fragment.network.port(r, box.name)) for r in inputs_of(box))

    # boxes

    def _add_box(self, box: Box) -> None:
        network = self.fragment.network
        inputs = [self._relation(network.port(r, box.name)) for r in inputs_of(box)]
        match box:
            case Filter():
                self._add_filter(box, inputs[0])
            case Map():
                self._add_map(box, inputs[0])
            case Union():
                columns = ", ".join(_names(self.checked.columns[Port(box.name)]))
                sql = " UNION ALL ".join(f"SELECT {columns}, {STIME} FROM {i}" for i in inputs)
                self._add(self._relation(Port(box.name)), sql, *inputs)
            case Aggregate() | Session():
                self._add_aggregate(box, inputs[0])
            case Join():
                self._add_join(box, *inputs)
            case Lookup():
                self._add_lookup(box, *inputs)
            case Resample():
                self._add_resample(box, inputs[0])
            case Rank():
                self._add_rank(box, inputs[0])
            case Deduplicate():
                self._add_deduplicate(box, inputs[0])
            case Running():
                self._add_running(box, inputs[0])
            case Every():
                self._add_every(box, inputs[0])
            case Function():
                self._add_function(box, inputs[0])
            case _:
                assert_never(box)
        for port in (Port(box.name, p) for p in ports_of(box)):
            name = self._relation(port)
            if name not in self.kept and self._readers(port) > 1 and self._is_costly(port):
                self._keep(name)

    def _add_filter(self, box: Filter, input_: str) -> None:
        checked = self.checked.boxes[box.name]
        assert isinstance(checked, CheckedFilter)
        cases = checked.cases
        last = len(cases)
        if last == 1 and not box.otherwise and cases[0][1].error is None:
            port = self._relation(Port(box.name, cases[0][0]))
            self._filter(port, input_, "*", cases[0][1].sql)
            return
        whens = []
        for at, (_, predicate) in enumerate(cases):
            if predicate.error:
                whens.append(f"WHEN {predicate.error} THEN {-1 - at}")
            whens.append(f"WHEN {predicate.sql} THEN {at}")
        case = f"{box.name}CASE"
        self._add(case, f"SELECT *, CASE {' '.join(whens)} ELSE {last} END AS _case FROM {input_}",
                  input_)  # fmt: skip
        columns = ", ".join((*_names(self._columns_behind(box)), STIME))
        for at, port_name in enumerate(ports_of(box)):
            name = self._relation(Port(box.name, port_name))
            self._filter(name, case, columns, f"_case = {at}")
        if any(p.error for _, p in cases):
            failed = f"{box.name}FAILED"
            number = _number_of("-1 - _case", [p.failure for _, p in cases])
            self._add(failed, f"SELECT {columns}, {number} AS {ERROR} FROM {case} "
                      "WHERE _case < 0", case)  # fmt: skip
            self._fails(box, failed, tuple(box.cases.items()))

    def _filter(self, name: str, input_: str, columns: str, predicate: str) -> None:
        self._add(name, f"SELECT {columns} FROM {_where(input_, predicate)}", input_)
        self.filtered[name] = (input_, predicate)

    def _add_map(self, box: Map, input_: str) -> None:
        checked = self.checked.boxes[box.name]
        assert isinstance(checked, CheckedMap)
        expressions = checked.columns
        columns = ", ".join(f"{e.sql} AS `{name}`" for name, e in expressions)
        name = self._relation(Port(box.name))
        whens = _whens([e.error for _, e in expressions])
        if not whens:
            self._add(name, f"SELECT {columns}, {STIME} FROM {input_}", input_)
            return
        tried = f"{box.name}TRIED"
        self._add(tried, f"SELECT *, CASE {whens} END AS {ERROR} FROM {input_}", input_)
        self._add(name, f"SELECT {columns}, {STIME} FROM {tried} WHERE {ERROR} IS NULL", tried)
        self._add_failed(box, tried, [e.failure for _, e in expressions])

    def _add_aggregate(self, box: Aggregate | Session, input_: str) -> None:
        checked = self.checked.boxes[box.name]
        assert isinstance(checked, CheckedAggregate | CheckedSession)
        expressions = _by_column(checked)
        good = self._add_records_of(box, checked.columns, expressions, input_)
        window = f"{box.name}WINDOW"
        if isinstance(box, Session):
            by, ends, bounds = box.by, WINDOW_END, [WINDOW, WINDOW_END]
            self._add(window, self._in_sessions(box, good), good)
        else:
            by, is_fixed = box.group_by, box.calendar is None
            ends = f"{WINDOW} + {box.size_us}L" if is_fixed else WINDOW_END
            bounds = [WINDOW] if is_fixed else [WINDOW, WINDOW_END]
            self._add(window, _windowed(box, good), good)
        group = ", ".join((*bounds, *(f"`{g}`" for g in by)))
        grouped = self._grouped(box, checked.columns, window, group)
        columns = [f"timestamp_micros({WINDOW}) AS `window_start`"]
        if isinstance(box, Session):
            columns += [f"timestamp_micros({WINDOW_END}) AS `window_end`"]
        columns += [f"`{g}`" for g in by]
        columns += [*grouped.columns, f"{ends} - 1L AS {STIME}", *grouped.error]
        rows, fails = grouped.rows, bool(grouped.error)
        sql = f"SELECT {', '.join(columns)} FROM {rows} GROUP BY {group}"
        if isinstance(checked, CheckedAggregate) and checked.box.emits_empty:
            rows, sql, fails = self._with_empty(checked.box, checked, rows, sql, fails)
        if box.name in self.panes:
            assert not fails, "a partial value fails on nothing"
            made = f"{box.name}MADE"
            self._add(made, sql, rows)
            self._keep(made)
            own = ", ".join((*_names(self.checked.columns[Port(box.name)]), STIME))
            given = f"SELECT {own} FROM {pane_view(box.name)}"
            name = self._relation(Port(box.name))
            self._add(name, f"SELECT {own} FROM {made} UNION ALL {given}", made)
            return
        self._add_rows(box, sql, rows, expressions if fails else None)

    def _grouped(
        self,
        box: Aggregate | Session | Every,
        aggregates: Sequence[tuple[str, CompiledAggregate]],
        window: str,
        group: str,
        *also: AggregateCall,
    ) -> _Grouped:
        """The aggregates of a box, and others, over the groups of a relation."""
        values = [e.sql for _, e in aggregates]
        numbered = [sql for part in _numbered(aggregates) for sql in part]
        whole = {c.name for c in self._columns_behind(box) if c.type in ("int", "bigint")}
        calls = [*(call for _, e in aggregates for call in e.calls), *also]
        rows, rewritten = self._count_distinct_first(
            window, group, [*values, *numbered, *(call.sql for call in also)], whole, calls
        )
        at, end = len(values), len(values) + len(numbered)
        named = zip(rewritten[:at], aggregates, strict=True)
        pairs = zip(rewritten[at:end:2], rewritten[at + 1 : end : 2], strict=True)
        return _Grouped(
            rows=rows,
            columns=tuple(f"{sql} AS `{name}`" for sql, (name, _) in named),
            error=_error_of(pairs),
            also=tuple(rewritten[end:]),
        )

    def _add_rows(
        self,
        box: Aggregate | Session | Running | Every,
        sql: str,
        read: str,
        expressions: _Expressions | None,
    ) -> None:
        """The rows of a box; with `expressions`, those that failed on one go to quarantine."""
        name = self._relation(Port(box.name))
        if expressions is None:
            self._add(name, sql, read)
            return
        tried = f"{box.name}ROWS"
        self._add(tried, sql, read)
        self._keep(tried)
        own = ", ".join((*_names(self.checked.columns[Port(box.name)]), STIME))
        self._add(name, f"SELECT {own} FROM {tried} WHERE {ERROR} IS NULL", tried)
        failed = f"{box.name}FAILED_ROWS"
        self._add(failed, f"SELECT * FROM {tried} WHERE {ERROR} IS NOT NULL", tried)
        self._fails(box, failed, expressions, is_window=True)

    def _with_empty(
        self, box: Aggregate, checked: CheckedAggregate, rows: str, grouped: str, fails: bool
    ) -> tuple[str, str, bool]:
        """The groups with records, and the declared ones without; and which of them fail."""
        given = f"{box.name}EMITTED"
        self._add(given, f"SELECT * FROM {input_view(stream_of(box.name))}")
        failures = ((at, e.failure) for at, e in enumerate(checked.of_empty))
        of_empty = " ".join(
            f"WHEN {f.condition} THEN {_number(at, f)}" for at, f in failures if f is not None
        )
        columns = [f"timestamp_micros({STIME}) AS `window_start`"]
        columns += [f"`{g}`" for g in box.group_by]
        names = [name for name, _ in checked.columns]
        values = zip(checked.of_empty, names, strict=True)
        columns += [f"{e.sql} AS `{name}`" for e, name in values]
        columns += [f"{END} - 1L AS {STIME}"]
        listed = ["`window_start`", *(f"`{n}`" for n in (*box.group_by, *names)), STIME]
        if fails or of_empty:
            no_error = "CAST(NULL AS INT)"
            columns += [f"{f'CASE {of_empty} END' if of_empty else no_error} AS {ERROR}"]
            grouped = grouped if fails else f"SELECT *, {no_error} AS {ERROR} FROM ({grouped})"
            listed += [ERROR]
        with_records = f"{box.name}WITH_RECORDS"
        self._add(with_records, grouped, rows)
        both = f"{box.name}BOTH"
        own = ", ".join(listed)
        self._add(
            both,
            f"SELECT {own}, 0 AS {EMITTED} FROM {with_records} UNION ALL "
            f"SELECT {own}, 1 AS {EMITTED} FROM (SELECT {', '.join(columns)} FROM {given})",
            with_records, given,
        )  # fmt: skip
        group = ", ".join(listed[: 1 + len(box.group_by)])
        first = f"row_number() OVER (PARTITION BY {group} ORDER BY {EMITTED}) AS {RANK}"
        one = f"SELECT {own} FROM (SELECT *, {first} FROM {both}) WHERE {RANK} = 1"
        return both, one, fails or bool(of_empty)

    def _count_distinct_first(
        self,
        window: str,
        group: str,
        expressions: list[str],
        whole_numbers: Collection[str],
        calls: Sequence[AggregateCall],
    ) -> tuple[str, list[str]]:
        """The relation to group and the expressions over it, when distinct values went before."""
        two = in_two_groupings(expressions, whole_numbers)
        if two is None:
            return self._in_shares(window, group, expressions, calls)
        name = f"{window}PARTS"
        parts = ", ".join((group, VALUE, *(f"{sql} AS {part}" for part, sql in two.partials)))
        valued = f"SELECT *, {two.value} AS {VALUE} FROM {window}"
        self._add(name, f"SELECT {parts} FROM ({valued}) GROUP BY {group}, {VALUE}", window)
        return name, list(two.expressions)

    def _in_shares(
        self, window: str, group: str, expressions: list[str], calls: Sequence[AggregateCall]
    ) -> tuple[str, list[str]]:
        """The like for several distinct values, where there are several."""
        shares = in_shares(expressions, calls)
        if shares is None:
            return window, expressions
        name = f"{window}PARTS"
        numbers = ", ".join(str(at) for at in range(len(shares.values) + 1))
        shared = f"SELECT *, explode(array({numbers})) AS {SHARE} FROM {window}"
        columns = [f"{value} AS {VALUE}{at}" for at, value in enumerate(shares.values, start=1)]
        valued = f"SELECT *, {', '.join(columns)} FROM ({shared})"
        keys = ", ".join((group, SHARE, *(f"{VALUE}{at + 1}" for at in range(len(columns)))))
        parts = ", ".join((keys, *(f"{sql} AS {part}" for part, sql in shares.partials)))
        self._add(name, f"SELECT {parts} FROM ({valued}) GROUP BY {keys}", window)
        return name, list(shares.expressions)

    def _in_sessions(self, box: Session, input_: str) -> str:
        types = {column.name: column.type for column in self._columns_behind(box)}
        keys = [one_zero(f"`{name}`", types[name]) for name in box.by]
        return in_sessions(box, keys, input_, WINDOW, WINDOW_END)

    def _add_records_of(
        self,
        box: Aggregate | Session | Running | Every,
        aggregates: Sequence[tuple[str, CompiledAggregate]],
        expressions: _Expressions,
        input_: str,
    ) -> str:
        """The records that a box can use; those it fails on go to quarantine."""
        whens = _whens([e.record_error for _, e in aggregates])
        if not whens:
            return input_
        tried, good = f"{box.name}TRIED", f"{box.name}GOOD"
        self._add(tried, f"SELECT *, CASE {whens} END AS {ERROR} FROM {input_}", input_)
        columns = ", ".join((*_names(self._columns_behind(box)), STIME))
        self._add(good, f"SELECT {columns} FROM {tried} WHERE {ERROR} IS NULL", tried)
        self._add_failed(box, tried, [e.record_failure for _, e in aggregates], expressions)
        return good

    def _add_join(self, box: Join, left: str, right: str) -> None:
        checked = self.checked.boxes[box.name]
        assert isinstance(checked, CheckedJoin)
        columns = ", ".join(f"{c.side[0]}.`{c.column}` AS `{c.name}`" for c in checked.columns)
        keys = " AND ".join(f"l.`{a}` = r.`{b}`" for a, b in box.keys)
        within = f"r.{STIME} - l.{STIME} BETWEEN {box.lo_us}L AND {box.hi_us}L"
        pair, certain = f"greatest(l.{STIME}, r.{STIME})", f"l.{STIME} + {box.certain_us}L"
        match box.how:
            case "inner":
                kind, at = "INNER", pair
            case "left":
                kind, at = "LEFT OUTER", f"IF(r.{STIME} IS NULL, {certain}, {pair})"
            case _:
                kind, at = f"LEFT {box.how.upper()}", certain
        sql = f"SELECT {columns}, {at} AS {STIME} FROM {left} AS l {kind} JOIN {right} AS r "
        name = self._relation(Port(box.name))
        self._add(name, f"{sql} ON {keys} AND {within}", left, right)

    def _add_lookup(self, box: Lookup, input_: str, table: str) -> None:
        checked = self.checked.boxes[box.name]
        assert isinstance(checked, CheckedLookup)
        name = self._relation(Port(box.name))
        self._add(name, looked_up(checked, input_, table), input_, table)

    def _add_resample(self, box: Resample, input_: str) -> None:
        checked = self.checked.boxes[box.name]
        assert isinstance(checked, CheckedResample)
        self._add(self._relation(Port(box.name)), resampled(checked, input_), input_)

    def _add_rank(self, box: Rank, input_: str) -> None:
        window, ranked = f"{box.name}WINDOW", f"{box.name}RANKED"
        self._add(window, _windowed(box, input_), input_)
        types = {column.name: column.type for column in self._columns_behind(box)}
        order = [
            f"{one_zero(f'`{name}`', types[name])} {'DESC' if is_descending else 'ASC'} NULLS LAST"
            for name, is_descending in box.keys
        ]
        number = self._row_number(box, WINDOW, box.group_by, order)
        self._add(ranked, f"SELECT *, {number} AS {RANK} FROM {window}", window)
        special = {
            WINDOW_START: f"timestamp_micros({WINDOW})",
            box.column: f"CAST({RANK} AS BIGINT)",
        }
        columns = ", ".join(
            f"`{c.name}`" if c.name in types else f"{special[c.name]} AS `{c.name}`"
            for c in self.checked.columns[Port(box.name)]
        )
        sql = f"SELECT {columns}, {WINDOW} + {box.size_us - 1}L AS {STIME} FROM {ranked}"
        self._add(self._relation(Port(box.name)), f"{sql} WHERE {RANK} <= {box.k}", ranked)

    def _add_deduplicate(self, box: Deduplicate, input_: str) -> None:
        numbered = f"{box.name}NUMBERED"
        number = self._row_number(box, _span(box), box.by)
        self._add(numbered, f"SELECT *, {number} AS {RANK} FROM {input_}", input_)
        columns = ", ".join((*_names(self._columns_behind(box)), STIME))
        first = f"SELECT {columns} FROM {numbered} WHERE {RANK} = 1"
        self._add(self._relation(Port(box.name)), first, numbered)

    def _add_running(self, box: Running, input_: str) -> None:
        checked = self.checked.boxes[box.name]
        assert isinstance(checked, CheckedRunning)
        expressions = tuple(box.columns.items())
        good = self._add_records_of(box, checked.columns, expressions, input_)
        error = _error_of(_numbered(checked.columns))
        columns = [*_names(self._columns_behind(box))]
        columns += [f"{e.sql} AS `{name}`" for name, e in checked.columns]
        columns += [STIME, *error]
        records = f"{self._in_order(box, _span(box), box.by)} ROWS UNBOUNDED PRECEDING"
        sql = f"SELECT {', '.join(columns)} FROM {good} WINDOW {RECORDS} AS ({records})"
        self._add_rows(box, sql, good, expressions if error else None)

    def _add_every(self, box: Every, input_: str) -> None:
        checked = self.checked.boxes[box.name]
        assert isinstance(checked, CheckedEvery)
        expressions = tuple(box.columns.items())
        good = self._add_records_of(box, checked.columns, expressions, input_)
        numbered = f"{box.name}NUMBERED"
        number = self._row_number(box, WINDOW, box.by)
        spanned = f"SELECT *, {_span(box)} AS {WINDOW} FROM {good}"
        sql = f"SELECT *, ({number} - 1) div {box.n} AS {GROUP} FROM ({spanned})"
        self._add(numbered, sql, good)
        keys = [f"`{name}`" for name in box.by]
        group = ", ".join((WINDOW, *keys, GROUP))
        grouped = self._grouped(box, checked.columns, numbered, group, _LAST, _COUNT)
        last, count = grouped.also
        columns = ", ".join((*keys, *grouped.columns, f"{last} AS {STIME}", *grouped.error))
        sql = f"SELECT {columns} FROM {grouped.rows} GROUP BY {group} HAVING {count} = {box.n}"
        self._add_rows(box, sql, grouped.rows, expressions if grouped.error else None)

    def _row_number(
        self,
        box: Rank | Deduplicate | Every,
        part: str,
        keys: Sequence[str],
        order: Sequence[str] = (),
    ) -> str:
        """The number of a record within a part of event time and a key, ties in canonical order."""
        return f"row_number() OVER ({self._in_order(box, part, keys, order)})"

    def _in_order(
        self,
        box: Rank | Deduplicate | Running | Every,
        part: str,
        keys: Sequence[str],
        order: Sequence[str] = (),
    ) -> str:
        """The records of a part of event time and a key as a window, ties in canonical order."""
        compared = {c.name: one_zero(f"`{c.name}`", c.type) for c in self._columns_behind(box)}
        groups = ", ".join((part, *(compared[name] for name in keys)))
        ties = (STIME, *(f"{column} ASC NULLS FIRST" for column in compared.values()))
        return f"PARTITION BY {groups} ORDER BY {', '.join((*order, *ties))}"

    def _add_failed(
        self, box: Map | Aggregate | Session | Running | Every, tried: str,
        failures: Sequence[Failure | None], expressions: _Expressions | None = None,
    ) -> None:  # fmt: skip
        """The records that were tried and on which an expression failed."""
        failed = f"{box.name}FAILED"
        columns = ", ".join((*_names(self._columns_behind(box)), STIME))
        number = _number_of(ERROR, failures)
        self._add(
            failed,
            f"SELECT {columns}, {number} AS {ERROR} FROM {tried} WHERE {ERROR} IS NOT NULL",
            tried,
        )
        self._fails(box, failed, expressions or tuple(box.columns.items()))

    def _add_function(self, box: Function, input_: str) -> None:
        name = self._relation(Port(box.name))
        sql = f"{self._with(input_)}SELECT * FROM {input_}"
        columns = self.checked.columns[Port(box.name)]
        self.statements.append(Statement(name, sql, box.function, columns))
        self.kept.add(name)

    def _columns_behind(
        self, box: Filter | Map | Aggregate | Session | Rank | Deduplicate | Running | Every
    ) -> tuple[Column, ...]:
        return self.checked.columns[self.fragment.network.port(box.input, box.name)]

    def _fails(
        self, box: Filter | Map | Aggregate | Session | Running | Every, relation: str,
        expressions: _Expressions, *, is_window: bool = False,
    ) -> None:  # fmt: skip
        columns = self.checked.columns[Port(box.name)] if is_window else self._columns_behind(box)
        row = ", ".join((*_names(columns), STIME))
        self.failures.append(_FailedRows(box.name, relation, row, expressions, is_window))

    # the tagged relation

    def _last(self) -> CompiledFragment:
        slots = _Slots()
        outputs, fallible = [], []
        branches: dict[str, _Branch] = {}
        for tag, (stream, port) in enumerate(self.fragment.outputs.items()):
            columns = self.checked.columns[port]
            shape = OutputShape(stream, tag, columns, slots.take([c.type for c in columns]))
            outputs.append(shape)
            relation, predicates = self._unfiltered(self._relation(port))
            # A filter keeps the columns, so that all outputs of one branch fill the same slots.
            by_slot = dict(zip(shape.slots, _names(columns), strict=True))
            branch = branches.setdefault(relation, _Branch(relation, by_slot))
            branch.predicates[str(tag)] = predicates
        for at, failed in enumerate(self.failures):
            taken = slots.take(["int", "string"])
            tag = -1 - at
            fallible.append(
                FallibleBox(failed.box, tag, failed.expressions, taken, failed.is_window)
            )
            by_slot = {taken[0]: ERROR, taken[1]: f"to_json(struct({failed.row}))"}
            branches[str(tag)] = _Branch(failed.relation, by_slot, {str(tag): []})
        panes: list[PaneShape] = []
        for box in self.panes:
            columns = self.checked.columns[Port(box)]
            tag = len(outputs) + len(panes)
            pane = PaneShape(box, tag, columns, slots.take([c.type for c in columns]))
            panes.append(pane)
            by_slot = dict(zip(pane.slots, _names(columns), strict=True))
            branches[f"{box} panes"] = _Branch(f"{box}MADE", by_slot, {str(tag): []})
        selects = " UNION ALL ".join(b.sql(slots) for b in branches.values())
        return CompiledFragment(
            statements=tuple(self.statements),
            sql=self._with(*(b.relation for b in branches.values())) + selects,
            outputs=tuple(outputs),
            fallible=tuple(fallible),
            panes=tuple(panes),
        )

    def _unfiltered(self, relation: str) -> tuple[str, list[str]]:
        """What lies before the last filters of a relation, and these."""
        predicates: list[str] = []
        while relation in self.filtered and relation not in self.kept:
            relation, predicate = self.filtered[relation]
            predicates.append(predicate)
        return relation, predicates


_LAST = AggregateCall(
    sql=f"max({STIME})", function="max", arguments=(STIME,), is_distinct=False, only=None
)
_COUNT = AggregateCall(
    sql="count(*)", function="count", arguments=("*",), is_distinct=False, only=None
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grouped:
    """Aggregates over the groups of `rows`: the columns, and `also`, the values of other calls.

    `error` is the column with the number of the failure, if a group can fail.
    """

    rows: str
    columns: tuple[str, ...]
    error: tuple[str, ...]
    also: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _FailedRows:
    """A relation of failed rows with the number of the failure; `row` lists their columns."""

    box: str
    relation: str
    row: str
    expressions: tuple[tuple[str, str], ...]
    is_window: bool


@dataclass
class _Branch:
    """A relation whose rows go to one or more outputs, each with the filters before it."""

    relation: str
    by_slot: Mapping[str, str]
    predicates: dict[str, list[str]] = field(default_factory=dict)

    def sql(self, slots: _Slots) -> str:
        """Its rows, each once for every tag whose filters it passes."""
        columns = ", ".join(slots.columns(self.by_slot))
        if len(self.predicates) == 1:
            ((tag, predicates),) = self.predicates.items()
            rows = _where(self.relation, _all(predicates)) if predicates else self.relation
            return f"SELECT {tag} AS {TAG}, {STIME}, {columns} FROM {rows}"
        tags = ", ".join(f"IF({_all(p)}, {tag}, NULL)" for tag, p in self.predicates.items())
        tagged = f"SELECT *, explode(array_compact(array({tags}))) AS {TAG} FROM {self.relation}"
        return f"SELECT {TAG}, {STIME}, {columns} FROM ({tagged})"


def _where(relation: str, predicate: str) -> str:
    """The rows of a relation that fulfil a predicate, as what follows FROM.

    The alias is needed: Spark reads `x WHERE (y)` as the relation x under the alias WHERE, whose
    one column is named y.
    """
    return f"{relation} AS {relation} WHERE {predicate}"


def _all(predicates: Sequence[str]) -> str:
    return " AND ".join(f"({p})" for p in predicates) or "TRUE"


@dataclass
class _Slots:
    """The columns of the tagged relation: as many of each type as one output has at most."""

    types: dict[str, str] = field(default_factory=dict)

    def take(self, types: list[str]) -> tuple[str, ...]:
        """One slot for each type, shared with other outputs but not within one."""
        taken: list[str] = []
        for type_ in types:
            free = (s for s, t in self.types.items() if t == type_ and s not in taken)
            slot = next(free, None) or f"_c{len(self.types)}"
            self.types[slot] = type_
            taken.append(slot)
        return tuple(taken)

    def columns(self, by_slot: Mapping[str, str]) -> Iterator[str]:
        """Every slot as a column: the given expression or a NULL of its type."""
        for slot, type_ in self.types.items():
            yield f"{by_slot.get(slot, f'CAST(NULL AS {type_})')} AS {slot}"


def _whens(errors: Sequence[str | None]) -> str:
    """WHEN branches that give the number of the first expression that failed; "" if none can."""
    return " ".join(f"WHEN {error} THEN {at}" for at, error in enumerate(errors) if error)


def _numbered(
    aggregates: Sequence[tuple[str, CompiledAggregate]],
) -> Iterator[tuple[str, str]]:
    """For each value that can fail: the condition, and the number of the failure."""
    for at, (_, aggregate) in enumerate(aggregates):
        if aggregate.failure is not None:
            yield aggregate.failure.condition, _number(at, aggregate.failure)


def _error_of(numbered: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The column with the number of the first failure; none if no value can fail."""
    whens = " ".join(f"WHEN {condition} THEN {number}" for condition, number in numbered)
    return (f"CASE {whens} END AS {ERROR}",) if whens else ()


def _number(at: int, failure: Failure) -> str:
    """The number of a failure of the expression `at`, in SQL, for where it failed."""
    first = at * len(FailureCause)
    if isinstance(failure.cause, FailureCause):
        return str(first + failure.cause)
    return f"({first} + {failure.cause})"


def _number_of(at: str, failures: Sequence[Failure | None]) -> str:
    """The number of the failure in SQL, for rows on which the expression `at` failed."""
    numbers = {n: _number(n, failure) for n, failure in enumerate(failures) if failure}
    whens = " ".join(f"WHEN {n} THEN {number}" for n, number in numbers.items())
    return f"CASE {at} {whens} END"


def _by_column(checked: CheckedAggregate | CheckedSession) -> _Expressions:
    """The user's expressions of a box over groups by column."""
    names = (name for name, _ in checked.columns)
    return tuple(zip(names, checked.expressions, strict=True))


def _span(box: Deduplicate | Running | Every) -> str:
    """The beginning of the span that holds a record, in SQL."""
    return f"{STIME} - pmod({STIME}, {box.within_us}L)"


def _windowed(box: Aggregate | Rank, input_: str) -> str:
    """Every record once for each window that holds it, with the window's start."""
    if isinstance(box, Aggregate) and box.calendar is not None:
        return in_periods(box.calendar, input_, WINDOW, WINDOW_END)
    advance_us = box.advance_us
    last = f"{STIME} - pmod({STIME}, {advance_us}L)"
    if advance_us == box.size_us:
        return f"SELECT *, {last} AS {WINDOW} FROM {input_}"
    more = f"({box.size_us - 1}L - pmod({STIME}, {advance_us}L)) div {advance_us}L"
    windows = f"sequence({last} - ({more}) * {advance_us}L, {last}, {advance_us}L)"
    return f"SELECT *, explode({windows}) AS {WINDOW} FROM {input_}"


def _names(columns: tuple[Column, ...]) -> tuple[str, ...]:
    return tuple(f"`{c.name}`" for c in columns)
