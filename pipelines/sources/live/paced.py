"""A feed played by the clock: a record arrives when the feed's event time has reached it.

The feed's event time starts with its first record at the first poll and runs `speed` times as
fast as the clock. A record is due when the running maximum of the feed has been reached, so
records out of order arrive right after the one that they follow, and the late ones are those of
the file. After a restart a replay continues with the next record, without catching up the time
between; the generator's event time is the clock, so it catches up. A generator with other figures
than before begins with its first record where the earlier one ended, or now, if that is later.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from medusa_core.errors import Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US
from medusa_core.lateness import LatenessRule, LatenessState, Verdict
from pipelines.sources.arrow_lateness import Int64s, judge_column
from pipelines.sources.live.feeds import Feed, Place
from pipelines.sources.live.lander import Lander, Piece
from pipelines.sources.live.live_source import Polled
from pipelines.storage.arrow_schema import STIME

RECORDS_PER_POLL = 250_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Playing:
    """A piece, the event time at which each of its records is due, and the pace around it."""

    place: Place
    piece: Piece
    due: Int64s
    before: LatenessState
    behind: LatenessState


class PacedSource:
    """See `LiveSource`. `feed_from(start_us)` makes the feed; a generator's starts at that time.

    `in_clock_time`: the feed's event time is the clock's; `speed` is 1 then.
    """

    def __init__(
        self,
        *,
        lander: Lander,
        lateness: LatenessRule,
        feed_from: Callable[[int], Feed],
        speed: float = 1.0,
        in_clock_time: bool = False,
        records_per_poll: int = RECORDS_PER_POLL,
    ) -> None:
        assert speed > 0
        assert records_per_poll > 0
        self._lander = lander
        self._lateness = lateness
        self._feed_from = feed_from
        self._speed = speed
        self._in_clock_time = in_clock_time
        self._records_per_poll = records_per_poll
        self._is_current = False

    def poll(self, now_ms: int) -> Polled:
        """Land what is due; see `LiveSource.poll`."""
        if not self._is_current:
            self._resume(now_ms)
        self._is_current = False
        polled = self._poll(now_ms)
        self._is_current = True
        return polled

    def close(self) -> None:
        """Nothing runs between polls; the next one takes up what has landed."""
        self._is_current = False

    def _resume(self, now_ms: int) -> None:
        """Find the place behind the last landed batch, and start the clock of the feed there."""
        self._lander.resume()
        at = self._lander.state.at
        self._start_us = int(at.get("start_us", now_ms * 1_000))
        self._fingerprint = self._feed_from(self._start_us).fingerprint
        if at and at["feed"] != self._fingerprint and self._in_clock_time:
            at = self._with_other_figures(at, now_ms)
        elif at and at["feed"] != self._fingerprint:
            raise Refused(
                f"the source of {self._lander.stream} has played something else so far (other "
                "files, changed files or other figures): declare it as it was, or give the stream "
                "another name"
            )
        self._row = int(at["row"]) if at and not at["is_whole"] else 0
        self._paced_us = int(at["paced_us"]) if at else None
        pace = LatenessState.from_json(json.dumps(at["pace"])) if at else LatenessState()
        feed = self._feed_from(self._start_us)
        self._fingerprint = feed.fingerprint
        self._rest = feed.pieces(at["place"] if at else None)
        if at and at["is_whole"]:
            next(self._rest, None)
        self._playing = self._next_piece(self._rest, pace)
        self._started = (now_ms, self._paced_us)

    def _with_other_figures(self, at: Mapping[str, Any], now_ms: int) -> Mapping[str, Any]:
        """The place in a generator with other figures: its first record, behind all that landed."""
        self._start_us = max(now_ms * 1_000, int(at["paced_us"] or 0))
        return {**at, "place": None, "row": 0, "is_whole": False}

    def _next_piece(
        self, rest: Iterator[tuple[Place, Piece]], pace: LatenessState
    ) -> _Playing | None:
        found = next(rest, None)
        if found is None:
            return None
        place, piece = found
        times = piece.records[STIME].to_numpy()
        judged = judge_column(self._lateness, pace, times)
        is_counted = (judged.verdicts == Verdict.IN_TIME) | (judged.verdicts == Verdict.LATE)
        start_us = BEGINNING_US if pace.max_us is None else pace.max_us
        if judged.released is Verdict.IN_TIME and pace.held_us is not None:
            start_us = pace.held_us
        due = np.maximum.accumulate(np.where(is_counted, times, start_us))
        return _Playing(
            place=place,
            piece=piece,
            due=np.maximum(due, start_us),
            before=pace,
            behind=judged.state,
        )

    def _poll(self, now_ms: int) -> Polled:
        if self._lander.has_ended:
            return self._lander.polled()
        room = self._records_per_poll
        has_all = False
        while self._playing is not None and room > 0 and not has_all:
            count = self._due_count(self._playing, now_ms)
            upto = min(count, self._row + room)
            room -= upto - self._row
            is_whole = upto == len(self._playing.due)
            if upto > self._row or is_whole:
                self._land(self._playing, upto, now_ms)
            if is_whole:
                self._playing = self._next_piece(self._rest, self._playing.behind)
                self._row = 0
            has_all = not is_whole and upto == count
        if self._playing is None:
            if self._lander.state.held:
                self._land_last(now_ms)
            self._lander.promise_end()
        else:
            self._lander.promise(self._event_time_us(now_ms), has_all=has_all)
        if self._playing is None or has_all:
            return self._lander.polled()
        # Of the piece that is being played; what lies behind it is not known yet.
        waiting = self._due_count(self._playing, now_ms) - self._row
        return self._lander.polled(has_more=True, waiting_records=waiting)

    def _event_time_us(self, now_ms: int) -> int:
        """The event time that the feed has reached."""
        if self._in_clock_time:
            return now_ms * 1_000
        started_ms, started_us = self._started
        assert started_us is not None, "a feed without a piece has no time"
        passed_us = int((now_ms - started_ms) * 1_000 * self._speed)
        return min(started_us + max(passed_us, 0), FOREVER_US)

    def _due_count(self, playing: _Playing, now_ms: int) -> int:
        """How many of the piece's records are due, those landed before counted in."""
        if not len(playing.due):
            return 0
        if self._started[1] is None:
            self._started = (now_ms, int(playing.due[0]))
        now_us = self._event_time_us(now_ms)
        return max(int(np.searchsorted(playing.due, now_us, "right")), self._row)

    def _land(self, playing: _Playing, upto: int, now_ms: int) -> None:
        """Land rows of the piece from where it was left to `upto`, and what is bad among them."""
        piece, row = playing.piece, self._row
        is_whole = upto == len(playing.due)
        from_line = piece.positions[row] if row else -1
        to_line = FOREVER_US if is_whole else piece.positions[upto]
        part = Piece(
            origin=piece.origin,
            records=piece.records.slice(row, upto - row),
            positions=piece.positions[row:upto],
            quarantined=tuple(
                bad for bad in piece.quarantined if from_line <= (bad.position or 0) < to_line
            ),
        )
        if upto:
            self._paced_us = int(playing.due[upto - 1])
        self._lander.land(
            self._lander.last_batch + 1,
            [part],
            now_ms=now_ms,
            at={
                "feed": self._fingerprint,
                "start_us": self._start_us,
                "paced_us": self._paced_us,
                "place": dict(playing.place),
                "row": upto,
                "is_whole": is_whole,
                "pace": json.loads((playing.behind if is_whole else playing.before).to_json()),
            },
        )
        self._row = upto

    def _land_last(self, now_ms: int) -> None:
        """No record can confirm what is held any more."""
        self._lander.land(
            self._lander.last_batch + 1,
            [],
            now_ms=now_ms,
            at=self._lander.state.at,
            is_last=True,
        )
