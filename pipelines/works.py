"""What a participant runs, read from its catalog alone: networks, plans, fragments, imports."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medusa_core.commits import LeaseKey
from medusa_core.errors import Refused
from medusa_core.fragments import Fragment
from medusa_core.names import Epoch, Participant
from medusa_core.network import Network
from medusa_core.plans import Plan
from pipelines.catalog.interface import Assignment, Catalog, PlanRecord
from pipelines.deploying import fragments_for, plan_of_widths
from pipelines.networks.check import CheckedNetwork, check_network


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One plan of a participant: its network, and which of its fragments are computed here."""

    plan: Plan
    checked: CheckedNetwork
    fragments: tuple[Fragment, ...]


def newest_assignments(catalog: Catalog, here: Participant) -> tuple[Assignment, ...]:
    """What this home is assigned now, landing and imports included, by fragment."""
    mine = [a for a in catalog.assignments() if a.producer.participant == here]
    return tuple(sorted(mine, key=lambda a: (a.fragment, a.partition, a.producer)))


def leases_wanted(assignments: tuple[Assignment, ...]) -> list[tuple[LeaseKey, Epoch]]:
    """The leases under which these assignments are worked on."""
    return [
        (LeaseKey(fragment=a.fragment, producer=a.producer, partition=a.partition), a.epoch)
        for a in assignments
    ]


def works_of(
    catalog: Catalog,
    assignments: tuple[Assignment, ...],
    load: Callable[[Mapping[str, Any]], Network],
    directory: Path,
) -> tuple[Work, ...]:
    """The plans behind the assignments, loaded and checked; `load` makes a network of a document.

    Raises Refused if a plan was made by another engine or another compiler than would run it now.
    """
    current = {a.plan for a in assignments}
    records = catalog.plans(superseded=True)
    networks = {record.network for record in records if record.id in current}
    mine = {a.fragment for a in assignments}
    # Buckets before a change of plan are computed under the plan before.
    wanted = [record for record in records if record.network in networks]
    return tuple(_work(record, mine, load, directory) for record in wanted)


def _work(
    record: PlanRecord,
    mine: set[str],
    load: Callable[[Mapping[str, Any]], Network],
    directory: Path,
) -> Work:
    document = json.loads(record.document)
    network = load(document)
    checked = check_network(network)
    plan = plan_of_widths(network, checked, document["widths_us"], directory)
    if plan.id != record.id:
        raise Refused(
            f"plan {record.id} of network {network.name} was made with {_said(document)}, but here "
            f"would run {_said(json.loads(plan.document))}: apply the contracts again, so that a "
            "new plan begins at a named bucket"
        )
    fragments = tuple(f for f in fragments_for(checked) if f.id in mine)
    return Work(plan=plan, checked=checked, fragments=fragments)


def _said(document: Mapping[str, Mapping[str, str]]) -> str:
    engine = document["engine"]
    return (
        f"Spark {engine.get('spark')}, Java {engine.get('java')}, compiler {engine.get('compiled')}"
    )
