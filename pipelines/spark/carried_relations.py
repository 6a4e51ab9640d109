"""Rows that stand for the earlier records of a box over spans, and of a table, in Spark SQL.

A box that reads its records from the beginning of a span on, or a table as far back as `max_age`,
is given rows that an earlier step left in their place (`pipelines.spark.step_panes`). Only those
with the keys of the records at hand are looked at: what there is besides is passed over by a hash
join, without a sort. So a step costs what its own records cost, and the reading of these rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from medusa_core.columns import Column
from pipelines.language.aggregates import canonical_order, one_zero
from pipelines.language.carried_partials import Partials
from pipelines.language.check import CheckedLookup
from pipelines.spark.compiled_fragment import STEP_FROM, STEP_TO, STEP_VIEW, carried_views
from pipelines.spark.session_windows import FIRST, OPEN_PIECE, PIECE, RUN_BEGAN, SESSION_BEGAN
from pipelines.spark.tagged_relation import column_names
from pipelines.storage.arrow_schema import STIME

IS_CARRIED = "_carried"
SPAN = "_span_us"
ONE_PARTITION = "/*+ COALESCE(1) */ "
"""In one partition nothing is exchanged, so that a job can be prepared."""

_LATEST, _LAST_SPAN, _NEWEST = "_latest", "_last_span_us", "_newest"


def keys_of(names: Iterable[str], columns: Iterable[Column]) -> list[tuple[str, str]]:
    """Keys with the form of each in which equal values are the same."""
    types = {column.name: column.type for column in columns}
    return [(name, one_zero(f"`{name}`", types[name])) for name in names]


def carried_with_keys(
    box: str, columns: Sequence[Column], keys: Sequence[tuple[str, str]], records: str
) -> str:
    """The rows that a box was given whose keys some record has; `keys` gives those of records."""
    return with_keys(carried(box, columns), keys, records)


def carried(box: str, columns: Sequence[Column]) -> str:
    """All rows that a box was given."""
    own = ", ".join((*column_names(columns), STIME))
    given = " UNION ALL ".join(f"SELECT {own} FROM {view}" for view in carried_views(box))
    return f"SELECT {ONE_PARTITION}{own} FROM ({given})"


def with_keys(given: str, keys: Sequence[tuple[str, str]], records: str) -> str:
    """Those of given rows whose keys some record has; `keys` gives those of records."""
    if not keys:
        return given
    named = ", ".join(f"{sql} AS k{at}" for at, (_, sql) in enumerate(keys))
    on = " AND ".join(f"g.`{name}` <=> r.k{at}" for at, (name, _) in enumerate(keys))
    return (
        f"SELECT /*+ SHUFFLE_HASH(r) */ g.* FROM ({given}) AS g "
        f"JOIN (SELECT DISTINCT {named} FROM {records}) AS r ON {on}"
    )


def latest(rows: str, span: str, keys: Sequence[str]) -> str:
    """Of the rows with equal keys in a span the latest one."""
    part = ", ".join((span, *(f"`{key}`" for key in keys)))
    number = f"row_number() OVER (PARTITION BY {part} ORDER BY {STIME} DESC) AS {_LATEST}"
    return f"SELECT * FROM (SELECT *, {number} FROM ({rows})) WHERE {_LATEST} = 1"


def of_last_span(rows: str, columns: Sequence[Column]) -> str:
    """The rows of the last span that there is; earlier ones matter to no later record."""
    own = ", ".join((*column_names(columns), STIME))
    last = f"SELECT *, max({SPAN}) OVER () AS {_LAST_SPAN} FROM ({rows})"
    return f"SELECT {own} FROM ({last}) WHERE {SPAN} = {_LAST_SPAN}"


def open_sessions(given: str, gap_us: int) -> str:
    """Carried rows of sessions that were open when the step begins, with the step's bounds."""
    bounds = f"SELECT /*+ SHUFFLE_REPLICATE_NL(s) */ g.*, s.{STEP_FROM}, s.{STEP_TO}"
    open_ = f"g.{STIME} > s.{STEP_FROM} - {gap_us}L"
    return f"{bounds} FROM ({given}) AS g JOIN {STEP_VIEW} AS s ON {open_}"


def with_end(rows: str) -> str:
    """Rows with the end of the step, as a column."""
    bounds = f"SELECT /*+ SHUFFLE_REPLICATE_NL(s) */ r.*, s.{STEP_TO}"
    return f"SELECT {ONE_PARTITION}* FROM ({bounds} FROM ({rows}) AS r CROSS JOIN {STEP_VIEW} AS s)"


