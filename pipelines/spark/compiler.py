"""A fragment as Spark SQL: its boxes fused into one statement, all outputs in one relation.

The plan has the same shape whether or not an input has records, and no bucket bound is in its text,
so that Spark compiles its classes once and not once per step. Rows of all outputs come out of one
job: a tag says whose row it is, and columns of equal type share slots. What several boxes read and
an Aggregate or Function lies behind is computed once and kept for the job (a Statement).

Records on which an expression failed leave by a tag of their own, for quarantine: the failed input
record as JSON and which expression it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, assert_never

import sqlglot
from sqlglot import exp

from medusa_core.columns import Column
from medusa_core.fragments import Fragment
from medusa_core.names import StreamName
from medusa_core.network import Aggregate, Filter, Function, Map, Port, Union, inputs_of, ports_of
from pipelines.networks.check import (
    CheckedAggregate,
    CheckedFilter,
    CheckedMap,
    CheckedNetwork,
)
from pipelines.streams.schemas import STIME

TAG = "_output"
ERROR = "_error"
WINDOW = "_window_us"


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
    """A box that can fail on a record: what it failed on comes out under a tag of its own."""

    box: str
    tag: int
    expressions: tuple[str, ...]
    slots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompiledFragment:
    """What the step runs: statements in order, the last statement, and how to read its rows."""

    statements: tuple[Statement, ...]
    sql: str
    outputs: tuple[OutputShape, ...]
    fallible: tuple[FallibleBox, ...]


def input_view(stream: StreamName) -> str:
    """The name under which the step offers an input's records."""
    return f"medusa_in_{stream}"


def compile_fragment(
    fragment: Fragment, checked: CheckedNetwork, *, uses_sets: bool, keeps: bool = True
) -> CompiledFragment:
    """The fragment as SQL; `uses_sets` counts distinct values by a set per group.

    `keeps` False makes one statement of it all, in which outputs share nothing.
    """
    return _Compiler(fragment, checked, uses_sets, keeps).compile()


