"""A check of a sample of a home's buckets: computed again by DuckDB and compared row for row.

A replay checks its own result this way before it prints it. Of each output the first and the last
non-empty bucket are checked, and others that the plan and the digests choose, so the same result is
always checked in the same buckets. Only the records are read that these buckets are computed from;
how many that is bounds the sample.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import accumulate
from typing import NoReturn

import pyarrow as pa

from medusa_core.columns import Column
from medusa_core.grid import Range
from medusa_core.names import PlanId, StreamName
from medusa_core.network import Network, Port
from medusa_core.segments import Segment
from pipelines.base.time_text import counted
from pipelines.homes.home import Home
from pipelines.quality.differences import differences, differing_columns
from pipelines.quality.ranges import merged, needed_parts
from pipelines.quality.recompute import Recomputation, recompute
from pipelines.quality.spark_types import NoSuchType
from pipelines.quality.stored_rows import final_rows, source_records
from pipelines.storage.segment_rows import columns_of, stream_record

BUCKETS_MAX = 8
"""How many buckets of an output are checked at most."""

RECORDS_SHARE = 0.02
RECORDS_MIN = 50_000
"""Beyond the first and the last buckets, so many records or this share of all are read at most."""

RECORDS_MAX = 1_000_000
"""An output whose first and last buckets are computed from more records is not checked."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A stream that does not equal its recomputation, and the first bucket where."""

    stream: StreamName
    found: str

    @property
    def sentence(self) -> str:
        """What is wrong where."""
        return f"stream {self.stream} does not equal its recomputation by DuckDB: {self.found}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleCheck:
    """What was checked: `buckets` of `buckets_in_all` non-empty ones, of these streams.

    `not_checked`: boxes that DuckDB cannot compute, and streams, with the reason.
    """

    buckets: int
    buckets_in_all: int
    streams: tuple[StreamName, ...]
    not_checked: Mapping[str, str] = field(default_factory=dict)
    mismatches: tuple[Mismatch, ...] = ()

    @property
    def sentence(self) -> str:
        """One line for a terminal."""
        of = f"{self.buckets} of {counted(self.buckets_in_all, 'bucket')} of "
        of += counted(len(self.streams), "output")
        equal = "equals" if self.buckets == 1 else "equal"
        line = f"checked: {of} {equal} an independent recomputation by DuckDB"
        if not self.streams:
            line = "checked: nothing"
        elif not self.buckets:
            line = f"checked: {counted(len(self.streams), 'output')} without rows"
        others = (f"{what} not checked ({why})" for what, why in sorted(self.not_checked.items()))
        return "; ".join([line, *others])

    def document(self) -> dict[str, object]:
        """The result as JSON values."""
        return {
            "buckets": self.buckets,
            "buckets_in_all": self.buckets_in_all,
            "streams": list(self.streams),
            "not_checked": dict(self.not_checked),
            "mismatches": [{"stream": m.stream, "found": m.found} for m in self.mismatches],
        }


class _NotByDuckDB(Exception):
    """A box that DuckDB does not compute as Spark does."""


def _refused(*of: object) -> NoReturn:
    raise _NotByDuckDB


def check_sample(home: Home, network: Network, plan: PlanId) -> SampleCheck:
    """Compute a sample of the buckets of every output again and compare them.

    Raises Unavailable if a file is missing or damaged.
    """
    ports = {StreamName(arc.end): arc.start for arc in network.output_arcs}
    segments = {name: home.catalog.segments(name) for name in ports}
    chosen, left_out = _Choice(home, network, plan, ports, segments).buckets()
    wanted: dict[Port, list[Range]] = {}
    for name, parts in chosen.items():
        wanted.setdefault(ports[name], []).extend(parts)

    def records(name: str, columns: Sequence[Column], parts: Sequence[Range]) -> pa.Table:
        return source_records(home.catalog, home.storage, StreamName(name), columns, parts)

    not_checked = dict(left_out)
    mismatches: list[Mismatch] = []
    checked: dict[StreamName, int] = {}
    try:
        with recompute(
            network, {p: merged(parts) for p, parts in wanted.items()}, records, _refused
        ) as again:
            for name, parts in chosen.items():
                try:
                    found = _compared(home, name, segments[name], parts, again, ports[name])
                except _NotByDuckDB:
                    continue
                checked[name] = len(parts)
                mismatches += [Mismatch(name, found)] if found else []
            not_checked |= {f"box {box}": why for box, why in _not_by_duckdb(again)}
    except NoSuchType as error:
        not_checked |= {f"output {name}": str(error) for name in ports}
    return SampleCheck(
        buckets=sum(checked.values()),
        buckets_in_all=sum(len(_starts(segments[name])) for name in ports),
        streams=tuple(checked),
        not_checked=not_checked,
        mismatches=tuple(mismatches),
    )


