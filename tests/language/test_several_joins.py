"""Several joins in one SELECT: what their boxes give is what DuckDB gives for the same SQL.

Chains are drawn: inner, left, semi and anti joins and lookups of up to four tables, whose intervals
name the time of any table before. A chain is refused where its boxes would compare another time;
every other one gives the rows of DuckDB.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random
from typing import Any, NoReturn

import duckdb
import pyarrow as pa
import pytest

from medusa_core.columns import Column
from medusa_core.errors import Refused
from medusa_core.grid import Range
from medusa_core.network import Box, Join, Lookup, Network
from pipelines.language.sql.sql_file import network_of_sql_text
from pipelines.quality.recompute import Recomputation
from pipelines.quality.stored_rows import STIME, row_schema
from tests.sweeps import examples

TABLES = ("a", "b", "c", "d")
COLUMNS = (Column("ts", "bigint"), Column("k", "string"), Column("g", "int"), Column("v", "int"))
SOURCES = "\n".join(
    f"CREATE SOURCE {name} (ts BIGINT, k STRING, g INT, v INT) WITH (time = 'ts');"
    f"CREATE STREAM all_{name} AS SELECT * FROM {name};"
    for name in TABLES
)
INTERVALS = ((-5, 0), (0, 5), (-5, 5), (3, 3), (-4, -4), (0, 0), (2, 6), (-6, -2))
KINDS = ("", "", "", "LEFT ", "LEFT ", "SEMI ", "ANTI ", "lookup", "lookup of left")
SECOND_US = 1_000_000
EVERYTHING = Range(-(2**62), 2**62)


@cache
def records(name: str) -> pa.Table:
    """Records of a table over 40 s, some with equal times, some with NULL for a key."""
    random = Random(name)
    rows = [
        (at * SECOND_US, random.choice(("x", "y", None)), random.choice((1, 2)), number)
        for number, at in enumerate(random.choices(range(40), k=45))
    ]
    cells = [*zip(*rows, strict=True)]
    return pa.table([*cells, cells[0]], schema=row_schema(COLUMNS))


@cache
def tables() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name in TABLES:
        connection.register("given", records(name))
        connection.execute(
            f"CREATE TABLE {name} AS SELECT ts, k, g, v, make_timestamp(ts) AS stime FROM given"
        )
    return connection


def by_duckdb(query: str) -> Counter[tuple[Any, ...]]:
    return Counter(tables().execute(query).fetchall())


def not_in_duckdb(*given: object) -> NoReturn:
    raise AssertionError("a join is computed by DuckDB")


def network_of(query: str, views: str = "") -> Network:
    return network_of_sql_text(f"{SOURCES}{views}CREATE STREAM s AS {query}", "s.sql", "s")


def boxes_of(query: str) -> list[Box]:
    """The boxes of the stream alone, in order."""
    return [box for box in network_of(query).boxes if not box.name.startswith("all_")]


def by_boxes(query: str, views: str = "") -> list[dict[str, Any]]:
    """The rows of the network that the SQL compiles to, with their event time."""
    network = network_of(query, views)
    sources = {source.name: records(source.name) for source in network.sources}
    with Recomputation(network, sources, not_in_duckdb) as run:
        port = network.port(network.output("s").input, "output s")
        found: list[dict[str, Any]] = run.rows(port, [EVERYTHING]).to_pylist()
    return found


def plain(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(v for n, v in row.items() if n != STIME) for row in rows)


class Chain:
    """A drawn FROM with several joins, as Medusa and as DuckDB read it."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.visible, self.inner = ["a"], True
        self.medusa = self.duckdb = "FROM a"
        for name in TABLES[1 : random.choice((3, 3, 4))]:
            kind = random.choice(KINDS)
            key, at = random.choice(self.visible), random.choice(self.visible)
            keys = f"{key}.k = {name}.k"
            if random.random() < 0.4:
                keys += f" AND {name}.g = {random.choice(self.visible)}.g"
            self.inner &= kind == ""
            if kind.startswith("lookup"):
                self.look_up(name, keys, at, how="LEFT " if kind.endswith("left") else "")
            else:
                lo, hi = random.choice(INTERVALS)
                on = f"{name}.stime BETWEEN {self.time(at, lo)} AND {self.time(at, hi)}"
                self.medusa += f" {kind}JOIN {name} ON {keys} AND {on}"
                self.duckdb += f" {kind}JOIN {name} ON {keys} AND {on}"
            if kind not in ("SEMI ", "ANTI "):
                self.visible.append(name)

    @staticmethod
    def time(table: str, more_s: int) -> str:
        sign = "-" if more_s < 0 else "+"
        return f"{table}.stime {sign} INTERVAL '{abs(more_s)}' SECOND"

    def look_up(self, name: str, keys: str, at: str, how: str) -> None:
        oldest = f"{name}.stime >= {at}.stime - INTERVAL '6' SECOND"
        self.medusa += f" {how}JOIN {name} FOR SYSTEM_TIME AS OF {at}.stime AS {name}"
        self.medusa += f" ON {keys} AND {oldest}"
        last = ", ".join(f"{c} DESC NULLS LAST" for c in ("stime", "ts", "k", "g", "v"))
        self.duckdb += (
            f" {how}JOIN LATERAL (SELECT * FROM {name} WHERE {keys} AND {oldest} "
            f"AND {name}.stime <= {at}.stime ORDER BY {last} LIMIT 1) AS {name} ON true"
        )

    def select(self, source: str) -> str:
        columns = (f"{t}.{c} AS {c}_{t}" for t in self.visible for c in ("v", "k", "ts"))
        return f"SELECT {', '.join(columns)} {source}"


