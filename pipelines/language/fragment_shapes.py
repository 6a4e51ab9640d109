"""Shapes: the common form of fragments that differ only in names, so that one job serves all.

A thousand streams of one kind are a thousand fragments with the same boxes. Their shape is a
network over streams of canonical names in which every record carries the number of its member:
maps pass it on, aggregates and ranks group by it, the boxes that compare records have it as a key.
The output for a member is that of its own fragment (I2, I3), since no box reads two members'
records together.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, MutableMapping
from dataclasses import dataclass, replace
from itertools import count

from medusa_core.emitted_windows import emitting
from medusa_core.errors import Refused
from medusa_core.fragments import Fragment, fragments_of
from medusa_core.names import StreamName
from medusa_core.network import (
    Aggregate,
    Box,
    Deduplicate,
    Every,
    Filter,
    Join,
    Lookup,
    Map,
    Network,
    Output,
    Port,
    Rank,
    Resample,
    Running,
    Session,
    Source,
    Union,
    has_functions,
    inputs_of,
)
from medusa_core.plans import network_document
from pipelines.language.check import CheckedNetwork, check_network
from pipelines.language.panes import over_panes

FRAGMENT = "shape"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A network that stands for all fragments of one shape; `key` is equal for equal shapes.

    `member` is the column that says whose record it is.
    """

    key: str
    checked: CheckedNetwork
    fragment: Fragment
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaped:
    """A fragment and its shape: streams of the shape in the order of the fragment's own."""

    shape: Shape
    inputs: tuple[tuple[StreamName, StreamName], ...]
    outputs: tuple[tuple[StreamName, StreamName], ...]
    boxes: tuple[tuple[str, str], ...]


def shaped(
    fragment: Fragment, checked: CheckedNetwork, known: MutableMapping[str, Shape | None]
) -> Shaped | None:
    """The fragment's shape; None if it has none.

    A Function sees all rows at once, and an aggregate function is registered for one fragment.
    Windows that are emitted without records are given to the job of one fragment.

    `inputs`, `outputs` and `boxes` pair the shape's names with the fragment's. `known` are the
    shapes met before, by key: a thousand fragments of one shape are checked once.
    """
    if any(map(has_functions, fragment.boxes)) or emitting(fragment):
        return None
    ports = tuple(fragment.inputs)
    names = {port.owner: f"in{at}" for at, port in enumerate(ports)}
    if len(names) < len(ports):
        # Two ports of one box: their records come under one name each.
        return None
    inside = {box.name: f"box{at}" for at, box in enumerate(fragment.boxes)}
    member = _free_column(name for p in (*ports, *_ports_within(checked, inside))
                          for name in (c.name for c in checked.columns[p]))  # fmt: skip

    def new(reference: str) -> str:
        port = fragment.network.port(reference, FRAGMENT)
        if port in fragment.inputs:
            return names[port.owner]
        return f"{inside[port.owner]}.{port.port}" if port.port else inside[port.owner]

    try:
        network = Network(
            name=FRAGMENT,
            sources=tuple(
                Source(
                    name=names[port.owner],
                    columns={**{c.name: c.type for c in checked.columns[port]}, member: "int"},
                    # Records come with their event time; nothing is ever landed here.
                    time=member,
                )
                for port in ports
            ),
            boxes=tuple(
                _of_all(_renamed(box, inside[box.name], [new(r) for r in inputs_of(box)]), member)
                for box in fragment.boxes
            ),
            outputs=tuple(
                Output(name=f"out{at}", input=_reference(port, inside))
                for at, port in enumerate(fragment.outputs.values())
            ),
            bucket="1s",
        )
    except Refused:
        # Such as a name that is too long with its prefix.
        return None
    key = json.dumps(network_document(network))
    if key not in known:
        known[key] = _shape_of(key, network, member)
    shape = known[key]
    if shape is None:
        return None
    return Shaped(
        shape=shape,
        inputs=tuple((StreamName(names[p.owner]), s) for p, s in fragment.inputs.items()),
        outputs=tuple(zip(shape.fragment.outputs, fragment.outputs, strict=True)),
        boxes=tuple((new_name, name) for name, new_name in inside.items()),
    )


def _shape_of(key: str, network: Network, member: str) -> Shape | None:
    try:
        checked, _ = over_panes(check_network(network))
    except Refused:
        # Such as a union of what is grouped and what is not: the member stands at two places.
        return None
    (fragment,) = fragments_of(checked.network)
    return Shape(key=key, checked=checked, fragment=fragment, member=member)


def _ports_within(checked: CheckedNetwork, inside: Collection[str]) -> Iterator[Port]:
    return (port for port in checked.columns if port.owner in inside)


def _free_column(taken: Iterator[str]) -> str:
    names = set(taken)
    return next(n for at in count() if (n := f"member{at or ''}") not in names)


def _reference(port: Port, inside: dict[str, str]) -> str:
    name = inside[port.owner]
    return f"{name}.{port.port}" if port.port else name


def _renamed(box: Box, name: str, reads: list[str]) -> Box:
    if isinstance(box, Union):
        return replace(box, name=name, fragment=FRAGMENT, inputs=tuple(reads))
    if isinstance(box, Join):
        return replace(box, name=name, fragment=FRAGMENT, left=reads[0], right=reads[1])
    if isinstance(box, Lookup):
        return replace(box, name=name, fragment=FRAGMENT, input=reads[0], table=reads[1])
    return replace(box, name=name, fragment=FRAGMENT, input=reads[0])


def _of_all(box: Box, member: str) -> Box:
    """The box for the records of all members at once."""
    match box:
        case Map():
            return replace(box, columns={**box.columns, member: member})
        case Aggregate() | Rank():
            return replace(box, group_by=(*box.group_by, member))
        case Session() | Deduplicate() | Running() | Every():
            return replace(box, by=(*box.by, member))
        case Join():
            columns = {**box.columns, member: f"left.{member}"} if box.columns else {}
            return replace(box, on=(*box.on, member), columns=columns)
        case Lookup():
            columns = {**box.columns, member: f"input.{member}"} if box.columns else {}
            return replace(box, on=(*box.on, member), columns=columns)
        case Resample():
            return replace(box, by=(*box.by, member))
        case Filter() | Union():
            return box
    raise AssertionError(box)
