"""The query network as frozen data: sources, boxes, arcs and outputs, with Spark SQL expressions.

Aurora's boxes and arrows (VLDB Journal 2003, section 2) as values: a network can be drawn, checked,
fingerprinted and tested without an engine. The core checks shapes: names, cycles, dangling arcs,
windows, widths. Columns, types and functions are checked where a parser is at hand, in
`pipelines/language`. Boxes are named by other boxes: `"busy"` is the only port of box `busy`,
`"split.big"` the port `big` of a Filter with several.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never, get_args

from medusa_core.calendar_windows import (
    PERIODS,
    CalendarWindows,
    length_us_max,
    zone_clock,
)
from medusa_core.columns import declare_columns
from medusa_core.count_windows import Every as Every
from medusa_core.count_windows import check_every
from medusa_core.deduplication import Deduplicate as Deduplicate
from medusa_core.deduplication import check_deduplicate
from medusa_core.empty_windows import EMIT, SKIP, Key, check_empty
from medusa_core.errors import Refused
from medusa_core.frozen import FrozenMap, freeze
from medusa_core.grid import parse_duration_us, unit_near
from medusa_core.joins import Join as Join
from medusa_core.joins import check_join
from medusa_core.key_partitions import Partitions as Partitions
from medusa_core.key_partitions import check_partitions
from medusa_core.lookups import Lookup as Lookup
from medusa_core.lookups import check_lookup
from medusa_core.names import StreamName, check_name, is_name
from medusa_core.network_fields import check_fields, check_unit
from medusa_core.ranks import Rank as Rank
from medusa_core.ranks import check_rank
from medusa_core.resamples import Resample as Resample
from medusa_core.resamples import check_resample
from medusa_core.running_aggregates import Running as Running
from medusa_core.running_aggregates import check_running
from medusa_core.sessions import Session as Session
from medusa_core.sessions import check_session
from medusa_core.suggest import did_you_mean
from medusa_core.user_aggregates import UserAggregate as UserAggregate
from medusa_core.user_aggregates import check_aggregates
from medusa_core.zone_offsets import has_form_of_zone

MAIN = "main"
WINDOWS_PER_RECORD_MAX = 10_000

_NO_DISORDER = "0s"
"""The disorder of a source whose records come in the order of event time: no duration else."""

QUARANTINE_LATE, REVISE_LATE = "quarantine", "revise"
"""What `late` of a source can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a network reads: a stream that comes from outside and is landed, or one that exists.

    Of what is landed, `time` is the column with event time; `time_unit` is s, ms, us, ns or None:
    recognised from the column's name, type and values. `time_zone` (`UTC`, `+01:00`,
    `Europe/Berlin`) is that of all times which are written without one; without it such times do
    not fit. `disorder` is how far behind its running maximum a live record may be. Records that are
    further behind stay in quarantine, or with `late` = `revise` are admitted together, once in a
    period of `late_every`. `key` names the columns that make a record unique, if any.

    `stream` names a stream that exists: `"suspects"`, or `"alpha/suspects"` with the participant
    that writes it. Its records have their event time already; `time` is for files replayed in its
    place. `columns` are all columns of the stream.
    """

    name: str
    columns: Mapping[str, str]
    time: str = ""
    time_unit: str | None = None
    time_zone: str | None = None
    disorder: str = _NO_DISORDER
    late: str = QUARANTINE_LATE
    late_every: str | None = None
    key: tuple[str, ...] = ()
    stream: str | None = None

    def __post_init__(self) -> None:
        freeze(self, "columns")

    @property
    def disorder_us(self) -> int:
        """The disorder in microseconds; Refused if it is no duration."""
        return 0 if self.disorder == _NO_DISORDER else parse_duration_us(self.disorder)

    @property
    def late_every_us(self) -> int | None:
        """The period of revisions by late records in microseconds; None if they stay in
        quarantine. Refused if it is not a duration."""
        if self.late != REVISE_LATE or self.late_every is None:
            return None
        return parse_duration_us(self.late_every)

    @property
    def is_landed(self) -> bool:
        """Whether its records come from outside; else another network writes them."""
        return self.stream is None

    @property
    def stream_name(self) -> StreamName:
        """The name of the stream that it reads; what is landed is a stream of its own name."""
        return StreamName(self.name if self.stream is None else self.stream.rpartition("/")[2])

    @property
    def writer(self) -> str | None:
        """The participant that `stream` names as its writer, if it names one."""
        return self.stream.rpartition("/")[0] or None if self.stream else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Case semantics: a record leaves by the first port whose predicate is true.

    It leaves by `otherwise` if none is (NULL is not true), and is dropped if there is no such port.
    """

    name: str
    input: str
    cases: Mapping[str, str]
    otherwise: str | None = None
    fragment: str = MAIN

    def __post_init__(self) -> None:
        freeze(self, "cases")


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """One record out for each record in: column name -> expression; event time passes unchanged."""

    name: str
    input: str
    columns: Mapping[str, str]
    fragment: str = MAIN

    def __post_init__(self) -> None:
        freeze(self, "columns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Union:
    """All records of inputs that have the same columns."""

    name: str
    inputs: tuple[str, ...]
    fragment: str = MAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """Windows of event time, per group: one record for each window and group.

    With `size`, windows are [k * advance, k * advance + size): they start at multiples of `advance`
    (default: `size`, tumbling) whatever the first record is. With `every` and `zone` they are the
    days, weeks, months, quarters or years by the clocks of the zone: `every="day"`,
    `zone="Europe/Berlin"` (`medusa_core.calendar_windows`). A window without records gives none.

    With `empty="emit"` it gives a row for each combination of `keys`, the declared values of each
    column of the group (`medusa_core.empty_windows`). Other values have rows if they have records.

    A column may be the value of one of `aggregates`, functions of the user's own, as in
    `"fee": "largest_two(fee)"` (`medusa_core.user_aggregates`).

    The output has `window_start`, the group's columns and `columns` (name -> aggregate expression);
    its event time is the window's end - 1 us. `zone_offsets` are the offsets of the zone, which are
    filled in when a network is loaded.
    """

    name: str
    input: str
    size: str | None = None
    advance: str | None = None
    every: str | None = None
    zone: str | None = None
    zone_offsets: str | None = None
    group_by: tuple[str, ...] = ()
    columns: Mapping[str, str]
    empty: str = SKIP
    keys: Mapping[str, tuple[Key, ...]] = field(default_factory=dict)
    aggregates: tuple[UserAggregate, ...] = ()
    fragment: str = MAIN

    def __post_init__(self) -> None:
        freeze(self, "columns", "keys")
        if any(isinstance(values, list) for values in self.keys.values()):
            keys = {n: tuple(v) if isinstance(v, list) else v for n, v in self.keys.items()}
            object.__setattr__(self, "keys", FrozenMap(keys))

    @property
    def emits_empty(self) -> bool:
        """Whether windows without records have rows."""
        return self.empty == EMIT

    @property
    def calendar(self) -> CalendarWindows | None:
        """The calendar windows, if it has such."""
        if self.every is None:
            return None
        assert self.zone_offsets is not None, f"the offsets of zone {self.zone} are filled in"
        return CalendarWindows(self.every, self.zone_offsets)

    @property
    def size_us(self) -> int:
        """Length of a window in microseconds; calendar windows are shorter than theirs."""
        if self.every is not None:
            return length_us_max(self.every)
        return parse_duration_us(self.size or "")

    @property
    def advance_us(self) -> int:
        """Distance between the starts of two windows in microseconds, or more."""
        return self.size_us if self.advance is None else parse_duration_us(self.advance)

    @property
    def windows_shown(self) -> str:
        """The windows for people."""
        shown = f"{self.size}" if self.advance is None else f"{self.size} by {self.advance}"
        if self.every is not None:
            shown = f"one {self.every} in {self.zone}"
        return f"{shown}, also empty ones" if self.emits_empty else shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """The escape hatch: a PySpark function `f(frame) -> frame`, for what no other box can say.

    Each row it returns must depend on one row it was given and carry that row's `stime`. It is
    checked before its first commit: run again over shuffled rows and other partitions, it must give
    the same digests.
    """

    name: str
    input: str
    function: Callable[[Any], Any]
    columns: Mapping[str, str]
    fragment: str = MAIN

    def __post_init__(self) -> None:
        freeze(self, "columns")


# BSort takes its place in this union; a reader ends in assert_never.
Box = (
    Filter
    | Map
    | Union
    | Aggregate
    | Session
    | Join
    | Lookup
    | Resample
    | Rank
    | Deduplicate
    | Running
    | Every
    | Function
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A stream that the network gives: its name and the port that it comes from."""

    name: str
    input: str


@dataclass(frozen=True, slots=True, order=True)
class Port:
    """Where an arc begins: a source (port "") or a box and one of its ports."""

    owner: str
    port: str = ""

    def __str__(self) -> str:
        return f"{self.owner}.{self.port}" if self.port else self.owner


@dataclass(frozen=True, slots=True)
class Arc:
    """An arrow: from a port to a box or an output."""

    start: Port
    end: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Sources, boxes and outputs. A Network that exists is well shaped; else Refused is raised.

    `bucket` is the width of every stream of the network unless a deployment says otherwise. A
    network of sources alone lands them for other networks. One that brings a single stream of a
    partner into a home is named as the stream is, `alpha/suspects`. `partitions` maps fragments to
    the partitions in which they are computed (`medusa_core.partitions`).
    """

    name: str
    sources: tuple[Source, ...]
    boxes: tuple[Box, ...]
    outputs: tuple[Output, ...]
    bucket: str = "10s"
    partitions: Mapping[str, Partitions] = field(default_factory=dict)
    order: tuple[str, ...] = field(init=False, compare=False)
    _box_of: Mapping[str, Box] = field(init=False, compare=False, repr=False)
    _source_of: Mapping[str, Source] = field(init=False, compare=False, repr=False)
    box_arcs: tuple[Arc, ...] = field(init=False, compare=False, repr=False)
    """Every arrow that ends at a box, in the order of the boxes."""
    output_arcs: tuple[Arc, ...] = field(init=False, compare=False, repr=False)
    """Every arrow that ends at an output, in the order of the outputs."""

    def __post_init__(self) -> None:
        check_parts(self)
        freeze(self, "partitions")
        object.__setattr__(self, "_box_of", {box.name: box for box in self.boxes})
        object.__setattr__(self, "_source_of", {source.name: source for source in self.sources})
        if not self.is_imported:
            check_name("network", self.name)
        check_names(self)
        for box in self.boxes:
            check_box(box)
        check_unit(f"network {self.name}", "bucket", self.bucket)
        check_duration(f"bucket of network {self.name}", self.bucket)
        object.__setattr__(self, "order", topological_order(self))
        box_arcs = (
            Arc(self.port(r, f"box {b.name}"), b.name) for b in self.boxes for r in inputs_of(b)
        )
        output_arcs = (Arc(self.port(o.input, f"output {o.name}"), o.name) for o in self.outputs)
        object.__setattr__(self, "box_arcs", tuple(box_arcs))
        object.__setattr__(self, "output_arcs", tuple(output_arcs))
        check_every_box_is_used(self)
        check_partitioned(self)

    @property
    def is_imported(self) -> bool:
        """Whether it is nothing but a stream of a partner."""
        is_alone = len(self.sources) == 1 and not self.boxes and not self.outputs
        return (
            is_alone
            and self.sources[0].writer is not None
            and (self.sources[0].stream == self.name)
        )

    def box(self, name: str) -> Box:
        """The box of that name."""
        return self._box_of[name]

    def source(self, name: str) -> Source:
        """The source of that name."""
        return self._source_of[name]

    def is_source(self, name: str) -> bool:
        """Whether a source has this name."""
        return name in self._source_of

    def output(self, name: str) -> Output:
        """The output of that name; raises Refused naming those that are there."""
        for output in self.outputs:
            if output.name == name:
                return output
        known = [o.name for o in self.outputs]
        hint = did_you_mean(name, known, f"it has {', '.join(known)}")
        raise Refused(f"network {self.name} has no output {name!r}: {hint}")

    def port(self, reference: str, required_by: str) -> Port:
        """The port that a reference such as `busy` or `split.big` names.

        Raises Refused with the box that names it if there is none.
        """
        owner, _, port = reference.partition(".")
        if self.is_source(owner) and not port:
            return Port(owner)
        box = self._box_of.get(owner)
        if box is None:
            names = [part.name for part in (*self.sources, *self.boxes)]
            near = did_you_mean(owner, names, f"there are {', '.join(names)}")
            raise Refused(
                f"{required_by} of network {self.name} reads {reference!r}, which is neither a "
                f"source nor a box: {near}"
            )
        ports = ports_of(box)
        if not port and len(ports) == 1:
            return Port(owner, ports[0])
        if port not in ports or not port:
            known = [str(Port(owner, p)) for p in ports]
            near = did_you_mean(port, ports) and did_you_mean(reference, known)
            hint = near or f"name {' or '.join(known)}"
            raise Refused(f"{required_by} of network {self.name} reads {reference!r}: {hint}")
        return Port(owner, port)


def functions_in(network: Network) -> bool:
    """Whether a part of its meaning is Python: then a plan needs the network's file."""
    return any(has_functions(box) for box in network.boxes)


def has_functions(box: Box) -> bool:
    """Whether a box calls functions of Python: a Function, or an Aggregate with some of its own."""
    return isinstance(box, Function) or (isinstance(box, Aggregate) and bool(box.aggregates))


def inputs_of(box: Box) -> tuple[str, ...]:
    """The references that a box reads, in order."""
    match box:
        case Union():
            return box.inputs
        case Join():
            return (box.left, box.right)
        case Lookup():
            return (box.input, box.table)
    return (box.input,)


def ports_of(box: Box) -> tuple[str, ...]:
    """The names of a box's output ports; boxes other than Filter have one, without a name."""
    match box:
        case Filter():
            return (*box.cases, *((box.otherwise,) if box.otherwise else ()))
        case (
            Map()
            | Union()
            | Aggregate()
            | Session()
            | Join()
            | Lookup()
            | Resample()
            | Rank()
            | Deduplicate()
            | Running()
            | Every()
            | Function()
        ):
            return ("",)
    assert_never(box)


def check_parts(network: Network) -> None:
    """Refuse sources, boxes and outputs that are no tuples, or hold something else."""
    kinds = {"sources": (Source,), "boxes": get_args(Box), "outputs": (Output,)}
    for field_name, expected in kinds.items():
        parts = getattr(network, field_name)
        names = " or ".join(kind.__name__ for kind in expected)
        if isinstance(parts, expected):
            raise Refused(
                f"{field_name} of network {network.name} are one {type(parts).__name__}: write a "
                f"comma behind it, {field_name}=({type(parts).__name__}(…),)"
            )
        if not isinstance(parts, tuple):
            raise Refused(
                f"{field_name} of network {network.name} are a value of type "
                f"{type(parts).__name__}: write a tuple of {names}"
            )
        for part in parts:
            if not isinstance(part, expected):
                raise Refused(
                    f"{field_name} of network {network.name} hold a value of type "
                    f"{type(part).__name__}: write a tuple of {names}"
                )
            check_fields(part)


NO_TIMES = ("boolean", "binary")
"""Types whose values cannot be event times."""


def check_source(source: Source, where: str) -> None:
    """Refuse a source that cannot be; `where` is the network as errors name it, "of network n"."""
    check_name(f"source {where},", source.name)
    declare_columns(f"source {source.name!r} {where}", source.columns)
    check_stream(source, where)
    if source.is_landed and not source.time:
        raise Refused(
            f"source {source.name!r} {where} has no time: write time='…' with the name of its "
            f"column of event time, one of {', '.join(source.columns)}"
        )
    for column in (*((source.time,) if source.time or source.is_landed else ()), *source.key):
        if column not in source.columns:
            near = did_you_mean(column, source.columns)
            raise Refused(
                f"source {source.name!r} {where} names {column!r}, no column of it"
                f"{near and ': '}{near}"
            )
    if len(set(source.key)) < len(source.key):
        raise Refused(
            f"source {source.name!r} {where} has a column twice in key {', '.join(source.key)}: "
            "name each once"
        )
    type_ = source.columns.get(source.time, "").strip().lower()
    if type_ in NO_TIMES:
        raise Refused(
            f"source {source.name!r} {where} has its event time in {source.time!r}, and a {type_} "
            "is no time: name a column of numbers, texts, dates or timestamps"
        )
    if source.time_unit not in (None, "s", "ms", "us", "ns"):
        unit = unit_near(source.time_unit)
        hint = f"; did you mean {unit!r}?" if unit in ("s", "ms", "us") else ""
        raise Refused(f"time unit {source.time_unit!r} of source {source.name!r} {where} is "
                      f"not one of s, ms, us, ns{hint}")  # fmt: skip
    if source.time_zone is not None and not has_form_of_zone(source.time_zone):
        raise Refused(
            f"time zone {source.time_zone!r} of source {source.name!r} {where} is not a valid "
            "zone: write UTC, an offset such as +01:00, or a name such as Europe/Berlin"
        )
    try:
        _ = source.disorder_us
    except Refused as error:
        raise Refused(f"disorder of source {source.name!r} {where}: {error}") from None
    check_late(source, where)


def check_late(source: Source, where: str) -> None:
    """Refuse a source that does not say whether late records are admitted, or how often."""
    if source.late not in (QUARANTINE_LATE, REVISE_LATE):
        near = did_you_mean(source.late, (QUARANTINE_LATE, REVISE_LATE))
        raise Refused(
            f"late of source {source.name!r} {where} is {source.late!r}: write 'quarantine' or "
            f"'revise'{near and '; '}{near}"
        )
    if source.late == REVISE_LATE and source.late_every is None:
        raise Refused(
            f"source {source.name!r} {where} has late='revise' and no period: write how often late "
            "records are admitted, such as late_every='1h'"
        )
    if source.late == QUARANTINE_LATE and source.late_every is not None:
        raise Refused(
            f"source {source.name!r} {where} has late_every, but its late records stay in "
            "quarantine: write late='revise', or leave late_every out"
        )
    try:
        _ = source.late_every_us
    except Refused as error:
        raise Refused(f"late_every of source {source.name!r} {where}: {error}") from None


def check_partitioned(network: Network) -> None:
    """Refuse partitions of a fragment that is not there, or declared in another form."""
    fragments = {box.fragment for box in network.boxes}
    for fragment, given in network.partitions.items():
        if fragment not in fragments:
            near = did_you_mean(str(fragment), fragments, f"it has {', '.join(sorted(fragments))}")
            raise Refused(
                f"partitions of network {network.name} name fragment {fragment!r}, which no box "
                f"has: {near}"
            )
        check_partitions(fragment, given, f"of network {network.name}")


def check_names(network: Network) -> None:
    """Refuse names that are none, or that two parts of the network share."""
    where = f"of network {network.name}"
    if not network.sources:
        raise Refused(f"network {network.name} needs at least one source")
    if network.boxes and not network.outputs:
        raise Refused(f"network {network.name} has boxes and no output: name one")
    for source in network.sources:
        check_source(source, where)
    seen: set[str] = set()
    for part in (*network.sources, *network.boxes):
        check_name(f"part {where},", part.name)
        if part.name in seen:
            raise Refused(f"two parts {where} are named {part.name!r}: rename one")
        seen.add(part.name)
    reading: dict[str, str] = {}
    for source in network.sources:
        other = reading.setdefault(source.stream_name, source.name)
        if other != source.name:
            raise Refused(
                f"sources {other} and {source.name} {where} both read stream {source.stream_name}: "
                "let the boxes of both read one source"
            )
    streams = set(reading)
    for output in network.outputs:
        check_name(f"output {where},", output.name)
        if output.name in streams:
            raise Refused(f"two streams {where} are named {output.name!r}: rename one")
        streams.add(output.name)


def check_stream(source: Source, where: str) -> None:
    """Refuse a source that names no stream, or reads one and says how records are landed."""
    if source.stream is None:
        return
    owner = f"that source {source.name!r} {where} reads,"
    if "/" in source.stream:
        check_name(f"participant {owner}", source.stream.rpartition("/")[0])
    check_name(f"stream {owner}", source.stream_name)
    is_late_given = source.late != QUARANTINE_LATE or source.late_every is not None
    if source.key or source.disorder != _NO_DISORDER or is_late_given:
        given = "key" if source.key else "late" if is_late_given else "disorder"
        raise Refused(
            f"source {source.name!r} {where} reads stream {source.stream}, whose records have "
            f"landed already: leave {given} out"
        )


def check_box(box: Box) -> None:
    """Refuse a box whose own parameters cannot be, naming it."""
    check_name(f"fragment of box {box.name},", box.fragment)
    match box:
        case Filter():
            if not box.cases:
                raise Refused(f"filter {box.name} has no cases: give a port and its predicate")
            for port in ports_of(box):
                check_name(f"port of filter {box.name},", port)
            if box.otherwise in box.cases:
                raise Refused(f"filter {box.name} has two ports named {box.otherwise!r}")
        case Aggregate():
            check_windows(box)
            for name in box.group_by:
                if not is_name(name):
                    raise Refused(
                        f"aggregate {box.name} groups by {name!r}, which is not the name of a "
                        "column: compute it in a map before"
                    )
            for name in box.columns:
                check_name(f"column of aggregate {box.name},", name)
            names = ["window_start", *box.group_by, *box.columns]
            for name, count in Counter(names).items():
                if count > 1:
                    raise Refused(f"aggregate {box.name} has two columns {name!r}: rename one")
            check_empty(f"aggregate {box.name}", box.empty, box.group_by, box.keys)
            check_aggregates(f"aggregate {box.name}", box.aggregates)
        case Session():
            check_session(box)
        case Map():
            if not box.columns:
                raise Refused(f"map {box.name} has no columns: name at least one")
            for name in box.columns:
                check_name(f"column of map {box.name},", name)
        case Join():
            check_join(box)
        case Lookup():
            check_lookup(box)
        case Resample():
            check_resample(box)
        case Rank():
            check_sizes(f"rank {box.name}", box)
            check_rank(box)
        case Deduplicate():
            check_deduplicate(box)
        case Running():
            check_running(box)
        case Every():
            check_every(box)
        case Function():
            declare_columns(f"function {box.name!r}", box.columns)
            if not callable(box.function):
                raise Refused(
                    f"function {box.name} has {box.function!r} to call: write function=f, a "
                    "function of Python"
                )
        case Union():
            if len(box.inputs) < 2:
                raise Refused(
                    f"union {box.name} has fewer than two inputs: write inputs=('…', '…')"
                )


def check_windows(box: Aggregate) -> None:
    """Refuse an Aggregate whose windows cannot be."""
    owner = f"aggregate {box.name}"
    if box.every is not None:
        check_calendar(box, owner)
        return
    if box.zone is not None or box.zone_offsets is not None:
        raise Refused(
            f"{owner} has a zone and no calendar windows: write every='day' or leave zone out"
        )
    if box.size is None:
        raise Refused(
            f"{owner} has no windows: write size='1m', or every='day' and zone='Europe/Berlin'"
        )
    check_sizes(owner, box)


def check_sizes(owner: str, box: Aggregate | Rank) -> None:
    """Refuse windows of a fixed length that cannot be; `owner` is the box in errors."""
    check_duration(f"size of {owner}", box.size or "")
    if box.advance is not None:
        check_duration(f"advance of {owner}", box.advance)
    if box.size_us > WINDOWS_PER_RECORD_MAX * box.advance_us:
        raise Refused(
            f"{owner} has windows of {box.size} every {box.advance}: a record "
            f"would lie in more than {WINDOWS_PER_RECORD_MAX} of them; advance further"
        )
    if box.advance_us > box.size_us:
        raise Refused(
            f"{owner} advances by {box.advance} but its windows are "
            f"{box.size} long: records between them would be lost"
        )


def check_calendar(box: Aggregate, owner: str) -> None:
    """Refuse calendar windows whose period or zone cannot be; `owner` is the box in errors."""
    if box.size is not None or box.advance is not None:
        given = "size" if box.size is not None else "advance"
        raise Refused(
            f"{owner} has {given} and every={box.every!r}: write size for windows of a fixed "
            "length, or every and zone for calendar windows"
        )
    if box.every not in PERIODS:
        near = did_you_mean(str(box.every), PERIODS, f"write {', '.join(PERIODS)}")
        raise Refused(f"every of {owner} is {box.every!r}, which is not a calendar period: {near}")
    if box.zone is None or not has_form_of_zone(box.zone):
        raise Refused(
            f"zone of {owner} is {box.zone!r}, which is not a valid zone: write UTC, an offset "
            "such as +01:00, or a name such as Europe/Berlin"
        )
    if box.zone_offsets is not None:
        try:
            zone_clock(box.zone_offsets)
        except Refused as error:
            raise Refused(f"{owner}: {error}") from None


def check_duration(owner: str, duration: str) -> None:
    """Refuse a text that is no duration, naming whose it is."""
    try:
        parse_duration_us(duration)
    except Refused as error:
        raise Refused(f"{owner}: {error}") from None


def topological_order(network: Network) -> tuple[str, ...]:
    """Box names so that each comes after what it reads; raises Refused naming a cycle's boxes."""
    upstream = {
        box.name: [network.port(r, f"box {box.name}").owner for r in inputs_of(box)]
        for box in network.boxes
    }
    order: list[str] = []
    while upstream:
        ready = [b for b, reads in upstream.items() if not any(r in upstream for r in reads)]
        if not ready:
            cycle = " -> ".join(_a_cycle(upstream))
            raise Refused(f"boxes of network {network.name} form a cycle: {cycle}")
        for name in ready:
            del upstream[name]
        order.extend(ready)
    return tuple(order)


def _a_cycle(upstream: Mapping[str, list[str]]) -> Iterator[str]:
    """The boxes of one cycle, from a graph in which every box waits for another."""
    path = [next(iter(upstream))]
    while path[-1] not in path[:-1]:
        path.append(next(r for r in upstream[path[-1]] if r in upstream))
    yield from reversed(path[path.index(path[-1]) :])


def check_every_box_is_used(network: Network) -> None:
    """Refuse a source or box that nothing reads: its work would be lost."""
    for arc in network.output_arcs:
        if network.is_source(arc.start.owner):
            raise Refused(
                f"output {arc.end} of network {network.name} comes straight from source "
                f"{arc.start.owner}: put a box between them, or read the source itself"
            )
    is_landed = all(source.is_landed for source in network.sources)
    if not network.boxes and not network.outputs and (is_landed or network.is_imported):
        return
    read = {arc.start.owner for arc in (*network.box_arcs, *network.output_arcs)}
    for part in (*network.sources, *network.boxes):
        if part.name not in read:
            kind = "source" if isinstance(part, Source) else "box"
            raise Refused(
                f"{kind} {part.name} of network {network.name} is read by no box and no output: "
                "remove it, or read it"
            )
