"""Assignment logs: which lines a network's fragments need, and from which bucket a plan begins.

A log is the same in every home that knows the fragment, with the lines of all of its replicas;
only imports have a separate one in each home. Where a run of `medusa apply` was cut short, some
homes know a line already: the others get the same line, not a new one. A new plan begins at a
named bucket on the grid, at or behind everything that is final; computed rows remain unchanged.

Limit: a step that a driver commits between the look and the change may reach behind the bucket;
its rows say under which plan they were made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from medusa_core.errors import Conflict, Refused
from medusa_core.exchange import IMPORT_PREFIX
from medusa_core.grid import FOREVER_US, ceil_us
from medusa_core.names import Participant, PlanId
from pipelines.base.time_text import duration, iso
from pipelines.catalog.records import Assignment
from pipelines.contracts.home_snapshot import HomeSnapshot
from pipelines.contracts.placed_network import PlacedNetwork
from pipelines.contracts.producer_numbers import Log, extended, planned, producers_of
from pipelines.contracts.reach import check_reach
from pipelines.homes.deployed_fragments import plan_in

Snapshots = Mapping[Participant, HomeSnapshot]


@dataclass(frozen=True, slots=True)
class PlanStart:
    """From which bucket a changed network shall be computed under its new plan; None: from now."""

    from_us: int | None


def planned_logs(
    network: PlacedNetwork,
    snapshots: Snapshots,
    plan_start: PlanStart | None,
    starts_us: int | None = None,
) -> Mapping[Participant, Mapping[str, Log]]:
    """Home -> fragment -> its whole log as it shall be, for every home with a part in the network.

    `starts_us` is the first bucket that the network computes, if not that of its origin.

    Raises Refused if a fragment would move, if a new plan has no bucket to begin at, or if it reads
    what is trimmed; Conflict if the homes disagree about a line.
    """
    logs = {
        home: {f: _merged_log(f, home, snapshots) for f in network.owners_for(home)}
        for home in snapshots
    }
    producers = {
        home: {f: producers_of(network, f, home, log) for f, log in its.items()}
        for home, its in logs.items()
    }
    stand = [planned(log)[-1] for its in logs.values() for log in its.values() if log]
    changed = [line for line in stand if line.plan != network.plan.id]
    from_us = _from_us(network, snapshots, stand, changed[0].plan, plan_start) if changed else None
    expected = {
        home: {
            f: extended(log, f, producers[home][f], network.plan.id, from_us)
            for f, log in its.items()
        }
        for home, its in logs.items()
    }
    is_begun = any(line.plan == network.plan.id for line in stand)
    check_reach(network, snapshots, expected, may_ask=not is_begun, starts_us=starts_us)
    return expected


def _merged_log(fragment: str, home: Participant, snapshots: Snapshots) -> Log:
    """The longest log that any home has of a fragment; of an import, this home's own."""
    if fragment.startswith(IMPORT_PREFIX):
        return snapshots[home].log.get(fragment, ())
    longest: Log = ()
    holder = home
    for other, snapshot in snapshots.items():
        log = snapshot.log.get(fragment, ())
        for known, line in zip(longest, log, strict=False):
            if known != line:
                raise Conflict(
                    f"the homes of {holder} and {other} disagree about fragment {fragment}: under "
                    f"epoch {line.epoch} {_owner_of(known)} in one, {_owner_of(line)} in "
                    "the other; their "
                    "operators must agree which is right"
                )
        if len(log) > len(longest):
            longest, holder = log, other
    return longest


def _owner_of(line: Assignment) -> str:
    replica = line.producer.replica
    who = (
        f"{line.producer.participant} (replica {replica})" if replica else line.producer.participant
    )
    return f"{who} has it under plan {line.plan[:12]} from {_bucket(line)}"


def _bucket(line: Assignment) -> str:
    return "its origin" if line.from_us is None else iso(line.from_us)


# ------------------------------------------------------------ where a plan begins


