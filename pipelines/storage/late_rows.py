"""Rows of late records as bytes: what a home keeps of one until a revision admits it.

A row is an Arrow record batch without its schema, which is the stream's: a stream keeps its
columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from medusa_core.columns import Column
from medusa_core.commits import LateRow
from medusa_core.digest import Digest
from medusa_core.errors import Unavailable
from medusa_core.names import StreamName
from pipelines.storage.arrow_digests import row_hashes
from pipelines.storage.arrow_schema import STIME, record_schema


def late_rows_of(records: pa.Table, columns: Sequence[Column]) -> list[LateRow]:
    """Each row of a table of records, to be kept."""
    table = records.select(record_schema(columns).names).combine_chunks()
    firsts, seconds = row_hashes(table, columns)
    stimes: list[int] = table[STIME].to_pylist()
    found: list[LateRow] = []
    batches = table.to_batches()
    rows = (batch.slice(at, 1) for batch in batches for at in range(batch.num_rows))
    for one, stime_us, a, b in zip(rows, stimes, firsts.tolist(), seconds.tolist(), strict=True):
        row = one.serialize().to_pybytes()
        found.append(LateRow(stime_us=stime_us, row=row, digest=Digest(1, a, b)))
    return found


def late_records_of(
    stream: StreamName, rows: Sequence[bytes], columns: Sequence[Column]
) -> pa.Table:
    """The records that were kept, one behind the other; Unavailable if one cannot be read."""
    schema = record_schema(columns)
    try:
        batches = [pa.ipc.read_record_batch(pa.py_buffer(row), schema) for row in rows]
        table = pa.Table.from_batches(batches, schema)
        table.validate(full=True)
    except (pa.ArrowException, EOFError, OSError) as error:
        raise Unavailable(
            f"a late record of {stream} cannot be read ({error}): restore the catalog"
        ) from error
    return table
