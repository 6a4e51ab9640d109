"""Lateness is a property of the source's own sequence, never of how it was cut into batches.

Record i is late iff `t_i < max(t_1 .. t_{i-1}) - disorder`, in (file, line) or offset order. One
batch passes a small value to the next, so that any cut gives the same verdicts.

A wrong clock must not move the maximum: a record more than `max_jump` ahead of it, or beyond the
latest time that the reader's clock allows, is *held* and counts only when the record behind it
confirms it: that one would not be late if the held one counted, nor a jump ahead of it. Else the
held one is *unconfirmed* and has no effect. Before the first record there is no maximum to be
ahead of: there the clock alone is a guard.

A source's promise is kept even if its sequence would allow more: a record before the boundary
that an idle source has promised meanwhile is late too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from medusa_core.errors import Refused
from medusa_core.grid import floor_us


class Verdict(IntEnum):
    """What becomes of a record; the numbers are those of the verdicts over columns."""

    IN_TIME = 0
    LATE = 1
    UNCONFIRMED = 2
    HELD = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LatenessRule:
    """How far behind the running maximum a record may be, and how far ahead without another.

    `max_jump_us` None: as far as it likes.
    """

    disorder_us: int = 0
    max_jump_us: int | None = None

    def __post_init__(self) -> None:
        if self.disorder_us < 0 or (self.max_jump_us is not None and self.max_jump_us < 0):
            raise Refused("disorder and max_jump are lengths of time: give none below 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class LatenessState:
    """What the records so far leave to the next: the running maximum, and the time of a held one.

    `late` and `unconfirmed` count verdicts from the beginning of the sequence on.
    """

    max_us: int | None = None
    held_us: int | None = None
    late: int = 0
    unconfirmed: int = 0

    def to_json(self) -> str:
        """The state as JSON text."""
        return json.dumps({name: getattr(self, name) for name in _FIELDS})

    @classmethod
    def from_json(cls, text: str) -> LatenessState:
        """The state that `to_json` wrote; raises Refused for any other text."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or set(found) != set(_FIELDS):
            raise Refused(f"{text!r} is no state of lateness: restore the one that was written")
        for name, value in found.items():
            is_time = name.endswith("_us")
            if type(value) is not int and not (is_time and value is None):
                raise Refused(f"state of lateness has {name} {value!r}: restore what was written")
        return cls(**found)


_FIELDS = ("max_us", "held_us", "late", "unconfirmed")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedBatch:
    """Verdicts of a batch's records, in order, and the state behind them.

    Only the last can be HELD: a later batch tells what becomes of it. `released` is what became of
    the record that was held before this batch, if one was.
    """

    verdicts: tuple[Verdict, ...]
    released: Verdict | None
    state: LatenessState


def judge(
    rule: LatenessRule,
    state: LatenessState,
    times: Iterable[int],
    *,
    limit_us: int | None = None,
    promised_us: int | None = None,
) -> JudgedBatch:
    """Judge the next records of a sequence by their event times, in microseconds.

    `limit_us` is the latest time that the reader's clock believes at once (clock + max_skew; None
    for recorded input), `promised_us` the boundary that the source has promised so far.
    """
    verdicts: list[Verdict] = []
    released: Verdict | None = None
    max_us, held_us = state.max_us, state.held_us
    for time_us in times:
        if held_us is not None:
            verdict = Verdict.UNCONFIRMED
            if not _is_before(held_us, promised_us) and _confirms(rule, held_us, time_us):
                verdict, max_us = Verdict.IN_TIME, held_us
            if verdicts:
                verdicts[-1] = verdict
            else:
                released = verdict
            held_us = None
        is_ahead = max_us is None or time_us > max_us
        if _is_before(time_us, promised_us) or (
            max_us is not None and time_us < max_us - rule.disorder_us
        ):
            verdicts.append(Verdict.LATE)
        elif is_ahead and (_is_jump(rule, max_us, time_us) or _is_beyond(time_us, limit_us)):
            verdicts.append(Verdict.HELD)
            held_us = time_us
            continue
        else:
            verdicts.append(Verdict.IN_TIME)
        max_us = time_us if is_ahead else max_us
    return JudgedBatch(
        verdicts=tuple(verdicts),
        released=released,
        state=LatenessState(
            max_us=max_us,
            held_us=held_us,
            late=state.late + verdicts.count(Verdict.LATE),
            unconfirmed=state.unconfirmed
            + verdicts.count(Verdict.UNCONFIRMED)
            + (released is Verdict.UNCONFIRMED),
        ),
    )


