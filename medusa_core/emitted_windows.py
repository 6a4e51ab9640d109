"""The windows of a fragment that have rows without records, for one step (`empty_windows`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from medusa_core.empty_windows import combination_count
from medusa_core.fragments import Fragment, Stages, behind_stages, stages_of
from medusa_core.grid import FOREVER_US, TIME_US_MIN, Range, floor_us
from medusa_core.names import StreamName
from medusa_core.network import Aggregate, Port, inputs_of


def emitting(fragment: Fragment) -> tuple[Aggregate, ...]:
    """The boxes of a fragment that have a row for windows without records, in order."""
    return tuple(box for box in fragment.boxes if isinstance(box, Aggregate) and box.emits_empty)


def emitted_windows(
    fragment: Fragment,
    outputs: Iterable[StreamName],
    part: Range,
    lives: Mapping[StreamName, Range | None],
) -> Mapping[str, tuple[Range, ...]]:
    """Box -> the windows whose rows the range `part` of some outputs needs, records or none.

    `lives` are those of the inputs, from the start of the first bucket to the end of the last one,
    which is FOREVER_US as long as it is not known; None for a stream that has ended without one.
    """
    boxes = emitting(fragment)
    if not boxes:
        return {}
    needed, alive = _needed_rows(fragment, outputs, part), _lives(fragment, lives)
    found: dict[str, tuple[Range, ...]] = {}
    for box in boxes:
        rows = needed.get(box.name)
        life = alive[fragment.network.port(box.input, box.name)]
        if rows is None or life is None:
            found[box.name] = ()
        else:
            found[box.name] = tuple(windows_of(box, rows, life))
    return found


def emitted_within_us(fragment: Fragment, rows_max: int) -> int | None:
    """How much event time has about so many rows without records; None if there are none at all."""
    boxes = emitting(fragment)
    if not boxes:
        return None
    per_us = sum(
        Fraction(combination_count(box.keys, box.group_by), box.advance_us) for box in boxes
    )
    return int(rows_max / per_us)


def windows_of(box: Aggregate, rows: Range, life: Range) -> Iterator[Range]:
    """The windows with rows in a range that share an instant with the life of the input."""
    if box.calendar is not None:
        within = box.calendar.behind(rows)
        if within is None:
            return
        at_us = within.from_us
        while at_us < within.to_us:
            window = box.calendar.window_at(at_us)
            if window.overlaps(life):
                yield window
            at_us = window.to_us
        return
    size_us, advance_us = box.size_us, box.advance_us
    # The first window that has its row in the range, and the first that ends behind the start.
    first_us = max(rows.from_us + 1, life.from_us + 1) - size_us
    start_us = floor_us(first_us + advance_us - 1, advance_us)
    while start_us + size_us <= rows.to_us and start_us < life.to_us:
        yield Range(start_us, start_us + size_us)
        start_us += advance_us


def _needed_rows(
    fragment: Fragment, outputs: Iterable[StreamName], part: Range
) -> Mapping[str, Range]:
    """Box -> the range of its rows that a range of some outputs needs, at least."""
    found: dict[str, Range] = {}

    def need(owner: str, rows: Range) -> None:
        found[owner] = found[owner].hull(rows) if owner in found else rows

    for output in outputs:
        need(fragment.outputs[output].owner, part)
    for box in reversed(fragment.boxes):
        for reference, stages in zip(inputs_of(box), stages_of(box), strict=True):
            if box.name not in found:
                continue
            rows = behind_stages(stages, found[box.name])
            if rows is not None:
                need(fragment.network.port(reference, box.name).owner, rows)
    return found


def _lives(
    fragment: Fragment, inputs: Mapping[StreamName, Range | None]
) -> Mapping[Port, Range | None]:
    """The life of every port that a box of the fragment reads; None if it has none."""
    found = {port: inputs[stream] for port, stream in fragment.inputs.items()}
    of_box: dict[str, Range | None] = {}

    def life_of(port: Port) -> Range | None:
        return found[port] if port in found else of_box[port.owner]

    read: dict[Port, Range | None] = {}
    for box in fragment.boxes:
        ports = [fragment.network.port(reference, box.name) for reference in inputs_of(box)]
        lives = [life_of(port) for port in ports]
        read |= zip(ports, lives, strict=True)
        sides = zip(stages_of(box), lives, strict=True)
        ends = [_end_us(stages, life.to_us) for stages, life in sides if life is not None]
        from_us = min((life.from_us for life in lives if life is not None), default=FOREVER_US)
        to_us = max(ends, default=TIME_US_MIN)
        of_box[box.name] = Range(from_us, to_us) if from_us < to_us else None
    return read


def _end_us(stages: Stages, end_us: int) -> int:
    for stage in stages:
        if end_us == FOREVER_US:
            # A table that is looked up makes no rows, however long it goes on.
            end_us = TIME_US_MIN if stage.ends_us(0) == TIME_US_MIN else FOREVER_US
        else:
            end_us = stage.ends_us(end_us)
    return end_us
