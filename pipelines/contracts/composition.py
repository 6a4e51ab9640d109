"""Composition: networks that read streams of each other.

A source of a network may be a stream that another network writes. The stream keeps its one origin:
the network that writes it brings it into every home that reads it, for all readers together. What
networks compute from each other forms no cycle.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from medusa_core.errors import Refused
from medusa_core.fragments import Fragment
from medusa_core.names import Participant, StreamName
from medusa_core.network import Network, Port, Source
from medusa_core.suggest import did_you_mean
from pipelines.catalog.records import StreamRecord
from pipelines.contracts.fields import listing
from pipelines.language.check import CheckedNetwork
from pipelines.spark.deployment import Owners, Wiring


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStream:
    """A stream that a network reads and another one writes: its shape and who writes it."""

    record: StreamRecord
    network: str
    writers: tuple[Participant, ...]


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


def in_order(networks: Sequence[tuple[Network, Sequence[Fragment]]]) -> tuple[Fragment, ...]:
    """The fragments of all networks, each after those whose streams it reads.

    Raises Refused, naming the streams on the way, if there is a cycle.
    """
    waiting = {fragment.id: fragment for _, fragments in networks for fragment in fragments}
    writers = {stream: id_ for id_, fragment in waiting.items() for stream in fragment.outputs}
    order: list[Fragment] = []
    while waiting:
        ready = [
            fragment
            for fragment in waiting.values()
            if not any(writers.get(s) in waiting for s in fragment.input_streams)
        ]
        if not ready:
            path = _a_cycle(waiting, writers)
            raise Refused(
                f"the streams of networks {listing(_networks_on(path, waiting, writers))} are "
                f"computed from each other: {' -> '.join(path)}; let one of them read another "
                "stream"
            )
        order += ready
        for fragment in ready:
            del waiting[fragment.id]
    return tuple(order)


def _a_cycle(
    waiting: Mapping[str, Fragment], writers: Mapping[StreamName, str]
) -> Sequence[StreamName]:
    """The streams on a cycle, in the direction of the data; each fragment waits for another."""
    path = [next(iter(next(iter(waiting.values())).outputs))]
    while path[-1] not in path[:-1]:
        fragment = waiting[writers[path[-1]]]
        path.append(next(s for s in fragment.input_streams if writers.get(s) in waiting))
    return path[path.index(path[-1]) :][::-1]


def _networks_on(
    path: Sequence[StreamName],
    waiting: Mapping[str, Fragment],
    writers: Mapping[StreamName, str],
) -> Sequence[str]:
    return sorted({waiting[writers[stream]].network.name for stream in path})
