"""What the sinks of all streams say together: each goes with its stream, and none with another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medusa_core.errors import Refused
from medusa_core.names import Participant, StreamName
from medusa_core.nearest import did_you_mean
from pipelines.catalog.interface import StreamRecord
from pipelines.contracts.streams import SinkContract, StreamContract
from pipelines.sinks.declaration import check_sink, same_target


def check_sinks(
    records: Mapping[StreamName, StreamRecord],
    holders: Mapping[StreamName, frozenset[Participant]],
    contracts: Sequence[StreamContract],
) -> None:
    """Refuse, naming its place, a sink that cannot be delivered or would meet another one.

    `holders` are the homes that hold each stream.
    """
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
            _check_participant(contract.stream, sink, holders[contract.stream])
            for other in seen:
                if same_target(sink.declaration, other.declaration):
                    raise sink.at.refused(
                        f"delivers into {sink.declaration.target}, where {other.at.place} does "
                        "already: give each sink a target of its own"
                    )
            seen.append(sink)


def _check_participant(
    stream: StreamName, sink: SinkContract, holders: frozenset[Participant]
) -> None:
    named = sink.participant
    if named is not None and named.name not in holders:
        hint = did_you_mean(named.name, holders, f"write one of {', '.join(sorted(holders))}")
        raise named.at.refused(f"is {named.name}, whose home does not hold {stream}: {hint}")
