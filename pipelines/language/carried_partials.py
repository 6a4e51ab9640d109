"""The values of a Running, an Every or a Session over partial aggregates of earlier records.

A step that has the partial aggregates of the records before it needs these records no more: each
value is the fold of partial aggregates, those of earlier records and those that each record would
have alone (`pipelines.language.panes`). Only where every value is such a fold, and exactly the
same, and fails where the value over records does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from medusa_core.columns import Column
from medusa_core.errors import Refused
from medusa_core.network import Every, Running, Session
from pipelines.language.aggregates import CompiledAggregate, compile_aggregate
from pipelines.language.check import (
    RECORDS,
    CheckedEvery,
    CheckedNetwork,
    CheckedRunning,
    CheckedSession,
)
from pipelines.language.expressions import compile_expression
from pipelines.language.panes import Fold, NoPanes, free_name

_WHERE = "partials"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partials:
    """The partial aggregates of a box by column, in Spark SQL.

    `of_record` are those of one record, `functions` fold each; `values` are the box's own columns
    over partial aggregates. `number` names the column for how many records there are.
    """

    columns: tuple[Column, ...]
    of_record: Mapping[str, str]
    functions: Mapping[str, str]
    values: tuple[tuple[str, CompiledAggregate], ...]
    number: str


def partials_of(checked: CheckedNetwork, box: Running | Every | Session) -> Partials | None:
    """The partial aggregates of a box; None if a value of it is no fold of such."""
    aggregate = checked.boxes[box.name]
    assert isinstance(aggregate, CheckedRunning | CheckedEvery | CheckedSession)
    if any(value.tolerance_only for _, value in aggregate.columns):
        return None
    columns = {c.name: c for c in checked.columns[checked.network.port(box.input, box.name)]}
    fold = Fold(columns, box.by, splits=True)
    try:
        folded = {name: fold.expression(text) for name, text in box.columns.items()}
        if fold.distinct is not None:
            return None
        types = {
            name: "bigint" if fold.functions[name] == "sum" else
            compile_aggregate(text, columns, where=_WHERE, group_by=box.by).type
            for name, text in fold.partials.items()
        }  # fmt: skip
        of_record = {
            name: compile_expression(text, columns, where=_WHERE).sql
            for name, text in fold.of_record.items()
        }
        # A sum of int is compiled to just that, and 62 bits hold one of such sums.
        summed = {n: "int" if fold.functions[n] == "sum" else t for n, t in types.items()}
        given = {name: columns[name] for name in box.by}
        given |= {name: Column(name, type_) for name, type_ in summed.items()}
        values = tuple(
            (name, compile_aggregate(text, given, where=_WHERE, group_by=box.by,
                                     running_over=RECORDS if isinstance(box, Running) else None))
            for name, text in folded.items()
        )  # fmt: skip
    except (NoPanes, Refused):
        return None
    pairs = list(zip(values, (value for _, value in aggregate.columns), strict=True))
    if any(_kind(value) != _kind(plain) for (_, value), plain in pairs):
        return None
    if any(plain.failure is not None and value.failure is None for (_, value), plain in pairs):
        return None
    return Partials(
        columns=tuple(Column(name, type_) for name, type_ in types.items()),
        of_record=of_record,
        functions=fold.functions,
        # An average of bigint in parts multiplies, and no part is large enough to overflow.
        values=tuple(
            (name, value if plain.failure is not None else replace(value, failure=None))
            for (name, value), plain in pairs
        ),
        number=free_name("number", {*types, *columns}),
    )


def _kind(value: CompiledAggregate) -> tuple[str, bool]:
    return value.type, value.tolerance_only