def _from_us(
    network: PlacedNetwork,
    snapshots: Snapshots,
    stand: list[Assignment],
    before: PlanId,
    plan_start: PlanStart | None,
) -> int | None:
    """The bucket at which the new plan begins; None: at the origin, as nothing was computed yet."""
    begun = {line.from_us for line in stand if line.plan == network.plan.id}
    if begun:
        return _gone_on(network, begun, plan_start)
    first_us = _first_possible_us(network, snapshots)
    if first_us is None:
        return (
            None
            if plan_start is None
            else _on_grid(network, _start_us_of(plan_start, snapshots, network), 0)
        )
    changed = (
        f"network {network.name} has changed ({_differing(network, snapshots, before)}), plan "
        f"{network.plan.id[:12]} instead of {before[:12]}"
    )
    if first_us == FOREVER_US:
        raise Refused(
            f"{changed}, but all its streams have ended: give the changed network and its streams "
            "other names"
        )
    if plan_start is None:
        raise Refused(
            f"{changed}: say at which bucket the new plan begins with --from TIME or --from now; "
            f"the first possible one is {iso(first_us)}"
        )
    start_us = _start_us_of(plan_start, snapshots, network)
    if plan_start.from_us is None:
        start_us = max(start_us, first_us)
    if start_us < first_us:
        raise Refused(
            f"--from {iso(start_us)} is in the final part of network {network.name}: the "
            f"first possible bucket is {iso(first_us)}"
        )
    return _on_grid(network, start_us, first_us)


def _gone_on(
    network: PlacedNetwork, begun: set[int | None], plan_start: PlanStart | None
) -> int | None:
    """Where the plan begins in homes that know it already, which the others must follow."""
    if len(begun) > 1:
        raise Conflict(
            f"plan {network.plan.id[:12]} of network {network.name} begins at several buckets "
            f"({', '.join(sorted(map(_at, begun)))}): the operators of its homes must agree"
        )
    (from_us,) = begun
    if plan_start is not None and plan_start.from_us is not None and plan_start.from_us != from_us:
        raise Refused(
            f"plan {network.plan.id[:12]} of network {network.name} begins at {_at(from_us)} in a "
            f"home that knows it already: leave --from {iso(plan_start.from_us)} out"
        )
    return from_us


def _at(from_us: int | None) -> str:
    return "its origin" if from_us is None else iso(from_us)


def _start_us_of(plan_start: PlanStart, snapshots: Snapshots, network: PlacedNetwork) -> int:
    if plan_start.from_us is not None:
        return plan_start.from_us
    clock_ms = max(s.clock_ms for s in snapshots.values() if s.clock_ms is not None)
    return ceil_us(clock_ms * 1_000, network.width_us)


def _on_grid(network: PlacedNetwork, start_us: int, first_us: int) -> int:
    next_us = max(ceil_us(start_us, network.width_us), first_us)
    if start_us % network.width_us:
        raise Refused(
            f"--from {iso(start_us)} is no bucket of network {network.name}, whose buckets are "
            f"{duration(network.width_us)} long: the next one is {iso(next_us)}"
        )
    return start_us


def _first_possible_us(network: PlacedNetwork, snapshots: Snapshots) -> int | None:
    """The first bucket behind all that is final; FOREVER_US if all streams have ended.

    None if no stream of the network has begun.
    """
    names = {stream.name for stream in network.streams}
    lines = [line for s in snapshots.values() for line in s.lines if line.stream in names]
    ended = {line.stream for line in lines if line.boundary_us == FOREVER_US}
    if ended == names:
        return FOREVER_US
    reached = [_reached_us(line.boundary_us, line.end_us) for line in lines]
    begun = [at_us for at_us in reached if at_us is not None]
    return ceil_us(max(begun), network.width_us) if begun else None


def _reached_us(boundary_us: int | None, end_us: int | None) -> int | None:
    return end_us if boundary_us == FOREVER_US else boundary_us


def _differing(network: PlacedNetwork, snapshots: Snapshots, before: PlanId) -> str:
    """Which parts of a plan are not what they were, in words."""
    words = {
        "network": "its boxes or sources",
        "widths_us": "its streams",
        "function_sources": "its functions",
        "engine": "the engine or compiler",
    }
    return ", ".join(_differing_parts(network, snapshots, before, words)) or "its plan"


def _differing_parts(
    network: PlacedNetwork, snapshots: Snapshots, before: PlanId, words: Mapping[str, str]
) -> Iterator[str]:
    documents = [s.plans[before].document for s in snapshots.values() if before in s.plans]
    old, new = plan_in(documents[0]), plan_in(network.plan.document)
    for part, word in words.items():
        if old.get(part) != new[part]:
            yield word
