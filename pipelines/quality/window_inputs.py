"""The records that a window is computed from: as they landed, or as they were imported.

How far back the records are needed is found out here from the boxes alone, and not taken from
lineage, which is part of what is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from medusa_core.columns import Column
from medusa_core.grid import Range
from medusa_core.names import StreamName
from medusa_core.network import Aggregate, Network, Port, inputs_of
from medusa_core.segments import Segment, Stability
from pipelines.catalog.interface import Catalog
from pipelines.catalog.lines_read import lines_read
from pipelines.sources.landing import read_landed
from pipelines.storage.arrow_schema import STIME, record_schema
from pipelines.storage.segment_rows import read_segments


def needed(network: Network, port: Port, part: Range) -> dict[str, Range]:
    """Source -> which of its records a port's rows in a range are computed from."""
    if network.is_source(port.owner):
        return {port.owner: part}
    box = network.box(port.owner)
    if isinstance(box, Aggregate):
        # Windows end 1 us behind their rows: the first one ends at `from` or later.
        first = -((box.size_us - 1 - part.from_us) // box.advance_us) * box.advance_us
        last = (part.to_us - box.size_us) // box.advance_us * box.advance_us
        if first > last:
            return {}
        part = Range(first, last + box.size_us)
    found: dict[str, Range] = {}
    for reference in inputs_of(box):
        for source, range_ in needed(network, network.port(reference, box.name), part).items():
            found[source] = found[source].hull(range_) if source in found else range_
    return found


def final_rows(
    root: Path, segments: tuple[Segment, ...], columns: tuple[Column, ...], part: Range
) -> pa.Table:
    """The rows of the segments that are final, with event time in the range."""
    final = [s for s in segments if s.stability.is_final]
    return _joined(list(read_segments(root, final, columns, part)), columns, part)


def source_records(
    catalog: Catalog, root: Path, stream: StreamName, columns: tuple[Column, ...], part: Range
) -> pa.Table:
    """A source's records of a range: what landed here, else what was imported.

    What is a declared gap of the stream is left out, since it is declared as lost.
    """
    line = lines_read(catalog.lines(stream), catalog.participant).get(stream)
    segments = () if line is None else catalog.segments(stream, part, producer=line.producer)
    if not catalog.landed_queries(stream):
        return final_rows(root, segments, columns, part)
    files = catalog.landed_files(stream, part)
    tables = [read_landed(root, f, columns, stream, part) for f in files]
    rows = _joined(tables, columns, part)
    for segment in segments:
        if segment.stability is Stability.GAP:
            rows = rows.filter(pc.invert(_inside(rows, segment.range)))
    return rows


def _joined(tables: list[pa.Table], columns: tuple[Column, ...], part: Range) -> pa.Table:
    schema = record_schema(columns)
    rows = pa.concat_tables([schema.empty_table(), *(t.select(schema.names) for t in tables)])
    return rows.filter(_inside(rows, part))


def _inside(rows: pa.Table, part: Range) -> pa.Array:
    return pc.and_(pc.greater_equal(rows[STIME], part.from_us), pc.less(rows[STIME], part.to_us))


def within(rows: pa.Table, parts: Mapping[Range, object] | tuple[Range, ...]) -> pa.Table:
    """The rows whose event time lies in one of the ranges."""
    tables = [rows.filter(_inside(rows, part)) for part in parts]
    return pa.concat_tables([rows.slice(0, 0), *tables])
