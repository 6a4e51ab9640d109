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

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeAlias, assert_never

from medusa_core.columns import Column
from medusa_core.fragments import Fragment
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
from pipelines.language.carried_partials import Partials
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
from pipelines.language.failure_causes import Failure
from pipelines.spark.calendar_periods import in_periods
from pipelines.spark.carried_relations import (
    IS_CARRIED,
    ONE_PARTITION,
    SPAN,
    carried,
    carried_with_keys,
    keys_of,
    latest,
    left_groups,
    left_partials,
    left_sessions,
    newest_of_table,
    of_last_span,
    open_sessions,
    with_carried,
    with_end,
    with_keys,
    with_partials,
)
from pipelines.spark.compiled_fragment import (
    STEP_TO,
    CompiledFragment,
    Statement,
    input_view,
    pane_view,
)
from pipelines.spark.distinct import SHARE, VALUE, in_shares, in_two_groupings
from pipelines.spark.emitted_rows import END, stream_of
from pipelines.spark.failure_numbers import (
    ERROR,
    error_column,
    error_whens,
    failure_number,
    failure_number_case,
    numbered_failures,
)
from pipelines.spark.fragment_relations import Relations, rows_where
from pipelines.spark.nearest_records import looked_up, resampled
from pipelines.spark.session_windows import OPEN_COLUMNS, OPEN_PIECE, SESSION_BEGAN, in_sessions
from pipelines.spark.tagged_relation import (
    CarriedRelation,
    FailedRows,
    TaggedRelation,
    column_names,
)
from pipelines.storage.arrow_schema import STIME

WINDOW = "_window_us"
WINDOW_END = "_window_end_us"
RANK = "_rank"
EMITTED = "_emitted"
GROUP = "_group"

_Expressions: TypeAlias = tuple[tuple[str, str], ...]
"""The expressions of the user by column."""


def compile_fragment(
    fragment: Fragment,
    checked: CheckedNetwork,
    panes: Collection[str] = (),
    carried: Mapping[str, Partials | None] | None = None,
) -> CompiledFragment:
    """The fragment as SQL; boxes of `panes` take some from outside, and give those they make.

    Boxes of `carried` take rows in place of earlier records, and give such: partial aggregates, or
    records where there are none.
    """
    return _Compiler(fragment, checked, panes, carried or {}).compile()


