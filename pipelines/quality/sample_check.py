"""A check of a sample of a home's buckets: computed again by DuckDB and compared row for row.

A replay checks its own result so before it prints it. Of each output the first and the last
non-empty bucket are checked, and one of each of several equal pieces of its event time, whether it
has rows or only could have: rows that are lost are missing from empty buckets. The plan and the
digests choose it, so the same result is always checked in the same buckets. Only the records are
read that these buckets are computed from; how many that is bounds the sample.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import accumulate
from typing import NoReturn

import pyarrow as pa

from medusa_core.columns import Column
from medusa_core.digest import sum_of
from medusa_core.fragments import fragments_of
from medusa_core.grid import Range, ceil_us, floor_us
from medusa_core.names import PlanId, StreamName
from medusa_core.network import Network, Port, inputs_of
from medusa_core.segments import Segment
from medusa_core.suggest import counted
from pipelines.homes.home import Home
from pipelines.quality.differences import differences, differing_columns
from pipelines.quality.ranges import merged, needed_parts, reaches_us
from pipelines.quality.recompute import Recomputation, recompute
from pipelines.quality.spark_types import NoSuchType
from pipelines.quality.stored_rows import final_rows, lives_of, source_records
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
    """What was checked: `buckets` of the `buckets_in_all` that could have rows, of these streams.

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
    sample = _Sample(home, network, plan, ports, segments)
    chosen = {name: merged(parts) for name, parts in sample.chosen.items() if parts}
    ranges: dict[Port, list[Range]] = {}
    for name, parts in chosen.items():
        ranges.setdefault(ports[name], []).extend(parts)

    def records(name: str, columns: Sequence[Column], parts: Sequence[Range]) -> pa.Table:
        stream = network.source(name).stream_name
        return source_records(home.catalog, home.storage, stream, columns, parts)

    read = (name for fragment in fragments_of(network) for name in fragment.input_streams)
    lives = lives_of(home.catalog, read)
    not_checked = dict(sample.left_out)
    mismatches: list[Mismatch] = []
    checked: dict[StreamName, int] = {}
    try:
        with recompute(
            network, {p: merged(parts) for p, parts in ranges.items()}, records, _refused, lives
        ) as again:
            for name, parts in chosen.items():
                try:
                    found = _compared(home, name, segments[name], parts, again, ports[name])
                except _NotByDuckDB:
                    continue
                checked[name] = len(sample.chosen[name])
                mismatches += [Mismatch(name, found)] if found else []
            not_checked |= {f"box {box}": why for box, why in _not_by_duckdb(again)}
    except NoSuchType as error:
        not_checked |= {f"output {name}": str(error) for name in ports}
    return SampleCheck(
        buckets=sum(checked.values()),
        buckets_in_all=sample.buckets_in_all,
        streams=(*checked, *(name for name, parts in sample.chosen.items() if not parts)),
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
class _Sample:
    """Chooses buckets; what each is computed from is known from the digests of the sources."""

    home: Home
    network: Network
    plan: PlanId
    ports: Mapping[StreamName, Port]
    segments: Mapping[StreamName, Sequence[Segment]]
    chosen: dict[StreamName, list[Range]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    buckets_in_all: int = 0

    def __post_init__(self) -> None:
        catalog = self.home.catalog
        names = [source.stream_name for source in self.network.sources]
        self.sources = {name: _Counts.of(catalog.segments(name)) for name in names}
        self.widths_us = {n: stream_record(catalog, n).width_us for n in (*names, *self.ports)}
        total = sum(counts.total for counts in self.sources.values())
        left = max(RECORDS_MIN, int(RECORDS_SHARE * total))
        others: list[tuple[int, StreamName, Range]] = []
        for name in self.ports:
            parts = self._parts(name)
            self.buckets_in_all += sum(map(self._buckets(name), parts))
            ends = self._ends(name)
            cost = self._records(name, ends)
            if cost > RECORDS_MAX:
                why = f"its first and last buckets are computed from {cost:,} records"
                self.left_out[f"output {name}"] = why
                continue
            self.chosen[name] = ends
            picked = [part for part in self._picked(name, parts) if part not in ends]
            others += [(at, name, part) for at, part in enumerate(picked)]
        for _, name, part in sorted(others):
            cost = self._records(name, [part])
            if cost <= left and len(self.chosen[name]) < BUCKETS_MAX:
                left -= cost
                self.chosen[name].append(part)

    def _parts(self, name: StreamName) -> Sequence[Range]:
        """The ranges of an output in which there are rows or could be, by the records behind it."""
        width_us, port = self.widths_us[name], self.ports[name]
        starts = _starts(self.segments[name])
        found = [Range(at, at + width_us) for at in starts]
        if self.segments[name]:
            whole = Range(self.segments[name][0].range.from_us, self.segments[name][-1].range.to_us)
            for source, behind_us in reach_us(self.network, port).items():
                stream = self.network.source(source).stream_name
                width = self.widths_us[stream]
                for at in self.sources[stream].starts:
                    to_us = ceil_us(at + width + behind_us, width_us)
                    part = Range(floor_us(at, width_us), to_us).intersection(whole)
                    found += [part] if part else []
        return merged(found)

    def _ends(self, name: StreamName) -> list[Range]:
        """The first and the last non-empty bucket of an output."""
        starts, width_us = _starts(self.segments[name]), self.widths_us[name]
        return [Range(at, at + width_us) for at in sorted({*starts[:1], *starts[-1:]})]

    def _buckets(self, name: StreamName) -> Callable[[Range], int]:
        return lambda part: (part.to_us - part.from_us) // self.widths_us[name]

    def _picked(self, name: StreamName, parts: Sequence[Range]) -> Iterator[Range]:
        """A bucket of each of so many equal pieces of the ranges.

        Which one depends on the plan and on the content of the stream alone.
        """
        width_us = self.widths_us[name]
        bounds = [0, *accumulate(map(self._buckets(name), parts))]
        digest = sum_of(d for s in self.segments[name] for d in s.buckets.values())
        pieces = min(BUCKETS_MAX, bounds[-1])
        for piece in range(pieces):
            first, end = (bounds[-1] * at // pieces for at in (piece, piece + 1))
            text = f"{self.plan} {name} {digest} {piece}"
            chance = int.from_bytes(sha256(text.encode()).digest()[:8], "big")
            number = first + chance % (end - first)
            part = bisect_right(bounds, number) - 1
            at = parts[part].from_us + (number - bounds[part]) * width_us
            yield Range(at, at + width_us)

    def _records(self, name: StreamName, parts: Sequence[Range]) -> int:
        need = needed_parts(self.network, {self.ports[name]: parts})
        return sum(
            self.sources[self.network.source(source).stream_name].within(part)
            for source, ranges in need.items()
            for part in ranges
        )


def reach_us(network: Network, port: Port) -> Mapping[str, int]:
    """Source -> how long after a record of it, at most, a row of the port depends on the record."""
    if network.is_source(port.owner):
        return {port.owner: 0}
    box = network.box(port.owner)
    found: dict[str, int] = {}
    for reference, more_us in zip(inputs_of(box), reaches_us(box), strict=True):
        for source, us in reach_us(network, network.port(reference, box.name)).items():
            found[source] = max(found.get(source, 0), us + more_us)
    return found


@dataclass(frozen=True, slots=True)
class _Counts:
    """How many records a source has, by its digests: `before` each of its non-empty buckets."""

    starts: Sequence[int]
    before: Sequence[int]

    @classmethod
    def of(cls, segments: Iterable[Segment]) -> _Counts:
        """The records of these segments."""
        buckets = sorted((at, d.rows) for s in segments for at, d in s.buckets.items())
        return cls([at for at, _ in buckets], [0, *accumulate(rows for _, rows in buckets)])

    @property
    def total(self) -> int:
        """All of them."""
        return self.before[-1]

    def within(self, part: Range) -> int:
        """Those in buckets that begin in the range."""
        first, end = (bisect_left(self.starts, at) for at in (part.from_us, part.to_us))
        return self.before[end] - self.before[first]