def test_chains_of_joins_give_the_rows_of_duckdb_or_are_refused() -> None:
    compared, refused, rows, drawn = 0, 0, 0, examples(40, 1_500)
    kinds: Counter[str] = Counter()
    for seed in range(drawn):
        chain = Chain(seed)
        query = chain.select(chain.medusa)
        try:
            found = by_boxes(query)
        except Refused as error:
            refused += "the joined rows have the time of the later of two rows" in str(error)
            continue
        assert plain(found) == by_duckdb(chain.select(chain.duckdb)), f"seed {seed}: {query}"
        if chain.inner:
            times = [tuple(row[f"ts_{t}"] for t in chain.visible) for row in found]
            assert [row[STIME] for row in found] == [max(of_tables) for of_tables in times]
        compared, rows = compared + 1, rows + len(found)
        kinds.update(word for word in ("LEFT ", "SEMI ", "ANTI ", "SYSTEM_TIME") if word in query)
    assert compared >= drawn * 2 // 5
    assert refused == drawn - compared >= drawn // 20
    assert rows > 4 * drawn
    assert len(kinds) == 4
    assert min(kinds.values()) >= 3


def test_joins_in_a_row_are_a_chain_of_boxes() -> None:
    query = """SELECT a.v, b.v AS second, c.v AS third, d.v AS fourth
        FROM a
        JOIN b ON a.k = b.k AND b.stime BETWEEN a.stime AND a.stime + INTERVAL '5' SECOND
        LEFT JOIN c FOR SYSTEM_TIME AS OF b.stime AS c
            ON b.g = c.g AND c.stime >= b.stime - INTERVAL '1' MINUTE
        JOIN d ON c.k = d.k AND d.ts BETWEEN b.ts - INTERVAL '2' SECOND AND b.stime"""
    first, lookup, last, _ = boxes_of(query)
    assert isinstance(first, Join)
    assert isinstance(lookup, Lookup)
    assert isinstance(last, Join)
    assert (first.name, lookup.name, last.name) == ("s_join", "s_lookup", "s_join_2")
    assert (lookup.input, last.left) == (first.name, lookup.name)
    assert (lookup.max_age, last.within) == ("1m", ("-2s", "0s"))
    assert (first.on, lookup.on, last.on) == (("k",), ("b_g = g",), ("c_k = k",))


@pytest.mark.parametrize(
    ("first", "interval", "within"),
    [
        # The pair is at b's time, and a is 3 s before it.
        ("b.stime = a.stime + INTERVAL '3' SECOND", "b.stime AND b.stime", ("0s", "0s")),
        ("b.stime = a.stime + INTERVAL '3' SECOND", "a.stime AND a.stime", ("-3s", "-3s")),
        # The pair is at a's time.
        ("b.stime BETWEEN a.stime - INTERVAL '9' SECOND AND a.stime",
         "a.stime - INTERVAL '1' SECOND AND a.stime + INTERVAL '2' SECOND", ("-1s", "2s")),
    ],
)  # fmt: skip
def test_an_interval_is_that_from_the_time_of_the_joined_rows(
    first: str, interval: str, within: tuple[str, str]
) -> None:
    query = (
        f"SELECT a.v FROM a JOIN b ON a.k = b.k AND {first} "
        f"JOIN c ON a.k = c.k AND c.stime BETWEEN {interval}"
    )
    *_, box, _ = boxes_of(query)
    assert isinstance(box, Join)
    assert box.within == within


def test_the_view_that_is_advised_gives_the_rows_of_the_refused_joins() -> None:
    first = (
        "a.k = b.k AND b.stime BETWEEN a.stime - INTERVAL '5' SECOND "
        "AND a.stime + INTERVAL '5' SECOND"
    )
    query = (
        f"SELECT a.v, b.v AS w, c.v AS x FROM a JOIN b ON {first} "
        "JOIN c ON a.k = c.k AND c.stime BETWEEN a.stime AND a.stime + INTERVAL '5' SECOND"
    )
    with pytest.raises(Refused, match="make a view of the joins before, write its stime in this"):
        by_boxes(query)
    views = f"""CREATE VIEW pairs AS SELECT a.k, a.ts, a.v, b.v AS w FROM a JOIN b ON {first};"""
    by_view = by_boxes(
        "SELECT pairs.v, w, c.v AS x FROM pairs JOIN c ON pairs.k = c.k AND c.stime BETWEEN "
        "pairs.stime - INTERVAL '5' SECOND AND pairs.stime + INTERVAL '5' SECOND "
        "WHERE c.ts BETWEEN pairs.ts AND pairs.ts + 5000000",
        views,
    )
    assert by_view
    assert plain(by_view) == by_duckdb(query)
