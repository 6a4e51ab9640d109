"""What `medusa apply` would change: decided as values, then shown or carried out.

For each home: the streams, fragments and assignment lines that it lacks, as deployments, and the
sources to declare. Deciding looks at the contracts and at what stands, and touches nothing. What
cannot be changed in place is refused here, with what to do instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from medusa_core.errors import Refused
from medusa_core.exchange import IMPORT_PREFIX
from medusa_core.frozen import freeze
from medusa_core.names import NetworkName, Participant, PlanId, StreamName
from pipelines.catalog.interface import Assignment, Deployment, StreamRecord
from pipelines.contracts.assigning import Asked, Log, wanted_logs
from pipelines.contracts.federation import Federation, PlacedNetwork
from pipelines.contracts.standing import Standing
from pipelines.report.times import duration, iso


class Mark(Enum):
    """How a thing stands against its contract; the value is what a table shows."""

    NEW = "+"
    CHANGED = "~"
    SAME = "="


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One line of the table: a home, network, fragment, source or some streams."""

    mark: Mark
    what: str
    name: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeChanges:
    """What a home lacks: deployments in order (the last under the newest plan), sources as JSON."""

    participant: Participant
    changes: tuple[Change, ...]
    deployments: tuple[Deployment, ...]
    sources: Mapping[StreamName, str]

    def __post_init__(self) -> None:
        freeze(self, "sources")

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
            if network.owners_for(home):
                _check_streams(network, home, standing)
            _check_fragments(network, home, standing)
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


# ------------------------------------------------------------ what cannot be changed in place


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
                f"stream {wanted.name} of network {network.name} stands in the home of {home} with "
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
                f"fragment {name} of network {network.name} stands in the home of {home}, and the "
                "contracts have it there no more: that cannot be changed in place; keep it, or "
                "give the network and its streams other names"
            )
        inputs, outputs = _wiring(network, name)
        is_same = (stands.inputs, stands.outputs) == (inputs, outputs)
        if not is_same and begun & {*stands.outputs}:
            raise Refused(
                f"fragment {name} reads {_names(stands.inputs)} and writes "
                f"{_names(stands.outputs)} in the home of {home}, and shall read {_names(inputs)} "
                f"and write {_names(outputs)}: it has begun, so that cannot be changed in place; "
                "give the network and its streams other names"
            )


def _wiring(
    network: PlacedNetwork, fragment: str
) -> tuple[tuple[StreamName, ...], tuple[StreamName, ...]]:
    return network.wiring.get(fragment, ((), ()))


def _names(streams: tuple[StreamName, ...]) -> str:
    return ", ".join(streams) or "nothing"


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
    return HomeChanges(
        participant=home,
        changes=tuple(changes),
        deployments=tuple(deployments),
        sources=sources,
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


def _is_wired(network: PlacedNetwork, fragment: str, standing: Standing) -> bool:
    stands = standing.fragments.get(fragment)
    return stands is not None and (stands.inputs, stands.outputs) == _wiring(network, fragment)


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
        fragments={fragment: _wiring(network, fragment) for fragment in logs},
        assignments=lines,
    )
