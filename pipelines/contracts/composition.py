"""Composition: networks that read streams of each other.

A source of a network may be a stream that another network writes. The stream keeps its one origin:
the network that writes it brings it into every home that reads it, for all readers together. What
networks compute from each other forms no cycle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

from medusa_core.errors import Refused
from medusa_core.fragments import Fragment
from medusa_core.names import Participant, StreamName
from medusa_core.network import Port, Source
from medusa_core.suggest import did_you_mean
from pipelines.catalog.records import StreamRecord
from pipelines.contracts.fields import listing
from pipelines.language.check import CheckedNetwork
from pipelines.spark.deployment import Owners, Wiring

Lineage = tuple[tuple[str, str], ...]
"""Pairs of `participant/stream`, of which the second is computed from the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStream:
    """A stream that a network reads and another one writes: its shape and who writes it."""

    record: StreamRecord
    network: str
    writers: tuple[Participant, ...]

    @property
    def qualified(self) -> str:
        """Its name with that of its writer, of several the first, as partners know it."""
        return f"{min(self.writers)}/{self.record.name}"


@dataclass(frozen=True, slots=True)
class Readers:
    """The fragments of other networks that read a network's streams.

    `wiring` has the streams of the network that they read, and nothing that they write.
    """

    wiring: Wiring
    owners: Owners


def read_stream(
    checked: CheckedNetwork, source: Source, written: Mapping[StreamName, ReadStream]
) -> ReadStream:
    """The stream that a source names, of those that are written.

    Raises Refused if there is none, or if it has other columns or another writer.
    """
    network = checked.network
    what = f"source {source.name} of network {network.name} reads stream {source.stream}"
    found = written.get(source.stream_name)
    if found is None:
        hint = did_you_mean(source.stream_name, written, f"there is {', '.join(written)}")
        raise Refused(f"{what}, which no network that anybody runs writes: {hint}")
    if found.network == network.name:
        raise Refused(f"{what}, which the network itself writes: let the box read it by its name")
    if source.writer is not None and source.writer not in found.writers:
        raise Refused(f"{what}, which {listing(found.writers)} writes: name the writer, or none")
    declared = {column.name: column.type for column in checked.columns[Port(source.name)]}
    if list(declared.items()) != list(found.record.columns.items()):
        raise Refused(
            f"{what} with columns ({_columns(declared)}), and it has "
            f"({_columns(found.record.columns)}): declare these, in this order"
        )
    return found


def _columns(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in columns.items())


def readers_of(
    streams: Collection[StreamName], others: Sequence[tuple[Fragment, tuple[Participant, ...]]]
) -> Readers:
    """Of the fragments of other networks, with who computes them, those that read the streams."""
    reading = {
        fragment.id: (tuple(s for s in fragment.input_streams if s in streams), by)
        for fragment, by in others
    }
    return Readers(
        wiring={id_: (inputs, ()) for id_, (inputs, _) in reading.items() if inputs},
        owners={id_: by for id_, (inputs, by) in reading.items() if inputs},
    )


def check_acyclic(networks: Sequence[Lineage]) -> None:
    """Refuse streams that are computed from each other, naming those on the way.

    Each lineage is what one network adds: of its own streams, or of a partner's that it imports.
    """
    reads: dict[str, list[str]] = {}
    for one, other in dict.fromkeys(edge for edges in networks for edge in edges):
        reads.setdefault(other, []).append(one)
    done: set[str] = set()
    for begin in reads:
        path: dict[str, Iterator[str]] = {begin: iter(reads[begin])}
        while path:
            at, behind = next(reversed(path.items()))
            following = next((one for one in behind if one not in done), None)
            if following is None:
                done.add(at)
                del path[at]
            elif following in path:
                on_cycle = [*list(path)[list(path).index(following) :], following]
                raise Refused(
                    f"streams are computed from each other: {' -> '.join(reversed(on_cycle))}; "
                    "let one of them read another stream"
                )
            else:
                path[following] = iter(reads.get(following, ()))


def in_order(fragments: Iterable[Fragment]) -> tuple[Fragment, ...]:
    """Fragments of networks that form no cycle, each after those whose streams it reads."""
    writing = {stream: fragment for fragment in fragments for stream in fragment.outputs}
    by_id = {fragment.id: fragment for fragment in writing.values()}
    sorter = TopologicalSorter(
        {
            id_: [writing[s].id for s in fragment.input_streams if s in writing]
            for id_, fragment in by_id.items()
        }
    )
    return tuple(by_id[id_] for id_ in sorter.static_order())
