"""Checks of the streams' contracts against the networks: feeds, bounds, lags and readers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medusa_core.errors import Refused
from medusa_core.names import Participant, StreamName
from medusa_core.suggest import did_you_mean
from pipelines.contracts.fields import listing
from pipelines.contracts.imported_streams import how_to_join
from pipelines.contracts.placed_network import PlacedNetwork
from pipelines.contracts.streams import StreamContract


def check_streams(
    networks: Sequence[PlacedNetwork], contracts: Sequence[StreamContract], folder: Path
) -> None:
    """Refused, naming file, line and field, for what a contract cannot say of its stream."""
    kinds = {stream.name: stream.kind for network in networks for stream in network.streams}
    imported = _imported_names(networks)
    for contract in contracts:
        if contract.stream not in kinds:
            hint = did_you_mean(contract.stream, kinds, f"there is {', '.join(kinds) or 'none'}")
            raise contract.at.refused(
                f"is {contract.stream}, which no network that anybody runs has: {hint}"
            )
        if contract.source is not None and contract.stream in imported:
            raise contract.source_at.refused(
                f"feeds {contract.stream}, which a partner writes: only sources landed here are fed"
            )
        if contract.source is not None and kinds[contract.stream] != "source":
            raise contract.source_at.refused(
                f"feeds {contract.stream}, which is computed: only a network's sources are fed"
            )
    for contract in contracts:
        is_read = kinds[contract.stream] == "source" or contract.stream in imported
        if contract.bound is not None and is_read:
            what = "a partner writes" if contract.stream in imported else "is a source"
            raise contract.lag_at.refused(
                f"promises a bound of {contract.stream}, which {what}: declare it of what is "
                "computed from it"
            )
        if contract.qos is not None and is_read:
            raise contract.qos_at.refused(
                f"says what {contract.stream} is worth, which is not computed here: declare it of "
                "what is computed from it"
            )
        if contract.lag_ms is not None and not is_read:
            raise contract.lag_at.refused(
                f"says how late {contract.stream} is due, which is computed: only a network's "
                "sources have a lag of their own"
            )
    fed = {contract.stream for contract in contracts if contract.source is not None}
    for name, kind in kinds.items():
        if kind == "source" and name not in fed | imported:
            raise Refused(
                f"nothing feeds source {name}: say what does in {folder}/streams/{name}.yaml, "
                "under source"
            )


def check_readers(
    networks: Sequence[PlacedNetwork],
    contracts: Sequence[StreamContract],
    participants: Sequence[Participant],
) -> None:
    """Refused for readers that nobody knows, that write the stream, or that its writer grants."""
    writers = {r.name: network.writers_of(r.name) for network in networks for r in network.streams}
    imported = _imported_names(networks)
    for contract in contracts:
        for named in contract.readers:
            if named.name not in participants:
                hint = did_you_mean(named.name, participants, how_to_join(named.name))
                raise named.at.refused(
                    f"is {named.name}, without a contract as participant: {hint}"
                )
            if contract.stream in imported:
                raise named.at.refused(
                    f"is to read {contract.stream}, which {listing(writers[contract.stream])} "
                    "writes and grants: leave it out"
                )
            if named.name in writers[contract.stream]:
                raise named.at.refused(
                    f"is {named.name}, who writes {contract.stream}: leave it out"
                )


def check_recipients(
    networks: Sequence[PlacedNetwork], contracts: Sequence[StreamContract]
) -> None:
    """Refused for streams that are not shared from here, or whose name is that of another table."""
    imported = _imported_names(networks)
    for contract in contracts:
        if not contract.recipients and not contract.is_public:
            continue
        at = contract.recipients[0].at if contract.recipients else contract.at
        if contract.stream in imported:
            raise at.refused(
                f"shares {contract.stream}, which a partner writes and shares itself: leave it out"
            )
        if contract.stream.endswith("__all"):
            raise at.refused(
                f"shares {contract.stream}, whose name is that of the table of the tentative rows "
                "of another stream: choose another name for the stream"
            )


def _imported_names(networks: Sequence[PlacedNetwork]) -> set[StreamName]:
    """The streams of partners elsewhere."""
    return {s.name for n in networks if n.plan.network.is_imported for s in n.streams}
