"""Records for drawn networks: few values, many of them equal, at the bounds of buckets and windows.

Event time begins before 1970 and runs over pieces of whole buckets; each piece arrives alone, so
that the steps over them see other records each time. Some pieces have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from random import Random

import pyarrow as pa

from medusa_core.columns import Column
from medusa_core.grid import Range
from pipelines.storage.arrow_schema import record_schema
from tests.spark.drawn.spec import BUCKET_S, SOURCE_COLUMNS

SECOND_US = 1_000_000
FIRST_S, PIECES_S = -60, (10, 20, 30, 10, 40, 30)
SCHEMA = record_schema([Column(n, t) for n, t in SOURCE_COLUMNS])
EDGES_US = (0, 1, -1, BUCKET_S * SECOND_US // 2)
NAN = float("nan")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Piece:
    """A range of event time and the records of each source in it."""

    range: Range
    records: Mapping[str, pa.Table]


@lru_cache(maxsize=32)
def pieces(seed: int, sources: tuple[str, ...], rows_max: int = 40) -> tuple[Piece, ...]:
    """The pieces of all sources; one at least has no record at all."""
    random = Random(seed)
    empty = set(random.sample(range(len(PIECES_S)), random.choice((1, 1, 2))))
    found, from_s = [], FIRST_S
    for at, width_s in enumerate(PIECES_S):
        part = Range(from_s * SECOND_US, (from_s + width_s) * SECOND_US)
        from_s += width_s
        tables = {}
        for source in sources:
            is_empty = at in empty or random.random() < 0.1
            tables[source] = _table(random, part, 0 if is_empty else random.randint(1, rows_max))
        found.append(Piece(part, tables))
    return tuple(found)


def _table(random: Random, part: Range, rows: int) -> pa.Table:
    records: list[tuple[object, ...]] = []
    for _ in range(rows):
        if records and random.random() < 0.15:
            records.append(random.choice(records))
            continue
        edge = random.randrange(part.from_us, part.to_us + 1, SECOND_US) // SECOND_US
        at_us = edge * SECOND_US
        if random.random() < 0.6:
            at_us = round(edge / BUCKET_S) * BUCKET_S * SECOND_US + random.choice(EDGES_US)
        at_us = min(max(at_us, part.from_us), part.to_us - 1)
        records.append((at_us, *_values(random), at_us))
    records.sort(key=lambda record: record[0])  # type: ignore[arg-type, return-value]
    columns = list(zip(*records, strict=True)) or [()] * len(SCHEMA)
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def _values(random: Random) -> tuple[object, ...]:
    pick = random.choice
    return (
        pick(["a", "b", "é", None]),
        pick(["a", "b", "", "7", "12", "x y", 'say "k":3, {c,}', None]),
        pick([0, 1, 2, 3, 3, 4, -2, -7, None]),
        pick([1, 1, 2, 50, None]),
        pick([0, 1, 2, -5, 2**62, 2**61, -(2**62), None]),
        pick([0.0, -0.0, 1.5, -2.5, 0.25, NAN, -NAN, float("inf"), float("-inf"), None]),
        pick([Decimal("0.00"), Decimal("1.50"), Decimal("-12.25"), Decimal("999.99"), None]),
        pick([True, False, None]),
        pick([*(_EPOCH + timedelta(seconds=s) for s in (-1, 30, 31)), None]),
        pick([date(1969, 12, 31), date(2024, 2, 29), None]),
        pick([b"", b"\x00\xff", b"a", None]),
    )  # fmt: skip
