"""The federation that the contracts describe: networks, and who lands and computes what.

Every source of a network is landed by exactly one participant and every fragment computed by one
or several, its replicas; all agree on one file and one width; a stream is written by one network,
which others may read; every source that is landed has a contract that declares its feed.
Violations are refused here, before any home is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from medusa_core.errors import Refused
from medusa_core.fragments import Fragment
from medusa_core.frozen import freeze
from medusa_core.names import Participant, StreamName
from medusa_core.network import Network
from pipelines.contracts.folder import check_folder
from pipelines.contracts.home_snapshot import EVERY_RECIPIENT, READERS, READING, Grant
from pipelines.contracts.imported_streams import Offers, nothing_known
from pipelines.contracts.network_parts import Part, parts_of
from pipelines.contracts.network_placement import place_networks
from pipelines.contracts.participants import ParticipantContract, Run, read_participants
from pipelines.contracts.placed_network import PlacedNetwork
from pipelines.contracts.replicas import check_late, check_replicas
from pipelines.contracts.stream_bounds import PlacedFragment, promises_of
from pipelines.contracts.stream_checks import check_readers, check_recipients, check_streams
from pipelines.contracts.stream_sinks import check_sinks
from pipelines.contracts.streams import StreamContract, read_streams
from pipelines.language.load import load_network


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation:
    """All contracts of a folder, agreeing with each other."""

    participants: tuple[ParticipantContract, ...]
    networks: tuple[PlacedNetwork, ...]
    streams: Mapping[StreamName, StreamContract]
    order: tuple[Fragment, ...]
    """The fragments of all networks, each after those that it reads."""

    def __post_init__(self) -> None:
        freeze(self, "streams")

    @property
    def placed_fragments(self) -> Iterator[PlacedFragment]:
        """The fragments of all networks, each after those that it reads."""
        networks = {network.name: network for network in self.networks}
        for fragment in self.order:
            network = networks[fragment.network.name]
            yield PlacedFragment(
                fragment=fragment,
                owners=network.owners[fragment.id],
                width_us=network.width_us,
                promises=network.promises,
            )

    def grants_of(self, home: Participant) -> frozenset[Grant]:
        """The streams of a home that partners may read by the contracts."""
        found: set[Grant] = set()
        for network in self.networks:
            readings = network.readings.get(home, frozenset())
            found |= {Grant(stream, partner, READING) for stream, partner in readings}
            for record in network.streams:
                contract = self.streams.get(record.name)
                if contract is not None and home in network.writers_of(record.name):
                    names = [Participant(named.name) for named in contract.readers]
                    found |= {Grant(record.name, name, READERS) for name in names}
        return frozenset(found)

    def shared_by(self, home: Participant) -> frozenset[tuple[StreamName, str]]:
        """The streams of a home that recipients may read by the contracts; *: every recipient."""
        found: set[tuple[StreamName, str]] = set()
        for network in self.networks:
            for record in network.streams:
                contract = self.streams.get(record.name)
                if contract is not None and home in network.writers_of(record.name):
                    found |= {(record.name, named.name) for named in contract.recipients}
                    found |= {(record.name, EVERY_RECIPIENT)} if contract.is_public else set()
        return frozenset(found)


def read_federation(contracts: Path, directory: Path, offers: Offers = nothing_known) -> Federation:
    """Read and check a contracts folder; `directory` is MEDUSA_DIR, where the engine is found.

    `offers` tells what partners elsewhere offer; where it does not know, their streams are taken as
    the networks declare them. Raises Refused, naming file, line and field, and what `offers`
    raises.
    """
    check_folder(contracts)
    participants = read_participants(contracts)
    streams = read_streams(contracts)
    parts: dict[str, list[Part]] = {}
    loaded: dict[str, Network] = {}
    for contract in participants:
        for run in contract.runs:
            network = loaded.get(run.network) or _loaded(run)
            loaded[run.network] = network
            parts.setdefault(network.name, []).append(Part(contract.participant, run))
    of_networks = [parts_of(parts[name], loaded) for name in sorted(parts)]
    networks, order = place_networks(of_networks, participants, offers, directory)
    check_streams(networks, streams, contracts)
    networks = _promised(networks, order, streams)
    names = [contract.participant for contract in participants]
    check_replicas(networks, streams, names)
    check_late(networks)
    check_sinks(networks, streams, names)
    check_readers(networks, streams, names)
    check_recipients(networks, streams)
    return Federation(
        participants=participants,
        networks=networks,
        streams={contract.stream: contract for contract in streams},
        order=order,
    )


def read_homes(contracts: Path) -> Federation:
    """The participants of a contracts folder alone, without what they run: see `ApplyRequest`."""
    check_folder(contracts)
    return Federation(participants=read_participants(contracts), networks=(), streams={}, order=())


def _promised(
    networks: Sequence[PlacedNetwork],
    order: Sequence[Fragment],
    contracts: Sequence[StreamContract],
) -> tuple[PlacedNetwork, ...]:
    """The networks with what is promised of their streams."""
    declared = {c.stream: c.bound for c in contracts if c.bound is not None}
    lags_ms = {
        source.stream_name: source.disorder_us // 1_000
        for network in networks
        for source in network.plan.network.sources
        if source.is_landed or network.plan.network.is_imported
    }
    lags_ms |= {c.stream: c.lag_ms for c in contracts if c.lag_ms is not None}
    promises = promises_of(lags_ms, order, declared)
    verified = {c.stream: c.verify.count for c in contracts if c.verify and c.verify.count > 1}
    return tuple(
        replace(
            network,
            promises={record.name: promises[record.name] for record in network.streams},
            verified={r.name: verified[r.name] for r in network.streams if r.name in verified},
        )
        for network in networks
    )


def _loaded(run: Run) -> Network:
    try:
        return load_network(run.network)
    except Refused as error:
        raise run.network_at.refused(f"cannot be run: {error}") from None
