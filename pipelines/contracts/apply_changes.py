"""The changes that `medusa apply` makes: decided as values, then shown or carried out.

For each home: the streams, fragments and assignment lines that it lacks, as deployments, and the
sources, retentions, sinks and readers to declare. The decision reads the contracts and the homes,
and changes nothing. Changes that cannot be made in place are refused here, with what to do instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace

from medusa_core.drops.utility import Qos
from medusa_core.frozen import freeze
from medusa_core.names import NetworkName, Participant, PlanId, StreamName
from medusa_core.step_costs import Cost
from pipelines.catalog.records import Assignment, Deployment
from pipelines.contracts.assignments import PlanStart, planned_logs
from pipelines.contracts.comparison_rows import (
    Change,
    Mark,
    following_shown,
    is_wired,
    network_shown,
    promise_shown,
    qos_shown,
    readers_shown,
    recipients_shown,
    retention_shown,
    source_shown,
    verify_shown,
)
from pipelines.contracts.federation import Federation
from pipelines.contracts.home_snapshot import READERS, READING, Grant, HomeSnapshot
from pipelines.contracts.in_place import check_in_place
from pipelines.contracts.network_starts import start_of
from pipelines.contracts.placed_network import PlacedNetwork
from pipelines.contracts.producer_numbers import Log
from pipelines.contracts.reach import reach_of
from pipelines.contracts.stream_bounds import NOTHING, Promise, check_paths
from pipelines.contracts.streams import SinkContract


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeChanges:
    """What a home lacks: deployments in order (the last under the newest plan), sources as JSON.

    `retentions` are those to declare, in ms (None: for good), `promises` the bounds and lags,
    `verified` how many producers must agree, `followings` whether revisions of a partner's stream
    are followed; `sinks` are those to declare, as JSON (None: to
    withdraw), by stream and name; `reach` is from when on the lines that are new read the streams
    of this home, by network; `readers` are all partners that may read a stream for a reason, by
    stream and reason, where they change; so are `recipients` of Delta Sharing, by stream.
    """

    participant: Participant
    changes: tuple[Change, ...]
    deployments: tuple[Deployment, ...]
    sources: Mapping[StreamName, str]
    retentions: Mapping[StreamName, int | None]
    promises: Mapping[StreamName, Promise]
    verified: Mapping[StreamName, int]
    followings: Mapping[StreamName, bool]
    qos: Mapping[StreamName, Qos | None]
    sinks: Mapping[tuple[StreamName, str], str | None]
    reach: Mapping[str, Mapping[StreamName, int]]
    readers: Mapping[tuple[StreamName, str], frozenset[Participant]]
    recipients: Mapping[StreamName, frozenset[str]]

    def __post_init__(self) -> None:
        freeze(self, "sources", "retentions", "promises", "verified", "sinks", "reach", "readers")
        freeze(self, "followings", "qos", "recipients")

    @property
    def is_same(self) -> bool:
        """Whether there is nothing to do."""
        return all(change.mark is Mark.SAME for change in self.changes)


def decide_changes(
    federation: Federation,
    snapshots: Mapping[Participant, HomeSnapshot],
    plan_start: PlanStart | None,
    chosen: Collection[Participant] | None = None,
) -> tuple[HomeChanges, ...]:
    """The changes of every home in `snapshots`, by name, or of those `chosen` among them.

    The others are looked at all the same: a log is the same in all of them.

    Raises Refused for what cannot be changed in place, Conflict if homes disagree.
    """
    names = {network.name for network in federation.networks}
    for network in federation.networks:
        for home, snapshot in snapshots.items():
            check_in_place(network, home, snapshot, names)
    check_paths(federation.placed_fragments, _dearest(snapshots.values()))
    starts = {n.name: start_of(n, snapshots) for n in federation.networks}
    logs = {
        n.name: planned_logs(n, snapshots, plan_start, starts[n.name]) for n in federation.networks
    }
    plans = {
        plan.id: plan.document
        for snapshot in snapshots.values()
        for plan in snapshot.plans.values()
    }
    return tuple(
        _home(
            federation,
            home,
            snapshots[home],
            {n: its[home] for n, its in logs.items()},
            plans,
            starts,
        )
        for home in sorted(snapshots if chosen is None else chosen)
    )


def _dearest(snapshots: Iterable[HomeSnapshot]) -> Mapping[str, Cost]:
    """What the steps of each fragment cost where they cost most."""
    dearest: dict[str, Cost] = {}
    for snapshot in snapshots:
        for name, cost in snapshot.costs.items():
            dearest[name] = max(dearest.get(name, cost), cost, key=lambda its: its.path_ms)
    return dearest


# ------------------------------------------------------------ what a home lacks


def _home(
    federation: Federation,
    home: Participant,
    snapshot: HomeSnapshot,
    logs: Mapping[str, Mapping[str, Log]],
    plans: Mapping[PlanId, str],
    starts: Mapping[str, int | None],
) -> HomeChanges:
    changes = [
        Change(
            mark=Mark.SAME if snapshot.is_made else Mark.NEW,
            what="home",
            name=home,
            detail="stands" if snapshot.is_made else "database and storage root",
        )
    ]
    deployments: list[Deployment] = []
    sources: dict[StreamName, str] = {}
    retentions: dict[StreamName, int | None] = {}
    promises: dict[StreamName, Promise] = {}
    verified: dict[StreamName, int] = {}
    followings: dict[StreamName, bool] = {}
    qos: dict[StreamName, Qos | None] = {}
    sinks: dict[tuple[StreamName, str], str | None] = {}
    reach: dict[str, Mapping[StreamName, int]] = {}
    granted = federation.grants_of(home)
    readers: dict[tuple[StreamName, str], frozenset[Participant]] = {}
    shared = federation.shared_by(home)
    recipients: dict[StreamName, frozenset[str]] = {}
    for network in federation.networks:
        its = logs[network.name]
        if not its:
            continue
        starts_us = starts[network.name]
        changes += network_shown(network, snapshot, its, starts_us)
        deployments += (
            replace(made, starts_us=_starts(network, made, starts_us))
            for made in _deployments(network, snapshot, its, plans)
        )
        for stream in network.landed_by(home):
            document = federation.streams[stream].source
            assert document is not None, "every source has a contract that feeds it"
            changes.append(source_shown(stream, document, snapshot))
            if snapshot.sources.get(stream) != document:
                sources[stream] = document
        for stream in sorted(network.held_by(home)):
            contract = federation.streams.get(stream)
            declared_ms = contract.retention_ms if contract is not None else None
            changes += retention_shown(stream, declared_ms, snapshot)
            if snapshot.retentions.get(stream) != declared_ms:
                retentions[stream] = declared_ms
            follows = contract is not None and contract.follows_revisions
            changes += following_shown(stream, follows, snapshot)
            if (stream in snapshot.followings) != follows:
                followings[stream] = follows
            is_written = home in network.writers_of(stream)
            its_qos = contract.qos if contract is not None and is_written else None
            changes += qos_shown(stream, its_qos, snapshot)
            if snapshot.qos.get(stream) != its_qos:
                qos[stream] = its_qos
            promise = network.promises.get(stream, NOTHING)
            changes += promise_shown(stream, promise, snapshot)
            if snapshot.promises.get(stream, NOTHING) != promise:
                promises[stream] = promise
        for stream in sorted(network.chosen_by(home)):
            count = network.verified.get(stream, 1)
            changes += verify_shown(stream, count, network.writers_of(stream), snapshot)
            if snapshot.verified.get(stream, 1) != count:
                verified[stream] = count
        shown, its_sinks = _sinks(
            dict(_sinks_of_contract(network, federation, home)), network, snapshot
        )
        changes += shown
        sinks |= its_sinks
        for record in network.streams:
            shall_be, is_now = (
                {grant for grant in grants if grant.stream == record.name}
                for grants in (granted, snapshot.grants)
            )
            left_out = {grant.partner for grant in shall_be} & snapshot.removed
            shall_be = {grant for grant in shall_be if grant.partner not in left_out}
            changes += readers_shown(record.name, shall_be, is_now, left_out)
            readers.update(_readers_changed(record.name, shall_be, is_now))
            sharing, was_sharing = (
                frozenset(recipient for stream, recipient in pairs if stream == record.name)
                for pairs in (shared, snapshot.shared)
            )
            changes += recipients_shown(record.name, sharing, was_sharing)
            if sharing != was_sharing:
                recipients[record.name] = sharing
        if needed := reach_of(network, home, snapshot, its, starts_us):
            reach[network.name] = needed
    return HomeChanges(
        participant=home,
        changes=tuple(changes),
        deployments=tuple(deployments),
        sources=sources,
        retentions=retentions,
        promises=promises,
        verified=verified,
        followings=followings,
        qos=qos,
        sinks=sinks,
        reach=reach,
        readers=readers,
        recipients=recipients,
    )


def _starts(
    network: PlacedNetwork, deployment: Deployment, starts_us: int | None
) -> dict[str, int]:
    """Of the fragments that compute; landings and imports have no start of their own."""
    if starts_us is None:
        return {}
    return dict.fromkeys(deployment.fragments.keys() & network.fragments.keys(), starts_us)


def _readers_changed(
    stream: StreamName, shall_be: Set[Grant], is_now: Set[Grant]
) -> Iterator[tuple[tuple[StreamName, str], frozenset[Participant]]]:
    """Who shall read the stream for a reason of the contracts, where that is not as it is."""
    for reason in (READING, READERS):
        after, before = (
            frozenset(grant.partner for grant in grants if grant.reason == reason)
            for grants in (shall_be, is_now)
        )
        if after != before:
            yield (stream, reason), after


def _sinks_of_contract(
    network: PlacedNetwork, federation: Federation, home: Participant
) -> Iterator[tuple[tuple[StreamName, str], SinkContract]]:
    for stream, sink in network.delivered_by(home, federation.streams):
        yield (stream, sink.name), sink


def _sinks(
    sinks: Mapping[tuple[StreamName, str], SinkContract],
    network: PlacedNetwork,
    snapshot: HomeSnapshot,
) -> tuple[list[Change], dict[tuple[StreamName, str], str | None]]:
    """What is shown of the sinks of a network's streams, and what is to be done."""
    streams = {record.name for record in network.streams}
    current = {key: text for key, text in snapshot.sinks.items() if key[0] in streams}
    shown: list[Change] = []
    changed: dict[tuple[StreamName, str], str | None] = {}
    for key in sorted({*sinks, *current}):
        is_now = current.get(key)
        sink = sinks.get(key)
        shall_be = None if sink is None else sink.document
        mark = Mark.NEW if is_now is None else Mark.CHANGED
        if is_now == shall_be:
            mark = Mark.SAME
        else:
            changed[key] = shall_be
        detail = "withdrawn" if sink is None else _delivered(sink)
        shown.append(Change(mark=mark, what="sink", name="/".join(key), detail=detail))
    return shown, changed