@dataclass
class _Compiler:
    """Collects relations by name, in an order in which each reads only earlier ones."""

    fragment: Fragment
    checked: CheckedNetwork
    uses_sets: bool
    keeps: bool
    relations: dict[str, str] = field(default_factory=dict)
    reads: dict[str, tuple[str, ...]] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)
    failures: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)

    def compile(self) -> CompiledFragment:
        """Every box in order, then all outputs and failures as one tagged relation."""
        for port, stream in self.fragment.inputs.items():
            self._add(self._relation(port), f"SELECT * FROM {input_view(stream)}")
        for box in self.fragment.boxes:
            self._add_box(box)
        return self._last()

    # relations

    def _relation(self, port: Port) -> str:
        # Names of boxes and ports have no capitals, so these can be told apart from each other.
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
        if not self.keeps:
            return
        self.statements.append(Statement(name, f"{self._with(name)}SELECT * FROM {name}"))
        self.kept.add(name)

    def _readers(self, port: Port) -> int:
        arcs = [a for a in self.fragment.network.box_arcs if a.start == port]
        inside = {b.name for b in self.fragment.boxes}
        read = sum(1 for a in arcs if a.end in inside)
        return read + sum(1 for p in self.fragment.outputs.values() if p == port)

    def _is_costly(self, port: Port) -> bool:
        """Whether an Aggregate or a Function lies between the port and what is kept already."""
        if port in self.fragment.inputs or self._relation(port) in self.kept:
            return False
        box = self.fragment.network.box(port.owner)
        if isinstance(box, Aggregate | Function):
            return True
        return any(self._is_costly(self.fragment.network.port(r, box.name)) for r in inputs_of(box))

    # boxes

    def _add_box(self, box: Filter | Map | Union | Aggregate | Function) -> None:
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
            case Aggregate():
                self._add_aggregate(box, inputs[0])
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
            self._add(port, f"SELECT * FROM {input_} WHERE {cases[0][1].sql}", input_)
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
            self._add(name, f"SELECT {columns} FROM {case} WHERE _case = {at}", case)
        if any(p.error for _, p in cases):
            failed = f"{box.name}FAILED"
            self._add(failed, f"SELECT {columns}, -1 - _case AS {ERROR} FROM {case} "
                      "WHERE _case < 0", case)  # fmt: skip
            self._fails(box, failed, tuple(box.cases.values()))

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
        behind = ", ".join((*_names(self._columns_behind(box)), STIME, ERROR))
        failed = f"{box.name}FAILED"
        self._add(failed, f"SELECT {behind} FROM {tried} WHERE {ERROR} IS NOT NULL", tried)
        self._fails(box, failed, tuple(box.columns.values()))

    def _add_aggregate(self, box: Aggregate, input_: str) -> None:
        checked = self.checked.boxes[box.name]
        assert isinstance(checked, CheckedAggregate)
        expressions = tuple(box.columns.values())
        good = self._add_records_of(box, checked, input_)
        window = f"{box.name}WINDOW"
        self._add(window, _windowed(box, good), good)
        group = ", ".join((WINDOW, *(f"`{g}`" for g in box.group_by)))
        columns = [f"timestamp_micros({WINDOW}) AS `window_start`"]
        columns += [f"`{g}`" for g in box.group_by]
        inexact = {c.name for c in self._columns_behind(box) if c.type == "double"}
        values = [(sets_for_distinct(e.sql, inexact), n) for n, e in checked.columns]
        if not self.uses_sets:
            values = [(e.sql, n) for n, e in checked.columns]
        columns += [f"{sql} AS `{name}`" for sql, name in values]
        columns += [f"{WINDOW} + {box.size_us - 1}L AS {STIME}"]
        whens = _whens([e.error for _, e in checked.columns])
        if whens:
            columns += [f"CASE {whens} END AS {ERROR}"]
        grouped = f"SELECT {', '.join(columns)} FROM {window} GROUP BY {group}"
        name = self._relation(Port(box.name))
        if not whens:
            self._add(name, grouped, window)
            return
        tried = f"{box.name}GROUPS"
        self._add(tried, grouped, window)
        self._keep(tried)
        own = ", ".join((*_names(self.checked.columns[Port(box.name)]), STIME))
        self._add(name, f"SELECT {own} FROM {tried} WHERE {ERROR} IS NULL", tried)
        failed = f"{box.name}FAILED_GROUPS"
        self._add(failed, f"SELECT * FROM {tried} WHERE {ERROR} IS NOT NULL", tried)
        self._fails(box, failed, expressions)

    def _add_records_of(self, box: Aggregate, checked: CheckedAggregate, input_: str) -> str:
        """The records that an Aggregate can use; those it fails on go to quarantine."""
        whens = _whens([e.record_error for _, e in checked.columns])
        if not whens:
            return input_
        tried, good, failed = (f"{box.name}{part}" for part in ("TRIED", "GOOD", "FAILED"))
        self._add(tried, f"SELECT *, CASE {whens} END AS {ERROR} FROM {input_}", input_)
        columns = ", ".join((*_names(self._columns_behind(box)), STIME))
        self._add(good, f"SELECT {columns} FROM {tried} WHERE {ERROR} IS NULL", tried)
        self._add(
            failed, f"SELECT {columns}, {ERROR} FROM {tried} WHERE {ERROR} IS NOT NULL", tried
        )
        self._fails(box, failed, tuple(box.columns.values()))
        return good

    def _add_function(self, box: Function, input_: str) -> None:
        name = self._relation(Port(box.name))
        sql = f"{self._with(input_)}SELECT * FROM {input_}"
        columns = self.checked.columns[Port(box.name)]
        self.statements.append(Statement(name, sql, box.function, columns))
        self.kept.add(name)

    def _columns_behind(self, box: Filter | Map | Aggregate) -> tuple[Column, ...]:
        return self.checked.columns[self.fragment.network.port(box.input, box.name)]

    def _fails(
        self, box: Filter | Map | Aggregate, relation: str, expressions: tuple[str, ...]
    ) -> None:
        self.failures.append((box.name, relation, expressions))

    # the tagged relation

    def _last(self) -> CompiledFragment:
        slots = _Slots()
        outputs, fallible, parts, relations = [], [], [], []
        for tag, (stream, port) in enumerate(self.fragment.outputs.items()):
            columns = self.checked.columns[port]
            shape = OutputShape(stream, tag, columns, slots.take([c.type for c in columns]))
            relation = self._relation(port)
            outputs.append(shape)
            relations.append(relation)
            parts.append((relation, tag, dict(zip(shape.slots, _names(columns), strict=True))))
        for at, (box, relation, expressions) in enumerate(self.failures):
            taken = slots.take(["int", "string"])
            tag = -1 - at
            fallible.append(FallibleBox(box, tag, expressions, taken))
            relations.append(relation)
            parts.append(
                (relation, tag, {taken[0]: ERROR, taken[1]: f"to_json(struct({relation}.*))"})
            )
        selects = " UNION ALL ".join(
            f"SELECT {tag} AS {TAG}, {STIME}, {', '.join(slots.columns(by_slot))} FROM {relation}"
            for relation, tag, by_slot in parts
        )
        return CompiledFragment(
            statements=tuple(self.statements),
            sql=self._with(*relations) + selects,
            outputs=tuple(outputs),
            fallible=tuple(fallible),
        )


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


def _windowed(box: Aggregate, input_: str) -> str:
    """Every record once for each window that holds it, with the window's start."""
    advance_us = box.advance_us
    last = f"{STIME} - pmod({STIME}, {advance_us}L)"
    if advance_us == box.size_us:
        return f"SELECT *, {last} AS {WINDOW} FROM {input_}"
    more = f"({box.size_us - 1}L - pmod({STIME}, {advance_us}L)) div {advance_us}L"
    windows = f"sequence({last} - ({more}) * {advance_us}L, {last}, {advance_us}L)"
    return f"SELECT *, explode({windows}) AS {WINDOW} FROM {input_}"


def _names(columns: tuple[Column, ...]) -> tuple[str, ...]:
    return tuple(f"`{c.name}`" for c in columns)


def sets_for_distinct(sql: str, doubles: Set[str] = frozenset()) -> str:
    """`count(DISTINCT x)` as the size of a set: less planning, one pass, more memory per group.

    Expressions over `doubles` stay: a set tells 0.0 from -0.0, a count of distinct values does not.
    """
    if "DISTINCT" not in sql.upper():
        return sql
    tree = sqlglot.parse_one(sql, dialect="spark")
    for count in list(tree.find_all(exp.Count)):
        distinct = count.this
        if not isinstance(distinct, exp.Distinct) or len(distinct.expressions) != 1:
            continue
        inner = distinct.expressions[0]
        names = {column.name for column in inner.find_all(exp.Column)}
        if isinstance(count.parent, exp.Filter) or names & doubles:
            continue
        collected = f"CAST(size(collect_set({inner.sql(dialect='spark')})) AS BIGINT)"
        size = sqlglot.parse_one(collected, dialect="spark")
        if count is tree:
            tree = size
        else:
            count.replace(size)
    return tree.sql(dialect="spark")
