"""Apply contracts to the catalogs of the homes.

Everything is read and checked first, then the plan is made, then it is carried out, one home after
the other. If this is interrupted anywhere, the same request completes it; one more does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant
from medusa_core.suggest import counted, did_you_mean
from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.base.time_text import parse_time_us
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.postgres.recipients import Recipients
from pipelines.catalog.postgres.stream_grants import StreamGrants
from pipelines.contracts.apply_changes import HomeChanges, decide_changes
from pipelines.contracts.assignments import PlanStart
from pipelines.contracts.comparison_rows import Change, Mark
from pipelines.contracts.federation import Federation, read_federation, read_homes
from pipelines.contracts.home_snapshot import (
    EVERY_RECIPIENT,
    OWNER,
    HomeSnapshot,
    read_home_snapshot,
)
from pipelines.contracts.reach import hold_for_plan
from pipelines.contracts.replicas import warnings_of
from pipelines.contracts.storage_roots import StorageRoot, check_storage
from pipelines.homes.exchange_addresses import write_objects
from pipelines.homes.home import Home, Homes, known_homes, open_homes
from pipelines.homes.missing_partners import JOIN, missing_partners, missing_sentence
from pipelines.homes.network_files import keep_file
from pipelines.market.contracts.bilateral import read_bilateral
from pipelines.market.contracts.bilateral_findings import refuse_all
from pipelines.market.contracts.sold_streams import advice, check_promises
from pipelines.market.sync.contract_proposals import AgreementChange
from pipelines.operations.agreement_application import apply_agreements, decide_contracts
from pipelines.operations.partner_application import apply_partners
from pipelines.operations.partner_offers import PartnerOffers
from pipelines.sinks.registration import declare

NOW = "now"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRequest:
    """Which contracts to apply, and where.

    `contracts`: the folder. `participant`: only this one's home, None for all. `begins`: from which
    bucket a changed network is computed under its new plan (`beginning_of`); None if none changed.
    `explain`: make the plan and change nothing. `only_homes`: make the homes, and read nothing else
    of the contracts: before partners elsewhere have joined, networks that read their streams are
    refused.
    """

    contracts: Path
    participant: str | None = None
    begins: PlanStart | None = None
    explain: bool = False
    only_homes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyResult:
    """The changes of each home and of its contracts with partners, and notes for people.

    `is_applied`: False for a plan that was not carried out.
    """

    contracts: Path
    is_applied: bool
    homes: tuple[HomeChanges, ...]
    agreements: tuple[AgreementChange, ...]
    notes: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        """Whether there is nothing to change."""
        homes_are_same = all(home.is_same for home in self.homes)
        return homes_are_same and all(one.proposes is None for one in self.agreements)

    def changes_of(self, home: HomeChanges) -> tuple[Change, ...]:
        """All changes of a home, those of its contracts with partners last."""
        agreed = (one.change for one in self.agreements if one.participant == home.participant)
        return (*home.changes, *agreed)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMade:
    """The plan is complete; nothing has been changed yet."""

    plan: ApplyResult


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeApplied:
    """The changes of a home are in its catalog."""

    participant: Participant


@dataclass(frozen=True, slots=True, kw_only=True)
class PartnerProblem:
    """A partner was not added, or a contract not exchanged with it: homes exchange it later."""

    sentence: str


ApplyEvent = PlanMade | HomeApplied | PartnerProblem
Observer = Callable[[ApplyEvent], None]


def ignore(event: ApplyEvent) -> None:
    """The observer that does nothing."""


def beginning_of(text: str | None) -> PlanStart | None:
    """`now` or an event time as the beginning of a new plan; None for no text.

    Raises Refused for a text that is neither.
    """
    if text is None:
        return None
    return PlanStart(None if text == NOW else parse_time_us("--from", text))


def apply_contracts(
    settings: Settings, request: ApplyRequest, observer: Observer = ignore
) -> ApplyResult:
    """Plan what the contracts change and, unless only to explain, carry it out.

    Raises Refused for contracts that cannot be applied, Conflict if homes disagree, Unavailable if
    a home cannot be reached.
    """
    contracts = request.contracts
    if request.only_homes:
        federation = read_homes(contracts)
    else:
        federation = read_federation(contracts, settings.directory)
    roots = check_storage(federation.participants, settings.directory)
    chosen = _chosen(federation, contracts, settings, request.participant)
    agreements = () if request.only_homes else read_bilateral(contracts, federation.participants)
    refuse_all(tuple(check_promises(agreements, federation)))
    bilateral = [one.terms for one in agreements]
    public_keys = {
        one.participant: one.public_key for one in federation.participants if one.public_key
    }
    with open_homes(settings, alone=not request.explain) as homes:
        if any(network.plan.network.is_imported for network in federation.networks):
            offers = PartnerOffers(homes, settings, chosen)
            federation = read_federation(contracts, settings.directory, offers)
        snapshots = _snapshots(homes, federation, chosen)
        decided = decide_changes(federation, snapshots, request.begins, chosen)
        agreed = decide_contracts(homes, settings.directory, bilateral, chosen, public_keys)
        plan = ApplyResult(
            contracts=contracts,
            is_applied=False,
            homes=decided,
            agreements=agreed,
            notes=()
            if request.only_homes
            else (
                *_notes(settings, federation, decided, request.begins),
                *_unneeded_grants(federation, snapshots, chosen),
                *advice(bilateral, federation, int(clock.wall_s() * 1_000)),
            ),
        )
        observer(PlanMade(plan=plan))
        if request.explain:
            return plan
        _keep_files(settings, federation, chosen)
        for name in chosen:
            roots[name].prepare(settings.directory, name)
        if not all(home.is_same for home in decided):
            # A trim may have been faster than the holds of new readers.
            _hold_for_readers(homes, federation, roots, snapshots, chosen)
            snapshots = _snapshots(homes, federation, chosen)
            decide_changes(federation, snapshots, request.begins, chosen)
        for home in decided:
            if not home.is_same:
                _apply_home(homes, home, roots[home.participant])
                observer(HomeApplied(participant=home.participant))
        _hold_for_readers(homes, federation, roots, snapshots, chosen)
        readings = {
            (grant.partner, one.participant)
            for one in federation.participants
            for grant in federation.grants_of(one.participant)
        }
        for one in federation.participants:
            if one.exchange is not None:
                write_objects(settings.directory, one.participant, one.exchange.objects)
        for sentence in apply_partners(homes, federation.participants, chosen):
            observer(PartnerProblem(sentence=sentence))
        problems = apply_agreements(
            homes, settings.directory, bilateral, chosen, agreed, public_keys, readings
        )
        for sentence in (*problems.unsent, *_missing(homes, settings.directory, chosen)):
            observer(PartnerProblem(sentence=sentence))
        problems.check()
    return replace(plan, is_applied=True)


def document(result: ApplyResult) -> Mapping[str, Any]:
    """The result for JSON."""
    return {
        "contracts": str(result.contracts),
        "is_applied": result.is_applied,
        "notes": list(result.notes),
        "homes": [
            {
                "participant": home.participant,
                "is_same": home.is_same,
                "changes": [
                    {
                        "mark": change.mark.name.lower(),
                        "what": change.what,
                        "name": change.name,
                        "detail": change.detail,
                    }
                    for change in result.changes_of(home)
                ],
            }
            for home in result.homes
        ],
    }


def _chosen(
    federation: Federation, contracts: Path, settings: Settings, requested: str | None
) -> tuple[Participant, ...]:
    """The homes to apply to: all, or the requested one; Refused if it has no contract.

    A participant without a home here belongs to another installation if its file names its
    exchange server, or only its key.
    """
    here = known_homes(settings.directory)
    names = tuple(
        one.participant
        for one in federation.participants
        if one.participant in here or one.public_key is None or (one.runs and not one.exchange)
    )
    if requested is None:
        return names
    if requested not in names:
        hint = did_you_mean(requested, names, f"there is {', '.join(names)}")
        raise Refused(f"{contracts} has no contract of participant {requested!r}: {hint}")
    return (Participant(requested),)


def _snapshots(
    homes: Homes, federation: Federation, chosen: Sequence[Participant]
) -> dict[Participant, HomeSnapshot]:
    """The contents of the homes to apply to, and of all others that can be reached."""
    snapshots = {name: _snapshot_of(homes, name) for name in chosen}
    for contract in federation.participants:
        if contract.participant not in snapshots:
            with suppress(Unavailable):
                other = _snapshot_of(homes, contract.participant, as_it_is=True)
                snapshots[contract.participant] = other
    return snapshots


def _snapshot_of(homes: Homes, participant: Participant, *, as_it_is: bool = False) -> HomeSnapshot:
    url = homes.url(participant, as_it_is=as_it_is)
    return HomeSnapshot() if url is None else read_home_snapshot(url, participant)


def _keep_files(settings: Settings, federation: Federation, chosen: Sequence[Participant]) -> None:
    """Files of networks that call functions, before a catalog names the plan that needs them."""
    for network in federation.networks:
        if network.file is not None and any(map(network.owners_for, chosen)):
            keep_file(settings.directory, network.plan.id, network.file)


def _apply_home(homes: Homes, changes: HomeChanges, root: StorageRoot) -> None:
    home = homes.make(changes.participant, root.given)
    for network, needed in changes.reach.items():
        hold_for_plan(home.catalog, network, needed)
    if changes.verified:
        _verify(home, changes)
    for deployment in changes.deployments:
        home.catalog.deploy(deployment)
    for stream, source in changes.sources.items():
        home.catalog.declare_source(stream, source)
    for stream, retention_ms in changes.retentions.items():
        home.catalog.declare_retention(stream, retention_ms)
    for stream, follows in changes.followings.items():
        home.catalog.declare_following(stream, follows)
    for stream, qos in changes.qos.items():
        home.catalog.declare_qos(stream, qos)
    for stream, promise in changes.promises.items():
        home.catalog.declare_bound(stream, promise.bound, promise.lag_ms)
    # Withdrawn sinks first: another sink may take over a target.
    for (stream, name), sink in sorted(changes.sinks.items(), key=lambda item: bool(item[1])):
        if sink is None:
            home.catalog.withdraw_sink(stream, name)
        else:
            declare(home.catalog, stream, name, sink)
    if changes.readers:
        _declare_readers(homes, changes)
    if changes.recipients:
        _declare_recipients(homes, changes)


def _declare_readers(homes: Homes, changes: HomeChanges) -> None:
    url = homes.url(changes.participant, "owner", as_it_is=True)
    assert url is not None, "it was made just now"
    with closing(StreamGrants(url)) as grants:
        for (stream, reason), partners in sorted(changes.readers.items()):
            grants.declare(stream, reason, partners)


def _declare_recipients(homes: Homes, changes: HomeChanges) -> None:
    url = homes.url(changes.participant, "owner", as_it_is=True)
    assert url is not None, "it was made just now"
    with closing(Recipients(url)) as recipients:
        for stream, names in sorted(changes.recipients.items()):
            recipients.declare(
                stream, names - {EVERY_RECIPIENT}, is_public=EVERY_RECIPIENT in names
            )


def _verify(home: Home, changes: HomeChanges) -> None:
    """Before anybody can choose among the producers: nothing may be final that is not verified."""
    for deployment in changes.deployments:
        home.catalog.deploy(replace(deployment, fragments={}, assignments=()))
    for stream, count in changes.verified.items():
        home.catalog.declare_verify(stream, count)


def _hold_for_readers(
    homes: Homes,
    federation: Federation,
    roots: Mapping[Participant, StorageRoot],
    snapshots: Mapping[Participant, HomeSnapshot],
    chosen: Sequence[Participant],
) -> None:
    """Place holds for partners that are to read here and have not placed theirs yet.

    Streams and homes that do not exist yet are skipped, and partners that were removed.
    """
    for network in federation.networks:
        for name, holds in network.first_holds.items():
            if name not in chosen or homes.url(name) is None:
                continue
            catalog = homes.make(name, roots[name].given).catalog
            written = {line.stream.name for line in catalog.lines()}
            for hold in holds:
                if hold.stream not in written or hold.holder in snapshots[name].removed:
                    continue
                existing = {(h.holder, h.purpose) for h in catalog.holds(hold.stream)}
                if (hold.holder, hold.purpose) not in existing:
                    catalog.place_hold(hold)


def _unneeded_grants(
    federation: Federation,
    snapshots: Mapping[Participant, HomeSnapshot],
    chosen: Sequence[Participant],
) -> Iterator[str]:
    for home in chosen:
        declared = {(grant.stream, grant.partner) for grant in federation.grants_of(home)}
        for stream, partner, reason in sorted(snapshots[home].grants):
            if reason == OWNER and (stream, partner) not in declared:
                yield (
                    f"{partner} may read {stream} of {home}, which no contract here needs: end it "
                    "with medusa_api.withdraw_stream, or leave it"
                )


def _missing(homes: Homes, directory: Path, chosen: Sequence[Participant]) -> Iterator[str]:
    """A sentence for each partner that a home reads from and cannot find."""
    for name in chosen:
        url = homes.url(name, as_it_is=True)
        assert url is not None, "its changes have been applied"
        with closing(PostgresCatalog(url, name)) as catalog:
            for partner, streams in missing_partners(catalog, directory).items():
                yield f"{missing_sentence(name, partner, streams)}: {JOIN}"


def _notes(
    settings: Settings,
    federation: Federation,
    decided: Sequence[HomeChanges],
    request: PlanStart | None,
) -> list[str]:
    notes = list(
        warnings_of(
            federation.networks,
            list(federation.streams.values()),
            [contract.participant for contract in federation.participants],
        )
    )
    changed = [c for home in decided for c in home.changes if c.mark is Mark.CHANGED]
    if request is not None and not any(change.what == "network" for change in changed):
        notes.append("--from had no effect: it is for networks that have changed")
    contracted = {contract.participant for contract in federation.participants}
    others = sorted(set(known_homes(settings.directory)) - contracted)
    if others:
        what = counted(len(others), "home")
        notes.append(f"left alone: {what} without a contract ({', '.join(others)})")
    return notes
