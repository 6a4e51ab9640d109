"""The placement of all networks of a folder: plans, wiring, and the readers of each stream."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from medusa_core.errors import Refused
from medusa_core.fragments import Fragment
from medusa_core.names import StreamName
from medusa_core.network import functions_in
from pipelines.contracts.composition import (
    ReadStream,
    check_acyclic,
    in_order,
    read_stream,
    readers_of,
)
from pipelines.contracts.imported_streams import (
    Offers,
    Reading,
    imported_network,
    imported_streams,
)
from pipelines.contracts.network_parts import NetworkParts
from pipelines.contracts.participants import ParticipantContract
from pipelines.contracts.placed_network import PlacedNetwork
from pipelines.language.load import SHIPPED
from pipelines.spark.deployment import plan_of_widths, streams_of, wiring_of


def place_networks(
    parts: Sequence[NetworkParts],
    participants: Sequence[ParticipantContract],
    offers: Offers,
    directory: Path,
) -> tuple[tuple[PlacedNetwork, ...], tuple[Fragment, ...]]:
    """All networks, imported streams first, and all fragments, each after those that it reads.

    Raises Refused if a stream has two writers or none, or is computed from itself.
    """
    written = _written(parts)
    with _engine_folder(directory) as folder:
        imported = _imported(parts, written, participants, offers, folder)
        written |= {stream.record.name: stream for one in imported for stream in _read_of(one)}
        networks = (*imported, *(_placed(one, parts, written, folder) for one in parts))
    check_acyclic([*(one.lineage(written) for one in parts), *(n.lineage for n in networks)])
    return networks, in_order(fragment for one in parts for fragment in one.fragments)


@contextmanager
def _engine_folder(directory: Path) -> Iterator[Path]:
    """MEDUSA_DIR if it is there; else a folder that goes again, since looking leaves no trace."""
    if directory.is_dir():
        yield directory
        return
    with tempfile.TemporaryDirectory(prefix="medusa-apply-") as scratch:
        yield Path(scratch)


def _written(parts: Sequence[NetworkParts]) -> dict[StreamName, ReadStream]:
    """The streams of all networks; Refused if two networks write one."""
    written: dict[StreamName, ReadStream] = {}
    for stream in (stream for its in parts for stream in its.streams):
        other = written.setdefault(stream.record.name, stream)
        if other.network != stream.network:
            raise Refused(
                f"stream {stream.record.name} belongs to network {other.network} and to "
                f"{stream.network}: rename it in one of them"
            )
    return written


def _imported(
    parts: Sequence[NetworkParts],
    written: Mapping[StreamName, ReadStream],
    participants: Sequence[ParticipantContract],
    offers: Offers,
    directory: Path,
) -> tuple[PlacedNetwork, ...]:
    """The networks that bring streams of partners elsewhere into the homes that read them."""
    readings = [
        Reading(
            source=source,
            network=its.network.name,
            width_us=its.width_us,
            readers=tuple(sorted(its.readers_of(source.stream_name))),
            at=its.run.network_at,
        )
        for its in parts
        for source in its.network.sources
        if not source.is_landed and source.stream_name not in written
    ]
    fragments = [(f, its.owners[f.id]) for its in parts for f in its.fragments]
    found = imported_streams(readings, participants, offers)
    return tuple(
        imported_network(name, found[name], fragments, directory) for name in sorted(found)
    )


def _read_of(network: PlacedNetwork) -> Iterator[ReadStream]:
    for record in network.streams:
        writers = network.writers_of(record.name)
        yield ReadStream(record=record, network=network.name, writers=writers)


def _placed(
    its: NetworkParts,
    parts: Sequence[NetworkParts],
    written: Mapping[StreamName, ReadStream],
    directory: Path,
) -> PlacedNetwork:
    network, checked, fragments = its.network, its.checked, its.fragments
    try:
        reads = {
            source.stream_name: read_stream(checked, source, written)
            for source in network.sources
            if not source.is_landed
        }
        read_us = {name: read.record.width_us for name, read in reads.items()}
        plan = plan_of_widths(network, checked, {**its.widths_us, **read_us}, directory)
        wiring = wiring_of(plan, fragments)
    except Refused as error:
        raise its.run.network_at.refused(f"cannot be run: {error}") from None
    has_function = functions_in(network)
    file = its.run.network
    others = [(f, one.owners[f.id]) for one in parts if one is not its for f in one.fragments]
    streams = streams_of(checked, fragments, plan.widths_us)
    return PlacedNetwork(
        plan=plan,
        streams=streams,
        fragments={fragment.id: fragment for fragment in fragments},
        wiring=wiring,
        owners=its.owners,
        width_us=its.width_us,
        file=Path(file) if has_function and file not in SHIPPED else None,
        reads=reads,
        readers=readers_of({record.name for record in streams}, others),
        start=its.start,
    )