def _not_by_duckdb(again: Recomputation) -> Iterator[tuple[str, str]]:
    for box, engine in again.engines.items():
        name, _, reason = engine.partition(": ")
        if name != "DuckDB":
            yield box, reason


def _compared(
    home: Home, name: StreamName, segments: Sequence[Segment], parts: Sequence[Range],
    again: Recomputation, port: Port,
) -> str:  # fmt: skip
    """The first difference in the buckets of a stream, "" if there is none."""
    record = stream_record(home.catalog, name)
    columns, derived = columns_of(record), again.columns[port]
    stored = []
    for part in parts:
        near = [s for s in segments if s.range.overlaps(part)]
        stored.append(final_rows(home.storage, near, columns, part))
        types = differing_columns(columns, derived, stored[-1].types)
        if len(types):
            one = types.iloc[0]
            return f"column {one['column']} is {one['declared']}, and {one['derived']} by DuckDB"
    stable = pa.concat_tables([one.rows for one in stored])
    recomputed = again.rows(port, parts)
    found = differences(stable, recomputed, columns, record.width_us, derived).buckets
    wrong = found[(found["only_in_stream"] > 0) | (found["only_recomputed"] > 0)]
    if not len(wrong):
        return ""
    one = wrong.iloc[0]
    return (
        f"the bucket at {one['bucket']} has {counted(int(one['rows']), 'row')}, and "
        f"{one['recomputed']} by DuckDB; {one['only_in_stream']} are only in the stream and "
        f"{one['only_recomputed']} only recomputed"
    )


def _starts(segments: Iterable[Segment]) -> list[int]:
    """Where the non-empty buckets of a stream begin."""
    return sorted({at for segment in segments for at in segment.buckets})


@dataclass
class _Choice:
    """Chooses the buckets of a sample; what each is computed from is known from digests."""

    home: Home
    network: Network
    plan: PlanId
    ports: Mapping[StreamName, Port]
    segments: Mapping[StreamName, Sequence[Segment]]

    def buckets(self) -> tuple[dict[StreamName, list[Range]], dict[str, str]]:
        """Stream -> its buckets in the sample; and the outputs that are left out, with reasons."""
        sources = {name: _Counts(self.home.catalog.segments(name)) for name in self._sources()}
        total = sum(counts.total for counts in sources.values())
        left = max(RECORDS_MIN, int(RECORDS_SHARE * total))
        chosen: dict[StreamName, list[Range]] = {}
        left_out: dict[str, str] = {}
        others: list[tuple[int, StreamName, Range]] = []
        for name in self.ports:
            ranges = self._ranges(name)
            ends = ranges[:1] + ranges[1:][-1:]
            cost = self._records(sources, name, ends)
            if cost > RECORDS_MAX:
                left_out[f"output {name}"] = f"a bucket of it is computed from {cost:,} records"
                continue
            chosen[name] = ends
            ordered = sorted(ranges[1:-1], key=partial(self._rank, name))
            others += [(at, name, part) for at, part in enumerate(ordered[: BUCKETS_MAX - 2])]
        for _, name, part in sorted(others):
            cost = self._records(sources, name, [part])
            if cost <= left:
                left -= cost
                chosen[name].append(part)
        return {name: sorted(parts) for name, parts in chosen.items()}, left_out

    def _sources(self) -> Iterator[StreamName]:
        return (StreamName(source.name) for source in self.network.sources)

    def _ranges(self, name: StreamName) -> list[Range]:
        width_us = stream_record(self.home.catalog, name).width_us
        return [Range(at, at + width_us) for at in _starts(self.segments[name])]

    def _records(
        self, sources: Mapping[StreamName, _Counts], name: StreamName, parts: Sequence[Range]
    ) -> int:
        need = needed_parts(self.network, {self.ports[name]: parts})
        return sum(
            sources[StreamName(source)].within(part)
            for source, ranges in need.items()
            for part in ranges
        )

    def _rank(self, name: StreamName, part: Range) -> bytes:
        """An order that depends on the plan and on the content of the bucket alone."""
        digests = [
            s.buckets[part.from_us] for s in self.segments[name] if part.from_us in s.buckets
        ]
        return sha256(f"{self.plan} {name} {part.from_us} {digests}".encode()).digest()


class _Counts:
    """How many records of a source there are in a range, by its digests."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        buckets = sorted((at, d.rows) for s in segments for at, d in s.buckets.items())
        self._starts = [at for at, _ in buckets]
        self._rows = [0, *accumulate(rows for _, rows in buckets)]

    @property
    def total(self) -> int:
        """All of them."""
        return self._rows[-1]

    def within(self, part: Range) -> int:
        """Those in buckets that begin in the range."""
        first, end = (bisect_left(self._starts, at) for at in (part.from_us, part.to_us))
        return self._rows[end] - self._rows[first]
