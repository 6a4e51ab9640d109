"""Fragments: the pieces of a query network that are placed, leased, moved and computed as one.

Boxes that carry the same fragment name form one; what crosses from one fragment to another is a
stream with a name of its own, kept in the catalog like any other. Fragments form no cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from medusa_core import sessions
from medusa_core.calendar_windows import CalendarWindows
from medusa_core.count_windows import Every
from medusa_core.deduplication import Deduplicate
from medusa_core.errors import Refused
from medusa_core.frozen import freeze
from medusa_core.grid import TIME_US_MIN, Range, ceil_us, floor_us
from medusa_core.joins import Join, Reach
from medusa_core.lookups import Lookup
from medusa_core.names import FragmentName, Participant, StreamName
from medusa_core.network import Aggregate, Box, Network, Port, Resample, inputs_of
from medusa_core.ranks import Rank
from medusa_core.running_aggregates import Running
from medusa_core.sessions import Session
from medusa_core.spans import needed_range

LANDING_PREFIX, MOVED_PREFIX = "landing/", "moved/"


def landing_fragment(stream: StreamName) -> str:
    """The fragment under which a source's landing is assigned and leased."""
    return f"{LANDING_PREFIX}{stream}"


class Move(NamedTuple):
    """A move of a fragment: the participant that pays for it, and the number that it gave it."""

    payer: Participant
    number: int


def moved_fragment(fragment: str, move: Move) -> str:
    """The fragment under which a provider computes a payer's.

    Each move has one of its own, so that it starts, stops and is trimmed by itself.
    """
    return f"{MOVED_PREFIX}{move.payer}/{move.number}/{fragment}"


def move_of(fragment: str) -> tuple[Move, str] | None:
    """The move of a moved fragment, and the payer's fragment; None of others."""
    if not fragment.startswith(MOVED_PREFIX):
        return None
    payer, number, moved = fragment.removeprefix(MOVED_PREFIX).split("/", 2)
    return Move(Participant(payer), int(number)), moved


class Windows(Protocol):
    """Windows as an Aggregate or a Rank has them."""

    @property
    def size_us(self) -> int: ...
    @property
    def advance_us(self) -> int: ...


@dataclass(frozen=True, slots=True)
class _Size:
    size_us: int
    advance_us: int

    def behind(self, part: Range) -> Range | None:
        """The range of the records of the windows whose rows lie in `part`; None if none does."""
        return windows_within(self, part)

    def ends_us(self, end_us: int) -> int:
        """Before when the rows of the windows lie, if their records lie before `end_us`."""
        return floor_us(end_us - 1, self.advance_us) + self.size_us

    def first_need_us(self, position_us: int) -> int:
        """The first row of a window that holds this position."""
        first_us = floor_us(position_us - self.size_us, self.advance_us) + self.advance_us
        return first_us + self.size_us - 1

    def needed_before_us(self, end_us: int) -> int:
        """Before which position records are needed by a row before `end_us`."""
        return floor_us(end_us - self.size_us, self.advance_us) + self.size_us

    @property
    def back_us(self) -> int:
        """How long before a row the records that it needs begin, at most."""
        return self.size_us

    @property
    def delay_us(self) -> int:
        """How long before a row the records that it needs end, at least."""
        return 0


@dataclass(frozen=True, slots=True)
class _Side:
    """One input of a box with a `Reach`: by how much its rows lie before those that need them."""

    reach: Reach

    def behind(self, part: Range) -> Range:
        """The range of the input whose rows the box's rows in `part` need."""
        return self.reach.behind(part)

    def ends_us(self, end_us: int) -> int:
        """Before when the rows lie that a row before `end_us` makes."""
        return end_us + self.reach.last_us if self.reach.makes_rows else TIME_US_MIN

    def first_need_us(self, position_us: int) -> int:
        """The first position that needs a row at this position."""
        return position_us + self.reach.first_us

    def needed_before_us(self, end_us: int) -> int:
        """Before which position rows are needed by a row before `end_us`."""
        return end_us - self.reach.first_us

    @property
    def back_us(self) -> int:
        """How long before a row the rows that it needs begin, at most."""
        return self.reach.last_us

    @property
    def delay_us(self) -> int:
        """How long before a row the rows that it needs end, at least."""
        return self.reach.first_us


