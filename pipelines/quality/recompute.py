"""The oracle: a network computed again from its records, by another engine, all at once.

DuckDB takes the boxes whose expressions it is known to understand as Spark does; what cannot be
carried over is computed by one Spark batch (`pipelines.quality.batch_boxes`), and it is written
down box by box who did what. The records are computed in one piece: no steps, panes, corrections or
lineage, and nothing of `pipelines.spark` where DuckDB computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from medusa_core.columns import Column
from medusa_core.grid import Range
from medusa_core.network import (
    Aggregate,
    Box,
    Filter,
    Function,
    Map,
    Network,
    Port,
    Union,
    inputs_of,
    ports_of,
)
from pipelines.language.check import CheckedAggregate, CheckedNetwork
from pipelines.language.parsing import parse
from pipelines.quality.duck_tables import arrow_of, make_table
from pipelines.quality.transpile_aggregates import CarryingAggregates
from pipelines.quality.transpile_functions import CarryingScalars
from pipelines.quality.transpiled import (
    Carried,
    NotCarried,
    any_of,
    duckdb_type,
    floor_mod,
    name_of,
)
from pipelines.storage.arrow_schema import STIME

DUCKDB = "DuckDB"
SPARK = "Spark"
_FAILS, _CASE, _WINDOW = "_fails", "_case", "_window"

Batch = Callable[[CheckedNetwork, Mapping[str, pa.Table]], Mapping[str, pa.Table]]
"""Runs a whole small network in one Spark batch: records by source -> rows by output."""


@dataclass
class Recomputation:
    """A network over the records of its sources; boxes are computed when they are asked for.

    `engines` tells for each box that was computed which engine did it, and why it was not DuckDB;
    `failed` how many records or groups a box put aside.
    """

    checked: CheckedNetwork
    sources: Mapping[str, pa.Table]
    batch: Batch
    engines: dict[str, str] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    tables: dict[Port, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.connection = duckdb.connect()
        # A certificate is made beside the running of streams: it takes one core.
        self.connection.execute("SET threads = 1")
        self.connection.execute("SET preserve_insertion_order = false")

    def __enter__(self) -> Recomputation:
        return self

    def __exit__(self, *error: object) -> None:
        self.connection.close()

    @property
    def network(self) -> Network:
        """What is computed."""
        return self.checked.network

    def table_of(self, port: Port) -> str:
        """The name of the table with a port's rows, computed now if it was not before."""
        if port in self.tables:
            return self.tables[port]
        if self.network.is_source(port.owner):
            return self.put(port, self.sources[port.owner])
        box = self.network.box(port.owner)
        inputs = [self.network.port(reference, box.name) for reference in inputs_of(box)]
        try:
            self.check_exact(box, inputs)
            boxes = _Boxes(self, [self.checked.columns[port] for port in inputs])
            statements = boxes.statements(box)
        except NotCarried as reason:
            self.in_spark(box, str(reason))
        else:
            self.run(box, statements, [self.table_of(port) for port in inputs])
        return self.tables[port]

    def rows(self, port: Port, part: Range) -> pa.Table:
        """A port's rows with event time in a range: declared columns and `_stime`."""
        table = self.table_of(port)
        inside = f"{name_of(STIME)} >= {part.from_us} AND {name_of(STIME)} < {part.to_us}"
        found = self.connection.sql(f"SELECT * FROM {table} WHERE {inside}")
        return arrow_of(found, self.checked.columns[port])

    def put(self, port: Port, rows: pa.Table) -> str:
        """Make a table of rows that came from elsewhere."""
        self.tables[port] = table = f"t{len(self.tables)}"
        make_table(self.connection, table, rows, self.checked.columns[port])
        return table

    # boxes

    def run(self, box: Box, statements: _Statements, inputs: list[str]) -> None:
        """Compute a box from the tables of its inputs."""
        self.engines[box.name] = DUCKDB
        own = f"b{len(self.engines)}"
        names = {f"in{at}": table for at, table in enumerate(inputs)}
        for suffix, sql in statements.steps:
            made = sql.format(own=own, **names)
            self.connection.execute(f"CREATE TEMP TABLE {own}{suffix} AS {made}")
        for port, sql in statements.ports.items():
            table = f"t{len(self.tables)}"
            self.connection.execute(f"CREATE TEMP TABLE {table} AS {sql.format(own=own, **names)}")
            self.tables[port] = table
        failed = 0
        for suffix in statements.failing:
            counted = f"SELECT count(*) FROM {own}{suffix} WHERE {_FAILS}"
            failed += self.connection.execute(counted).fetchall()[0][0]
        if failed:
            self.failed[box.name] = failed
        for suffix, _ in statements.steps:
            self.connection.execute(f"DROP TABLE {own}{suffix}")

    def check_exact(self, box: Box, inputs: list[Port]) -> None:
        """Leave to Spark what reads a value that is known within a tolerance only."""
        inexact = {name for port in inputs for name in self.inexact(port)}
        if inexact:
            raise NotCarried(f"reads {', '.join(sorted(inexact))}, which Spark rounds")

    def inexact(self, port: Port) -> frozenset[str]:
        """Columns whose last digits depend on the order of rows."""
        if self.network.is_source(port.owner):
            return frozenset()
        box, checked = self.network.box(port.owner), self.checked.boxes[port.owner]
        if isinstance(checked, CheckedAggregate):
            return frozenset(name for name, c in checked.columns if c.tolerance_only)
        match box:
            case Filter() | Union():
                behind = (self.network.port(r, box.name) for r in inputs_of(box))
                return frozenset().union(*map(self.inexact, behind))
            case Map():
                compiled = getattr(checked, "columns", ())
                return frozenset(name for name, c in compiled if c.tolerance_only)
        return frozenset()

    def in_spark(self, box: Box, reason: str) -> None:
        """Compute a box by a Spark batch, with those before it whose values are not exact."""
        from pipelines.quality.batch_boxes import region_of

        region = region_of(self, box)
        for name in region.boxes:
            self.engines[name] = f"{SPARK}: {reason}" if name == box.name else SPARK
        given = {source: self.everything(port) for source, port in region.entries.items()}
        made = self.batch(region.checked, given)
        for output, port in region.exits.items():
            if port not in self.tables:
                self.put(port, made[output])

    def everything(self, port: Port) -> pa.Table:
        """All rows of a port, as Arrow."""
        found = self.connection.sql(f"SELECT * FROM {self.table_of(port)}")
        return arrow_of(found, self.checked.columns[port])


