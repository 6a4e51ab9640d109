"""A fragment that keeps partial aggregates of its inputs, and one that continues from these.

An answer without some inputs reads the inputs that are available; its correction would read them
again. Here the network of the first is extended to output partial aggregates of the records that
will not change (its panes), and that of the second reads these panes instead of the records. Both
are ordinary networks of our own boxes, so they are checked and compiled like any other:

    to keep:  records -> ... -> panes -+          given: records -> ... -> panes -+
              kept    -> ... -> panes -+-> fold                  panes of before -+-> fold
                                  +-> given

Limits: an input has panes only if every path of its records leads over Filter, Map and Union to
Aggregates that are folds of panes (`pipelines.language.panes`) and no box on the path can fail on
a record; a fragment with functions of Python has none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from medusa_core.columns import Column
from medusa_core.errors import Refused
from medusa_core.fragments import Fragment, fragments_of
from medusa_core.names import StreamName
from medusa_core.network import (
    Aggregate,
    Box,
    Filter,
    Map,
    Output,
    Port,
    Source,
    Union,
    has_functions,
    inputs_of,
    ports_of,
)
from pipelines.language.check import (
    CheckedAggregate,
    CheckedFilter,
    CheckedMap,
    CheckedNetwork,
    check_network,
)
from pipelines.language.panes import (
    InTwo,
    NoPanes,
    as_fold,
    free_name,
    gives_the_same,
    in_two,
    over_panes,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PanesOf:
    """The panes of one Aggregate: what is taken of them, and the streams they come and go by."""

    box: str
    columns: tuple[Column, ...]
    size_us: int
    given: StreamName
    taken: StreamName


@dataclass(frozen=True, slots=True, kw_only=True)
class PaneFragments:
    """A fragment as two: `giving` has panes as outputs, `taking` has them as inputs.

    `kept` are the inputs that can have panes; in `giving` their records come by the stream named
    here if panes are to hold them, else as ever.
    """

    kept: Mapping[StreamName, StreamName]
    panes: tuple[PanesOf, ...]
    giving: tuple[CheckedNetwork, Fragment]
    taking: tuple[CheckedNetwork, Fragment]


def kept_panes(checked: CheckedNetwork, fragment: Fragment) -> PaneFragments | None:
    """The fragment with panes of its inputs; None if none of them can have any."""
    if any(map(has_functions, fragment.boxes)):
        return None
    routes = {port: _route_of(checked, fragment, port) for port in fragment.inputs}
    folded = {
        box.name for box in fragment.boxes if isinstance(box, Aggregate) and _folds(checked, box)
    }
    inputs = [
        port
        for port, route in routes.items()
        if route.ends
        and route.ends <= folded
        and not route.carries & set(fragment.outputs.values())
        and not any(_can_fail(checked, name) for name in route.boxes)
    ]
    if not inputs:
        return None
    try:
        return _Rewriting(checked, fragment, inputs).both(
            {name for port in inputs for name in routes[port].boxes},
            {name for port in inputs for name in routes[port].ends},
        )
    except (NoPanes, Refused):
        # Such as a name that is too long with what is put to it.
        return None


@dataclass(frozen=True, slots=True)
class _Route:
    """Where records of an input go: ports and boxes that carry them, boxes that end them."""

    carries: set[Port]
    boxes: set[str]
    ends: set[str]


def _route_of(checked: CheckedNetwork, fragment: Fragment, input_: Port) -> _Route:
    route = _Route({input_}, set(), set())
    for box in fragment.boxes:
        if not any(checked.network.port(r, box.name) in route.carries for r in inputs_of(box)):
            continue
        if not isinstance(box, Filter | Map | Union):
            route.ends.add(box.name)
        else:
            route.boxes.add(box.name)
            route.carries.update(Port(box.name, port) for port in ports_of(box))
    return route


def _can_fail(checked: CheckedNetwork, name: str) -> bool:
    """Whether a box that carries records fails on some."""
    box = checked.boxes[name]
    match box:
        case CheckedFilter():
            return any(predicate.error for _, predicate in box.cases)
        case CheckedMap():
            return any(expression.error for _, expression in box.columns)
    return False


def _folds(checked: CheckedNetwork, box: Aggregate) -> bool:
    if box.every is not None:
        return False  # Calendar windows do not begin and end with panes of one length.
    try:
        two = in_two(checked, box, splits=True)
        boxes = [b for b in checked.network.boxes if b is not box]
        again = check_network(replace(checked.network, boxes=(*boxes, two.panes, two.whole)))
    except (NoPanes, Refused):
        return False
    partial = again.boxes[two.panes.name]
    assert isinstance(partial, CheckedAggregate)
    never_fails = not any(c.error or c.record_error for _, c in partial.columns)
    return never_fails and gives_the_same(checked, again, box.name)


@dataclass
class _Rewriting:
    """Makes both networks; every name in them is one that nothing has yet."""

    checked: CheckedNetwork
    fragment: Fragment
    inputs: Collection[Port]
    taken: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        network = self.checked.network
        self.taken |= {p.name for p in (*network.sources, *network.boxes, *network.outputs)}
        self.taken |= set(self.fragment.outputs) | set(self.fragment.inputs.values())

    def name(self, proposed: str) -> str:
        """A free name like the proposed one."""
        name = free_name(proposed, self.taken)
        self.taken.add(name)
        return name

    def both(self, carriers: Collection[str], ends: Collection[str]) -> PaneFragments:
        """The fragment as one that gives panes and one that takes them."""
        network = self.checked.network
        kept = {port: self.name(f"{self.fragment.inputs[port]}_kept") for port in self.inputs}
        copies = {name: self.name(f"{name}_kept") for name in carriers}
        giving: list[Box] = list(self.copied(carriers, kept, copies))
        taking: list[Box] = []
        outputs, sources, panes_of = [], [], []
        folds: dict[str, InTwo] = {}
        for box in self.fragment.boxes:
            if box.name not in ends:
                continue
            assert isinstance(box, Aggregate)
            two = in_two(self.checked, box, splits=True)
            panes = replace(two.panes, name=self.name(two.panes.name))
            of_kept = replace(
                panes,
                name=self.name(f"{box.name}_kept"),
                input=self.reference(box.input, box.name, kept, copies),
            )
            given, taken = self.name(f"{box.name}_given"), self.name(f"{box.name}_taken")
            together = self.name(f"{box.name}_together")
            whole = replace(two.whole, input=together)
            folds[box.name] = replace(two, panes=panes, whole=whole)
            # Where windows do not slide, a record is as good as a pane of its own, and is met once.
            alone: Box = panes
            if box.advance_us == box.size_us:
                alone = Map(name=panes.name, input=box.input, columns=two.of_record,
                            fragment=box.fragment)  # fmt: skip
            for boxes, own, other in ((giving, panes, of_kept.name), (taking, alone, taken)):
                inputs = (panes.name, other)
                boxes += [
                    own, Union(name=together, inputs=inputs, fragment=box.fragment), whole,
                ]  # fmt: skip
            giving.append(of_kept)
            outputs.append(Output(name=given, input=of_kept.name))
            rest = (b for b in network.boxes if b is not box)
            shown = replace(whole, input=panes.name)
            columns = check_network(replace(network, boxes=(*rest, alone, shown))).columns
            sources.append(_source(taken, columns[Port(panes.name)]))
            panes_of.append(
                PanesOf(
                    box=box.name,
                    columns=columns[Port(panes.name)],
                    size_us=panes.size_us,
                    given=StreamName(given),
                    taken=StreamName(taken),
                )
            )
        others = [b for b in network.boxes if b.name not in ends]
        kept_sources = [_source(name, self.checked.columns[port]) for port, name in kept.items()]
        return PaneFragments(
            kept={self.fragment.inputs[port]: StreamName(name) for port, name in kept.items()},
            panes=tuple(panes_of),
            giving=self.made([*others, *giving], kept_sources, outputs, folds),
            taking=self.made([*others, *taking], sources, [], folds),
        )

    def copied(
        self, carriers: Collection[str], kept: Mapping[Port, str], copies: Mapping[str, str]
    ) -> Iterator[Box]:
        """The boxes that carry records to the panes once more, for the kept ones alone."""
        for box in self.fragment.boxes:
            if box.name not in carriers:
                continue
            match box:
                case Union():
                    reads = [
                        reference for r in box.inputs
                        if (reference := self.reference(r, box.name, kept, copies))
                    ]  # fmt: skip
                    # A Union joins two or more; with one input left, it gets no other.
                    if len(reads) > 1:
                        yield replace(box, name=copies[box.name], inputs=tuple(reads))
                        continue
                    names = [c.name for c in self.checked.columns[Port(box.name)]]
                    same = {n: f"`{n}`" for n in names}
                    yield Map(name=copies[box.name], input=reads[0], columns=same,
                              fragment=box.fragment)  # fmt: skip
                case Filter() | Map():
                    reference = self.reference(box.input, box.name, kept, copies)
                    yield replace(box, name=copies[box.name], input=reference)

    def reference(
        self, given: str, reader: str, kept: Mapping[Port, str], copies: Mapping[str, str]
    ) -> str:
        """What a copy reads in the place of a reference; "" if no kept record passes there."""
        port = self.checked.network.port(given, reader)
        if port in kept:
            return kept[port]
        owner = copies.get(port.owner, "")
        return f"{owner}.{port.port}" if owner and port.port else owner

    def made(
        self,
        boxes: list[Box],
        sources: list[Source],
        outputs: list[Output],
        folds: Mapping[str, InTwo],
    ) -> tuple[CheckedNetwork, Fragment]:
        """A network checked, deeper windows over panes too; raises NoPanes if it says another."""
        network = self.checked.network
        made = check_network(
            replace(
                network,
                sources=(*network.sources, *sources),
                boxes=tuple(boxes),
                outputs=(*network.outputs, *outputs),
            )
        )
        if not all(gives_the_same(self.checked, made, name) for name in folds):
            raise NoPanes
        made, _ = over_panes(made, but=folds)
        for two in folds.values():
            made = as_fold(made, two)
        (fragment,) = (f for f in fragments_of(made.network) if f.name == self.fragment.name)
        return made, fragment


def _source(name: str, columns: tuple[Column, ...]) -> Source:
    # Panes have no event time of their own, and a column of them may be no time.
    return Source(name=name, stream=name, columns={c.name: c.type for c in columns})