@dataclass(frozen=True, slots=True)
class _Span:
    """The input of a box over spans: a row needs the records of its span before it."""

    within_us: int

    def behind(self, part: Range) -> Range:
        """The range of the input that the rows in `part` need."""
        return needed_range(part, self.within_us)

    def ends_us(self, end_us: int) -> int:
        """Before when the rows lie, if the records lie before `end_us`."""
        return end_us

    def first_need_us(self, position_us: int) -> int:
        """The first position that needs a record at this position."""
        return position_us

    def needed_before_us(self, end_us: int) -> int:
        """Before which position records are needed by a row before `end_us`."""
        return end_us

    @property
    def back_us(self) -> int:
        """How long before a row the records that it needs begin, at most."""
        return self.within_us

    @property
    def delay_us(self) -> int:
        """How long before a row the records that it needs end, at least."""
        return 0


@dataclass(frozen=True, slots=True)
class _Sessions:
    """The input of a Session: a row needs the records before it that say where its run began."""

    gap_us: int
    length_us_max: int

    def behind(self, part: Range) -> Range:
        """The range of the input that the rows in `part` need."""
        return sessions.needed_range(part, self.gap_us, self.length_us_max)

    def ends_us(self, end_us: int) -> int:
        """Before when the rows lie, if the records lie before `end_us`."""
        return end_us + self.gap_us - 1

    def first_need_us(self, position_us: int) -> int:
        """The first position that needs a record at this position: a session without it would
        end there."""
        return position_us

    def needed_before_us(self, end_us: int) -> int:
        """Before which position records are needed by a row before `end_us`."""
        return end_us

    @property
    def back_us(self) -> int:
        """How long before a row the records that it needs begin, at most."""
        return 2 * (self.gap_us + self.length_us_max)

    @property
    def delay_us(self) -> int:
        """How long before a row the records that it needs end, at least."""
        return 0


Stage: TypeAlias = _Size | CalendarWindows | _Side | _Span | _Sessions
"""How the event times of the rows of a box follow from those of one of its inputs."""

Stages: TypeAlias = tuple[Stage, ...]
K = TypeVar("K")


def merged(routes: Iterable[tuple[K, Stages, Stages]]) -> Iterator[tuple[K, Stages]]:
    """Ways of two parts each, without those that differ by the Joins that they begin with alone.

    Joins in a row are one reach, and reaches before the same stages are one, their hull: a chain of
    Joins of a stream with itself would have as many ways as there are choices of sides.
    """
    found: dict[tuple[K, Stages], Reach] = {}
    for key, first, rest in routes:
        stages, reach = first + rest, Reach(0, 0)
        while stages and isinstance(stages[0], _Side):
            reach, stages = reach.then(stages[0].reach), stages[1:]
        known = found.get((key, stages))
        found[key, stages] = reach if known is None else known.hull(reach)
    for (key, stages), reach in found.items():
        yield key, stages if reach == Reach(0, 0) else (_Side(reach), *stages)


def stages_of(box: Box) -> tuple[Stages, ...]:
    """For each input of a box, in order, the stage that its rows pass: one or none."""
    match box:
        case Aggregate():
            return ((box.calendar or _Size(box.size_us, box.advance_us),),)
        case Rank():
            return ((_Size(box.size_us, box.advance_us),),)
        case Deduplicate() | Running() | Every():
            return ((_Span(box.within_us),),)
        case Session():
            return ((_Sessions(box.gap_us, box.length_us_max),),)
        case Join() | Lookup():
            return tuple((_Side(reach),) for reach in box.reaches)
        case Resample():
            return ((_Side(box.reach),),)
    return ((),) * len(inputs_of(box))


def behind_stages(stages: Stages, part: Range) -> Range | None:
    """The range before some stages that a range behind them needs; None if it needs none."""
    for stage in stages:
        within = stage.behind(part)
        if within is None:
            return None
        part = within
    return part


def waits_of(box: Box) -> tuple[bool, ...]:
    """For each input of a box, in order, whether rows made without it would be wrong."""
    match box:
        case Join():
            return (box.waits, box.waits)
        case Lookup():
            return (False, True)
    return (False,) * len(inputs_of(box))


