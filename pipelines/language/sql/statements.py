"""What a SQL file says, as data: sources, and queries with a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from medusa_core.empty_windows import Key
from pipelines.language.sql.sql_text import Token, Tokens

START, END = "window_start", "window_end"
GROUP = "group_number"
"""The column of EVERY, by which its rows are grouped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTable:
    """`FROM busy AS b`: a source, view or stream; `alias` is the name of its columns' owner.

    `as_of` is what stands behind FOR SYSTEM_TIME AS OF, if that is there.
    """

    name: Token
    alias: str
    as_of: Tokens | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subquery:
    """`FROM (SELECT …) AS b`."""

    query: Query
    alias: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """`FROM TUMBLE(TABLE busy, DESCRIPTOR(ts), INTERVAL '1' MINUTE)`, HOP with a slide, or SESSION.

    `size` and `advance` are durations as a network file has them, or `size` is a calendar period of
    `zone`, which is the last argument of TUMBLE then; `time` is the DESCRIPTOR. SESSION has a `gap`
    and the columns of PARTITION BY as `keys`; its `size` is the greatest length of a session.
    EVERY has these keys too, and `n`, how many rows are a group; its `size` is that of a span.
    """

    at: Token
    table: NamedTable | Subquery
    time: Token | None
    size: str
    advance: str | None
    zone: str | None
    alias: str | None
    gap: str | None = None
    keys: tuple[Token, ...] = ()
    n: int | None = None

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The columns by which its rows are grouped."""
        return (START, END) if self.n is None else (GROUP,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resampled:
    """`FROM RESAMPLE(TABLE busy PARTITION BY host, INTERVAL '10' SECOND, INTERVAL '1' MINUTE)`.

    `step` and `max_age` are durations as a network file has them; `time` is the DESCRIPTOR.
    """

    at: Token
    table: NamedTable | Subquery
    by: tuple[Token, ...]
    time: Token | None
    step: str
    max_age: str
    method: str
    alias: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedTables:
    """`FROM a JOIN b ON a.k = b.k AND b.stime BETWEEN …`; `how` is the kind of a Join box.

    The first table is itself joined, where several joins follow each other.
    """

    at: Token
    how: str
    left: NamedTable | Subquery | Resampled | JoinedTables
    right: NamedTable | Subquery | Resampled
    on: Tokens

    @property
    def as_of(self) -> Tokens | None:
        """The time as of which the second table is read, if it is one of a Lookup box."""
        return self.right.as_of if isinstance(self.right, NamedTable) else None


Table = NamedTable | Subquery | Window | Resampled | JoinedTables


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One column of a SELECT: its expression, and its name; no name: `*`."""

    tokens: Tokens
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyWindows:
    """`EMIT EMPTY FOR kind IN ('long', 'short')`: the values that have rows without records."""

    at: Token
    keys: tuple[tuple[Token, tuple[Key, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """A SELECT; clauses that are not there are None."""

    at: Token
    items: tuple[Item, ...]
    table: Table
    where: Tokens | None
    group_by: tuple[Tokens, ...] | None
    having: Tokens | None
    empty: EmptyWindows | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """WITH … SELECT … UNION ALL SELECT …"""

    at: Token
    local: Mapping[str, Query]
    parts: tuple[Select | Query, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateNetwork:
    """`CREATE NETWORK name WITH (bucket = '1m')`."""

    name: Token
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSource:
    """`CREATE SOURCE name (column type, …) WITH (time = 'column', …)`."""

    name: Token
    columns: Mapping[str, str]
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateStream:
    """`CREATE STREAM name AS query`, or `CREATE VIEW`, which is no output of the network."""

    name: Token
    is_output: bool
    options: Mapping[str, str]
    query: Query


Statement = CreateNetwork | CreateSource | CreateStream


def table_of(table: Table) -> str:
    """A table as a sentence names it."""
    if isinstance(table, Resampled):
        return "(SELECT * FROM RESAMPLE(…))"
    return table.name.name if isinstance(table, NamedTable) else "(SELECT …)"
