"""A network checked as a whole: every column of every port, every expression compiled.

The core has checked the shape. Here boxes are walked in the order of the arcs, each over the
columns that reach it; the result is all that the engine needs to build a job. A value known only
within a tolerance is traced: it may not route a record, make a group, enter a function or leave
by an output, since replicas would differ, until a box rounds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import assert_never
from zoneinfo import available_timezones

from medusa_core.columns import Column, declare_columns
from medusa_core.errors import Refused
from medusa_core.fragments import Fragment, fragments_of
from medusa_core.frozen import freeze
from medusa_core.network import (
    Aggregate,
    Deduplicate,
    Every,
    Filter,
    Function,
    Join,
    Lookup,
    Map,
    Network,
    Port,
    Rank,
    Resample,
    Running,
    Session,
    Source,
    Union,
    inputs_of,
    ports_of,
)
from medusa_core.suggest import did_you_mean
from medusa_core.zone_offsets import zone_offset_us
from pipelines.language.aggregates import CompiledAggregate, compile_aggregate
from pipelines.language.empty_groups import check_keys_fit, compile_empty
from pipelines.language.expressions import Compiled, compile_expression, compile_predicate
from pipelines.language.inexact_values import inexact_values
from pipelines.language.joined_columns import (
    JoinedColumn,
    JoinedSide,
    joined_columns,
    types_of_joined,
)
from pipelines.language.places import NO_PLACES, Places
from pipelines.language.ranked_columns import check_key, check_spanned, ranked_columns
from pipelines.language.resampled_columns import resampled_columns, types_of_resampled
from pipelines.language.user_calls import (
    check_user_names,
    compile_empty_user_call,
    compile_user_call,
)

WINDOW_START = Column("window_start", "timestamp")
WINDOW_END = Column("window_end", "timestamp")
RECORDS = "records"
"""The window of SQL in which a Running has the records up to one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFilter:
    """A filter with its predicates: a record leaves by the first that is true (NULL is not)."""

    box: Filter
    cases: tuple[tuple[str, Compiled], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedMap:
    """A map with its columns in order."""

    box: Map
    columns: tuple[tuple[str, Compiled], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedUnion:
    """A union of inputs that have the same columns."""

    box: Union


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedAggregate:
    """An aggregate with its columns in order (`window_start` and the group come before them).

    `expressions` are those of the user: records and groups that fail are reported by them, also
    where the box was rewritten. `of_empty` are the values of a group without records, if the box
    emits such.
    """

    box: Aggregate
    columns: tuple[tuple[str, CompiledAggregate], ...]
    expressions: tuple[str, ...]
    of_empty: tuple[Compiled, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSession:
    """A session with its columns in order (its bounds and the key come before them)."""

    box: Session
    columns: tuple[tuple[str, CompiledAggregate], ...]
    expressions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedJoin:
    """A join with its columns in order."""

    box: Join
    columns: tuple[JoinedColumn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedLookup:
    """A lookup with its columns in order; `table` are all columns of the table, which order it."""

    box: Lookup
    columns: tuple[JoinedColumn, ...]
    table: tuple[Column, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedResample:
    """A resample: the columns of its input, which order records, and those that it gives.

    `columns` are those behind `sample_time` and the key, with the type in the input.
    """

    box: Resample
    given: tuple[Column, ...]
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRank:
    """A rank whose columns are there and exact."""

    box: Rank


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDeduplicate:
    """A deduplicate whose keys are there and exact."""

    box: Deduplicate


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRunning:
    """A running with its aggregates in order, each over the window RECORDS of SQL."""

    box: Running
    columns: tuple[tuple[str, CompiledAggregate], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedEvery:
    """An every with its aggregates in order, over the records of a group."""

    box: Every
    columns: tuple[tuple[str, CompiledAggregate], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFunction:
    """A function box: its columns are what it declares."""

    box: Function


CheckedBox = (
    CheckedFilter
    | CheckedMap
    | CheckedUnion
    | CheckedAggregate
    | CheckedSession
    | CheckedJoin
    | CheckedLookup
    | CheckedResample
    | CheckedRank
    | CheckedDeduplicate
    | CheckedRunning
    | CheckedEvery
    | CheckedFunction
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedNetwork:
    """A network whose expressions are compiled; `columns` are those of every port and source."""

    network: Network
    columns: Mapping[Port, tuple[Column, ...]]
    boxes: Mapping[str, CheckedBox]

    def __post_init__(self) -> None:
        freeze(self, "columns", "boxes")

    def columns_of_output(self, name: str) -> tuple[Column, ...]:
        """The columns of an output stream."""
        output = self.network.output(name)
        return self.columns[self.network.port(output.input, f"output {name}")]


def check_network(network: Network, places: Places = NO_PLACES) -> CheckedNetwork:
    """Check columns, types and functions; raises Refused naming network, box and column.

    `places` are where the parts are written, if they are not written in Python.
    """
    for source in network.sources:
        _check_zone(network, source, places.get((source.name, "")))
    walk = _Walk(network, places)
    for name in network.order:
        walk.check_box(name)
    walk.check_outputs()
    return CheckedNetwork(network=network, columns=walk.columns, boxes=walk.boxes)


def _check_zone(network: Network, source: Source, place: str | None) -> None:
    """Refuse the name of a zone that no database of time zones has."""
    zone = source.time_zone
    if zone is None or zone_offset_us(zone) is not None or zone in _zones():
        return
    near = did_you_mean(zone, sorted(_zones()), "write a name such as Europe/Berlin")
    raise Refused(
        f"{place + ': ' if place else ''}source {source.name!r} of network {network.name} declares "
        f"time_zone {zone!r}, which is not a known zone: {near}"
    )


@cache
def _zones() -> frozenset[str]:
    """The names of all zones; UTC is one in any case."""
    return frozenset(available_timezones()) | {"UTC"}


class _Walk:
    """What is known of the ports passed so far."""

    def __init__(self, network: Network, places: Places) -> None:
        self.network = network
        self.places = places
        self.boxes: dict[str, CheckedBox] = {}
        self.columns = {
            Port(source.name): declare_columns(
                f"source {source.name!r} of network {network.name}", source.columns
            )
            for source in network.sources
        }
        self.inexact: dict[Port, frozenset[str]] = {port: frozenset() for port in self.columns}

    def check_box(self, name: str) -> None:
        """Check one box whose inputs are known, and learn the columns of its ports."""
        box = self.network.box(name)
        owner = self.owner(name)
        ports = [self.network.port(reference, f"box {name}") for reference in inputs_of(box)]
        columns, inexact = self.columns[ports[0]], self.inexact[ports[0]]
        match box:
            case Filter():
                self.boxes[name] = self.filter(box, columns, inexact)
            case Map():
                checked = self.map(box, columns, inexact)
                self.boxes[name] = checked
                columns = _declared(owner, checked.columns)
                inexact = frozenset(c for c, compiled in checked.columns if compiled.tolerance_only)
            case Union():
                self.check_alike(owner, ports)
                self.boxes[name] = CheckedUnion(box=box)
                inexact = frozenset().union(*(self.inexact[port] for port in ports))
            case Aggregate():
                check_user_names(box, owner)
                compiled = self.aggregates(box, box.group_by, columns, inexact)
                self.boxes[name] = CheckedAggregate(
                    box=box,
                    columns=compiled,
                    expressions=tuple(box.columns.values()),
                    of_empty=self.of_empty(box, owner, columns),
                )
                group = tuple(c for g in box.group_by for c in columns if c.name == g)
                columns = (WINDOW_START, *group, *_declared(owner, compiled))
                inexact = frozenset(c for c, each in compiled if each.tolerance_only)
            case Session():
                compiled = self.aggregates(box, box.by, columns, inexact)
                self.boxes[name] = CheckedSession(
                    box=box, columns=compiled, expressions=tuple(box.columns.values())
                )
                group = tuple(c for g in box.by for c in columns if c.name == g)
                columns = (WINDOW_START, WINDOW_END, *group, *_declared(owner, compiled))
                inexact = frozenset(c for c, each in compiled if each.tolerance_only)
            case Join():
                left, right = self.sides(("left", "right"), ports)
                joined = joined_columns(box, owner, left, right)
                self.boxes[name] = CheckedJoin(box=box, columns=joined)
                columns, inexact = types_of_joined(owner, joined, left, right)
            case Lookup():
                input_, table = self.sides(("input", "table"), ports)
                if table.inexact:
                    named, advice = inexact_values(
                        table.columns, table.inexact, "in a map before it"
                    )
                    raise Refused(
                        f"{owner} takes the last record of {table.port} by all of its columns, and "
                        f"it has {named}: {advice}"
                    )
                found = joined_columns(box, owner, input_, table)
                self.boxes[name] = CheckedLookup(box=box, columns=found, table=table.columns)
                columns, inexact = types_of_joined(owner, found, input_, table)
            case Resample():
                if inexact:
                    named, advice = inexact_values(columns, inexact, "in a map before it")
                    raise Refused(
                        f"{owner} orders the records of {ports[0]} by all of its columns, and it "
                        f"has {named}: {advice}"
                    )
                resampled = resampled_columns(box, owner, columns)
                self.boxes[name] = CheckedResample(box=box, given=columns, columns=resampled)
                columns = types_of_resampled(box, owner, columns, resampled)
            case Rank():
                self.boxes[name] = CheckedRank(box=box)
                columns, inexact = ranked_columns(box, owner, columns, inexact), frozenset()
            case Deduplicate():
                check_spanned(box, owner, columns, inexact)
                self.boxes[name] = CheckedDeduplicate(box=box)
            case Running():
                check_spanned(box, owner, columns, inexact)
                running = self.aggregates(box, box.by, columns, inexact, RECORDS)
                self.boxes[name] = CheckedRunning(box=box, columns=running)
                made = {column.name: column.type for column in columns}
                made |= {column: compiled.type for column, compiled in running}
                columns = declare_columns(owner, made)
                inexact = frozenset(c for c, each in running if each.tolerance_only)
            case Every():
                check_spanned(box, owner, columns, inexact)
                counted = self.aggregates(box, box.by, columns, inexact)
                self.boxes[name] = CheckedEvery(box=box, columns=counted)
                keys = tuple(c for key in box.by for c in columns if c.name == key)
                columns = (*keys, *_declared(owner, counted))
                inexact = frozenset(c for c, each in counted if each.tolerance_only)
            case Function():
                if inexact:
                    named, advice = inexact_values(columns, inexact, "in a map before it")
                    raise Refused(f"{owner} reads {named}: {advice}")
                self.boxes[name] = CheckedFunction(box=box)
                columns = declare_columns(owner, box.columns)
            case _:
                assert_never(box)
        for port in ports_of(box):
            self.columns[Port(name, port)] = columns
            self.inexact[Port(name, port)] = inexact

    def owner(self, name: str, part: str = "") -> str:
        """A box as errors name it: with the place of the box or part, where one is known."""
        place = self.places.get((name, part)) or self.places.get((name, ""))
        kind = type(self.network.box(name)).__name__.lower()
        owner = f"{kind} {name} of network {self.network.name}"
        return owner if place is None else f"{place}: {owner}"

    def sides(self, names: Iterable[str], ports: list[Port]) -> Iterator[JoinedSide]:
        """The inputs of a box with two, under the names by which its columns refer to them."""
        for side, port in zip(names, ports, strict=True):
            yield JoinedSide(side, port, self.columns[port], self.inexact[port])

    def filter(
        self, box: Filter, columns: tuple[Column, ...], inexact: frozenset[str]
    ) -> CheckedFilter:
        """The predicates of a filter, compiled."""
        cases = tuple(
            (
                port,
                compile_predicate(
                    text,
                    _by_name(columns),
                    where=f"{self.owner(box.name, port)}, port {port!r}",
                    tolerance_only=inexact,
                ),
            )
            for port, text in box.cases.items()
        )
        return CheckedFilter(box=box, cases=cases)

    def map(self, box: Map, columns: tuple[Column, ...], inexact: frozenset[str]) -> CheckedMap:
        """The columns of a map, compiled."""
        compiled = tuple(
            (
                name,
                compile_expression(
                    text,
                    _by_name(columns),
                    where=f"{self.owner(box.name, name)}, column {name!r}",
                    tolerance_only=inexact,
                ),
            )
            for name, text in box.columns.items()
        )
        return CheckedMap(box=box, columns=compiled)

    def of_empty(
        self, box: Aggregate, owner: str, columns: tuple[Column, ...]
    ) -> tuple[Compiled, ...]:
        """The values of a group without records, compiled, if the box emits such."""
        if not box.emits_empty:
            return ()
        known = _by_name(columns)
        check_keys_fit(box, owner, known)
        return tuple(
            compile_empty_user_call(box, text, owner)
            or compile_empty(text, known, where=owner, group_by=box.group_by)
            for text in box.columns.values()
        )

    def aggregates(
        self,
        box: Aggregate | Session | Running | Every,
        keys: tuple[str, ...],
        columns: tuple[Column, ...],
        inexact: frozenset[str],
        running_over: str | None = None,
    ) -> tuple[tuple[str, CompiledAggregate], ...]:
        """The columns of a box over groups, compiled; its keys must be there and exact."""
        known, owner = _by_name(columns), self.owner(box.name)
        for name in keys:
            check_key(owner, "groups by", name, known, inexact)
        compiled = []
        for name, text in box.columns.items():
            where = f"{self.owner(box.name, name)}, column {name!r}"
            own = None
            if isinstance(box, Aggregate):
                own = compile_user_call(box, text, known, where=where, tolerance_only=inexact)
            each = own or compile_aggregate(
                text,
                known,
                where=where,
                group_by=keys,
                tolerance_only=inexact,
                running_over=running_over,
            )
            compiled.append((name, each))
        return tuple(compiled)

    def check_alike(self, owner: str, ports: list[Port]) -> None:
        """Refuse inputs of a union that differ, naming the first difference."""
        first, *others = ports
        for other in others:
            left, right = self.columns[first], self.columns[other]
            for a, b in zip(left, right, strict=False):
                if a != b:
                    raise Refused(
                        f"{owner} joins {first} with column {a.name} {a.type} and {other} with "
                        f"{b.name} {b.type} in its place: put a map before one of them"
                    )
            if len(left) != len(right):
                longer = first if len(left) > len(right) else other
                column = self.columns[longer][min(len(left), len(right))].name
                raise Refused(
                    f"{owner} joins inputs of which only {longer} has column {column!r}: put a map "
                    "before one of them"
                )

    def check_outputs(self) -> None:
        """Refuse an output with a value that is known only within a tolerance."""
        for arc in self.network.output_arcs:
            if inexact := self.inexact[arc.start]:
                named, advice = inexact_values(
                    self.columns[arc.start], inexact, "before, as in round(x, 2)"
                )
                place = self.places.get((arc.start.owner, ""))
                raise Refused(
                    f"{place + ': ' if place else ''}output {arc.end} of network "
                    f"{self.network.name} has {named}: {advice}"
                )


def fragments_for(checked: CheckedNetwork) -> tuple[Fragment, ...]:
    """The fragments of a checked network; those with a box that can fail on a record are marked."""
    return fragments_of(checked.network, fallible_boxes(checked))


def fallible_boxes(checked: CheckedNetwork) -> frozenset[str]:
    """The boxes with an expression that some record could fail."""
    found = set()
    for name, box in checked.boxes.items():
        match box:
            case CheckedFilter():
                errors = [e.error for _, e in box.cases]
            case CheckedMap():
                errors = [e.error for _, e in box.columns]
            case CheckedAggregate() | CheckedSession() | CheckedRunning() | CheckedEvery():
                errors = [e.record_error or e.error for _, e in box.columns]
                if isinstance(box, CheckedAggregate):
                    errors += [e.error for e in box.of_empty]
            case _:
                errors = []
        if any(errors):
            found.add(name)
    return frozenset(found)


def _by_name(columns: tuple[Column, ...]) -> dict[str, Column]:
    return {column.name: column for column in columns}


def _declared(
    owner: str, columns: Iterable[tuple[str, Compiled | CompiledAggregate]]
) -> tuple[Column, ...]:
    return declare_columns(owner, {name: compiled.type for name, compiled in columns})