@dataclass(frozen=True, slots=True)
class _Path:
    """A way from an output back to an input, and the stages on it in this order.

    `waits`: one of them is a Join or Lookup that is not computed without the input.
    """

    stream: StreamName
    stages: Stages = ()
    waits: bool = False

    def behind(self, part: Range) -> Range | None:
        """The range of the input that a range of the output is computed from; None if none is."""
        return behind_stages(self.stages, part)

    def ends_us(self, end_us: int) -> int:
        """Before when the output's records lie, if those of the input lie before `end_us`."""
        for stage in reversed(self.stages):
            end_us = stage.ends_us(end_us)
        return end_us

    @property
    def delay_us(self) -> int:
        """How long before the end of any range of the output the needed range ends, at least."""
        return sum(stage.delay_us for stage in self.stages)

    @property
    def back_us(self) -> int:
        """How long before a row of the output the records that it needs begin, at most."""
        return sum(stage.back_us for stage in self.stages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """Some boxes of a network (in topological order) and the streams they read and write.

    `move` is that under which a provider computes it; None at its home.
    `is_fallible`: a box of it can fail on a record, so that a step reads, in addition to what its
    outputs need, every record of its own range: it reports those that fail before every window
    (`medusa_core.failure_rules`).
    """

    network: Network
    name: FragmentName
    boxes: tuple[Box, ...]
    inputs: Mapping[Port, StreamName]
    outputs: Mapping[StreamName, Port]
    is_fallible: bool = False
    move: Move | None = None
    _paths: Mapping[StreamName, tuple[_Path, ...]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        freeze(self, "inputs", "outputs")
        behind: dict[str, tuple[_Path, ...]] = {}
        for box in self.boxes:
            sides = zip(inputs_of(box), stages_of(box), waits_of(box), strict=True)
            routes = (
                ((path.stream, waits or path.waits), stages, path.stages)
                for reference, stages, waits in sides
                for path in self._paths_from(self.network.port(reference, box.name), behind)
            )
            behind[box.name] = tuple(_Path(key[0], found, key[1]) for key, found in merged(routes))
        found = {name: self._paths_from(port, behind) for name, port in self.outputs.items()}
        object.__setattr__(self, "_paths", found)

    def _paths_from(self, port: Port, behind: Mapping[str, tuple[_Path, ...]]) -> tuple[_Path, ...]:
        """The ways from a port back to the inputs, each once, from those behind the boxes."""
        return (_Path(self.inputs[port]),) if port in self.inputs else behind[port.owner]

    @property
    def id(self) -> str:
        """The name by which the catalog knows it: network/fragment, behind a move's number."""
        return self.home_id if self.move is None else moved_fragment(self.home_id, self.move)

    @property
    def home_id(self) -> str:
        """The name by which the catalog of its home knows it: network/fragment."""
        return f"{self.network.name}/{self.name}"

    @property
    def input_streams(self) -> tuple[StreamName, ...]:
        """Every stream it reads, once."""
        return tuple(dict.fromkeys(self.inputs.values()))

    def needed(self, output: StreamName, part: Range) -> dict[StreamName, Range]:
        """Which range of each input the range `part` of an output is computed from, at least."""
        need = dict.fromkeys(self.input_streams, part) if self.is_fallible else {}
        for path in self._paths[output]:
            behind = path.behind(part)
            if behind is not None:
                known = need.get(path.stream)
                need[path.stream] = behind if known is None else known.hull(behind)
        return need

    def reaches(self, output: StreamName) -> dict[StreamName, tuple[int, int]]:
        """How long before a row of an output the part of each input that it needs begins, at most,
        and ends, at least."""
        found: dict[StreamName, tuple[int, int]] = {}
        for path in self._paths[output]:
            back_us, delay_us = found.get(path.stream, (path.back_us, path.delay_us))
            found[path.stream] = max(back_us, path.back_us), min(delay_us, path.delay_us)
        return found

    def needed_by_all(self, part: Range) -> dict[StreamName, Range]:
        """Which range of each input the range `part` of all outputs together needs."""
        return self.needed_by(self.outputs, part)

    def needed_by(self, outputs: Iterable[StreamName], part: Range) -> dict[StreamName, Range]:
        """Which range of each input the range `part` of these outputs together needs."""
        need: dict[StreamName, Range] = {}
        for output in outputs:
            for stream, range_ in self.needed(output, part).items():
                need[stream] = need[stream].hull(range_) if stream in need else range_
        return need

    def delay_us(self, stream: StreamName) -> int:
        """How much less far than any range of the outputs an input must reach for it.

        Above 0 only where every path of the input leads into a Join whose rows lie later.
        """
        if self.is_fallible:
            return 0
        paths = (path for paths in self._paths.values() for path in paths)
        return min(path.delay_us for path in paths if path.stream == stream)

    @property
    def waited_for(self) -> frozenset[StreamName]:
        """The inputs without which no answer is made: a box waits for them (`waits_of`)."""
        return frozenset().union(*(self.waited_for_by(output) for output in self.outputs))

    def waited_for_by(self, output: StreamName) -> frozenset[StreamName]:
        """The inputs for which a box waits on the way to one output."""
        return frozenset(path.stream for path in self._paths[output] if path.waits)

    def ends_us(self, output: StreamName, input_ends_us: Mapping[StreamName, int]) -> int:
        """Before which event time every record of an output lies, given the ends of the inputs."""
        return max(path.ends_us(input_ends_us[path.stream]) for path in self._paths[output])


def windows_within(windows: Windows, part: Range) -> Range | None:
    """The input range of the windows whose records (at window end - 1 us) lie in `part`."""
    size_us, advance_us = windows.size_us, windows.advance_us
    first_us = floor_us(part.from_us - size_us, advance_us) + advance_us
    last_us = floor_us(part.to_us - size_us, advance_us)
    return Range(first_us, last_us + size_us) if first_us <= last_us else None


def crossing_name(port: Port) -> StreamName:
    """The name of a stream that crosses between fragments without being an output."""
    return StreamName(f"{port.owner}_{port.port}" if port.port else port.owner)


def fragments_of(network: Network, fallible: Set[str] = frozenset()) -> tuple[Fragment, ...]:
    """The fragments of a network, each after those it reads; Refused if they form a cycle.

    `fallible` names the boxes that can fail on a record (what a parser found out).
    """
    home = {box.name: FragmentName(box.fragment) for box in network.boxes}
    names: dict[Port, StreamName] = {
        arc.start: StreamName(arc.end) for arc in reversed(network.output_arcs)
    }
    for arc in network.box_arcs:
        start, reader = arc.start, home[arc.end]
        if network.is_source(start.owner):
            names[start] = network.source(start.owner).stream_name
        elif home[start.owner] != reader:
            names.setdefault(start, crossing_name(start))
    if len(set(names.values())) < len(names):
        raise Refused(f"two streams of network {network.name} share one name: rename a box")
    # Each arc and box is looked at once, however many fragments there are.
    inputs: dict[FragmentName, dict[Port, StreamName]] = {f: {} for f in home.values()}
    outputs: dict[FragmentName, dict[StreamName, Port]] = {f: {} for f in home.values()}
    boxes: dict[FragmentName, list[Box]] = {f: [] for f in home.values()}
    for arc in network.output_arcs:
        outputs[home[arc.start.owner]][StreamName(arc.end)] = arc.start
    for arc in network.box_arcs:
        writer, reader = home.get(arc.start.owner), home[arc.end]
        if writer == reader:
            continue
        inputs[reader][arc.start] = names[arc.start]
        if writer is not None and arc.start not in outputs[writer].values():
            outputs[writer][names[arc.start]] = arc.start
    for box in network.order:
        boxes[home[box]].append(network.box(box))
    fallible_homes = {home[box] for box in fallible}
    found = {
        name: Fragment(
            network=network,
            name=name,
            boxes=tuple(boxes[name]),
            inputs=inputs[name],
            outputs=outputs[name],
            is_fallible=name in fallible_homes,
        )
        for name in boxes
    }
    return _in_order(network, found)


def _in_order(network: Network, found: Mapping[FragmentName, Fragment]) -> tuple[Fragment, ...]:
    writer = {stream: f.name for f in found.values() for stream in f.outputs}
    waiting = {f.name: {writer[s] for s in f.input_streams if s in writer} for f in found.values()}
    order: list[Fragment] = []
    while waiting:
        ready = [name for name, reads in waiting.items() if not reads & waiting.keys()]
        if not ready:
            names = ", ".join(sorted(waiting))
            raise Refused(f"fragments {names} of network {network.name} read each other in a cycle")
        order += [found[name] for name in ready]
        for name in ready:
            del waiting[name]
    return tuple(order)


def check_width(output: str, width_us: int, input_: str, input_width_us: int) -> None:
    """Refuse an output whose buckets are not made of whole buckets of an input."""
    if width_us % input_width_us:
        raise Refused(
            f"output {output} has buckets of {width_us} us, no multiple of the {input_width_us} us "
            f"of its input {input_}: choose another width"
        )


def origin_of(input_origins_us: Mapping[StreamName, int], width_us: int) -> int:
    """The start of an output: no record lies before the first of its inputs."""
    return floor_us(min(input_origins_us.values()), width_us)


def end_of(fragment: Fragment, output: StreamName, ends_us: Mapping[StreamName, int],
           width_us: int) -> int:  # fmt: skip
    """The end of an output's last bucket, given the ends of the inputs."""
    return ceil_us(fragment.ends_us(output, ends_us), width_us)