def with_partials(
    partials: Partials, behind: Sequence[Column], by: Sequence[str], records: str, carried: str,
    also: Sequence[tuple[str, str]] = (),
) -> str:  # fmt: skip
    """Records with the partial aggregates of each alone, and carried rows, whose key they have.

    `also` are other columns of carried rows, each with its value for a record.
    """
    parts = [(c.name, f"CAST({partials.of_record[c.name]} AS {c.type})") for c in partials.columns]
    return with_carried(behind, by, records, carried, [*also, *parts, (partials.number, "1L")])


def with_carried(
    behind: Sequence[Column], by: Sequence[str], records: str, carried: str,
    parts: Sequence[tuple[str, str]] = (),
) -> str:  # fmt: skip
    """Records, each with `parts`, and carried rows, which have these and the key alone."""
    of_record = [*column_names(behind), STIME, *(f"{sql} AS `{name}`" for name, sql in parts)]
    of_carried = [f"`{c.name}`" if c.name in by else f"CAST(NULL AS {c.type})" for c in behind]
    of_carried += [STIME, *(f"`{name}`" for name, _ in parts)]
    both = (
        f"SELECT {', '.join(of_record)}, FALSE AS {IS_CARRIED} FROM {records} "
        f"UNION ALL SELECT {', '.join(of_carried)}, TRUE FROM ({carried})"
    )
    return f"SELECT {ONE_PARTITION}* FROM ({both})"


def left_partials(
    partials: Partials, keys: Sequence[tuple[str, str]], span: str, rows: str,
    also: Sequence[str] = (),
) -> str:  # fmt: skip
    """The partial aggregates of all rows of a span and key, and other columns."""
    group = ", ".join((SPAN, *(f"_k{at}" for at in range(len(keys)))))
    named = ", ".join(
        (f"{span} AS {SPAN}", *(f"{sql} AS _k{at}" for at, (_, sql) in enumerate(keys)))
    )
    columns = [SPAN, *(f"_k{at} AS `{name}`" for at, (name, _) in enumerate(keys))]
    columns += [f"{partials.functions[c.name]}(`{c.name}`) AS `{c.name}`" for c in partials.columns]
    columns += [f"sum(`{partials.number}`) AS `{partials.number}`", f"max({STIME}) AS {STIME}"]
    columns += also
    return f"SELECT {', '.join(columns)} FROM (SELECT *, {named} FROM {rows}) GROUP BY {group}"


def left_groups(
    partials: Partials, keys: Sequence[tuple[str, str]], span: str, group: str, n: int, rows: str
) -> str:
    """The partial aggregates of the group that is not full, of each span and key.

    A row with the number 0 takes the place of an earlier one whose group is full now.
    """
    by_group = left_partials(partials, [*keys, (group, f"`{group}`")], span, rows)
    part = ", ".join((SPAN, *(f"`{name}`" for name, _ in keys)))
    number = f"row_number() OVER (PARTITION BY {part} ORDER BY `{group}` DESC) AS {_LATEST}"
    total = f"`{partials.number}`"
    columns = [SPAN, *(f"`{name}`" for name, _ in keys)]
    columns += [f"IF({total} = {n}, NULL, `{c.name}`) AS `{c.name}`" for c in partials.columns]
    columns += [f"IF({total} = {n}, 0L, {total}) AS {total}", STIME]
    ranked = f"SELECT *, {number} FROM ({by_group})"
    return f"SELECT {', '.join(columns)} FROM ({ranked}) WHERE {_LATEST} = 1"


def left_sessions(
    partials: Partials, keys: Sequence[tuple[str, str]], gap_us: int, rows: str,
    columns: Sequence[Column],
) -> str:  # fmt: skip
    """The sessions that are open when the step ends, each with its partial aggregates."""
    also = (
        f"max({FIRST}) AS {RUN_BEGAN}", f"min({SESSION_BEGAN}) AS {SESSION_BEGAN}",
        f"max({STEP_TO}) AS {STEP_TO}",
    )  # fmt: skip
    sessions = left_partials(partials, keys, PIECE, rows, also)
    own = ", ".join((*column_names(columns), STIME))
    sessions = f"SELECT *, {SPAN} AS {OPEN_PIECE} FROM ({sessions})"
    return f"SELECT {own} FROM ({sessions}) WHERE {STIME} > {STEP_TO} - {gap_us}L"


def newest_of_table(checked: CheckedLookup, table: str) -> str:
    """The newest record of each key of a table, in canonical order."""
    keys = [key for _, key in checked.box.keys]
    has_keys = " AND ".join(f"`{key}` IS NOT NULL" for key in keys)
    record = f"named_struct({', '.join(canonical_order(checked.table))})"
    group = ", ".join(f"`{key}`" for key in keys)
    newest = f"SELECT max({record}) AS {_NEWEST} FROM {table} WHERE {has_keys} GROUP BY {group}"
    columns = [f"{_NEWEST}.c{at} AS `{c.name}`" for at, c in enumerate(checked.table)]
    return f"SELECT {', '.join(columns)}, {_NEWEST}.t AS {STIME} FROM ({newest})"
