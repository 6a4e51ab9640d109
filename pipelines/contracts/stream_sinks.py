"""The declared sinks of all streams, checked together: each belongs to one stream."""

from __future__ import annotations

from collections.abc import Sequence

from medusa_core.errors import Refused
from medusa_core.names import Participant, StreamName
from medusa_core.suggest import did_you_mean
from pipelines.contracts.fields import listing
from pipelines.contracts.placed_network import PlacedNetwork
from pipelines.contracts.streams import SinkContract, StreamContract
from pipelines.sinks.sink_declaration import check_sink, same_target


def check_sinks(
    networks: Sequence[PlacedNetwork],
    contracts: Sequence[StreamContract],
    participants: Sequence[Participant],
) -> None:
    """Refuse, naming its place, a sink that cannot be delivered or would meet another one."""
    placed = {record.name: network for network in networks for record in network.streams}
    records = {record.name: record for network in networks for record in network.streams}
    seen: list[SinkContract] = []
    for contract in contracts:
        record = records[contract.stream]
        for sink in contract.sinks:
            try:
                check_sink(
                    record.name, sink.declaration, record.columns, record.width_us, record.key
                )
            except Refused as error:
                raise sink.at.refused(f"delivers nothing: {error}") from None
            _check_participant(placed[contract.stream], contract.stream, sink, participants)
            for other in seen:
                if same_target(sink.declaration, other.declaration):
                    raise sink.at.refused(
                        f"delivers into {sink.declaration.target}, where {other.at.place} does "
                        "already: give each sink a target of its own"
                    )
            seen.append(sink)


def _check_participant(
    network: PlacedNetwork,
    stream: StreamName,
    sink: SinkContract,
    participants: Sequence[Participant],
) -> None:
    """A stream of several producers is delivered by who is named, one whose row is verified by who
    has verified it."""
    named = sink.participant
    holders = sorted(name for name in participants if stream in network.held_by(name))
    writers = network.writers_of(stream)
    if named is None and len(writers) > 1:
        raise sink.at.refused(
            f"delivers {stream}, which {listing(writers)} compute: name the one of "
            f"{listing(holders)} that delivers it, such as participant: {holders[-1]}"
        )
    if named is not None and named.name not in holders:
        hint = did_you_mean(named.name, holders, f"write one of {', '.join(holders)}")
        raise named.at.refused(f"is {named.name}, whose home does not hold {stream}: {hint}")
    if named is not None and stream in network.verified:
        readers = [name for name in participants if stream in network.chosen_by(name)]
        if named.name not in readers:
            what = f"name one of {listing(readers)}" if readers else "leave verify out"
            raise named.at.refused(
                f"is {named.name}, which does not compare {stream} with what others compute, and "
                f"its contract says verify: {network.verified[stream]}: {what}"
            )