def _delivered(sink: SinkContract) -> str:
    return f"{sink.declaration.kind} into {sink.declaration.target}"


def _deployments(
    network: PlacedNetwork,
    snapshot: HomeSnapshot,
    logs: Mapping[str, Log],
    plans: Mapping[PlanId, str],
) -> list[Deployment]:
    """The lines that the home lacks, a deployment for each plan, in the order of their epochs."""
    missing = {
        fragment: list(log[len(snapshot.log.get(fragment, ())) :]) for fragment, log in logs.items()
    }
    found: list[Deployment] = []
    while any(missing.values()):
        heads = [lines[0] for lines in missing.values() if lines]
        # Older plans first: what is deployed last is what the network is now.
        plan = next((a.plan for a in heads if a.plan != network.plan.id), network.plan.id)
        lines = [
            its.pop(0) for its in missing.values() for _ in its[:] if its and its[0].plan == plan
        ]
        found.append(_deployment(network, plan, plans, logs, tuple(lines)))
    is_whole = all(is_wired(network, fragment, snapshot) for fragment in logs)
    if not found and not is_whole:
        found.append(_deployment(network, network.plan.id, plans, logs, ()))
    return found


def _deployment(
    network: PlacedNetwork,
    plan: PlanId,
    plans: Mapping[PlanId, str],
    logs: Mapping[str, Log],
    lines: tuple[Assignment, ...],
) -> Deployment:
    is_newest = plan == network.plan.id
    return Deployment(
        network=NetworkName(network.name),
        document=network.document if is_newest else plans[plan],
        plan=plan,
        plan_document=network.plan.document if is_newest else plans[plan],
        streams=(*network.streams, *(its.record for its in network.reads.values())),
        fragments={fragment: network.wires(fragment) for fragment in logs},
        assignments=lines,
    )
