"""The network in which partitioned fragments are ordinary ones: a pure transformation.

For each partition there is a fragment with a copy of each box, behind a Filter of the records whose
key belongs to the partition. The partitioned fragment gives what it gave before: per bucket the
union of what the partitions give. Since nothing else knows of partitions, all that holds of
fragments holds of them: leases, versions, tentative rows, corrections, revisions, moves,
certificates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from medusa_core.errors import Refused
from medusa_core.fragments import crossing_name
from medusa_core.key_partitions import Partitions, cut_name
from medusa_core.names import is_name
from medusa_core.network import Box, Filter, Join, Lookup, Network, Output, Port, Union, inputs_of
from medusa_core.partitions.keys import check_keys
from medusa_core.partitions.shares import conditions_of
from medusa_core.suggest import did_you_mean

TypesOf = Callable[[Port], Mapping[str, str]]
"""The types of the columns of a port, by name."""


def with_partitions(network: Network, types_of: TypesOf) -> Network:
    """The network with the fragments of all partitions; the same network if it declares none.

    Raises Refused for a fragment that cannot be partitioned.
    """
    todo = [name for name, one in network.partitions.items() if not one.is_applied]
    types = {
        arc.start: types_of(arc.start) for arc in network.box_arcs if todo
    }  # before the boxes have other names
    for fragment in todo:
        network = _Partitioning(network, fragment, types).made()
    return network


class _Partitioning:
    """One fragment of a network in partitions."""

    def __init__(
        self, network: Network, fragment: str, types: dict[Port, Mapping[str, str]]
    ) -> None:
        self._network, self._fragment, self._types = network, fragment, types
        self._declared: Partitions = network.partitions[fragment]
        self._names = tuple(f"{fragment}_p{i}" for i in range(self._declared.n))
        self._inside = {box.name for box in network.boxes if box.fragment == fragment}
        self._entries = _once(
            arc.start for arc in network.box_arcs
            if arc.end in self._inside and arc.start.owner not in self._inside
        )  # fmt: skip
        ends = (*network.output_arcs, *(a for a in network.box_arcs if a.end not in self._inside))
        self._exits = _once(arc.start for arc in ends if arc.start.owner in self._inside)
        self._check()

    def made(self) -> Network:
        """The network with the partitions in place of the boxes of the fragment."""
        network = self._network
        copies = [box for i in range(self._declared.n) for box in self._copies(i)]
        merges = [self._merge(port) for port in self._exits]
        others = [self._rewired(box) for box in network.boxes if box.name not in self._inside]
        applied = replace(self._declared, fragments=self._names)
        for port in self._exits:
            self._types[Port(crossing_name(port))] = self._types.get(port, {})
        return replace(
            network,
            boxes=(*others, *self._cuts(), *copies, *merges),
            outputs=tuple(
                Output(name=o.name, input=self._reference(o.input)) for o in network.outputs
            ),
            partitions={**network.partitions, self._fragment: applied},
        )

    def _check(self) -> None:
        where = f"fragment {self._fragment} of network {self._network.name}"
        made = replace(self._declared, fragments=self._names).made_for(self._fragment)
        fragments = {box.fragment for box in self._network.boxes}
        for name in made:
            if name in fragments:
                raise Refused(
                    f"fragment {name} of network {self._network.name} has the name of a part of "
                    f"the partitioned fragment {self._fragment}: give it another name"
                )
            if not is_name(name):
                raise Refused(f"{where} has a name too long for its partitions: shorten it")
        for column in self._declared.by:
            for port in self._entries:
                known = self._types[port]
                if column not in known:
                    near = did_you_mean(column, known, f"it has {', '.join(known)}")
                    raise Refused(
                        f"{where} is partitioned by {column}, which is not a column of its input "
                        f"{port}: {near}"
                    )
        self._check_types(where)
        check_keys(self._network, self._fragment, self._declared)

    def _check_types(self, where: str) -> None:
        for column in self._declared.by:
            found = {str(port): self._types[port][column] for port in self._entries}
            same = {"bigint" if type_ == "int" else type_ for type_ in found.values()}
            if len(same) > 1:
                listed = ", ".join(f"{type_} in {port}" for port, type_ in found.items())
                raise Refused(
                    f"{where} is partitioned by {column}, whose type differs ({listed}): equal "
                    "keys would be in different partitions; cast one in a Map of another fragment"
                )

    def _cuts(self) -> Iterator[Box]:
        """With `cut`, the boxes that write each input cut by partition."""
        if not self._declared.cut:
            return
        for port in self._entries:
            conditions = self._conditions(port)
            cases = {f"p{i}": condition for i, condition in enumerate(conditions)}
            name = self._part_name(port, "cut")
            yield Filter(name=name, input=str(port), cases=cases, fragment=cut_name(self._fragment))

    def _copies(self, i: int) -> Iterator[Box]:
        """The boxes of one partition: its share of each input, and a copy of each box."""
        entries: dict[Port, str] = {}
        for port in self._entries:
            if self._declared.cut:
                entries[port] = f"{self._part_name(port, 'cut')}.p{i}"
                continue
            name = entries[port] = self._part_name(port, f"p{i}")
            yield Filter(
                name=name, input=str(port), cases={"own": self._conditions(port)[i]},
                fragment=self._names[i],
            )  # fmt: skip
        for box in self._network.boxes:
            if box.name in self._inside:
                yield _with_inputs(
                    replace(box, name=f"{box.name}_p{i}", fragment=self._names[i]),
                    lambda reference: self._copied(reference, entries, i),
                )

    def _copied(self, reference: str, entries: Mapping[Port, str], i: int) -> str:
        port = self._network.port(reference, f"fragment {self._fragment}")
        if port in entries:
            return entries[port]
        return str(replace(port, owner=f"{port.owner}_p{i}"))

    def _part_name(self, port: Port, part: str) -> str:
        return f"{self._fragment}_{crossing_name(port)}_{part}"

    def _conditions(self, port: Port) -> tuple[str, ...]:
        declared = self._declared
        return conditions_of(declared.by, self._types[port], declared.n)

    def _merge(self, port: Port) -> Union:
        """What the fragment gave by a port: the union of what its partitions give."""
        inputs = (str(replace(port, owner=f"{port.owner}_p{i}")) for i in range(self._declared.n))
        return Union(name=crossing_name(port), inputs=tuple(inputs), fragment=self._fragment)

    def _rewired(self, box: Box) -> Box:
        return _with_inputs(box, self._reference)

    def _reference(self, reference: str) -> str:
        """A reference to a port of the fragment as one to the union of it."""
        port = self._network.port(reference, f"network {self._network.name}")
        return crossing_name(port) if port.owner in self._inside else reference


def _with_inputs(box: Box, renamed: Callable[[str], str]) -> Box:
    """The box with other references to what it reads."""
    match box:
        case Union():
            return replace(box, inputs=tuple(map(renamed, inputs_of(box))))
        case Join():
            return replace(box, left=renamed(box.left), right=renamed(box.right))
        case Lookup():
            return replace(box, input=renamed(box.input), table=renamed(box.table))
    return replace(box, input=renamed(box.input))


def _once(ports: Iterator[Port]) -> tuple[Port, ...]:
    return tuple(dict.fromkeys(ports))
