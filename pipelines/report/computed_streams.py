"""Where streams are computed, as one home sees it: its own fragments, and its partners' streams."""

from __future__ import annotations

from dataclasses import dataclass

from medusa_core.exchange import IMPORT_PREFIX
from medusa_core.fragments import landing_fragment
from medusa_core.names import StreamName
from medusa_core.network import Network
from pipelines.homes.deployed_fragments import fragments_in_force, network_in
from pipelines.homes.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedStreams:
    """What one participant computes: a fragment (empty if it is not known here) and its streams."""

    participant: str
    fragment: str
    streams: tuple[str, ...]


def computed_by(home: Home) -> list[ComputedStreams]:
    """The home's own fragments, then the streams that come from each partner, by names."""
    planned = fragments_in_force(home.catalog)
    own = {
        a.fragment for a in home.catalog.assignments() if a.producer.participant == home.participant
    }
    streams_here = {status.stream.name for status in home.catalog.streams()}
    landed: dict[str, tuple[StreamName, ...]] = {
        landing_fragment(name): (name,) for name in streams_here
    }
    found = []
    for fragment in sorted(own):
        if fragment.startswith(IMPORT_PREFIX):
            continue
        streams = landed.get(fragment, ())
        if fragment in planned:
            streams = tuple(planned[fragment].outputs)
        found.append(
            ComputedStreams(participant=home.participant, fragment=fragment, streams=streams)
        )
    imported: dict[str, set[str]] = {}
    for status in home.catalog.streams():
        if status.producer.participant != home.participant:
            imported.setdefault(status.producer.participant, set()).add(status.stream.name)
    for partner, names in sorted(imported.items()):
        found.append(
            ComputedStreams(participant=partner, fragment="", streams=tuple(sorted(names)))
        )
    return found


def networks_of(home: Home) -> list[Network]:
    """The networks with boxes of which something is assigned in this home, by names."""
    used = {a.plan for a in home.catalog.assignments()}
    newest: dict[str, Network] = {}
    for plan in home.catalog.plans():
        network = network_in(plan.document) if plan.id in used else None
        if network is not None and network.boxes:
            newest[network.name] = network
    return [newest[name] for name in sorted(newest)]
