"""Event time laid out on paper: to scale, except for long stretches in which nothing happened.

A pause that takes more than a fifth of the remaining axis is cut out and marked with its length;
every other pause stays as wide as it was. So a week with a quiet night looks like one, and three
sessions a month apart can still be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from medusa_core.grid import ceil_us
from pipelines.base.time_text import iso

CUT_SHARE = 0.2
CUTS_MAX = 8
CUT_PX = 34.0
LABEL_PX = 62.0
_S, _M, _H, _D = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000
_STEPS = (_S, 5 * _S, 15 * _S, 30 * _S, _M, 2 * _M, 5 * _M, 15 * _M, 30 * _M, _H, 3 * _H, 6 * _H,
          12 * _H, _D, 2 * _D, 7 * _D, 30 * _D, 90 * _D, 365 * _D, 3650 * _D)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stretch:
    """A run of event time and where it lies on paper."""

    from_us: int
    to_us: int
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on the axis, with its text; `day` if it is the first one of its day."""

    x: float
    label: str
    day: str = ""


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Stretches to scale, with cuts of CUT_PX between them."""

    stretches: tuple[Stretch, ...]

    def x(self, time_us: int) -> float:
        """Where a time lies; inside a cut, at the end of what comes before it."""
        last = self.stretches[0]
        for stretch in self.stretches:
            if time_us < stretch.from_us:
                return last.x + last.width
            last = stretch
            if time_us < stretch.to_us:
                break
        part = min((time_us - last.from_us) / (last.to_us - last.from_us), 1.0)
        return last.x + part * last.width

    @property
    def cuts(self) -> Iterator[tuple[float, int]]:
        """Where each cut begins, and how much time it leaves out."""
        for before, after in pairwise(self.stretches):
            yield before.x + before.width, after.from_us - before.to_us

    def ticks(self) -> list[Tick]:
        """Marks at round times, no nearer than their labels are wide.

        A day is named at midnight, and else below its first mark; not at all where there is but
        one: the page says which.
        """
        length_us = sum(s.to_us - s.from_us for s in self.stretches)
        px = sum(s.width for s in self.stretches)
        step_us = next((s for s in _STEPS if s / length_us * px >= LABEL_PX + 14), _STEPS[-1])
        ticks: list[Tick] = []
        first, last = (iso(us)[:10] for us in (self.stretches[0].from_us, self.stretches[-1].to_us))
        day, free_x = first if first == last else "", float("-inf")
        for stretch in self.stretches:
            at_us = ceil_us(stretch.from_us, step_us)
            times = list(range(at_us, stretch.to_us, step_us))
            for time_us in times or [stretch.from_us]:
                x = self.x(time_us)
                if x < free_x:
                    continue
                date = iso(time_us)[:10]
                if step_us >= _D or (date != day and time_us % _D == 0):
                    ticks.append(Tick(x, date))
                else:
                    label = _time_of_day(time_us, step_us)
                    ticks.append(Tick(x, label, "" if date == day else date))
                day, free_x = date, x + LABEL_PX + 8
        return ticks


def axis_over(starts_us: Sequence[int], window_us: int, x: float, width: float) -> TimeAxis:
    """The axis for windows that begin at these times (ascending, at least one)."""
    cuts = _cuts(starts_us, window_us)
    ends = [*(before for before, _ in cuts), starts_us[-1] + window_us]
    begins = [starts_us[0], *(after for _, after in cuts)]
    length_us = sum(e - b for b, e in zip(begins, ends, strict=True))
    room = width - CUT_PX * len(cuts)
    stretches = []
    for begin, end in zip(begins, ends, strict=True):
        share = (end - begin) / length_us * room
        stretches.append(Stretch(begin, end, x, share))
        x += share + CUT_PX
    return TimeAxis(tuple(stretches))


def _cuts(starts_us: Sequence[int], window_us: int) -> list[tuple[int, int]]:
    """The pauses (end of a window, start of the next) that are cut out, in order."""
    pauses = sorted(
        (
            (after - before - window_us, before + window_us, after)
            for before, after in pairwise(starts_us)
            if after - before > 2 * window_us
        ),
        reverse=True,
    )
    left_us = starts_us[-1] + window_us - starts_us[0]
    chosen: list[tuple[int, int]] = []
    for length_us, before, after in pauses[:CUTS_MAX]:
        if length_us < CUT_SHARE * left_us:
            break
        left_us -= length_us
        chosen.append((before, after))
    return sorted(chosen)


def _time_of_day(time_us: int, step_us: int) -> str:
    moment = datetime.fromtimestamp(time_us / 1e6, UTC)
    return moment.strftime("%H:%M" if step_us >= _M else "%H:%M:%S")
