"""The first answer of a line over each part of a window, and the later state of that answer.

A part with a tentative answer is answered once more, finally: the correction. Both are derived
from the rows that the line has or had (`LineEvent`), however they were cut in between.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from medusa_core.certificates import LineEvent
from medusa_core.grid import Range
from medusa_core.segments import Stability


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstOutput:
    """The first answer over a part of event time, and when a final one was there (None: not yet).

    Times are milliseconds of the home's clock.
    """

    range: Range
    event: LineEvent
    final_at_ms: int | None

    @property
    def came_at_ms(self) -> int:
        """When it came."""
        return self.event.committed_at_ms

    @property
    def is_tentative(self) -> bool:
        """Whether it lacked something."""
        return not self.event.stability.is_final

    @property
    def is_corrected(self) -> bool:
        """Whether it lacked something and a final answer has taken its place."""
        return self.is_tentative and self.final_at_ms is not None

    @property
    def delay_ms(self) -> int | None:
        """How long after its inputs it came; see `delay_ms_of`."""
        return delay_ms_of(self.event)


def delay_ms_of(event: LineEvent) -> int | None:
    """Milliseconds from when the first of its inputs had arrived; None where none are known.

    The age that a result was given counts what had passed before it came here.
    """
    if event.inputs_at_ms is None:
        return None
    return max(event.committed_at_ms - event.inputs_at_ms, event.age_ms, 0)


def first_outputs(window: Range, events: Sequence[LineEvent]) -> list[FirstOutput]:
    """The first answers over a window in the order of event time, cut where corrections are cut."""
    finals = sorted((e for e in events if e.stability.is_final), key=lambda e: e.range)
    starts = [final.range.from_us for final in finals]
    found = []
    for event, part in sorted(first_arrivals(window, events), key=lambda arrival: arrival[1]):
        if event.stability.is_final:
            answer = FirstOutput(range=part, event=event, final_at_ms=event.committed_at_ms)
            found.append(answer)
            continue
        first = max(bisect_right(starts, part.from_us) - 1, 0)
        found += _followed(event, part, finals[first : bisect_left(starts, part.to_us)])
    return found


def _followed(event: LineEvent, part: Range, finals: Iterable[LineEvent]) -> Iterator[FirstOutput]:
    """A tentative answer, cut by the final ones that took its place."""
    at_us = part.from_us
    for final in finals:
        piece = final.range.intersection(part)
        if piece is None or piece.to_us <= at_us:
            continue
        if at_us < piece.from_us:
            yield FirstOutput(range=Range(at_us, piece.from_us), event=event, final_at_ms=None)
        piece = Range(max(at_us, piece.from_us), piece.to_us)
        yield FirstOutput(range=piece, event=event, final_at_ms=final.committed_at_ms)
        at_us = piece.to_us
    if at_us < part.to_us:
        yield FirstOutput(range=Range(at_us, part.to_us), event=event, final_at_ms=None)


def first_arrivals(window: Range, events: Iterable[LineEvent]) -> Iterator[tuple[LineEvent, Range]]:
    """The rows that were the first over some part of the window; gaps are no results."""
    covered: list[Range] = []
    for event in sorted(events, key=lambda e: (e.begin_version, e.range)):
        part = event.range.intersection(window)
        if part is None or event.stability is Stability.GAP:
            continue
        at = max(0, bisect_left(covered, part) - 1)
        from_us = part.from_us
        while at < len(covered) and covered[at].from_us <= from_us:
            from_us = max(from_us, covered[at].to_us)
            at += 1
        if from_us >= part.to_us:
            continue
        yield event, Range(from_us, part.to_us)
        _cover(covered, part)


def _cover(covered: list[Range], part: Range) -> None:
    """Add a range to ranges in order that do not touch."""
    at = bisect_left(covered, part)
    first = at - 1 if at and covered[at - 1].to_us >= part.from_us else at
    last = first
    whole = part
    while last < len(covered) and covered[last].from_us <= whole.to_us:
        whole = whole.hull(covered[last])
        last += 1
    covered[first:last] = [whole]


def computations_max(events: Iterable[LineEvent]) -> int:
    """The most committed computations that any point of event time has seen (S12).

    What is left of a row that was cut counts as the computation that it is of.
    """
    points: list[tuple[int, bool, int]] = []
    for event in events:
        points.append((event.range.from_us, True, event.committed_at_ms))
        points.append((event.range.to_us, False, event.committed_at_ms))
    open_: dict[int, int] = {}
    most = 0
    for _, begins, made_at_ms in sorted(points):
        if begins:
            open_[made_at_ms] = open_.get(made_at_ms, 0) + 1
            most = max(most, len(open_))
        elif open_[made_at_ms] == 1:
            del open_[made_at_ms]
        else:
            open_[made_at_ms] -= 1
    return most
