"""An expression in DuckDB: a value that never raises, and why Spark raises, if it does.

An expression is transpiled only if both engines are known to give it the same value for every
record; else NotTranspiled is raised, and Spark computes its box. In DuckDB a date is its number of
days and a timestamp its microseconds since 1970, both as whole numbers, so that no calendar, time
zone or format of DuckDB takes part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pipelines.quality.expression_types import NOT_WRITTEN, NotWritten
from pipelines.quality.spark_types import SparkType

_DUCKDB_TYPES = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "INTEGER",
    "timestamp": "BIGINT",
    "void": "INTEGER",
}
DAY_US = 86_400_000_000
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""The first day of year 1 and the last of year 9999: no column has a date beyond them."""
FIRST_US, LAST_US = FIRST_DAY * DAY_US, (LAST_DAY + 1) * DAY_US - 1


BY_ZERO, OVERFLOW, BEYOND_YEARS = (
    "division by zero", "overflow", "time outside the years 1 to 9999",
)  # fmt: skip
"""Why Spark raises on what is transpiled."""


class NotTranspiled(Exception):
    """DuckDB may compute the expression differently; the message says which part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transpiled:
    """DuckDB SQL that never raises, and its Spark type.

    `fails` is a text in SQL: why Spark raises, NULL where it does not; None if Spark cannot.
    `constant` is the value if it is written out.
    """

    sql: str
    type: SparkType
    fails: str | None = None
    constant: object = NOT_WRITTEN

    @property
    def is_constant(self) -> bool:
        """Whether the value is written out."""
        return not isinstance(self.constant, NotWritten)


def duckdb_type(type_: SparkType) -> str:
    """The DuckDB type of a column."""
    if type_.is_decimal:
        return f"DECIMAL({type_.precision},{type_.scale})"
    if type_.name not in _DUCKDB_TYPES:
        raise NotTranspiled(str(type_))
    return _DUCKDB_TYPES[type_.name]


def quoted_name(column: str) -> str:
    """The name of a column or table as a quoted identifier."""
    return '"' + column.replace('"', '""') + '"'


def quoted_text(value: str) -> str:
    """A text as a literal."""
    if "\0" in value:
        raise NotTranspiled("a text with a NUL in it")
    return "'" + value.replace("'", "''") + "'"


def because(*causes: tuple[str, str]) -> str:
    """A failure from conditions, each with its cause: the first that is true."""
    whens = " ".join(f"WHEN {condition} THEN {quoted_text(cause)}" for condition, cause in causes)
    return f"(CASE {whens} END)"


def any_of(*failures: str | None) -> str | None:
    """The first failure there is, of several; None is no failure."""
    given = [f for f in failures if f is not None]
    return f"coalesce({', '.join(given)})" if given else None


def provided(condition: str, fails: str | None) -> str | None:
    """A failure that counts only if a condition is true."""
    return None if fails is None else f"(CASE WHEN {condition} THEN {fails} END)"


def fails_in_order(parts: Iterable[Transpiled]) -> str | None:
    """The failure of parts that are evaluated in order up to the first NULL."""
    found: list[str | None] = []
    not_null: list[str] = []
    for part in parts:
        found.append(provided(" AND ".join(not_null), part.fails) if not_null else part.fails)
        not_null.append(f"({part.sql}) IS NOT NULL")
    return any_of(*found)


def strict(
    sql: str,
    type_: SparkType,
    parts: tuple[Transpiled, ...],
    *,
    fails: str | None = None,
    last_first: bool = False,
) -> Transpiled:
    """A value that is NULL if one of its parts is; `fails` applies where no part is NULL.

    `last_first`: the last part is evaluated first, as in a division.
    """
    own = fails
    for part in parts:
        own = provided(f"({part.sql}) IS NOT NULL", own)
    return Transpiled(
        sql=sql,
        type=type_,
        fails=any_of(fails_in_order(reversed(parts) if last_first else parts), own),
    )


def floor_div(dividend: str, divisor: int) -> str:
    """Integer division that rounds down; the divisor is positive."""
    return f"(({dividend} - {floor_mod(dividend, divisor)}) // {divisor})"


def floor_mod(dividend: str, divisor: int) -> str:
    """The remainder of `floor_div`: from 0 to the divisor - 1."""
    return f"((({dividend} % {divisor}) + {divisor}) % {divisor})"
