"""A piece of an expression as DuckDB says it: a value that never raises, and when Spark's would.

This is a reading of Spark's rules of its own: nothing of `pipelines.spark`, and of the checker only
its parser and its table of types. What is not known to mean the same in both engines is not carried
over (NotCarried), and its box is computed by Spark.

In DuckDB a date is its number of days and a timestamp its microseconds since 1970, both as whole
numbers, so that no calendar, time zone or format of another engine is in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

DUCKDB_TYPES = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "INTEGER",
    "timestamp": "BIGINT",
}
DAY_US = 86_400_000_000
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""The years 1 to 9999, beyond which no column has a date or a timestamp."""
FIRST_US, LAST_US = FIRST_DAY * DAY_US, (LAST_DAY + 1) * DAY_US - 1


class NotCarried(Exception):
    """The expression has something that DuckDB may compute otherwise; the message says what."""


class NotWrittenOut:
    """The value of a piece that is no constant."""


NOT_WRITTEN_OUT = NotWrittenOut()


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """SQL of DuckDB that never raises, its type (as in `medusa_core.columns`), and `fails`.

    `fails` is a condition, never NULL, that is true iff Spark would raise; None if it cannot.
    `constant` is the value where it is written out.
    """

    sql: str
    type: str
    fails: str | None = None
    constant: object = NOT_WRITTEN_OUT

    @property
    def is_written_out(self) -> bool:
        """Whether it is a constant."""
        return not isinstance(self.constant, NotWrittenOut)


def duckdb_type(type_: str) -> str:
    """How DuckDB keeps a column of the type."""
    return DUCKDB_TYPES.get(type_) or type_.upper()


def name_of(column: str) -> str:
    """A column or table as DuckDB names it."""
    return '"' + column.replace('"', '""') + '"'


def text_of(value: str) -> str:
    """A text as DuckDB writes it."""
    if "\0" in value:
        raise NotCarried("a text with a NUL in it")
    return "'" + value.replace("'", "''") + "'"


def any_of(*conditions: str | None) -> str | None:
    """True if one is; None is a condition that never holds."""
    given = [c for c in conditions if c is not None]
    return f"({' OR '.join(given)})" if given else None


def provided(condition: str, fails: str | None) -> str | None:
    """A failure that counts only if a condition is true."""
    return None if fails is None else f"({condition} AND {fails})"


def one_after_the_other(parts: Iterable[Carried]) -> str | None:
    """When evaluating parts fails, if evaluation ends at the first that is NULL."""
    found: list[str | None] = []
    there: list[str] = []
    for part in parts:
        found.append(provided(" AND ".join(there), part.fails) if there else part.fails)
        there.append(f"({part.sql}) IS NOT NULL")
    return any_of(*found)


def strictly(
    sql: str, type_: str, parts: tuple[Carried, ...], *, fails: str | None = None,
    last_first: bool = False,
) -> Carried:  # fmt: skip
    """A value of parts that is NULL if one is; `fails` is asked where none is."""
    own = fails
    for part in parts if fails else ():
        own = provided(f"({part.sql}) IS NOT NULL", own)
    # What is NULL must not make the condition so.
    own = own and f"coalesce({own}, false)"
    before = one_after_the_other(reversed(parts) if last_first else parts)
    return Carried(sql=sql, type=type_, fails=any_of(before, own))


def floor_div(dividend: str, divisor: int) -> str:
    """Whole division that rounds down, also below zero; the divisor is above it."""
    return f"(({dividend} - {floor_mod(dividend, divisor)}) // {divisor})"


def floor_mod(dividend: str, divisor: int) -> str:
    """What whole division rounded down leaves: from 0 to the divisor - 1."""
    return f"((({dividend} % {divisor}) + {divisor}) % {divisor})"
