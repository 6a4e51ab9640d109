"""What `medusa apply` would change: decided as values, then shown or carried out.

For each home: the streams, fragments and assignment lines that it lacks, as deployments, and the
sources, retentions and sinks to declare. Deciding looks at the contracts and at what stands, and
touches nothing. What cannot be changed in place is refused here, with what to do instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from medusa_core.exchange import IMPORT_PREFIX
from medusa_core.frozen import freeze
from medusa_core.names import NetworkName, Participant, PlanId, StreamName
from pipelines.catalog.interface import Assignment, Deployment
from pipelines.contracts.assigning import Asked, Log, wanted_logs
from pipelines.contracts.bounds import NOTHING, Promise, check_paths
from pipelines.contracts.federation import Federation, PlacedNetwork
from pipelines.contracts.in_place import check_in_place
from pipelines.contracts.reach import reach_of
from pipelines.contracts.standing import Standing
from pipelines.contracts.streams import SinkContract
from pipelines.report.times import duration, iso


class Mark(Enum):
    """How a thing stands against its contract; the value is what a table shows."""

    NEW = "+"
    CHANGED = "~"
    SAME = "="


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One line of the table: a home, network, fragment, source, retention, sink or some streams."""

    mark: Mark
    what: str
    name: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeChanges:
    """What a home lacks: deployments in order (the last under the newest plan), sources as JSON.

    `retentions` are those to declare, in ms (None: for good), `promises` the bounds and lags;
    `sinks` are those to declare, as JSON (None: to withdraw), by stream and name; `reach` is from
    when on the lines that are new read the streams of this home, by network.
    """

    participant: Participant
    changes: tuple[Change, ...]
    deployments: tuple[Deployment, ...]
    sources: Mapping[StreamName, str]
    retentions: Mapping[StreamName, int | None]
    promises: Mapping[StreamName, Promise]
    sinks: Mapping[tuple[StreamName, str], str | None]
    reach: Mapping[str, Mapping[StreamName, int]]

    def __post_init__(self) -> None:
        freeze(self, "sources", "retentions", "promises", "sinks", "reach")

    @property
    def is_same(self) -> bool:
        """Whether there is nothing to do."""
        return all(change.mark is Mark.SAME for change in self.changes)


def decide_changes(
    federation: Federation, standings: Mapping[Participant, Standing], asked: Asked | None
) -> tuple[HomeChanges, ...]:
    """The changes of every home in `standings`, by name.

    Raises Refused for what cannot be changed in place, Conflict if homes disagree.
    """
    for network in federation.networks:
        for home, standing in standings.items():
            check_in_place(network, home, standing)
        check_paths(
            network.fragments.values(),
            network.owners,
            network.promises,
            network.width_us,
            {
                name: cost
                for standing in standings.values()
                for name, cost in standing.costs.items()
            },
        )
    logs = {n.name: wanted_logs(n, standings, asked) for n in federation.networks}
    plans = {
        plan.id: plan.document
        for standing in standings.values()
        for plan in standing.plans.values()
    }
    return tuple(
        _home(federation, home, standings[home], {n: its[home] for n, its in logs.items()}, plans)
        for home in sorted(standings)
    )


# ------------------------------------------------------------ what a home lacks


def _home(
    federation: Federation,
    home: Participant,
    standing: Standing,
    logs: Mapping[str, Mapping[str, Log]],
    plans: Mapping[PlanId, str],
) -> HomeChanges:
    changes = [
        Change(
            mark=Mark.SAME if standing.is_made else Mark.NEW,
            what="home",
            name=home,
            detail="stands" if standing.is_made else "database and storage root",
        )
    ]
    deployments: list[Deployment] = []
    sources: dict[StreamName, str] = {}
    retentions: dict[StreamName, int | None] = {}
    promises: dict[StreamName, Promise] = {}
    sinks: dict[tuple[StreamName, str], str | None] = {}
    reach: dict[str, Mapping[StreamName, int]] = {}
    for network in federation.networks:
        its = logs[network.name]
        if not its:
            continue
        changes += _changes(network, standing, its)
        deployments += _deployments(network, standing, its, plans)
        for stream in network.landed_by(home):
            document = federation.streams[stream].source
            assert document is not None, "every source has a contract that feeds it"
            changes.append(_source(stream, document, standing))
            if standing.sources.get(stream) != document:
                sources[stream] = document
        for stream in sorted(network.held_by(home)):
            contract = federation.streams.get(stream)
            wanted_ms = contract.retention_ms if contract is not None else None
            changes += _retention(stream, wanted_ms, standing)
            if standing.retentions.get(stream) != wanted_ms:
                retentions[stream] = wanted_ms
            promise = network.promises.get(stream, NOTHING)
            changes += _promise(stream, promise, standing)
            if standing.promises.get(stream, NOTHING) != promise:
                promises[stream] = promise
        shown, its_sinks = _sinks(dict(_wanted_sinks(network, federation, home)), network, standing)
        changes += shown
        sinks |= its_sinks
        if needed := reach_of(network, home, standing, its):
            reach[network.name] = needed
    return HomeChanges(
        participant=home,
        changes=tuple(changes),
        deployments=tuple(deployments),
        sources=sources,
        retentions=retentions,
        promises=promises,
        sinks=sinks,
        reach=reach,
    )


def _changes(
    network: PlacedNetwork, standing: Standing, logs: Mapping[str, Log]
) -> Iterator[Change]:
    yield _network(network, standing, logs)
    for mark in (Mark.NEW, Mark.SAME):
        names = [
            s.name for s in network.streams if (s.name in standing.streams) is (mark is Mark.SAME)
        ]
        if names:
            detail = f"{len(names)}: {', '.join(names)}"
            yield Change(mark=mark, what="streams", name=network.name, detail=detail)
    for fragment, log in logs.items():
        yield _fragment(network, fragment, standing, log)


