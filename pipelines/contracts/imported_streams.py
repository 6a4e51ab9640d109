"""Streams of partners elsewhere, as far as their homes offer them: each a network of its own.

The contracts of a partner elsewhere are not in the folder. What its exchange server offers says
which columns and buckets a stream has; the network that is deployed for it lands and computes
nothing, it brings the stream into every home that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import gcd
from pathlib import Path

from medusa_core.columns import declare_columns
from medusa_core.errors import Refused
from medusa_core.fragments import Fragment
from medusa_core.names import Participant, StreamName
from medusa_core.network import Network, Source
from medusa_core.suggest import did_you_mean
from pipelines.catalog.records import StreamRecord
from pipelines.contracts.composition import Lineage, readers_of
from pipelines.contracts.participants import ParticipantContract
from pipelines.contracts.placed_network import PlacedNetwork
from pipelines.contracts.yaml_values import Value
from pipelines.language.check import check_network
from pipelines.spark.deployment import plan_of_widths


def how_to_join(partner: str) -> str:
    """What to do where a participant elsewhere has no file in the contracts folder."""
    return (
        f"join it (medusa apply --homes, then medusa partner), or write its file with medusa "
        f"partner export {partner}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartnerStream:
    """A stream that a partner offers: its shape, the partner's replicas, what it is computed from.

    `lineage` is as in `OfferedStream`.
    """

    record: StreamRecord
    replicas: tuple[int, ...]
    lineage: Lineage = ()


Offers = Callable[[Participant, StreamName, Participant], PartnerStream | None]
"""What a partner offers of a stream to a reader, in this order: None where that is not to be known
now. Raises Refused if the partner does not offer it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A source of a network that reads a stream which no network of the folder writes."""

    source: Source
    network: str
    width_us: int
    readers: tuple[Participant, ...]
    at: Value

    def refused(self, why: str) -> Refused:
        """The error with the place in the contract that names the network."""
        source = self.source
        what = f"source {source.name} of network {self.network} reads stream {source.stream}"
        return self.at.refused(f"cannot be run: {what}{why}")


def imported_streams(
    readings: Sequence[Reading],
    participants: Sequence[ParticipantContract],
    offers: Offers,
) -> dict[str, PartnerStream]:
    """`partner/stream` -> what is offered of it, for every stream of a partner that is read.

    A stream of which nothing is to be known now is taken as its readers declare it. Raises Refused
    for a participant that nobody knows, and for two streams of one name.
    """
    elsewhere = {one.participant for one in participants if one.public_key is not None}
    known = {one.participant for one in participants}
    of_stream: dict[str, list[Reading]] = {}
    for reading in readings:
        source = reading.source
        if source.stream is None or source.writer is None or source.writer in known - elsewhere:
            continue
        if source.writer not in known:
            to_do = how_to_join(source.writer)
            hint = did_you_mean(source.writer, sorted(known), to_do)
            raise reading.refused(f", and {source.writer} has no contract as participant: {hint}")
        for other in of_stream:
            if other != source.stream and other.endswith(f"/{source.stream_name}"):
                raise reading.refused(
                    f", and another source reads {other}: a home holds one stream of a name; ask "
                    "one of the partners to rename its stream"
                )
        of_stream.setdefault(source.stream, []).append(reading)
    return {stream: _partner_stream(its, offers) for stream, its in of_stream.items()}


def _partner_stream(readings: Sequence[Reading], offers: Offers) -> PartnerStream:
    """What all readers of one stream are offered together, or what their networks declare."""
    found: list[PartnerStream] = []
    for reading in readings:
        source = reading.source
        assert source.writer is not None
        for reader in reading.readers:
            try:
                offered = offers(Participant(source.writer), source.stream_name, reader)
            except Refused as error:
                raise reading.refused(f": {error}") from None
            if offered is None:
                continue
            if found and found[0].record != offered.record:
                raise reading.refused(
                    f", which {source.writer} offers in different shapes: ask its operator"
                )
            found.append(offered)
    if not found:
        return _as_declared(readings)
    return PartnerStream(
        record=found[0].record,
        replicas=tuple(sorted({number for its in found for number in its.replicas})),
        lineage=tuple(sorted({edge for its in found for edge in its.lineage})),
    )


def _as_declared(readings: Sequence[Reading]) -> PartnerStream:
    """With buckets of which all readers have whole ones."""
    source = readings[0].source
    columns = declare_columns(f"source {source.name!r}", source.columns)
    record = StreamRecord(
        name=source.stream_name,
        kind="derived",
        width_us=gcd(*(reading.width_us for reading in readings)),
        columns={column.name: column.type for column in columns},
    )
    return PartnerStream(record=record, replicas=(0,))


def nothing_known(writer: Participant, stream: StreamName, reader: Participant) -> None:
    """Offers of partners that are not asked: see `Offers`."""


def imported_network(
    stream: str,
    offered: PartnerStream,
    fragments: Iterable[tuple[Fragment, tuple[Participant, ...]]],
    directory: Path,
) -> PlacedNetwork:
    """The network that brings a partner's stream to the fragments that read it, with their owners.

    `stream` is `partner/stream`, which names the network and the fragment that writes it.
    """
    record = offered.record
    source = Source(name=record.name, stream=stream, columns=record.columns)
    network = Network(name=stream, sources=(source,), boxes=(), outputs=())
    widths_us = {record.name: record.width_us}
    assert source.writer is not None
    return PlacedNetwork(
        plan=plan_of_widths(network, check_network(network), widths_us, directory),
        streams=(record,),
        fragments={},
        wiring={stream: ((), (record.name,))},
        owners={stream: (Participant(source.writer),)},
        width_us=record.width_us,
        file=None,
        readers=readers_of({record.name}, list(fragments)),
        replicas={stream: offered.replicas},
        lineage=offered.lineage,
    )
