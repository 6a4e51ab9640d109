"""Made-up records for warming up: of the declared columns, small values, many keys alike.

Code that has run over no record has not run: its classes are not loaded, its loops not compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from medusa_core.columns import Column, decimal_shape
from pipelines.storage.arrow_schema import STIME, record_schema

ROWS = 256
VALUES = 10
"""How many different values a column has: groups of several rows form, and keys meet in joins."""

APART_US = 50_000

_VALUE_OF: dict[str, Callable[[int], Any]] = {
    "boolean": lambda number: number % 2 == 0,
    "int": lambda number: number,
    "bigint": lambda number: number,
    "double": float,
    "string": str,
    "binary": lambda number: str(number).encode(),
    "date": lambda number: date(2000, 1, 1) + timedelta(days=number),
    "timestamp": lambda number: datetime(2000, 1, 1, number, tzinfo=UTC),
}


def made_up_rows(columns: Sequence[Column]) -> pa.Table:
    """So many records of these columns."""
    numbers = [at // 2 % VALUES for at in range(ROWS)]
    values = {column.name: list(map(_maker(column.type), numbers)) for column in columns}
    values[STIME] = [at * APART_US for at in range(ROWS)]
    return pa.Table.from_pydict(values, schema=record_schema(columns))


def _maker(type_: str) -> Callable[[int], Any]:
    if type_ in _VALUE_OF:
        return _VALUE_OF[type_]
    _, scale = decimal_shape(type_)
    return lambda number: Decimal(number).scaleb(-scale)
