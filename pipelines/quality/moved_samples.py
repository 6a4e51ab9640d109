"""Buckets of a moved fragment computed again by DuckDB, from the inputs that this home holds.

The boxes are those of the payer's plan, which both homes have. Spark has computed the rows, so that
the recomputation shares no engine with them. What cannot be recomputed here is not verifiable, with
the reason: it is neither right nor wrong.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NoReturn, Protocol

import duckdb
import pyarrow as pa

from medusa_core.certificates import LineEvent
from medusa_core.columns import Column
from medusa_core.digest import EMPTY, Digest
from medusa_core.errors import Refused
from medusa_core.grid import Range
from medusa_core.market.samples import UNKNOWN, Sample, compared, not_verifiable
from medusa_core.names import Participant, PlanId, StreamName, Version
from medusa_core.network import Network, Port
from medusa_core.recalls import RecallResult
from medusa_core.segments import Producer, Segment, Stability
from pipelines.catalog.lines_read import lines_read
from pipelines.catalog.processing_roles import LandedFiles, Recalls
from pipelines.catalog.reading_roles import Lines
from pipelines.homes.deployed_fragments import plan_in
from pipelines.homes.network_files import network_of_plan
from pipelines.language.check import check_network, fragments_for
from pipelines.language.fragment_networks import network_of_fragment
from pipelines.market.moves.move_order import MoveOrder
from pipelines.quality.ranges import merged, needed
from pipelines.quality.recompute import DUCKDB, Recomputation, recompute
from pipelines.quality.spark_types import NoSuchType
from pipelines.quality.stored_rows import STIME, lives_of, source_records
from pipelines.storage.arrow_digests import digests_by_bucket


class RecomputedHome(LandedFiles, Lines, Recalls, Protocol):
    """The lines of a home, what has landed there, and what was revised."""

    def history(self, stream: StreamName, producer: Producer, part: Range) -> tuple[LineEvent, ...]:
        """See `LineVersions.history`."""


class _NotByDuckDB(Exception):
    """A box that DuckDB does not compute as Spark does."""


def _refused(*of: object) -> NoReturn:
    raise _NotByDuckDB


@dataclass(frozen=True, slots=True)
class MovedSamples:
    """Recomputes samples of moved fragments from the catalog and the files of a home."""

    catalog: RecomputedHome
    storage: Path

    def recompute(
        self, order: MoveOrder, provider: Participant, stream: StreamName, parts: Sequence[Range]
    ) -> tuple[Sample, ...]:
        """See `BucketRecomputation.recompute`."""
        network, ports = _network(order.plan.document, order.fragment)
        number, by = order.move.number, Producer(provider, order.replica)
        found: dict[Range, Sample] = {}
        stated: dict[Range, Segment] = {}
        for part, segment in zip(parts, self._segments(stream, by, parts), strict=True):
            reason = _why_not(stream, segment, order.plan.id) or self._lacks(
                network, ports[stream], part
            )
            if segment is None or reason:
                version = UNKNOWN if segment is None else segment.version
                found[part] = not_verifiable(number, stream, part, reason, version)
            else:
                stated[part] = segment
        again = self._again(network, ports[stream], [*stated]) if stated else {}
        for part, segment in stated.items():
            version = segment.version
            if isinstance(again, str):
                found[part] = not_verifiable(number, stream, part, again, version)
            else:
                digest = segment.buckets.get(part.from_us, EMPTY)
                rows = again.get(part.from_us, EMPTY)
                found[part] = compared(number, stream, part, digest, rows, version)
        return tuple(found[part] for part in parts)

    def versions(
        self, order: MoveOrder, provider: Participant, stream: StreamName, parts: Sequence[Range]
    ) -> tuple[Version, ...]:
        """See `BucketRecomputation.versions`."""
        segments = self._segments(stream, Producer(provider, order.replica), parts)
        return tuple(UNKNOWN if one is None else one.version for one in segments)

    def needs_us(
        self, order: MoveOrder, stream: StreamName, from_us: int
    ) -> Mapping[StreamName, int]:
        """From where on each input is needed to compute a stream from a bucket on."""
        network, ports = _network(order.plan.document, order.fragment)
        behind = needed(network, ports[stream], Range(from_us, from_us + 1))
        found = {network.source(name).stream_name: part.from_us for name, part in behind.items()}
        return {one.stream.name: found.get(one.stream.name, from_us) for one in order.inputs}

    def _segments(
        self, stream: StreamName, by: Producer, parts: Sequence[Range]
    ) -> tuple[Segment | None, ...]:
        """The segment of the provider's that each bucket is in, None for one that is not there."""
        if not parts:
            return ()
        whole = Range(min(one.from_us for one in parts), max(one.to_us for one in parts))
        segments = self.catalog.segments(stream, whole, producer=by)
        begins = [one.range.from_us for one in segments]
        found = (segments[bisect_right(begins, part.from_us) - 1 :][:1] for part in parts)
        return tuple(
            one[0] if one and one[0].range.covers(part) else None
            for one, part in zip(found, parts, strict=True)
        )

    def _lacks(self, network: Network, port: Port, part: Range) -> str:
        """What of the inputs of a bucket is not there as it was read; nothing if all of it is."""
        for name, behind in needed(network, port, part).items():
            stream = network.source(name).stream_name
            line = lines_read(self.catalog.lines(stream), self.catalog.participant).get(stream)
            if line is None:
                return f"{stream} is not in this home"
            if line.trimmed_us is not None and behind.from_us < line.trimmed_us:
                return f"{stream} is trimmed before {line.trimmed_us}"
            if any(self._is_hit(one, behind) for one in self.catalog.recalls(stream)):
                return f"{stream} was recalled or revised"
        return ""

    def _is_hit(self, recall: RecallResult, part: Range) -> bool:
        """Whether a range had rows that were taken back: those that came later were not."""
        if not recall.takes_back(part):
            return False
        if recall.is_revision:
            return True
        behind = Range(max(part.from_us, recall.from_us), part.to_us)
        return any(
            one.begin_version < recall.version and one.range.overlaps(behind)
            for one in self.catalog.history(recall.stream, recall.producer, behind)
        )

    def _again(
        self, network: Network, port: Port, parts: Sequence[Range]
    ) -> Mapping[int, Digest] | str:
        """The digest of each bucket as it is recomputed, or why it is not."""

        def records(name: str, columns: Sequence[Column], ranges: Sequence[Range]) -> pa.Table:
            stream = network.source(name).stream_name
            return source_records(self.catalog, self.storage, stream, columns, ranges)

        lives = lives_of(self.catalog, [source.stream_name for source in network.sources])
        try:
            with recompute(network, {port: merged(parts)}, records, _refused, lives) as run:
                try:
                    rows = run.rows(port, merged(parts))
                except _NotByDuckDB:
                    return _not_by_duckdb(run)
                columns = run.columns[port]
            width_us = parts[0].to_us - parts[0].from_us
            stimes = rows[STIME].to_numpy()
            return digests_by_bucket(rows.combine_chunks(), columns, stimes - stimes % width_us)
        except (NoSuchType, Refused) as error:
            return str(error)
        except (duckdb.Error, pa.ArrowException) as error:
            return f"the recomputation fails with {type(error).__name__}: {error}"


def _why_not(stream: StreamName, segment: Segment | None, plan: PlanId) -> str:
    """Why the provider's rows in a segment are not those to compare with; nothing if they are."""
    if segment is None:
        return f"the rows of {stream} are not there: they were trimmed"
    if segment.stability is not Stability.STABLE:
        return f"it is {segment.stability.value}"
    return "" if segment.plan == plan else "it was computed under another plan"


def _not_by_duckdb(run: Recomputation) -> str:
    engines = (f"box {box} is by {one}" for box, one in run.engines.items() if one != DUCKDB)
    return next(engines, "a box is not computed by DuckDB")


@lru_cache(maxsize=64)
def _network(document: str, fragment: str) -> tuple[Network, Mapping[StreamName, Port]]:
    """A fragment of a plan as a network, and the ports that its streams begin at."""
    checked = check_network(network_of_plan(plan_in(document), Path()))
    found = next(one for one in fragments_for(checked) if one.id == fragment)
    network = network_of_fragment(checked, found)
    return network, {StreamName(arc.end): arc.start for arc in network.output_arcs}
