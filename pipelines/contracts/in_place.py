"""Changes that cannot be made in place: refused, with what to do instead.

A stream keeps its width, columns and key, a fragment that has begun its inputs and outputs, and
both their network and their participant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from medusa_core.errors import Refused
from medusa_core.exchange import IMPORT_PREFIX
from medusa_core.names import Participant, StreamName
from pipelines.base.time_text import duration
from pipelines.catalog.records import StreamRecord
from pipelines.contracts.home_snapshot import HomeSnapshot
from pipelines.contracts.placed_network import PlacedNetwork


def check_in_place(
    network: PlacedNetwork,
    home: Participant,
    snapshot: HomeSnapshot,
    networks: Collection[str],
) -> None:
    """Refused if the contracts ask of a home what only a network with other names can have.

    `networks` are all that the contracts have; others that stand in the home are left alone.
    """
    if network.owners_for(home):
        _check_streams(network, home, snapshot)
    _check_fragments(network, home, snapshot, networks)


def _check_streams(network: PlacedNetwork, home: Participant, snapshot: HomeSnapshot) -> None:
    for record in network.streams:
        deployed = snapshot.streams.get(record.name)
        if deployed is None:
            continue
        for fragment in snapshot.fragments.values():
            if record.name in fragment.outputs and fragment.network != network.name:
                raise Refused(
                    f"stream {record.name} of network {network.name} belongs to network "
                    f"{fragment.network} in the home of {home}: rename it in one of them"
                )
        for part, is_now, shall_be in _shape_differences(deployed, record):
            raise Refused(
                f"stream {record.name} of network {network.name} exists in the home of {home} with "
                f"{part} {is_now}, and its contract gives {shall_be}: that cannot be changed in "
                "place; give the network and its streams other names"
            )


def _shape_differences(deployed: StreamRecord, record: StreamRecord) -> Iterator[tuple[str, ...]]:
    if deployed.kind != record.kind:
        yield "kind", deployed.kind, record.kind
    if deployed.width_us != record.width_us:
        yield "buckets of", duration(deployed.width_us), duration(record.width_us)
    if tuple(deployed.columns.items()) != tuple(record.columns.items()):
        yield "columns", _columns(deployed), _columns(record)
    if deployed.key != record.key:
        yield "key", f"({', '.join(deployed.key)})", f"({', '.join(record.key)})"


def _columns(record: StreamRecord) -> str:
    return f"({', '.join(f'{name} {type_}' for name, type_ in record.columns.items())})"


def _check_fragments(
    network: PlacedNetwork, home: Participant, snapshot: HomeSnapshot, networks: Collection[str]
) -> None:
    owners = network.owners_for(home)
    others = (its for its in snapshot.fragments.values() if its.network not in networks)
    read_by_others = {stream for its in others for stream in its.inputs}
    begun = {line.stream for line in snapshot.lines if line.boundary_us is not None}
    for name, deployed in snapshot.fragments.items():
        if deployed.network != network.name:
            if name in owners:
                raise Refused(
                    f"fragment {name} belongs to network {deployed.network} in the home of {home}, "
                    f"not to {network.name}: rename its stream in one of them"
                )
            continue
        if name not in owners:
            its_stream = {StreamName(name.removeprefix(IMPORT_PREFIX)), *deployed.outputs}
            if read_by_others & its_stream and not _is_computed(name, home, snapshot):
                continue
            raise Refused(
                f"fragment {name} of network {network.name} exists in the home of {home}, and the "
                "contracts have it there no more: that cannot be changed in place; keep it, or "
                "give the network and its streams other names"
            )
        inputs, outputs = network.wires(name)
        is_same = (deployed.inputs, deployed.outputs) == (inputs, outputs)
        if not is_same and begun & {*deployed.outputs}:
            raise Refused(
                f"fragment {name} reads {_names(deployed.inputs)} and writes "
                f"{_names(deployed.outputs)} in the home of {home}, and shall read "
                f"{_names(inputs)} "
                f"and write {_names(outputs)}: it has begun, so that cannot be changed in place; "
                "give the network and its streams other names"
            )


def _is_computed(fragment: str, home: Participant, snapshot: HomeSnapshot) -> bool:
    """Whether a home computes or lands what the fragment writes; what it imports it does not."""
    log = snapshot.log.get(fragment, ())
    its = any(line.producer.participant == home for line in log)
    return its and not fragment.startswith(IMPORT_PREFIX)


def _names(streams: tuple[StreamName, ...]) -> str:
    return ", ".join(streams) or "nothing"