def end_of_sequence(state: LatenessState) -> LatenessState:
    """The state once no record can follow: what is held was never confirmed."""
    if state.held_us is None:
        return state
    return LatenessState(max_us=state.max_us, late=state.late, unconfirmed=state.unconfirmed + 1)


def _is_before(time_us: int, promised_us: int | None) -> bool:
    return promised_us is not None and time_us < promised_us


def _is_beyond(time_us: int, limit_us: int | None) -> bool:
    return limit_us is not None and time_us > limit_us


def _is_jump(rule: LatenessRule, max_us: int | None, time_us: int) -> bool:
    return (
        rule.max_jump_us is not None and max_us is not None and time_us > max_us + rule.max_jump_us
    )


def _confirms(rule: LatenessRule, held_us: int, time_us: int) -> bool:
    return time_us >= held_us - rule.disorder_us and not _is_jump(rule, held_us, time_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryRule:
    """What a source may promise besides `max - disorder`.

    `wall_time`: its event time is the clock's, so `clock - disorder` is promised whatever comes.
    `idle_after_us`: of any other time, how long without a record it takes until event time is
    believed to go on as the clock does. `max_skew_us`: how far the source's clock may be ahead of
    ours; None for recorded input, whose times have nothing to do with our clock.
    """

    disorder_us: int = 0
    wall_time: bool = False
    idle_after_us: int | None = None
    max_skew_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """A boundary that may be promised (None: none yet), in microseconds, and why this one."""

    at_us: int | None
    because: str


def next_boundary(
    rule: BoundaryRule,
    state: LatenessState,
    *,
    promised_us: int | None,
    width_us: int,
    now_us: int,
    seen_us: int | None = None,
    has_all: bool = True,
) -> Boundary:
    """What the source may promise now, on the stream's grid, never less than `promised_us`.

    `now_us` is the clock, read before the source was last polled; `seen_us` the clock
    when it last had one. `has_all` tells that it has no more for now: only then does time alone
    promise anything, for what waits to be read may be as old as the last reading.
    """
    offers: list[tuple[int, str]] = []
    refused = ""
    if state.max_us is not None:
        limit_us = None if rule.max_skew_us is None else now_us + rule.max_skew_us
        by_sequence_us = state.max_us - rule.disorder_us
        silence_us = 0 if seen_us is None else now_us - seen_us
        if _is_beyond(by_sequence_us, limit_us):
            refused = "; its records are dated beyond the clock, nothing is promised by them"
        else:
            offers.append((by_sequence_us, "the latest record less the disorder"))
            if has_all and rule.idle_after_us is not None and silence_us > rule.idle_after_us:
                idle_us = by_sequence_us + silence_us - rule.idle_after_us
                offers.append(
                    (
                        idle_us if limit_us is None else min(idle_us, limit_us),
                        "the source is idle, its event time goes on as the clock does",
                    )
                )
    if has_all and rule.wall_time:
        offers.append((now_us - rule.disorder_us, "the clock less the disorder"))
    best_us, because = promised_us, "nothing new"
    for time_us, reason in offers:
        at_us = floor_us(time_us, width_us)
        if best_us is None or at_us > best_us:
            best_us, because = at_us, reason
    return Boundary(at_us=best_us, because=because + refused)
