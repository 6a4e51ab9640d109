"""Changes that cannot be made in place: refused, with what to do instead.

A stream keeps its width, columns and key, a fragment that has begun its inputs and outputs, and
both their network and their participant.
"""

from __future__ import annotations

from collections.abc import Iterator

from medusa_core.errors import Refused
from medusa_core.names import Participant, StreamName
from pipelines.base.time_text import duration
from pipelines.catalog.records import StreamRecord
from pipelines.contracts.home_snapshot import Standing
from pipelines.contracts.placed_network import PlacedNetwork


def check_in_place(network: PlacedNetwork, home: Participant, standing: Standing) -> None:
    """Refused if the contracts ask of a home what only a network with other names can have."""
    if network.owners_for(home):
        _check_streams(network, home, standing)
    _check_fragments(network, home, standing)


def _check_streams(network: PlacedNetwork, home: Participant, standing: Standing) -> None:
    for wanted in network.streams:
        stands = standing.streams.get(wanted.name)
        if stands is None:
            continue
        for fragment in standing.fragments.values():
            if wanted.name in fragment.outputs and fragment.network != network.name:
                raise Refused(
                    f"stream {wanted.name} of network {network.name} belongs to network "
                    f"{fragment.network} in the home of {home}: rename it in one of them"
                )
        for part, is_now, shall_be in _shape_differences(stands, wanted):
            raise Refused(
                f"stream {wanted.name} of network {network.name} exists in the home of {home} with "
                f"{part} {is_now}, and its contract gives {shall_be}: that cannot be changed in "
                "place; give the network and its streams other names"
            )


def _shape_differences(stands: StreamRecord, wanted: StreamRecord) -> Iterator[tuple[str, ...]]:
    if stands.kind != wanted.kind:
        yield "kind", stands.kind, wanted.kind
    if stands.width_us != wanted.width_us:
        yield "buckets of", duration(stands.width_us), duration(wanted.width_us)
    if tuple(stands.columns.items()) != tuple(wanted.columns.items()):
        yield "columns", _columns(stands), _columns(wanted)
    if stands.key != wanted.key:
        yield "key", f"({', '.join(stands.key)})", f"({', '.join(wanted.key)})"


def _columns(record: StreamRecord) -> str:
    return f"({', '.join(f'{name} {type_}' for name, type_ in record.columns.items())})"


def _check_fragments(network: PlacedNetwork, home: Participant, standing: Standing) -> None:
    wanted = network.owners_for(home)
    begun = {line.stream for line in standing.lines if line.boundary_us is not None}
    for name, stands in standing.fragments.items():
        if stands.network != network.name:
            if name in wanted:
                raise Refused(
                    f"fragment {name} belongs to network {stands.network} in the home of {home}, "
                    f"not to {network.name}: rename its stream in one of them"
                )
            continue
        if name not in wanted:
            raise Refused(
                f"fragment {name} of network {network.name} exists in the home of {home}, and the "
                "contracts have it there no more: that cannot be changed in place; keep it, or "
                "give the network and its streams other names"
            )
        inputs, outputs = network.wires(name)
        is_same = (stands.inputs, stands.outputs) == (inputs, outputs)
        if not is_same and begun & {*stands.outputs}:
            raise Refused(
                f"fragment {name} reads {_names(stands.inputs)} and writes "
                f"{_names(stands.outputs)} in the home of {home}, and shall read {_names(inputs)} "
                f"and write {_names(outputs)}: it has begun, so that cannot be changed in place; "
                "give the network and its streams other names"
            )


def _names(streams: tuple[StreamName, ...]) -> str:
    return ", ".join(streams) or "nothing"
