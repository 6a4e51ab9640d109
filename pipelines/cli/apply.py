"""`medusa apply`: what the contracts say comes into the catalogs, home by home.

First everything is read and checked, then the plan is printed, then it is carried out. Each home is
brought in on its own; cut short anywhere, the same call does the rest, and once more does nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant
from medusa_core.suggest import did_you_mean
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import counted, parse_time_us
from pipelines.cli.arguments import add_json

if TYPE_CHECKING:
    from pipelines.contracts.apply_changes import HomeChanges
    from pipelines.contracts.assignments import Asked
    from pipelines.contracts.comparison_rows import Change
    from pipelines.contracts.federation import Federation
    from pipelines.contracts.home_snapshot import Standing
    from pipelines.contracts.storage_roots import StorageRoot
    from pipelines.homes.home import Home, Homes
    from pipelines.market.sync.contract_proposals import AgreementChange

NOW = "now"


def run_apply(
    settings: Settings,
    *,
    contracts: Path,
    participant: str | None,
    from_: str | None,
    explain: bool,
    as_json: bool,
) -> int:
    """Show what the contracts change and, unless only to explain, bring it in."""
    from pipelines.cli.apply_agreements import bring_contracts_in, decide_contracts
    from pipelines.contracts.apply_changes import decide_changes
    from pipelines.contracts.federation import read_federation
    from pipelines.contracts.storage_roots import check_storage
    from pipelines.homes.home import open_homes
    from pipelines.market.contracts.bilateral import read_bilateral

    federation = read_federation(contracts, settings.directory)
    roots = check_storage(federation.participants, settings.directory)
    chosen = _chosen(federation, contracts, settings, participant)
    asked = _asked(from_)
    bilateral = [one.terms for one in read_bilateral(contracts, federation.participants)]
    public_keys = {
        one.participant: one.public_key for one in federation.participants if one.public_key
    }
    with open_homes(settings, alone=not explain) as homes:
        decided = decide_changes(federation, _standings(homes, federation, chosen), asked, chosen)
        agreed = decide_contracts(homes, settings.directory, bilateral, chosen, public_keys)
        notes = _notes(settings, federation, decided, asked)
        if not as_json:
            print("\n".join((_text(decided, agreed), *notes)), flush=True)
        if not explain:
            _keep_files(settings, federation, chosen)
            if not all(home.is_same for home in decided):
                # A trim may have been faster than the holds of who is to read from now on.
                _hold_for_readers(homes, federation, roots, chosen)
                decide_changes(federation, _standings(homes, federation, chosen), asked, chosen)
            for home in decided:
                if not home.is_same:
                    _bring_in(homes, home, roots[home.participant])
                    if not as_json:
                        print(f"{home.participant}: brought in", flush=True)
            _hold_for_readers(homes, federation, roots, chosen)
            bring_contracts_in(
                homes,
                settings.directory,
                bilateral,
                chosen,
                agreed,
                public_keys,
                partial(print, file=sys.stderr),
            )
    if as_json:
        print(json.dumps(_document(contracts, decided, agreed, notes, explain=explain), indent=1))
    elif explain and not (
        all(home.is_same for home in decided) and all(one.proposes is None for one in agreed)
    ):
        print("nothing was changed: leave --explain out to bring it in")
    return 0


def _chosen(
    federation: Federation, contracts: Path, settings: Settings, wanted: str | None
) -> tuple[Participant, ...]:
    """The homes to look at: all, or the one asked for; Refused if it has no contract.

    Who only shows its key, and has no home here, is somebody else's.
    """
    from pipelines.homes.home import known_homes

    here = known_homes(settings.directory)
    names = tuple(
        one.participant
        for one in federation.participants
        if one.public_key is None or one.runs or one.participant in here
    )
    if wanted is None:
        return names
    if wanted not in names:
        hint = did_you_mean(wanted, names, f"there is {', '.join(names)}")
        raise Refused(f"{contracts} has no contract of participant {wanted!r}: {hint}")
    return (Participant(wanted),)


def _asked(from_: str | None) -> Asked | None:
    from pipelines.contracts.assignments import Asked

    if from_ is None:
        return None
    return Asked(None if from_ == NOW else parse_time_us("--from", from_))


def _standings(
    homes: Homes, federation: Federation, chosen: Sequence[Participant]
) -> dict[Participant, Standing]:
    """What stands in the homes to bring in, and in all others that can be looked at."""
    standings = {name: _standing(homes, name) for name in chosen}
    for contract in federation.participants:
        if contract.participant not in standings:
            with suppress(Unavailable):
                other = _standing(homes, contract.participant, as_it_is=True)
                standings[contract.participant] = other
    return standings


def _standing(homes: Homes, participant: Participant, *, as_it_is: bool = False) -> Standing:
    from pipelines.contracts.home_snapshot import Standing, read_standing

    url = homes.url(participant, as_it_is=as_it_is)
    return Standing() if url is None else read_standing(url, participant)


# ------------------------------------------------------------ bringing in


def _keep_files(settings: Settings, federation: Federation, chosen: Sequence[Participant]) -> None:
    """Files of networks with Function boxes, before a catalog names the plan that needs them."""
    from pipelines.homes.network_files import keep_file

    for network in federation.networks:
        if network.file is not None and any(map(network.owners_for, chosen)):
            keep_file(settings.directory, network.plan.id, network.file)


def _bring_in(homes: Homes, changes: HomeChanges, root: StorageRoot) -> None:
    from pipelines.contracts.reach import hold_for_plan
    from pipelines.sinks.registration import declare

    home = homes.make(changes.participant, root.given)
    for network, needed in changes.reach.items():
        hold_for_plan(home.catalog, network, needed)
    if changes.verified:
        _verify(home, changes)
    for deployment in changes.deployments:
        home.catalog.deploy(deployment)
    for stream, document in changes.sources.items():
        home.catalog.declare_source(stream, document)
    for stream, retention_ms in changes.retentions.items():
        home.catalog.declare_retention(stream, retention_ms)
    for stream, promise in changes.promises.items():
        home.catalog.declare_bound(stream, promise.bound, promise.lag_ms)
    # What goes first: another sink may take over its target.
    for (stream, name), sink in sorted(changes.sinks.items(), key=lambda item: bool(item[1])):
        if sink is None:
            home.catalog.withdraw_sink(stream, name)
        else:
            declare(home.catalog, stream, name, sink)


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
    chosen: Sequence[Participant],
) -> None:
    """What partners are to read is held for them, where their own holds do not stand yet.

    Nothing is held of a stream, or in a home, that does not stand yet.
    """
    from pipelines.exchange import first_holds

    for network in federation.networks:
        for name, holds in first_holds.first_holds(network.wiring, network.owners).items():
            if name not in chosen or homes.url(name) is None:
                continue
            catalog = homes.make(name, roots[name].given).catalog
            written = {line.stream.name for line in catalog.lines()}
            for hold in holds:
                if hold.stream not in written:
                    continue
                standing = {(h.holder, h.purpose) for h in catalog.holds(hold.stream)}
                if (hold.holder, hold.purpose) not in standing:
                    catalog.place_hold(hold)


# ------------------------------------------------------------ showing


def _text(decided: Sequence[HomeChanges], agreed: Sequence[AgreementChange]) -> str:
    from pipelines.contracts.comparison_rows import Mark

    rows = [
        (change.mark.value, home.participant, change.what, change.name, change.detail)
        for home in decided
        for change in (*home.changes, *_agreed_in(home.participant, agreed))
    ]
    counts = {mark: sum(row[0] == mark.value for row in rows) for mark in Mark}
    said = f"{counts[Mark.NEW]} new, {counts[Mark.CHANGED]} changed, {counts[Mark.SAME]} unchanged"
    if counts[Mark.LEFT]:
        said += f", {counts[Mark.LEFT]} left alone"
    return f"{table(('', 'home', 'what', 'name', 'how'), rows)}\n\n{said}"


def _agreed_in(home: Participant, agreed: Sequence[AgreementChange]) -> list[Change]:
    return [one.change for one in agreed if one.participant == home]


def _notes(
    settings: Settings,
    federation: Federation,
    decided: Sequence[HomeChanges],
    asked: Asked | None,
) -> list[str]:
    from pipelines.contracts.comparison_rows import Mark
    from pipelines.contracts.replicas import warnings_of
    from pipelines.homes.home import known_homes

    notes = list(
        warnings_of(
            federation.networks,
            list(federation.streams.values()),
            [contract.participant for contract in federation.participants],
        )
    )
    changed = [c for home in decided for c in home.changes if c.mark is Mark.CHANGED]
    if asked is not None and not any(change.what == "network" for change in changed):
        notes.append("--from had no effect: it is for networks that have changed")
    contracted = {contract.participant for contract in federation.participants}
    others = sorted(set(known_homes(settings.directory)) - contracted)
    if others:
        what = counted(len(others), "home")
        notes.append(f"left alone: {what} without a contract ({', '.join(others)})")
    return notes


def _document(
    contracts: Path,
    decided: Sequence[HomeChanges],
    agreed: Sequence[AgreementChange],
    notes: Sequence[str],
    *,
    explain: bool,
) -> Mapping[str, Any]:
    return {
        "contracts": str(contracts),
        "is_applied": not explain,
        "notes": list(notes),
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
                    for change in (*home.changes, *_agreed_in(home.participant, agreed))
                ],
            }
            for home in decided
        ],
    }


HELP = "bring the contracts into the catalogs of the homes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa apply`."""
    contracts = "participants/*.yaml and streams/*.yaml are read there (default: contracts)"
    parser.add_argument(
        "--contracts", type=Path, default=Path("contracts"), metavar="DIR", help=contracts
    )
    parser.add_argument("--participant", metavar="P", help="only this one's home (default: all)")
    begins = "at which bucket the new plan of a changed network begins: ISO 8601, or now"
    parser.add_argument("--from", dest="from_", metavar="BUCKET", help=begins)
    parser.add_argument("--explain", action="store_true", help="print the plan, change nothing")
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Bring the contracts in, or with --explain print what would change."""
    return run_apply(
        settings,
        contracts=options.contracts,
        participant=options.participant,
        from_=options.from_,
        explain=options.explain,
        as_json=options.json,
    )