@dataclass
class _Compiler:
    """Adds the relations of each box, and its failed rows."""

    fragment: Fragment
    checked: CheckedNetwork
    panes: Collection[str]
    carried: Mapping[str, Partials | None]
    left: list[CarriedRelation] = field(default_factory=list)
    relations: Relations = field(default_factory=Relations)
    failures: list[FailedRows] = field(default_factory=list)

    def compile(self) -> CompiledFragment:
        """Every box in order, then all outputs and failures as one tagged relation."""
        for port, stream in self.fragment.inputs.items():
            self.relations.add(self._relation(port), f"SELECT * FROM {input_view(stream)}")
        for box in self.fragment.boxes:
            self._add_box(box)
        tagged = TaggedRelation(self.relations)
        for stream, port in self.fragment.outputs.items():
            tagged.add_output(stream, self._relation(port), self.checked.columns[port])
        for failed in self.failures:
            tagged.add_failed(failed)
        for name in self.panes:
            tagged.add_panes(name, f"{name}MADE", self.checked.columns[Port(name)])
        for left in self.left:
            tagged.add_carried(left)
        used = (b.aggregates for b in self.fragment.boxes if isinstance(b, Aggregate))
        aggregates = tuple(dict.fromkeys(chain.from_iterable(used)))
        return replace(tagged.compiled(), aggregates=aggregates)

    # relations

    def _relation(self, port: Port) -> str:
        # Names of boxes and ports have no capitals, so these differ from them.
        return f"{port.owner}P{port.port}"

    def _readers(self, port: Port) -> int:
        arcs = [a for a in self.fragment.network.box_arcs if a.start == port]
        inside = {b.name for b in self.fragment.boxes}
        read = sum(1 for a in arcs if a.end in inside)
        return read + sum(1 for p in self.fragment.outputs.values() if p == port)

    def _is_costly(self, port: Port) -> bool:
        """Whether a box that is no Filter, Map or Union lies between the port and what is kept."""
        if port in self.fragment.inputs or self._relation(port) in self.relations.kept:
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
                columns = ", ".join(column_names(self.checked.columns[Port(box.name)]))
                sql = " UNION ALL ".join(f"SELECT {columns}, {STIME} FROM {i}" for i in inputs)
                self.relations.add(self._relation(Port(box.name)), sql, *inputs)
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
            if (
                name not in self.relations.kept
                and self._readers(port) > 1
                and self._is_costly(port)
            ):
                self.relations.keep(name)

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
        cased = f"SELECT *, CASE {' '.join(whens)} ELSE {last} END AS _case FROM {input_}"
        self.relations.add(case, cased, input_)
        columns = ", ".join((*column_names(self._columns_behind(box)), STIME))
        for at, port_name in enumerate(ports_of(box)):
            name = self._relation(Port(box.name, port_name))
            self._filter(name, case, columns, f"_case = {at}")
        if any(p.error for _, p in cases):
            failed = f"{box.name}FAILED"
            number = failure_number_case("-1 - _case", [p.failure for _, p in cases])
            self.relations.add(failed, f"SELECT {columns}, {number} AS {ERROR} FROM {case} "
                      "WHERE _case < 0", case)  # fmt: skip
            self._fails(box, failed, tuple(box.cases.items()))

    def _filter(self, name: str, input_: str, columns: str, predicate: str) -> None:
        self.relations.add(name, f"SELECT {columns} FROM {rows_where(input_, predicate)}", input_)
        self.relations.filtered[name] = (input_, predicate)

    def _add_map(self, box: Map, input_: str) -> None:
        checked = self.checked.boxes[box.name]
        assert isinstance(checked, CheckedMap)
        expressions = checked.columns
        columns = ", ".join(f"{e.sql} AS `{name}`" for name, e in expressions)
        name = self._relation(Port(box.name))
        whens = error_whens([e.error for _, e in expressions])
        if not whens:
            self.relations.add(name, f"SELECT {columns}, {STIME} FROM {input_}", input_)
            return
        tried = f"{box.name}TRIED"
        self.relations.add(tried, f"SELECT *, CASE {whens} END AS {ERROR} FROM {input_}", input_)
        self.relations.add(
            name, f"SELECT {columns}, {STIME} FROM {tried} WHERE {ERROR} IS NULL", tried
        )
        self._add_failed(box, tried, [e.failure for _, e in expressions])

    def _add_aggregate(self, box: Aggregate | Session, input_: str) -> None:
        checked = self.checked.boxes[box.name]
        assert isinstance(checked, CheckedAggregate | CheckedSession)
        expressions = _by_column(checked)
        good = self._add_records_of(box, checked.columns, expressions, input_)
        window, values = f"{box.name}WINDOW", checked.columns
        if isinstance(box, Session):
            by, ends, bounds = box.by, WINDOW_END, [WINDOW, WINDOW_END]
            partials = self.carried.get(box.name)
            if partials is not None:
                window, values = self._add_open_sessions(box, partials, good), partials.values
            else:
                self.relations.add(window, self._in_sessions(box, good), good)
        else:
            by, is_fixed = box.group_by, box.calendar is None
            ends = f"{WINDOW} + {box.size_us}L" if is_fixed else WINDOW_END
            bounds = [WINDOW] if is_fixed else [WINDOW, WINDOW_END]
            self.relations.add(window, _windowed(box, good), good)
        group = ", ".join((*bounds, *(f"`{g}`" for g in by)))
        grouped = self._grouped(box, values, window, group)
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
            self.relations.add(made, sql, rows)
            self.relations.keep(made)
            own = ", ".join((*column_names(self.checked.columns[Port(box.name)]), STIME))
            given = f"SELECT {own} FROM {pane_view(box.name)}"
            name = self._relation(Port(box.name))
            self.relations.add(name, f"SELECT {own} FROM {made} UNION ALL {given}", made)
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
        numbered = [sql for part in numbered_failures(aggregates) for sql in part]
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
            error=error_column(pairs),
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
            self.relations.add(name, sql, read)
            return
        tried = f"{box.name}ROWS"
        self.relations.add(tried, sql, read)
        self.relations.keep(tried)
        own = ", ".join((*column_names(self.checked.columns[Port(box.name)]), STIME))
        self.relations.add(name, f"SELECT {own} FROM {tried} WHERE {ERROR} IS NULL", tried)
        failed = f"{box.name}FAILED_ROWS"
        self.relations.add(failed, f"SELECT * FROM {tried} WHERE {ERROR} IS NOT NULL", tried)
        self._fails(box, failed, expressions, is_window=True)

    def _with_empty(
        self, box: Aggregate, checked: CheckedAggregate, rows: str, grouped: str, fails: bool
    ) -> tuple[str, str, bool]:
        """The groups with records, and the declared ones without; and which of them fail."""
        given = f"{box.name}EMITTED"
        self.relations.add(given, f"SELECT * FROM {input_view(stream_of(box.name))}")
        failures = ((at, e.failure) for at, e in enumerate(checked.of_empty))
        of_empty = " ".join(
            f"WHEN {f.condition} THEN {failure_number(at, f)}"
            for at, f in failures
            if f is not None
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
        self.relations.add(with_records, grouped, rows)
        both = f"{box.name}BOTH"
        own = ", ".join(listed)
        self.relations.add(
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
        self.relations.add(
            name, f"SELECT {parts} FROM ({valued}) GROUP BY {group}, {VALUE}", window
        )
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
        self.relations.add(name, f"SELECT {parts} FROM ({valued}) GROUP BY {keys}", window)
        return name, list(shares.expressions)

    def _in_sessions(self, box: Session, input_: str, is_carried: str | None = None) -> str:
        keys = [sql for _, sql in keys_of(box.by, self._columns_behind(box))]
        return in_sessions(box, keys, input_, WINDOW, WINDOW_END, is_carried=is_carried)

    def _add_open_sessions(self, box: Session, partials: Partials, good: str) -> str:
        """The records of the sessions that end in the step, and carried rows of such; what stays
        open is left.

        Carried rows are those of sessions that end, and those with the keys of the records.
        """
        behind, left = self._columns_behind(box), self._left_columns(box, partials)
        keys, open_, rows = keys_of(box.by, behind), f"{box.name}OPEN", f"{box.name}WITH_PARTIALS"
        self.relations.add(open_, open_sessions(carried(box.name, left), box.gap_us))
        by = ", ".join(f"`{key}`" for key in box.by)
        ending = f"SELECT {by} FROM {open_} WHERE {STIME} <= {STEP_TO} - {box.gap_us}L"
        keyed = f"(SELECT {ONE_PARTITION}* FROM (SELECT {by} FROM {good} UNION ALL {ending}))"
        own = ", ".join((*column_names(left), STIME))
        given = with_keys(f"SELECT {ONE_PARTITION}{own} FROM {open_}", keys, keyed)
        of_record = [(c.name, "CAST(NULL AS BIGINT)") for c in OPEN_COLUMNS]
        of_record = [(n, STIME if n == SESSION_BEGAN else sql) for n, sql in of_record]
        both = with_partials(
            partials, behind, box.by, good, latest(given, OPEN_PIECE, box.by), of_record
        )
        self.relations.add(rows, with_end(both), good, open_)
        window, ended = f"{box.name}WINDOW", f"{box.name}ENDED"
        self.relations.add(window, self._in_sessions(box, rows, IS_CARRIED), rows)
        self.relations.keep(window)
        self._leave(box, left, left_sessions(partials, keys, box.gap_us, window, left), window)
        self.relations.add(ended, f"SELECT * FROM {window} WHERE {WINDOW_END} <= {STEP_TO}", window)
        return ended

    def _add_records_of(
        self,
        box: Aggregate | Session | Running | Every,
        aggregates: Sequence[tuple[str, CompiledAggregate]],
        expressions: _Expressions,
        input_: str,
    ) -> str:
        """The records that a box can use; those it fails on go to quarantine."""
        whens = error_whens([e.record_error for _, e in aggregates])
        if not whens:
            return input_
        tried, good = f"{box.name}TRIED", f"{box.name}GOOD"
        self.relations.add(tried, f"SELECT *, CASE {whens} END AS {ERROR} FROM {input_}", input_)
        columns = ", ".join((*column_names(self._columns_behind(box)), STIME))
        self.relations.add(good, f"SELECT {columns} FROM {tried} WHERE {ERROR} IS NULL", tried)
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
        self.relations.add(name, f"{sql} ON {keys} AND {within}", left, right)

    def _add_lookup(self, box: Lookup, input_: str, table: str) -> None:
        checked = self.checked.boxes[box.name]
        assert isinstance(checked, CheckedLookup)
        name, rows = self._relation(Port(box.name)), table
        if box.name in self.carried:
            types = self.checked.columns[self.fragment.network.port(box.input, box.name)]
            of_input = keys_of((key for key, _ in box.keys), types)
            keys = [(key, sql) for (_, key), (_, sql) in zip(box.keys, of_input, strict=True)]
            rows, own = f"{box.name}TABLE", ", ".join((*column_names(checked.table), STIME))
            given = carried_with_keys(box.name, checked.table, keys, input_)
            both = f"SELECT {own} FROM {table} UNION ALL SELECT {own} FROM ({given})"
            self.relations.add(rows, f"SELECT {ONE_PARTITION}{own} FROM ({both})", input_, table)
            self._leave(box, checked.table, newest_of_table(checked, table), table)
        self.relations.add(name, looked_up(checked, input_, rows), input_, rows)

    def _add_resample(self, box: Resample, input_: str) -> None:
        checked = self.checked.boxes[box.name]
        assert isinstance(checked, CheckedResample)
        self.relations.add(self._relation(Port(box.name)), resampled(checked, input_), input_)

    def _add_rank(self, box: Rank, input_: str) -> None:
        window, ranked = f"{box.name}WINDOW", f"{box.name}RANKED"
        self.relations.add(window, _windowed(box, input_), input_)
        types = {column.name: column.type for column in self._columns_behind(box)}
        order = [
            f"{one_zero(f'`{name}`', types[name])} {'DESC' if is_descending else 'ASC'} NULLS LAST"
            for name, is_descending in box.keys
        ]
        number = self._row_number(box, WINDOW, box.group_by, order)
        self.relations.add(ranked, f"SELECT *, {number} AS {RANK} FROM {window}", window)
        special = {
            WINDOW_START: f"timestamp_micros({WINDOW})",
            box.column: f"CAST({RANK} AS BIGINT)",
        }
        columns = ", ".join(
            f"`{c.name}`" if c.name in types else f"{special[c.name]} AS `{c.name}`"
            for c in self.checked.columns[Port(box.name)]
        )
        sql = f"SELECT {columns}, {WINDOW} + {box.size_us - 1}L AS {STIME} FROM {ranked}"
        if box.k is not None:
            sql = f"{sql} WHERE {RANK} <= {box.k}"
        self.relations.add(self._relation(Port(box.name)), sql, ranked)

    def _add_deduplicate(self, box: Deduplicate, input_: str) -> None:
        numbered, name = f"{box.name}NUMBERED", self._relation(Port(box.name))
        number = self._row_number(box, _span(box), box.by)
        behind = self._columns_behind(box)
        columns = ", ".join((*column_names(behind), STIME))
        first = f"SELECT {columns} FROM {numbered} WHERE {RANK} = 1"
        if box.name not in self.carried:
            self.relations.add(numbered, f"SELECT *, {number} AS {RANK} FROM {input_}", input_)
            self.relations.add(name, first, numbered)
            return
        keys = keys_of(box.by, behind)
        left = tuple(c for key in box.by for c in behind if c.name == key)
        given = carried_with_keys(box.name, left, keys, input_)
        rows = with_carried(behind, box.by, input_, given)
        self.relations.add(numbered, f"SELECT *, {number} AS {RANK} FROM ({rows})", input_)
        self.relations.add(name, f"{first} AND NOT {IS_CARRIED}", numbered)
        self.relations.keep(name)
        stayed = ", ".join(f"{sql} AS `{key}`" for key, sql in keys)
        stayed = f"SELECT {_span(box)} AS {SPAN}, {stayed}, {STIME} FROM {name}"
        self._leave(box, left, of_last_span(stayed, left), name)

    def _with_partials(self, box: Running | Every, partials: Partials, good: str) -> str:
        """The records of a box with partial aggregates of each, and the rows that it was given."""
        behind, rows = self._columns_behind(box), f"{box.name}WITH_PARTIALS"
        left = self._left_columns(box, partials)
        given = carried_with_keys(box.name, left, keys_of(box.by, behind), good)
        given = f"{latest(given, _span(box), box.by)} AND `{partials.number}` > 0"
        self.relations.add(rows, with_partials(partials, behind, box.by, good, given), good)
        return rows

    def _left_columns(
        self, box: Running | Every | Session, partials: Partials
    ) -> tuple[Column, ...]:
        behind = self._columns_behind(box)
        keys = (c for key in box.by for c in behind if c.name == key)
        also = OPEN_COLUMNS if isinstance(box, Session) else ()
        return (*keys, *also, *partials.columns, Column(partials.number, "bigint"))

    def _leave(
        self, box: Deduplicate | Running | Every | Lookup | Session, columns: tuple[Column, ...],
        sql: str, read: str,
    ) -> None:  # fmt: skip
        """What a box leaves in place of its records."""
        relation = f"{box.name}LEFT"
        self.relations.add(relation, sql, read)
        if isinstance(box, Lookup):
            keys, lengths = tuple(key for _, key in box.keys), {"max_age_us": box.max_age_us}
        elif isinstance(box, Session):
            # A session is open as long as a record could still continue it.
            keys, lengths = (*box.by, OPEN_PIECE), {"max_age_us": box.gap_us - 1}
        else:
            keys, lengths = box.by, {"within_us": box.within_us}
        self.left.append(
            CarriedRelation(
                box=box.name, relation=relation, columns=columns, keys=keys,
                is_open=isinstance(box, Session), **lengths,
            )
        )  # fmt: skip

    def _add_running(self, box: Running, input_: str) -> None:
        checked = self.checked.boxes[box.name]
        assert isinstance(checked, CheckedRunning)
        expressions = tuple(box.columns.items())
        good = self._add_records_of(box, checked.columns, expressions, input_)
        partials, rows, values = self.carried.get(box.name), good, checked.columns
        if partials is not None:
            rows, values = self._with_partials(box, partials, good), partials.values
            self.relations.keep(rows)
            keys = keys_of(box.by, self._columns_behind(box))
            left, columns_left = (
                left_partials(partials, keys, _span(box), rows),
                (self._left_columns(box, partials)),
            )
            self._leave(box, columns_left, of_last_span(left, columns_left), rows)
        error = error_column(numbered_failures(values))
        columns = [*column_names(self._columns_behind(box))]
        columns += [f"{e.sql} AS `{name}`" for name, e in values]
        columns += [STIME, *error]
        records = f"{self._in_order(box, _span(box), box.by)} ROWS UNBOUNDED PRECEDING"
        window = f"FROM {rows} WINDOW {RECORDS} AS ({records})"
        sql = f"SELECT {', '.join(columns)} {window}"
        if partials is not None:
            own = [*column_names(self.checked.columns[Port(box.name)]), STIME]
            own += [ERROR] if error else []
            sql = f"SELECT {', '.join((*columns, IS_CARRIED))} {window}"
            sql = f"SELECT {', '.join(own)} FROM ({sql}) WHERE NOT {IS_CARRIED}"
        self._add_rows(box, sql, rows, expressions if error else None)

    def _add_every(self, box: Every, input_: str) -> None:
        checked = self.checked.boxes[box.name]
        assert isinstance(checked, CheckedEvery)
        expressions = tuple(box.columns.items())
        good = self._add_records_of(box, checked.columns, expressions, input_)
        numbered = f"{box.name}NUMBERED"
        partials, rows, values, counted = self.carried.get(box.name), good, checked.columns, _COUNT
        number = self._row_number(box, WINDOW, box.by)
        if partials is not None:
            rows, values = self._with_partials(box, partials, good), partials.values
            number = f"`{partials.number}`"
            counted = AggregateCall(sql=f"sum({number})", function="sum", arguments=(number,),
                                    is_distinct=False, only=None)  # fmt: skip
            in_order = f"{self._in_order(box, WINDOW, box.by)} ROWS UNBOUNDED PRECEDING"
            number = f"{counted.sql} OVER ({in_order})"
        spanned = f"SELECT *, {_span(box)} AS {WINDOW} FROM {rows}"
        sql = f"SELECT *, ({number} - 1) div {box.n} AS {GROUP} FROM ({spanned})"
        self.relations.add(numbered, sql, rows)
        if partials is not None:
            self.relations.keep(numbered)
            behind, left = (
                keys_of(box.by, self._columns_behind(box)),
                (self._left_columns(box, partials)),
            )
            open_ = left_groups(partials, behind, WINDOW, GROUP, box.n, numbered)
            self._leave(box, left, of_last_span(open_, left), numbered)
        keys = [f"`{name}`" for name in box.by]
        group = ", ".join((WINDOW, *keys, GROUP))
        grouped = self._grouped(box, values, numbered, group, _LAST, counted)
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
        columns = ", ".join((*column_names(self._columns_behind(box)), STIME))
        number = failure_number_case(ERROR, failures)
        self.relations.add(
            failed,
            f"SELECT {columns}, {number} AS {ERROR} FROM {tried} WHERE {ERROR} IS NOT NULL",
            tried,
        )
        self._fails(box, failed, expressions or tuple(box.columns.items()))

    def _add_function(self, box: Function, input_: str) -> None:
        name = self._relation(Port(box.name))
        sql = f"{self.relations.with_clause(input_)}SELECT * FROM {input_}"
        columns = self.checked.columns[Port(box.name)]
        self.relations.statements.append(Statement(name, sql, box.function, columns))
        self.relations.kept.add(name)

    def _columns_behind(
        self, box: Filter | Map | Aggregate | Session | Rank | Deduplicate | Running | Every
    ) -> tuple[Column, ...]:
        return self.checked.columns[self.fragment.network.port(box.input, box.name)]

    def _fails(
        self, box: Filter | Map | Aggregate | Session | Running | Every, relation: str,
        expressions: _Expressions, *, is_window: bool = False,
    ) -> None:  # fmt: skip
        columns = self.checked.columns[Port(box.name)] if is_window else self._columns_behind(box)
        row = ", ".join((*column_names(columns), STIME))
        self.failures.append(FailedRows(box.name, relation, row, expressions, is_window))


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