@dataclass
class _Statements:
    """Tables that a box needs on its way, those in which records may have failed, its ports."""

    ports: dict[Port, str]
    steps: list[tuple[str, str]] = field(default_factory=list)
    failing: list[str] = field(default_factory=list)


@dataclass
class _Boxes:
    """Writes the SQL of one box over tables {in0}, {in1}, …; its own are {own}…"""

    run: Recomputation
    inputs: list[tuple[Column, ...]]

    def statements(self, box: Box) -> _Statements:
        """The box as SQL; NotCarried if something of it is not known to mean the same."""
        match box:
            case Filter():
                return self.filter(box)
            case Map():
                return self.map(box)
            case Union():
                columns = _listed(c.name for c in self.inputs[0])
                parts = (f"SELECT {columns} FROM {{in{at}}}" for at in range(len(self.inputs)))
                return _Statements({Port(box.name): " UNION ALL ".join(parts)})
            case Aggregate():
                return self.aggregate(box)
            case Function():
                raise NotCarried("a Function")

    def carried(self, text: str) -> Carried:
        columns = {c.name: c for c in self.inputs[0]}
        return CarryingScalars(columns).carry(parse(text, "expression"))

    def filter(self, box: Filter) -> _Statements:
        whens = []
        for at, text in enumerate(box.cases.values()):
            case = self.carried(text)
            if case.fails:
                whens.append(f"WHEN {case.fails} THEN -1")
            whens.append(f"WHEN {case.sql} THEN {at}")
        last = len(box.cases)
        chosen = f"CASE {' '.join(whens)} ELSE {last} END"
        tried = f"SELECT *, {_braces(chosen)} AS {_CASE} FROM {{in0}}"
        tried = f"SELECT *, {_CASE} < 0 AS {_FAILS} FROM ({tried})"
        columns = _listed(c.name for c in self.inputs[0])
        ports = {
            Port(box.name, port): f"SELECT {columns} FROM {{own}}tried WHERE {_CASE} = {at}"
            for at, port in enumerate(ports_of(box))
        }
        return _Statements(ports, [("tried", tried)], ["tried"])

    def map(self, box: Map) -> _Statements:
        values = {name: self.carried(text) for name, text in box.columns.items()}
        made = _values(values, self.run.checked.columns[Port(box.name)])
        fails = any_of(*(value.fails for value in values.values()))
        if fails is None:
            return _Statements({Port(box.name): f"SELECT {made}, {name_of(STIME)} FROM {{in0}}"})
        tried = f"SELECT *, {_braces(fails)} AS {_FAILS} FROM {{in0}}"
        rows = f"SELECT {made}, {name_of(STIME)} FROM {{own}}tried WHERE NOT {_FAILS}"
        return _Statements({Port(box.name): rows}, [("tried", tried)], ["tried"])

    def aggregate(self, box: Aggregate) -> _Statements:
        carrying = CarryingAggregates({c.name: c for c in self.inputs[0]})
        values = {
            name: carrying.carry(parse(text, "expression")) for name, text in box.columns.items()
        }
        columns = self.run.checked.columns[Port(box.name)]
        own = columns[len(columns) - len(values) :]
        unusable = any_of(*dict.fromkeys(carrying.record_fails)) or "false"
        tried = f"SELECT *, {_braces(unusable)} AS {_FAILS} FROM {{in0}}"
        group = [name_of(g) for g in box.group_by]
        by = ", ".join((_WINDOW, *group))
        lost = any_of(*(value.fails for value in values.values())) or "false"
        parts = (f"{_WINDOW} AS {name_of('window_start')}", *group, _values(values, own),
                 f"{_WINDOW} + {box.size_us - 1} AS {name_of(STIME)}",
                 f"{_braces(lost)} AS {_FAILS}")  # fmt: skip
        grouped = f"SELECT {', '.join(parts)} FROM ({_windows(box)}) GROUP BY {by}"
        listed = _listed(c.name for c in columns)
        rows = f"SELECT {listed} FROM {{own}}grouped WHERE NOT {_FAILS}"
        return _Statements(
            {Port(box.name): rows},
            [("tried", tried), ("grouped", grouped)],
            ["tried", "grouped"],
        )


