"""Producer numbers: a fragment's replicas, and the lines that its assignment log lacks of them.

Replicas are numbered in the order of their participants' names when a fragment is first deployed.
A replica in the log keeps its number, a later one gets the next: so the log is the same in every
home, in whatever order the homes are brought in. Every replica has a line for each plan from the
same buckets on; a later one has a line for each earlier plan, too, since it computes from the
origin on.
"""

from __future__ import annotations

from collections import Counter

from medusa_core.errors import Refused
from medusa_core.exchange import IMPORT_PREFIX
from medusa_core.names import FIRST_EPOCH, Epoch, Participant, PlanId
from medusa_core.segments import IMPORT, Producer
from pipelines.catalog.records import Assignment
from pipelines.contracts.fields import listing
from pipelines.contracts.placed_network import PlacedNetwork

Log = tuple[Assignment, ...]


def producers_of(
    network: PlacedNetwork, fragment: str, home: Participant, log: Log
) -> list[Producer]:
    """Who computes a fragment, by replica; of an import, this home's import.

    Raises Refused if the log has somebody whom the contracts do not give the fragment any more.
    """
    if fragment.startswith(IMPORT_PREFIX):
        return [Producer(home, IMPORT) if network.wires(fragment)[1] else Producer(home)]
    owners = network.owners[fragment]
    known = {line.producer.participant: line.producer for line in log}
    if not known.keys() <= set(owners):
        raise Refused(
            f"fragment {fragment} of network {network.name} is assigned to "
            f"{listing(sorted(known))}, and the contracts give it to {listing(owners)}: that "
            "cannot be changed in place; leave it where it is, or give the network and its streams "
            "other names"
        )
    if fragment in network.replicas:
        elsewhere = {Producer(owners[0], number) for number in network.replicas[fragment]}
        return sorted(elsewhere | set(known.values()), key=lambda producer: producer.replica)
    next_number = max((producer.replica for producer in known.values()), default=-1) + 1
    new = [name for name in owners if name not in known]
    numbered = (Producer(name, number) for number, name in enumerate(new, next_number))
    return sorted((*known.values(), *numbered), key=lambda producer: producer.replica)


def planned(log: Log) -> Log:
    """The plans that a fragment was computed under, oldest first: the lines of the replica that has
    most, which the others follow."""
    lines: dict[Producer, Log] = {}
    for line in log:
        lines[line.producer] = (*lines.get(line.producer, ()), line)
    return max(lines.values(), key=len, default=())


def extended(
    log: Log, fragment: str, producers: list[Producer], plan: PlanId, from_us: int | None
) -> Log:
    """The log with the lines that it lacks: of every producer for every plan, up to this one."""
    plans = [(line.plan, line.from_us) for line in planned(log)]
    if not plans or plans[-1][0] != plan:
        plans.append((plan, from_us))
    has = Counter(line.producer for line in log)
    lines = list(log)
    for count, (its_plan, its_from_us) in enumerate(plans, 1):
        for producer in producers:
            if has[producer] < count:
                epoch = Epoch(lines[-1].epoch + 1) if lines else FIRST_EPOCH
                lines.append(
                    Assignment(
                        fragment=fragment,
                        producer=producer,
                        epoch=epoch,
                        plan=its_plan,
                        from_us=its_from_us,
                    )
                )
    return tuple(lines)