def _network(network: PlacedNetwork, standing: Standing, logs: Mapping[str, Log]) -> Change:
    plan = network.plan.id[:12]
    stand = [standing.log[fragment][-1] for fragment in logs if fragment in standing.log]
    older = [line.plan for line in stand if line.plan != network.plan.id]
    if older:
        from_us = {log[-1].from_us for log in logs.values()} - {None}
        begins = iso(max(at for at in from_us if at is not None)) if from_us else "the origin"
        mark, detail = Mark.CHANGED, f"plan {older[0][:12]} -> {plan} from {begins}"
    elif not stand:
        mark, detail = Mark.NEW, f"plan {plan}, buckets of {duration(network.width_us)}"
    else:
        mark, detail = Mark.SAME, f"plan {plan}, buckets of {duration(network.width_us)}"
    return Change(mark=mark, what="network", name=network.name, detail=detail)


def _fragment(network: PlacedNetwork, fragment: str, standing: Standing, log: Log) -> Change:
    last = log[-1]
    if fragment not in standing.log:
        mark = Mark.NEW
    elif standing.log[fragment] != log or not _is_wired(network, fragment, standing):
        mark = Mark.CHANGED
    else:
        mark = Mark.SAME
    begins = "" if last.from_us is None else f" from {iso(last.from_us)}"
    detail = f"by {last.producer.participant}, epoch {last.epoch}{begins}"
    if fragment.startswith(IMPORT_PREFIX):
        detail = f"epoch {last.epoch}{begins}"
    return Change(mark=mark, what="fragment", name=fragment, detail=detail)


def _source(stream: StreamName, document: str, standing: Standing) -> Change:
    mark = Mark.SAME if standing.sources.get(stream) == document else Mark.CHANGED
    if stream not in standing.sources:
        mark = Mark.NEW
    return Change(mark=mark, what="source", name=stream, detail=document)


def _retention(stream: StreamName, wanted_ms: int | None, standing: Standing) -> Iterator[Change]:
    """Nothing to tell of a stream that is kept for good, and was."""
    stands_ms = standing.retentions.get(stream)
    if wanted_ms is None and stands_ms is None:
        return
    mark = Mark.SAME if stands_ms == wanted_ms else Mark.CHANGED
    if stands_ms is None:
        mark = Mark.NEW
    kept = [_kept(ms) for ms in dict.fromkeys((stands_ms, wanted_ms))]
    detail = " -> ".join(kept) if mark is Mark.CHANGED else _kept(wanted_ms)
    yield Change(mark=mark, what="retention", name=stream, detail=detail)


def _promise(stream: StreamName, promise: Promise, standing: Standing) -> Iterator[Change]:
    """Nothing to tell of a stream within no bound that never was within one."""
    stands = standing.promises.get(stream, NOTHING)
    if stands == promise:
        if promise.bound is not None:
            yield Change(mark=Mark.SAME, what="bound", name=stream, detail=str(promise))
    elif stands == NOTHING:
        yield Change(mark=Mark.NEW, what="bound", name=stream, detail=str(promise))
    else:
        detail = f"{stands} -> {promise}"
        yield Change(mark=Mark.CHANGED, what="bound", name=stream, detail=detail)


def _wanted_sinks(
    network: PlacedNetwork, federation: Federation, home: Participant
) -> Iterator[tuple[tuple[StreamName, str], SinkContract]]:
    for stream, sink in network.delivered_by(home, federation.streams):
        yield (stream, sink.name), sink


def _sinks(
    wanted: Mapping[tuple[StreamName, str], SinkContract],
    network: PlacedNetwork,
    standing: Standing,
) -> tuple[list[Change], dict[tuple[StreamName, str], str | None]]:
    """What is shown of the sinks of a network's streams, and what is to be done."""
    streams = {record.name for record in network.streams}
    stand = {key: text for key, text in standing.sinks.items() if key[0] in streams}
    shown: list[Change] = []
    changed: dict[tuple[StreamName, str], str | None] = {}
    for key in sorted({*wanted, *stand}):
        is_now = stand.get(key)
        sink = wanted.get(key)
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


def _kept(retention_ms: int | None) -> str:
    return "for good" if retention_ms is None else duration(retention_ms * 1_000)


def _is_wired(network: PlacedNetwork, fragment: str, standing: Standing) -> bool:
    stands = standing.fragments.get(fragment)
    return stands is not None and (stands.inputs, stands.outputs) == network.wires(fragment)


def _deployments(
    network: PlacedNetwork,
    standing: Standing,
    logs: Mapping[str, Log],
    plans: Mapping[PlanId, str],
) -> list[Deployment]:
    """The lines that the home lacks, a deployment for each plan, in the order of their epochs."""
    missing = {
        fragment: list(log[len(standing.log.get(fragment, ())) :]) for fragment, log in logs.items()
    }
    found: list[Deployment] = []
    while any(missing.values()):
        heads = [lines[0] for lines in missing.values() if lines]
        # Older plans first: what is deployed last is what the network is now.
        plan = next((a.plan for a in heads if a.plan != network.plan.id), network.plan.id)
        lines = [lines.pop(0) for lines in missing.values() if lines and lines[0].plan == plan]
        found.append(_deployment(network, plan, plans, logs, tuple(lines)))
    is_whole = all(_is_wired(network, fragment, standing) for fragment in logs)
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
    document = network.plan.document if plan == network.plan.id else plans[plan]
    return Deployment(
        network=NetworkName(network.name),
        document=document,
        plan=plan,
        plan_document=document,
        streams=network.streams,
        fragments={fragment: network.wires(fragment) for fragment in logs},
        assignments=lines,
    )
