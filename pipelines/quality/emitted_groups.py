"""Groups that an Aggregate emits without records: their windows, and the values over nothing.

The rules are those of the language page, written again here: nothing that computes streams takes
part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

import pyarrow as pa
from sqlglot import exp

from medusa_core.columns import Column
from medusa_core.fragments import fragments_of
from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import StreamName
from medusa_core.network import (
    Aggregate,
    Box,
    Join,
    Lookup,
    Network,
    Port,
    Rank,
    Resample,
    Session,
    inputs_of,
)
from pipelines.quality.aggregate_calls import AggregateCall, aggregate_call
from pipelines.quality.period_bounds import DAY_US, period_at, periods_around
from pipelines.quality.port_columns import Columns
from pipelines.quality.ranges import reaches_us
from pipelines.quality.spark_types import BIGINT
from pipelines.quality.stored_rows import row_schema
from pipelines.quality.transpile_aggregates import AggregateTranspiler
from pipelines.quality.transpiled import NotTranspiled, Transpiled, duckdb_type

WINDOW_END = "_window_end"
COUNTS = ("count", "count_if", "approx_count_distinct")

Lives = Mapping[StreamName, Range | None]
"""From the start of the first bucket of a stream to the end of its last one, or FOREVER_US; None if
it has ended without a bucket."""


@dataclass(frozen=True)
class EmittedGroups:
    """The groups without records of a network, by the lives of its streams."""

    network: Network
    lives: Lives
    streams: Mapping[tuple[str, Port], StreamName] = field(init=False)

    def __post_init__(self) -> None:
        read = {
            (fragment.name, port): stream
            for fragment in fragments_of(self.network)
            for port, stream in fragment.inputs.items()
        }
        object.__setattr__(self, "streams", read)

    def rows(self, box: Aggregate, given: Columns, parts: Iterable[Range]) -> pa.Table:
        """A row for each declared group whose own row would have its event time in the ranges.

        Columns are the end of the window and those of the group; event time is its start.
        """
        life = self._life(box, self.network.port(box.input, box.name))
        alive = (one for one in _windows(box, parts) if life is not None and one.overlaps(life))
        windows = sorted(set(alive))
        groups = list(product(*(box.keys[name] for name in box.group_by)))
        columns = columns_of_groups(box, given)
        rows = [(w.to_us, *group, w.from_us) for w in windows for group in groups]
        schema = row_schema(columns)
        cells = list(zip(*rows, strict=True)) or [()] * len(schema)
        arrays = [pa.array(cell, f.type) for cell, f in zip(cells, schema, strict=True)]
        return pa.table(arrays, schema=schema)

    def _life(self, reader: Box, port: Port) -> Range | None:
        stream = self.streams.get((reader.fragment, port))
        if stream is not None:
            return self.lives[stream]
        box = self.network.box(port.owner)
        lives = [self._life(box, self.network.port(one, box.name)) for one in inputs_of(box)]
        known = [(at, life) for at, life in enumerate(lives) if life is not None]
        ends = [_end_us(box, at, life.to_us) for at, life in known]
        to_us = max((end for end in ends if end is not None), default=None)
        from_us = min((life.from_us for _, life in known), default=FOREVER_US)
        return None if to_us is None or from_us >= to_us else Range(from_us, to_us)


def columns_of_groups(box: Aggregate, given: Columns) -> Columns:
    """The columns of `EmittedGroups.rows`."""
    types = {column.name: column for column in given}
    return (Column(WINDOW_END, "bigint"), *(types[name] for name in box.group_by))


def _windows(box: Aggregate, parts: Iterable[Range]) -> Iterator[Range]:
    """The windows whose rows have their event time, the end less 1 us, in the ranges."""
    for part in parts:
        if box.every is not None:
            days = range(part.from_us // DAY_US, part.to_us // DAY_US + 1)
            yield from (p for p in periods_around(box, days) if part.holds(p.to_us - 1))
            continue
        number = -((box.size_us - 1 - part.from_us) // box.advance_us)
        while number * box.advance_us + box.size_us <= part.to_us:
            start_us = number * box.advance_us
            yield Range(start_us, start_us + box.size_us)
            number += 1


def _end_us(box: Box, at: int, end_us: int) -> int | None:
    """Before when the rows lie that records of an input before `end_us` make; None if none does."""
    if isinstance(box, Lookup) and at == 1:
        return None
    if end_us == FOREVER_US:
        return FOREVER_US
    match box:
        case Aggregate() if box.every is not None:
            return period_at(box, end_us - 1).to_us
        case Aggregate() | Rank():
            return (end_us - 1) // box.advance_us * box.advance_us + box.size_us
        case Session():
            return end_us + box.gap_us - 1
        case Join() | Resample():
            return end_us + reaches_us(box)[at]
    return end_us


class OfNothing(AggregateTranspiler):
    """Transpiles expressions over a group without records."""

    def aggregate(self, call: AggregateCall, node: exp.Expr) -> Transpiled:
        """Counts are 0, and the others NULL; lists are left to Spark."""
        type_ = self.types.of(node)
        if call.name in COUNTS:
            return Transpiled(sql="0::BIGINT", type=BIGINT)
        if type_.element:
            raise NotTranspiled(call.name)
        return Transpiled(sql=f"CAST(NULL AS {duckdb_type(type_)})", type=type_)


def value_over_nothing(node: exp.Expr, type_: str) -> str | None:
    """What an aggregate function gives without records, for Spark; None for another node."""
    call = aggregate_call(node)
    if call is None:
        return None
    if call.name in COUNTS:
        return "0L"
    return f"CAST({'array()' if type_.startswith('array') else 'NULL'} AS {type_})"
