"""The road map of drops of a network before it has run: by what the kinds of its boxes cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from medusa_core.box_costs import COEFFICIENTS_US, READ_US, cost_kind, rows_out
from medusa_core.drops.load_equation import LoadedBox, LoadedNetwork
from medusa_core.drops.overload import HEADROOM
from medusa_core.drops.road_map import DropPlan, plan_for, road_map
from medusa_core.drops.utility import UtilityGraph, loss_graph
from medusa_core.errors import Refused
from medusa_core.network import Network, inputs_of
from medusa_core.suggest import did_you_mean
from pipelines.contracts.participants import read_participants
from pipelines.contracts.streams import read_streams
from pipelines.language.check import check_network
from pipelines.language.load import load_network
from pipelines.operations.drops_over_homes import HomesPlan, homes_of, plan_over_homes

EVEN = loss_graph(((0.0, 1.0), (1.0, 0.0)))
"""Of an output without a QoS: it is worth what is kept of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropPreview:
    """The load equation and the road map; `chosen` is the plan for the capacity.

    `unknown` are the boxes of which nobody can say what they cost: they count as nothing.
    """

    network: LoadedNetwork
    load_max: float
    plans: tuple[DropPlan, ...]
    chosen: DropPlan
    graphs: Mapping[str, UtilityGraph]
    unknown: tuple[str, ...]


def preview_drops(
    reference: str, rates: Mapping[str | None, float], capacity: float, contracts: Path
) -> DropPreview:
    """The road map of a network. `rates` are records per second by source, None: of all others.

    Raises Refused for a network that cannot run, and for a source that it does not have.
    """
    network = check_network(load_network(reference)).network
    sources = [source.name for source in network.sources]
    for name in rates:
        if name is not None and name not in sources:
            hint = did_you_mean(name, sources, f"there is {', '.join(sources)}")
            raise Refused(f"network {network.name} has no source {name}: {hint}")
    loaded = loaded_network(network, {s: rates.get(s, rates.get(None, 0.0)) for s in sources})
    graphs = {output.name: EVEN for output in network.outputs} | _declared(contracts)
    graphs = {name: graphs[name] for name in loaded.outputs}
    load_max = capacity * HEADROOM
    return DropPreview(
        network=loaded,
        load_max=load_max,
        plans=road_map(loaded, graphs),
        chosen=plan_for(loaded, graphs, load_max),
        graphs=graphs,
        unknown=tuple(box.name for box in network.boxes if cost_kind(box) is None),
    )


def preview_homes(
    reference: str, rates: Mapping[str | None, float], capacities: Mapping[str, float],
    contracts: Path,
) -> tuple[DropPreview, HomesPlan, Mapping[str, str]]:  # fmt: skip
    """The same, with one plan for the homes that run the network by the contracts.

    Returns the homes of the boxes as well. Raises Refused also for a home that runs nothing of it.
    """
    found = preview_drops(reference, rates, 1.0, contracts)
    network = check_network(load_network(reference)).network
    owners = [
        (fragment.name, str(one.participant))
        for one in read_participants(contracts)
        for run in one.runs
        if load_network(run.network).name == network.name
        for fragment in run.fragments
    ]
    home_of = homes_of(owners, {box.name: box.fragment for box in network.boxes})
    for home in capacities:
        if home not in home_of.values():
            there = ", ".join(sorted(set(home_of.values())))
            hint = did_you_mean(home, home_of.values(), f"there is {there}")
            raise Refused(f"{home} runs nothing of network {network.name}: {hint}")
    load_max = {home: capacity * HEADROOM for home, capacity in capacities.items()}
    return found, plan_over_homes(found.network, found.graphs, home_of, load_max), home_of


def loaded_network(network: Network, rates: Mapping[str, float]) -> LoadedNetwork:
    """The boxes of a network with the cost of a record and their selectivity, by their kinds."""
    boxes = []
    for name in network.order:
        box, kind = network.box(name), cost_kind(network.box(name))
        inputs = tuple(network.port(reference, name).owner for reference in inputs_of(box))
        reads = READ_US if any(network.is_source(owner) for owner in inputs) else 0.0
        boxes.append(
            LoadedBox(
                name=name,
                inputs=inputs,
                record_us=reads + (0.0 if kind is None else COEFFICIENTS_US[kind]),
                selectivity=rows_out(box, 1.0),
            )
        )
    outputs = {
        arc.end: arc.start.owner
        for arc in network.output_arcs
        if not network.is_source(arc.start.owner)
    }
    return LoadedNetwork(boxes=tuple(boxes), rates=rates, outputs=outputs)


def _declared(contracts: Path) -> dict[str, UtilityGraph]:
    """The loss graphs of a contracts folder, if there is one."""
    if not (contracts / "streams").is_dir():
        return {}
    return {its.stream: its.qos.loss for its in read_streams(contracts) if its.qos is not None}
