"""The common part of live sources: judge lateness, land a batch with its state, promise.

The order is fixed: a batch is written, then logged together with the state after it, and only
then is a boundary promised. Killed between any two and restarted, a source continues from the
state of the last logged batch: it judges unlogged records again, with the same verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from medusa_core.commits import Lease, QuarantinedRecord
from medusa_core.grid import FOREVER_US, ceil_us, floor_us
from medusa_core.lateness import BoundaryRule, LatenessRule, next_boundary
from medusa_core.names import StreamName
from medusa_core.network import Source
from pipelines.sources.arrow_lateness import Int64s
from pipelines.sources.landing import LandedLines, landed_batch, log_batch
from pipelines.sources.live.judgement import Places, judge_records
from pipelines.sources.live.live_source import Polled
from pipelines.sources.live.source_state import LiveState
from pipelines.storage.arrow_schema import columns_of, record_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Records of one file in their order, where each stands in it, and what could not be read."""

    origin: str
    records: pa.Table
    positions: Int64s
    quarantined: tuple[QuarantinedRecord, ...] = ()


class Lander:
    """Lands what one source has, under one query id, and keeps what it has promised."""

    def __init__(
        self,
        *,
        source: Source,
        width_us: int,
        catalog: LandedLines,
        root: Path,
        lease: Callable[[], Lease],
        query_id: str,
        lateness: LatenessRule,
        boundary: BoundaryRule,
    ) -> None:
        self.stream = StreamName(source.name)
        self.state = LiveState()
        self.last_batch = -1
        self.has_ended = False
        self._source = source
        self._columns = columns_of(f"source {source.name!r}", source.columns)
        self._schema = record_schema(self._columns)
        self._width_us = width_us
        self._catalog = catalog
        self._root = root
        self._lease = lease
        self._query_id = query_id
        self._lateness = lateness
        self._boundary = boundary
        self._origin_us: int | None = None
        self._promised_us: int | None = None
        self._because = ""
        self._polled = Polled()

    @property
    def at(self) -> Mapping[str, Any]:
        """How far the source had read behind the last batch, in words of its own."""
        return self.state.at

    @property
    def promised_us(self) -> int | None:
        """The boundary that stands."""
        return self._promised_us

    def resume(self) -> None:
        """Take up what the catalog holds: the last batch's state, origin, promise and end."""
        found = self._catalog.landed_state(self.stream, self._query_id)
        self.last_batch, self.state = -1, LiveState()
        if found is not None:
            self.last_batch = found[0]
            self.state = LiveState.from_json(self.stream, found[1])
        producer = self._lease().key.producer
        for status in self._catalog.lines():
            if (status.stream.name, status.producer) == (self.stream, producer):
                self._origin_us, self._promised_us = status.origin_us, status.promised_us
                self.has_ended = status.end_us is not None

    def land(
        self,
        batch_id: int,
        pieces: Sequence[Piece],
        *,
        now_ms: int,
        limit_us: int | None = None,
        at: Mapping[str, Any],
        is_last: bool = False,
    ) -> None:
        """Judge the records of a batch and log it with the state behind it, once.

        `is_last`: no record can follow, so what is held is not confirmed any more.
        """
        held = self.state.held
        records = [piece.records for piece in pieces]
        positions = [piece.positions for piece in pieces]
        origins = [piece.origin for piece in pieces]
        if held:
            records.insert(0, held.record)
            positions.insert(0, np.array([held.position]))
            origins.insert(0, held.origin)
        table = pa.concat_tables([self._schema.empty_table(), *records])
        judged = judge_records(
            self._source,
            self._lateness,
            self.state,
            table,
            places_of(positions, origins),
            limit_us=limit_us,
            promised_us=self._promised_us,
            is_last=is_last,
        )
        quarantine = (*(bad for piece in pieces for bad in piece.quarantined), *judged.refused)
        came = any(piece.records.num_rows or piece.quarantined for piece in pieces)
        lateness = judged.lateness
        state = LiveState(
            lateness=lateness,
            held=judged.held,
            seen_ms=now_ms if came else self.state.seen_ms,
            at=at,
        )
        batch = replace(
            landed_batch(
                self._root,
                self.stream,
                self._query_id,
                batch_id,
                table.filter(pa.array(judged.is_in_time)),
                self._columns,
                self._width_us,
                quarantine,
            ),
            state=state.to_json(),
        )
        if not log_batch(self._catalog, self._lease(), batch):
            self.resume()
            return
        landed = batch.file.rows if batch.file else 0
        self._polled = replace(
            self._polled,
            landed=self._polled.landed + landed,
            quarantined=self._polled.quarantined + len(quarantine),
            late=self._polled.late + lateness.late - self.state.lateness.late,
            unconfirmed=self._polled.unconfirmed
            + lateness.unconfirmed
            - self.state.lateness.unconfirmed,
            batches=self._polled.batches + 1,
        )
        self.state, self.last_batch = state, batch_id

    def promise(self, now_us: int, *, has_all: bool) -> None:
        """Promise what the rule allows now; the same again is nothing.

        `has_all`: all that had come until `now_us` has landed.
        """
        seen_ms = self.state.seen_ms
        boundary = next_boundary(
            self._boundary,
            self.state.lateness,
            promised_us=self._promised_us,
            width_us=self._width_us,
            now_us=now_us,
            seen_us=None if seen_ms is None else seen_ms * 1_000,
            has_all=has_all,
        )
        self._because = boundary.because
        if boundary.at_us is not None and boundary.at_us != self._promised_us:
            self._promise(boundary.at_us, None)

    def promise_end(self) -> None:
        """No record follows: the stream ends behind its last bucket."""
        if self.has_ended:
            return
        extent = self._catalog.landed_extent(self.stream)
        reached_us = [self._origin_for(FOREVER_US) + self._width_us]
        if extent is not None:
            reached_us.append(extent[1] + self._width_us)
        if self._promised_us is not None:
            reached_us.append(ceil_us(self._promised_us, self._width_us))
        self._because = "the source has ended"
        self._promise(FOREVER_US, max(reached_us))
        self.has_ended = True

    def _promise(self, boundary_us: int, end_us: int | None) -> None:
        origin_us = self._origin_for(boundary_us)
        self._catalog.promise(
            self._lease(),
            self.stream,
            origin_us=origin_us,
            boundary_us=boundary_us,
            end_us=end_us,
        )
        self._origin_us, self._promised_us = origin_us, boundary_us

    def _origin_for(self, boundary_us: int) -> int:
        """The origin: as promised before, else before all that has landed and all that may come."""
        if self._origin_us is not None:
            return self._origin_us
        extent = self._catalog.landed_extent(self.stream)
        firsts = [] if extent is None else [floor_us(extent[0], self._width_us)]
        if boundary_us != FOREVER_US:
            firsts.append(floor_us(boundary_us, self._width_us))
        return min(firsts, default=0)

    def polled(
        self,
        *,
        has_more: bool = False,
        waiting_files: int | None = None,
        waiting_records: int | None = None,
    ) -> Polled:
        """What has been done since the last call, and what waits."""
        done = replace(
            self._polled,
            boundary_us=self._promised_us,
            because=self._because,
            has_more=has_more,
            has_ended=self.has_ended,
            waiting_files=waiting_files,
            waiting_records=waiting_records,
            has_waiting=bool(has_more or waiting_files or waiting_records),
        )
        self._polled = Polled()
        return done


def places_of(positions: Sequence[Int64s], origins: Sequence[str]) -> Places:
    """Where the rows of several pieces, one behind the other, came from."""
    return Places(
        np.concatenate([np.zeros(0, np.int64), *positions]),
        np.repeat(np.arange(len(origins)), [len(p) for p in positions]),
        origins,
    )
