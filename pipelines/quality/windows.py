"""The windows that are checked: closed buckets of lines, as requested, or a refusal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from medusa_core.errors import Refused
from medusa_core.fragments import Fragment
from medusa_core.grid import Range, ceil_us, floor_us
from medusa_core.names import Participant, StreamName
from medusa_core.suggest import did_you_mean
from pipelines.base.time_text import iso
from pipelines.catalog.lines_read import lines_read
from pipelines.catalog.records import LineStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A line and a window of whole, closed buckets of it."""

    status: LineStatus
    window: Range

    @property
    def stream(self) -> StreamName:
        """The name of the stream."""
        return self.status.stream.name


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRequest:
    """The requested window; None means everything that has closed."""

    stream: str | None = None
    from_us: int | None = None
    to_us: int | None = None


def subjects_of(
    request: WindowRequest,
    lines: Sequence[LineStatus],
    fragments: Mapping[str, Fragment],
    here: Participant,
) -> tuple[Subject, ...]:
    """The requested lines and windows; Refused if they cannot be checked."""
    chosen = lines_read(lines, here)
    if request.stream is not None:
        if request.stream not in chosen:
            hint = did_you_mean(request.stream, chosen, "it has " + (", ".join(chosen) or "none"))
            raise Refused(f"the home of {here} has no stream {request.stream!r}: {hint}")
        name = StreamName(request.stream)
        return (_subject(request, chosen[name], chosen, fragments),)
    begun = {name: line for name, line in chosen.items() if _closed(line) is not None}
    if not begun:
        raise Refused(f"no bucket has closed in the home of {here}: start a replay or a run first")
    return tuple(_subject(request, line, chosen, fragments) for line in begun.values())


def _closed(line: LineStatus) -> Range | None:
    """The range in which a line's buckets are closed and kept; None if there are none."""
    from_us, to_us = line.kept_from_us, line.live_through_us
    return None if from_us is None or to_us is None or from_us >= to_us else Range(from_us, to_us)


def _subject(
    request: WindowRequest,
    line: LineStatus,
    lines: Mapping[StreamName, LineStatus],
    fragments: Mapping[str, Fragment],
) -> Subject:
    name, closed = line.stream.name, _closed(line)
    if closed is None:
        raise Refused(f"{name} has no closed bucket yet: {_waits_for(line, lines, fragments)}")
    from_us = closed.from_us if request.from_us is None else request.from_us
    to_us = closed.to_us if request.to_us is None else request.to_us
    for option, at_us in (("--from", request.from_us), ("--to", request.to_us)):
        if at_us is not None:
            _check_grid(option, at_us, line)
    if from_us >= to_us:
        raise Refused(
            f"{name} has nothing from {iso(from_us)} to {iso(to_us)}: it is closed from "
            f"{iso(closed.from_us)} to {iso(closed.to_us)}, and --to is exclusive"
        )
    if to_us > closed.to_us:
        raise Refused(
            f"{name} is closed up to {iso(closed.to_us)} only, not to {iso(to_us)}: "
            f"{_waits_for(line, lines, fragments)}"
        )
    if from_us < closed.from_us:
        why = "is trimmed before" if line.trimmed_us == closed.from_us else "begins at"
        raise Refused(f"{name} {why} {iso(closed.from_us)}: give --from that, or later")
    return Subject(status=line, window=Range(from_us, to_us))


def _check_grid(option: str, at_us: int, line: LineStatus) -> None:
    width_us = line.stream.width_us
    if at_us % width_us:
        below, above = iso(floor_us(at_us, width_us)), iso(ceil_us(at_us, width_us))
        raise Refused(
            f"{option} {iso(at_us)} is inside a bucket of {line.stream.name}: give {below} or "
            f"{above}"
        )


def _waits_for(
    line: LineStatus, lines: Mapping[StreamName, LineStatus], fragments: Mapping[str, Fragment]
) -> str:
    """What more buckets need in order to close."""
    name = line.stream.name
    inputs = {
        stream
        for fragment in fragments.values()
        if name in fragment.outputs
        for stream in fragment.input_streams
        if stream in lines
    }
    if line.has_ended:
        return "it has ended there"
    if not inputs:
        return "wait for its source to promise more"
    last = min(inputs, key=lambda stream: lines[stream].boundary_us)
    reached = lines[last].live_through_us
    if reached is None:
        return f"its input {last} has not begun"
    if reached > line.boundary_us:
        return "its inputs have come further, run the participant to compute it"
    return f"its input {last} is closed up to {iso(reached)}"
