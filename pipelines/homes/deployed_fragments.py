"""Deployments as the catalog records them, and a network from its document.

The plan's document holds every box, so the network can be drawn and decided on without its file.
The source of a Function or of an aggregate function is text in the document and is not run: a box
that calls one has its shape only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from medusa_core.decide import Decision, decide
from medusa_core.drops.overload import needs_costs
from medusa_core.errors import Refused
from medusa_core.fragments import Fragment
from medusa_core.knowledge import Knowledge, Limits
from medusa_core.names import NetworkName, Participant, is_fragment_named
from medusa_core.network import Network
from medusa_core.plans import network_of_document
from medusa_core.suggest import did_you_mean
from pipelines.base.foreign_documents import foreign_form, parse_json
from pipelines.catalog.processing_roles import Deployments
from pipelines.language.check import check_network, fragments_for


def fragments_in_force(catalog: Deployments) -> Mapping[str, Fragment]:
    """Fragment id -> the fragment, of each that is assigned, as its plan in force has it.

    Landings and imports are no pieces of a network and not among them.
    """
    documents = {plan.id: plan.document for plan in catalog.plans()}
    found: dict[str, Fragment] = {}
    for line in catalog.assignments():
        # Between the two questions a plan may have gone out of force: the next look sees it.
        planned = _planned(documents[line.plan]) if line.plan in documents else {}
        if line.fragment in planned:
            found[line.fragment] = planned[line.fragment]
    return found


def networks_in_force(catalog: Deployments) -> Mapping[str, NetworkName]:
    """Fragment id -> the network that it is assigned for, landings and imports included."""
    networks = {plan.id: plan.network for plan in catalog.plans()}
    return {a.fragment: networks[a.plan] for a in catalog.assignments() if a.plan in networks}


def decisions_of(catalog: Deployments) -> list[Decision]:
    """What the home's driver would do now; nothing is done."""
    knowledge = costed_knowledge(catalog)
    return decide(knowledge, knowledge.clock_ms)


def costed_knowledge(catalog: Deployments) -> Knowledge:
    """What the home's driver knows, and what its steps cost as far as the catalog tells."""
    knowledge = catalog.read_knowledge(fragments_in_force(catalog), Limits())
    if not needs_costs(knowledge):
        return knowledge
    costs = catalog.step_costs()
    fragments = (
        replace(known, cost=costs.get(known.fragment.id, known.cost))
        for known in knowledge.fragments
    )
    return replace(knowledge, fragments=tuple(fragments))


@lru_cache(maxsize=64)
def _planned(document: str) -> Mapping[str, Fragment]:
    network = network_in(document)
    return {} if network is None else {f.id: f for f in fragments_for(check_network(network))}


def plan_in(document: str) -> Mapping[str, Any]:
    """A plan's document in the catalog, which may be a partner's; Refused if it is none."""
    to_do = "restore the catalog, or apply the contracts again"
    found = parse_json(document, "the document of a plan", to_do)
    if not isinstance(found, dict):
        raise Refused(f"the document of a plan is {type(found).__name__}: {to_do}")
    return found


def network_in(document: str) -> Network | None:
    """The network of a plan's document, None if it has none; Refused for one of another form."""
    found = plan_in(document).get("network")
    if found is None:
        return None
    with foreign_form("the document of a plan is", "apply the contracts again"):
        return network_of_document(found)


def fragment_named(
    text: str, here: Participant, known: Collection[str], what: str = "fragment"
) -> str:
    """The fragment that is meant, FRAGMENT, NETWORK.FRAGMENT or NETWORK/FRAGMENT; Refused unless it
    is one of those that are known."""
    found = [name for name in sorted(known) if is_fragment_named(name, text)]
    if len(found) == 1:
        return found[0]
    if found:
        raise Refused(f"{text!r} may be {' or '.join(found)}: give the network too")
    hint = did_you_mean(text, sorted(known), f"there is {', '.join(sorted(known)) or 'none'}")
    raise Refused(f"{here} has no {what} {text!r}: {hint}")
