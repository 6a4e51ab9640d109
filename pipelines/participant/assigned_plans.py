"""The plans assigned to a participant, from its catalog: networks, plans, fragments, imports."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medusa_core.commits import LeaseKey
from medusa_core.errors import Refused
from medusa_core.fragments import Fragment, move_of
from medusa_core.knowledge import Knowledge
from medusa_core.names import Epoch, Participant, PlanId
from medusa_core.network import Network
from medusa_core.plans import Plan, partitions_of_document
from pipelines.catalog.processing_roles import Deployments, Plans
from pipelines.catalog.records import Assignment, PlanRecord
from pipelines.homes.deployed_fragments import plan_in
from pipelines.language.check import CheckedNetwork, check_network, fragments_for
from pipelines.spark.deployment import plan_of_widths


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedPlan:
    """One plan of a participant: its network, and which of its fragments are computed here.

    `equal_plans`: older plans that no engine here can run any more and that say the same but for
    their engine; their buckets are computed, and labelled, under this one.
    """

    plan: Plan
    checked: CheckedNetwork
    fragments: tuple[Fragment, ...]
    equal_plans: frozenset[PlanId] = frozenset()


def newest_assignments(catalog: Deployments, here: Participant) -> tuple[Assignment, ...]:
    """What this home is assigned now, landing and imports included, by fragment."""
    mine = [a for a in catalog.assignments() if a.producer.participant == here]
    return tuple(sorted(mine, key=lambda a: (a.fragment, a.partition, a.producer)))


def leases_needed(assignments: tuple[Assignment, ...]) -> list[tuple[LeaseKey, Epoch]]:
    """The leases under which these assignments are worked on."""
    return [
        (LeaseKey(fragment=a.fragment, producer=a.producer, partition=a.partition), a.epoch)
        for a in assignments
    ]


def shared_fragments(catalog: Plans) -> frozenset[str]:
    """The fragments that workers of the participant share: partitions and what cuts inputs."""
    return frozenset(
        f"{record.network}/{name}"
        for record in catalog.plans()
        for fragment, partitions in partitions_of_document(
            plan_in(record.document).get("network") or {}
        )
        for name in partitions.made_for(fragment)
    )


def assigned_plans_of(
    catalog: Deployments,
    assignments: tuple[Assignment, ...],
    load: Callable[[Mapping[str, Any]], Network],
    directory: Path,
) -> tuple[AssignedPlan, ...]:
    """The plans behind the assignments, loaded and checked; `load` makes a network of a document.

    Raises Refused if a plan was made by another engine or another compiler than would run it now.
    """
    moved = {a.fragment: a.plan for a in assignments if move_of(a.fragment) is not None}
    current = {a.plan for a in assignments if a.fragment not in moved}
    records = catalog.plans(superseded=True)
    of_moves = set(moved.values()) - current
    networks = {record.network for record in records if record.id in current}
    mine = {a.fragment for a in assignments}
    # Buckets before a change of plan are computed under the plan before, if it can still be run.
    chosen = [r for r in records if r.network in networks or r.id in of_moves]
    made: dict[PlanId, tuple[Plan, CheckedNetwork]] = {}
    for record in chosen:
        try:
            made[record.id] = _made(record, load, directory)
        except Refused:
            # A plan of the past may be past help; whether it is needed yet is seen later.
            if record.id in current:
                raise
    chosen = [record for record in chosen if record.id in made]
    assigned_plans = []
    for record in chosen:
        plan, checked = made[record.id]
        if plan.id != record.id:
            # A payer's plan that is another one here is not computed: the payer takes it back.
            if record.id in current:
                raise Refused(_another_engine(record, plan))
            continue
        older = {r.id for r in chosen if made[r.id][0].id == plan.id and r.id != record.id}
        found = fragments_for(checked)
        own = () if plan.id in of_moves else tuple(f for f in found if f.id in mine)
        here = {name for name, its_plan in moved.items() if its_plan == plan.id}
        fragments = (*own, *_moved(found, here))
        assigned_plans.append(
            AssignedPlan(
                plan=plan, checked=checked, fragments=fragments, equal_plans=frozenset(older)
            )
        )
    return tuple(assigned_plans)


def _moved(fragments: Iterable[Fragment], names: Collection[str]) -> Iterator[Fragment]:
    """Those that are computed here for another participant, under the numbers of their moves."""
    moves = [found for found in map(move_of, names) if found is not None]
    for fragment in fragments:
        yield from (replace(fragment, move=move) for move, of in moves if of == fragment.id)


def _made(
    record: PlanRecord, load: Callable[[Mapping[str, Any]], Network], directory: Path
) -> tuple[Plan, CheckedNetwork]:
    """What the record's network and widths come to with the engine that is here."""
    document = plan_in(record.document)
    network = load(document)
    checked = check_network(network)
    return plan_of_widths(network, checked, document["widths_us"], directory), checked


def _another_engine(record: PlanRecord, plan: Plan) -> str:
    return (
        f"plan {record.id} of network {record.network} was made with "
        f"{_engine_of(plan_in(record.document))}, but here would run "
        f"{_engine_of(plan_in(plan.document))}: apply the contracts again, so that a new plan "
        "begins "
        "at a named bucket"
    )


def _engine_of(document: Mapping[str, Mapping[str, str]]) -> str:
    engine = document["engine"]
    return (
        f"Spark {engine.get('spark')}, Java {engine.get('java')}, compiler {engine.get('compiled')}"
    )


def check_in_force(assigned_plans: tuple[AssignedPlan, ...], knowledge: Knowledge) -> None:
    """Refused if the next bucket of something is for a plan that nothing here can run."""
    runnable = {
        plan
        for assigned_plan in assigned_plans
        for plan in (assigned_plan.plan.id, *assigned_plan.equal_plans)
    }
    computed = [(k.fragment.id, k.plan, k.until_us) for k in knowledge.fragments]
    computed += [(str(k.stream), k.plan, k.until_us) for k in knowledge.landings]
    for of, plan, until_us in computed:
        if plan not in runnable:
            raise Refused(
                f"{of} has buckets before {until_us} to compute under plan {plan}, "
                "which the engine here cannot run: run it with the engine that it was made with, "
                "up to that bucket"
            )
