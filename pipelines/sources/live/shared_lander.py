"""Landing for the streams of a feed: read once, dealt out, each judged for itself, logged at once.

As `lander`, in the same order: a batch is written as one file, then logged for all streams in one
call together with the state behind it, and only then are boundaries promised. A stream without a
record in a batch has no row for it, but for the *anchor*: its last batch is the feed's, so that a
checkpoint and a catalog that do not belong together are noticed. The anchors that a feed has had
are named in its folder; a new one takes over when the last has left the feed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from medusa_core.commits import LandedBatch, QuarantinedRecord, SourcePromise
from medusa_core.errors import Refused
from medusa_core.grid import floor_us
from medusa_core.lateness import BoundaryRule, LatenessRule, next_boundary
from medusa_core.names import StreamName
from pipelines.base.failpoints import reached
from pipelines.sources.arrow_lateness import Int64s
from pipelines.sources.landing import LANDED, LandedLines
from pipelines.sources.live.anchors import read_anchors, write_anchors
from pipelines.sources.live.claims import Claims
from pipelines.sources.live.lander import Piece, places_of
from pipelines.sources.live.live_source import Polled
from pipelines.sources.live.members import Member, judge_members
from pipelines.sources.live.source_state import LiveState
from pipelines.storage.arrow_schema import STIME, columns_of, record_schema
from pipelines.storage.segment_files import keep_files
from pipelines.storage.shared_files import write_shared_file

FEED, UNCLAIMED = "shared", "unclaimed"


class SharedLander:
    """As `Lander`, for several streams. `folder` is the feed's own, `feed` the feed's name."""

    def __init__(
        self,
        *,
        feed: StreamName,
        members: Sequence[Member],
        column: str,
        catalog: LandedLines,
        root: Path,
        query_id: str,
        lateness: LatenessRule,
        boundary: BoundaryRule,
        folder: Path,
    ) -> None:
        assert members, "a feed has streams"
        self.stream = feed
        self.last_batch = -1
        self.at: Mapping[str, Any] = {}
        self._members = sorted(members, key=lambda m: m.stream)
        first = self._members[0].source
        self._schema = record_schema(columns_of(f"source {first.name!r}", first.columns))
        self._widths = np.array([m.width_us for m in self._members], np.int64)
        self._claims = Claims(column, [m.value for m in self._members])
        self._catalog = catalog
        self._root = root
        self._query_id = query_id
        self._lateness = lateness
        self._boundary = boundary
        self._folder = folder
        self._anchor = 0
        self._unclaimed = self._batches = 0

    def resume(self) -> None:
        """Take up what the catalog holds of every member, and which is the anchor."""
        names = [m.stream for m in self._members]
        anchors = read_anchors(self._folder)
        past = [k for k in anchors if k not in names]
        found = self._catalog.landed_states([*names, *past], self._query_id)
        states = {stream: LiveState.from_json(stream, text) for stream, (_, text) in found.items()}
        for stream, state in states.items():
            if state.at.get(FEED) != self.stream:
                raise Refused(
                    f"{stream} was fed together with {state.at.get(FEED)} so far: declare its "
                    "source as it was, or give it another name"
                )
        last = max(((batch, stream) for stream, (batch, _) in found.items()), default=None)
        self.last_batch, self.at = -1, {}
        if last is not None:
            self.last_batch = last[0]
            of_last = (states[s].at for s, (batch, _) in found.items() if batch == last[0])
            # The anchor's batch says how far the feed was read.
            self.at = next((at for at in of_last if UNCLAIMED in at), {})
        if not anchors or anchors[-1] not in names:
            anchors = (*anchors, names[0])
            write_anchors(self._folder, anchors)
        self._anchor = names.index(anchors[-1])
        lines = {(s.stream.name, s.producer): s for s in self._catalog.lines()}
        for member in self._members:
            member.state = states.get(member.stream, LiveState())
            status = lines.get((member.stream, member.lease().key.producer))
            if status is not None:
                member.origin_us, member.promised_us = status.origin_us, status.promised_us
                member.has_ended = status.end_us is not None

    def land(
        self,
        batch_id: int,
        pieces: Sequence[Piece],
        *,
        now_ms: int,
        limit_us: int | None = None,
        at: Mapping[str, Any],
    ) -> None:
        """Deal out the records of a batch, judge each stream's, and log all of them, once."""
        held = [m.state.held for m in self._members if m.state.held]
        table = pa.concat_tables(
            [
                self._schema.empty_table(),
                *(h.record for h in held),
                *(piece.records for piece in pieces),
            ]
        )
        places = places_of(
            [*(np.array([h.position]) for h in held), *(piece.positions for piece in pieces)],
            [*(h.origin for h in held), *(piece.origin for piece in pieces)],
        )
        split = self._claims.split(table)
        records = table.take(pa.array(split.rows))
        times = records[STIME].to_numpy()
        unreadable = tuple(bad for piece in pieces for bad in piece.quarantined)
        judged = judge_members(
            self._members, self._lateness, records, split, places, limit_us=limit_us
        )
        unclaimed = int(self.at.get(UNCLAIMED, 0)) + split.unclaimed
        feed_at = {**at, UNCLAIMED: unclaimed, FEED: self.stream}

        is_in_time = np.ones(len(times), np.bool_)
        states: dict[int, LiveState] = {}
        quarantined: dict[int, tuple[QuarantinedRecord, ...]] = {}
        for number, of_member in judged.items():
            start, end = split.bounds[number], split.bounds[number + 1]
            if of_member.is_in_time is not None:
                is_in_time[start:end] = of_member.is_in_time
            came = end - start - (self._members[number].state.held is not None)
            states[number] = LiveState(
                lateness=of_member.lateness,
                held=of_member.held,
                seen_ms=now_ms if came else self._members[number].state.seen_ms,
                at={FEED: self.stream},
            )
            quarantined[number] = of_member.refused
        for number in {self._anchor, *([0] if unreadable else [])} - set(states):
            states[number] = replace(self._members[number].state, at={FEED: self.stream})
        states[self._anchor] = replace(states[self._anchor], at=feed_at)
        if unreadable:
            quarantined[0] = (*unreadable, *quarantined.get(0, ()))
        batches = self._written(
            batch_id, records, times, split.members, is_in_time, states, quarantined
        )
        landed = [(self._members[n].lease(), batch) for n, batch in batches.items()]
        is_new = self._catalog.land_many(landed)
        reached("land.logged")
        if not is_new:
            self.resume()
            return
        self._note(batches, states)
        self.last_batch, self.at = batch_id, feed_at
        self._unclaimed, self._batches = self._unclaimed + split.unclaimed, self._batches + 1

    def _written(
        self,
        batch_id: int,
        records: pa.Table,
        times: Int64s,
        members: Int64s,
        is_in_time: npt.NDArray[np.bool_],
        states: Mapping[int, LiveState],
        quarantined: Mapping[int, tuple[QuarantinedRecord, ...]],
    ) -> dict[int, LandedBatch]:
        """Write what is in time as one synced file; each member's batch, nothing logged yet."""
        kept = np.flatnonzero(is_in_time)
        order = kept[np.lexsort((times[kept], members[kept]))]
        members, times = members[order], times[order]
        bounds = np.searchsorted(members, np.arange(len(self._members) + 1))
        counts = self._counts(members, times)
        anchor = self._members[self._anchor].stream
        file = None
        if len(order):
            runs = {
                self._members[n].stream: (int(bounds[n]), int(bounds[n + 1] - bounds[n]))
                for n in counts
            }
            folder = StreamName(f"{anchor}/{LANDED}")
            file = write_shared_file(self._root, folder, records.take(pa.array(order)), runs)
            keep_files(self._root, [file])
        reached("land.written")
        return {
            number: LandedBatch(
                stream=self._members[number].stream,
                query_id=self._query_id,
                batch_id=batch_id,
                file=file if number in counts else None,
                counts=counts.get(number, {}),
                quarantine=quarantined.get(number, ()),
                state=state.to_json(),
                file_of=anchor,
            )
            for number, state in sorted(states.items())
        }

    def _counts(self, members: Int64s, times: Int64s) -> dict[int, dict[int, int]]:
        """Member -> bucket start -> records; rows in the order of members and event time."""
        if not len(members):
            return {}
        starts = times - times % self._widths[members]
        is_first = (members[1:] != members[:-1]) | (starts[1:] != starts[:-1])
        firsts = np.concatenate(([0], np.flatnonzero(is_first) + 1))
        rows = np.diff(np.append(firsts, len(members)))
        found: dict[int, dict[int, int]] = {}
        for number, at_us, count in zip(
            members[firsts].tolist(), starts[firsts].tolist(), rows.tolist(), strict=True
        ):
            found.setdefault(number, {})[at_us] = count
        return found

    def _note(self, batches: Mapping[int, LandedBatch], states: Mapping[int, LiveState]) -> None:
        """What has been done for whom."""
        for number, batch in batches.items():
            member, now = self._members[number], states[number].lateness
            before, done = member.state.lateness, member.polled
            member.polled = replace(
                done,
                landed=done.landed + sum(batch.counts.values()),
                quarantined=done.quarantined + len(batch.quarantine),
                late=done.late + now.late - before.late,
                unconfirmed=done.unconfirmed + now.unconfirmed - before.unconfirmed,
                batches=done.batches + 1,
            )
            member.state = states[number]

    def promise(self, now_us: int, *, has_all: bool) -> None:
        """Promise for every member what the rule allows now, all in one call.

        `has_all`: all that had come until `now_us` has landed.
        """
        news: list[tuple[Member, int]] = []
        for member in self._members:
            seen_ms = member.state.seen_ms
            boundary = next_boundary(
                self._boundary,
                member.state.lateness,
                promised_us=member.promised_us,
                width_us=member.width_us,
                now_us=now_us,
                seen_us=None if seen_ms is None else seen_ms * 1_000,
                has_all=has_all,
            )
            member.because = boundary.because
            if boundary.at_us is not None and boundary.at_us != member.promised_us:
                news.append((member, boundary.at_us))
        if not news:
            return
        begun = [member.stream for member, _ in news if member.origin_us is None]
        extents = self._catalog.landed_extents(begun) if begun else {}
        promises = []
        for member, at_us in news:
            origin_us = member.origin_us
            if origin_us is None:
                # Before all that has landed and all that may come.
                first_us = min(at_us, extents.get(member.stream, (at_us, at_us))[0])
                origin_us = floor_us(first_us, member.width_us)
            promises.append(
                SourcePromise(
                    lease=member.lease(),
                    stream=member.stream,
                    origin_us=origin_us,
                    boundary_us=at_us,
                )
            )
        self._catalog.promise_many(promises)
        for (member, at_us), promise in zip(news, promises, strict=True):
            member.origin_us, member.promised_us = promise.origin_us, at_us

    def polled(
        self,
        *,
        has_more: bool = False,
        waiting_files: int | None = None,
        waiting_records: int | None = None,
    ) -> Polled:
        """What has been done since the last call, in all and for each member, and what waits."""
        polls: dict[StreamName, Polled] = {}
        for member in self._members:
            polls[member.stream] = replace(
                member.polled,
                boundary_us=member.promised_us,
                because=member.because,
                has_ended=member.has_ended,
                has_more=has_more,
                waiting_files=waiting_files,
                waiting_records=waiting_records,
                has_waiting=bool(has_more or waiting_files or waiting_records),
            )
            member.polled = Polled()
        promised = [m.promised_us for m in self._members if m.promised_us is not None]
        done = replace(
            polls[self._members[self._anchor].stream],
            landed=sum(p.landed for p in polls.values()),
            quarantined=sum(p.quarantined for p in polls.values()),
            late=sum(p.late for p in polls.values()),
            unconfirmed=sum(p.unconfirmed for p in polls.values()),
            batches=self._batches,
            boundary_us=min(promised, default=None),
            members=polls,
            unclaimed=self._unclaimed,
        )
        self._unclaimed = self._batches = 0
        return done