def _windows(box: Aggregate) -> str:
    """Every usable record once for each window that holds it, with the window's start."""
    stime = name_of(STIME)
    last = f"{stime} - {floor_mod(stime, box.advance_us)}"
    windows = -(-box.size_us // box.advance_us)
    start = f"{last} - n.range * {box.advance_us}"
    return (
        f"SELECT r.*, {start} AS {_WINDOW} FROM {{own}}tried AS r, range({windows}) AS n "
        f"WHERE NOT {_FAILS} AND {start} + {box.size_us} > {stime}"
    )


def _values(values: Mapping[str, Carried], columns: tuple[Column, ...]) -> str:
    """The columns of a box in their order, each of the type that was found when it was checked."""
    listed = []
    for column in columns:
        value = values[column.name]
        if value.type != column.type:
            raise NotCarried(f"{column.name}, which is {value.type} here and {column.type} there")
        sql = f"CAST({value.sql} AS {duckdb_type(column.type)})"
        listed.append(f"{_braces(sql)} AS {name_of(column.name)}")
    return ", ".join(listed)


def _listed(names: Any) -> str:
    return ", ".join(name_of(name) for name in (*names, STIME))


def _braces(sql: str) -> str:
    """SQL as a part of what is formatted later."""
    return sql.replace("{", "{{").replace("}", "}}")
