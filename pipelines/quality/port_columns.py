"""The columns of every port of a network, derived from the columns that its sources declare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from medusa_core.columns import Column
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
from pipelines.quality.expression_types import ExpressionTypes
from pipelines.quality.plain_functions import user_call
from pipelines.quality.spark_types import type_named

Columns: TypeAlias = tuple[Column, ...]

_WINDOW_START = Column("window_start", "timestamp")
_WINDOW_END = Column("window_end", "timestamp")


def port_columns(network: Network) -> Mapping[Port, Columns]:
    """Port -> its columns with the types that Spark gives them; NoSuchType if one has none."""
    found = {Port(source.name): _declared(source.columns) for source in network.sources}
    for name in network.order:
        box = network.box(name)
        inputs = [found[network.port(reference, name)] for reference in inputs_of(box)]
        columns = _columns(box, inputs)
        found |= {Port(name, port): columns for port in ports_of(box)}
    return found


def _columns(box: Box, inputs: Sequence[Columns]) -> Columns:
    match box:
        case Filter() | Union() | Deduplicate():
            return inputs[0]
        case Map():
            return _typed(box.columns, inputs[0])
        case Aggregate():
            group = (c for name in box.group_by for c in inputs[0] if c.name == name)
            return (_WINDOW_START, *group, *_aggregated(box, inputs[0]))
        case Session():
            keys = (c for name in box.by for c in inputs[0] if c.name == name)
            return (_WINDOW_START, _WINDOW_END, *keys, *_typed(box.columns, inputs[0]))
        case Join():
            return tuple(column for _, _, column in columns_of_join(box, *inputs))
        case Lookup():
            return tuple(column for _, _, column in columns_of_lookup(box, *inputs))
        case Resample():
            return _resampled(box, inputs[0])
        case Rank():
            has_start = any(c.name == _WINDOW_START.name for c in inputs[0])
            start = () if has_start else (_WINDOW_START,)
            return (*start, *inputs[0], Column(box.column, "bigint"))
        case Running():
            return (*inputs[0], *_typed(box.columns, inputs[0]))
        case Every():
            keys = (c for name in box.by for c in inputs[0] if c.name == name)
            return (*keys, *_typed(box.columns, inputs[0]))
        case Function():
            return _declared(box.columns)


def columns_of_join(box: Join, left: Columns, right: Columns) -> Sequence[tuple[str, str, Column]]:
    """The columns of a Join: `left` or `right`, the name there, and the column that it becomes."""
    if box.columns:
        return _referred(box.references, {"left": left, "right": right})
    found = [("left", c.name, c) for c in left]
    if box.how in ("inner", "left"):
        keys = [key for _, key in box.keys]
        names = [c.name for c in left]
        found += [("right", c.name, c) for c in right if c.name not in (*names, *keys)]
    return found


def columns_of_lookup(
    box: Lookup, input_: Columns, table: Columns
) -> Sequence[tuple[str, str, Column]]:
    """The columns of a Lookup: `input` or `table`, the name there, and the column it becomes."""
    if box.columns:
        return _referred(box.references, {"input": input_, "table": table})
    names = {c.name for c in input_} | {key for _, key in box.keys}
    found = [("input", c.name, c) for c in input_]
    return [*found, *(("table", c.name, c) for c in table if c.name not in names)]


def _referred(
    references: Mapping[str, tuple[str, str]], sides: Mapping[str, Columns]
) -> Sequence[tuple[str, str, Column]]:
    """Columns that refer to those of two inputs by the name of the side."""
    types = {side: {c.name: c.type for c in columns} for side, columns in sides.items()}
    return [
        (side, column, Column(name, types[side][column]))
        for name, (side, column) in references.items()
    ]


def _resampled(box: Resample, given: Columns) -> Columns:
    types = {column.name: column.type for column in given}
    names = box.columns or [name for name in types if name not in (*box.by, "sample_time")]
    if box.method == "linear":
        types |= dict.fromkeys(
            (n for n in names if types[n] in ("int", "bigint", "double")), "double"
        )
    found = (Column(name, types[name]) for name in (*box.by, *names))
    return (Column("sample_time", "timestamp"), *found)


def _aggregated(box: Aggregate, columns: Columns) -> Columns:
    calls = {name: user_call(box, text) for name, text in box.columns.items()}
    others = {name: text for name, text in box.columns.items() if calls[name] is None}
    types = {column.name: column.type for column in _typed(others, columns)}
    types |= {name: call.aggregate.gives for name, call in calls.items() if call is not None}
    return tuple(Column(name, types[name]) for name in box.columns)


def _typed(expressions: Mapping[str, str], columns: Columns) -> Columns:
    types = ExpressionTypes({c.name: c for c in columns})
    return tuple(
        Column(name, str(types.of(parse(text, f"column {name!r}"))))
        for name, text in expressions.items()
    )


def _declared(columns: Mapping[str, str]) -> Columns:
    return tuple(Column(name, str(type_named(text))) for name, text in columns.items())
