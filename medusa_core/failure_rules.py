"""Which step reports a failed row: the step that computes the first output row that needs it.

An expression fails on a record, or on a group of a window. The box leaves the row out, and the
failure is reported in quarantine. Every step that reads the row's inputs meets the failure, and
exactly one of them reports it. A step evaluates a row over all of its records only if the outputs
of the step need the row, so the rule follows from what steps read and changes no lineage:

    A failure is reported by the step that computes the earliest output position that needs the
    failed row; of two outputs at the same position, by the step of the one declared first.

Every output position is computed by one step, however event time is cut, so each failure is
reported once. It is committed with the first output row that it could be missing from: a final
output never lacks a row whose failure is not in quarantine.

Worked example. `inner` has windows of 10 s every 5 s, `outer` has windows of 20 s over `inner`, and
`outer` is the only output. Steps take 10 s each. The window [15 s, 25 s) of `inner` fails: its
position is 24.999999 s. The first output row that needs it is that of the window [20 s, 40 s) of
`outer`, at 39.999999 s. The step over [20 s, 30 s) computes no row of `outer`, reads no record
before 20 s and so cannot evaluate the window: it reports no window of `inner`. The step over
[30 s, 40 s) reads from 15 s on and reports the windows at the positions from 20 s to 40 s. If
`inner` is an output too, its rows are needed at once: the first of the two steps reports the
positions from 20 s to 30 s, and the second those from 30 s to 40 s.

A Session, a Running and an Every fail as an Aggregate does: on a record, or on a row that they
make. A Join, Lookup, Resample, Rank or Deduplicate never fails. The boxes behind all of these fail
on their rows.

A box with none of these before it fails on a record. In a fallible fragment every step reads
the records of its own range (`Fragment.is_fallible`), so that each is reported by the step whose
range holds it, which is no later than an output needs it. The first declared output of the fragment
that is behind the box counts in place of these.

The box leaves the row out for everything behind it. So the failure names every output of the
network that is behind the box, in this fragment or another one: all of them lack the row, whether
or not they use the value that failed. That follows from the boxes, not from the plan of a step.

A tentative step commits no failures: the correction of the same output positions reports them.

Limit: an output position is computed by one plan. Of a row that an earlier plan's outputs needed
first, a later plan reports no failure, although its own windows may reach back to the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from medusa_core.fragments import Fragment, Stages, behind_stages, merged, stages_of
from medusa_core.grid import TIME_US_MIN, Range
from medusa_core.names import StreamName
from medusa_core.network import (
    Box,
    Filter,
    Function,
    Map,
    Union,
    inputs_of,
)

_SHORTEST = Range(0, 1)


@dataclass(frozen=True, slots=True)
class Route:
    """A path from a row to an output: the stages on it, in this order."""

    output: StreamName
    stages: Stages = ()

    def first_need_us(self, position_us: int) -> int:
        """The first position of the output that needs a row at this position."""
        for stage in self.stages:
            position_us = stage.first_need_us(position_us)
        return position_us

    def needed_before_us(self, end_us: int) -> int:
        """Before which position rows are needed by an output position before `end_us`."""
        for stage in reversed(self.stages):
            end_us = stage.needed_before_us(end_us)
        return end_us


@dataclass(frozen=True, slots=True)
class FailureRule:
    """Which step reports the failures of one box: the routes from a failed row to the outputs.

    `outputs` are the outputs of the network that lack the row: all of those behind the box. Outputs
    are in the order in which they are declared.
    """

    routes: tuple[Route, ...]
    outputs: tuple[StreamName, ...] = ()

    def positions(self, part: Range) -> Range | None:
        """The failures that the step of all outputs over `part` reports; None if there are none.

        The ranges of neighbouring steps are neighbours, without a gap and without an overlap.
        """
        from_us, to_us = (
            max(route.needed_before_us(end_us) for route in self.routes)
            for end_us in (part.from_us, part.to_us)
        )
        return Range(from_us, to_us) if from_us < to_us else None

    def first_needed_us(self, from_us: int) -> int:
        """The first position of a row of the box that output positions at `from_us` or later need.

        The longest way back decides, over a range that is long enough for a row of each window.
        """
        found = []
        for route in self.routes:
            part = Range(from_us, from_us + 1 + 2 * sum(stage.back_us for stage in route.stages))
            behind = behind_stages(tuple(reversed(route.stages)), part)
            found.append(TIME_US_MIN if behind is None else behind.from_us)
        return min(found)

    @property
    def is_at_once(self) -> bool:
        """Whether a failed row is reported by the step whose range holds it, whatever the range.

        It is where an output needs rows when they come. One behind windows needs them when a window
        ends, and windows that slide by more than 1 us do not end at both of two times 1 us apart.
        """
        return self.positions(_SHORTEST) == _SHORTEST

    def output_at(self, position_us: int) -> StreamName:
        """The output that first needs a failed row; a step without this output reports none."""
        return min(self.routes, key=lambda route: route.first_need_us(position_us)).output


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRules:
    """The rules of a fragment by box: for failed records, and for failed groups of windows."""

    of_records: Mapping[str, FailureRule]
    of_windows: Mapping[str, FailureRule]

    def of(self, box: str, *, is_window: bool) -> FailureRule:
        """The rule of a box for one of the two."""
        return (self.of_windows if is_window else self.of_records)[box]


def failure_rules(fragment: Fragment) -> FailureRules:
    """The rules of a fragment, which follow from its boxes and outputs alone."""
    outputs = {name: at for at, name in enumerate(fragment.outputs)}
    from_box: dict[str, list[Route]] = {box.name: [] for box in fragment.boxes}
    for output, port in fragment.outputs.items():
        from_box[port.owner].append(Route(output))
    into: dict[str, tuple[Route, ...]] = {}
    for box in reversed(fragment.boxes):
        own: Stages = ()
        given = ((route.output, own, route.stages) for route in from_box[box.name])
        routes = [Route(output, stages) for output, stages in merged(given)]
        routes.sort(key=lambda route: outputs[route.output])
        from_box[box.name] = routes
        into[box.name] = ()
        for reference, stages in zip(inputs_of(box), stages_of(box), strict=True):
            longer = ((route.output, stages, route.stages) for route in routes)
            through = tuple(Route(output, found) for output, found in merged(longer))
            # The boxes that can fail have one input.
            into[box.name] += through
            port = fragment.network.port(reference, box.name)
            if port not in fragment.inputs:
                from_box[port.owner] += through
    made: set[str] = set()
    for box in fragment.boxes:
        if any(name in made or _makes_rows(fragment, name) for name in _boxes_read(box, fragment)):
            made.add(box.name)
    behind = _outputs_behind(fragment)
    of_records = {
        box.name: into[box.name] if box.name in made else (Route(into[box.name][0].output),)
        for box in fragment.boxes
    }
    return FailureRules(
        of_records={name: FailureRule(routes, behind[name]) for name, routes in of_records.items()},
        of_windows={n: FailureRule(tuple(routes), behind[n]) for n, routes in from_box.items()},
    )


def _outputs_behind(fragment: Fragment) -> Mapping[str, tuple[StreamName, ...]]:
    """The outputs of the whole network behind each box of a fragment; none if no box can fail."""
    if not fragment.is_fallible:
        return {box.name: () for box in fragment.boxes}
    network = fragment.network
    readers: dict[str, list[str]] = {}
    outputs: dict[str, list[str]] = {}
    for arc in network.box_arcs:
        readers.setdefault(arc.start.owner, []).append(arc.end)
    for arc in network.output_arcs:
        outputs.setdefault(arc.start.owner, []).append(arc.end)
    found = {}
    for box in fragment.boxes:
        reached, waiting = {box.name}, [box.name]
        while waiting:
            more = set(readers.get(waiting.pop(), ())) - reached
            reached |= more
            waiting += more
        names = {name for owner in reached for name in outputs.get(owner, ())}
        found[box.name] = tuple(StreamName(o.name) for o in network.outputs if o.name in names)
    return found


def _boxes_read(box: Box, fragment: Fragment) -> Iterator[str]:
    """The boxes of the fragment that a box reads."""
    for reference in inputs_of(box):
        port = fragment.network.port(reference, box.name)
        if port not in fragment.inputs:
            yield port.owner


def _makes_rows(fragment: Fragment, box: str) -> bool:
    """Whether the rows of a box depend on several records."""
    return not isinstance(fragment.network.box(box), Filter | Map | Union | Function)
