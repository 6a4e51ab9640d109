"""The part of `medusa apply` that is about contracts with partners.

What the files ask for is proposed in the homes of those parties that are brought in; then these
make their turns together, so that what both propose is agreed when the command ends. A home that
runs goes on meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from medusa_core.errors import MedusaError, Refused, Unavailable
from medusa_core.market.terms import Terms
from medusa_core.names import Participant
from pipelines.catalog.agreement_store import Agreements
from pipelines.catalog.postgres.agreements import PostgresAgreements
from pipelines.exchange.in_process import Partner
from pipelines.homes.home import Homes, known_homes, storage_of
from pipelines.market.sync.contract_proposals import (
    AgreementChange,
    AgreementStanding,
    decide_agreements,
    propose_agreements,
    read_agreement_standing,
)
from pipelines.market.sync.contract_sync import settle
from pipelines.market.sync.signing_keys import load_key, make_key
from pipelines.market.sync.sync_assembly import open_desk

OWN, AT_HAND, SHOWN = "drawn here", "of a home in the same folder", "of the contracts folder"


def decide_contracts(
    homes: Homes,
    directory: Path,
    terms: Sequence[Terms],
    chosen: Sequence[Participant],
    public_keys: Mapping[Participant, bytes],
) -> tuple[AgreementChange, ...]:
    """How each contract stands in the chosen homes, and what is to be proposed.

    `public_keys` are those that the contracts folder shows.
    """
    parties = {party for one in terms for party in one.parties}
    at_hand = {
        name
        for name in parties
        if name in chosen or name in public_keys or _has_key(directory, name)
    }
    standings = {name: _standing(homes, name) for name in chosen if name in parties}
    return decide_agreements(terms, standings, at_hand)


def bring_contracts_in(
    homes: Homes,
    directory: Path,
    terms: Sequence[Terms],
    chosen: Sequence[Participant],
    changes: Sequence[AgreementChange],
    public_keys: Mapping[Participant, bytes],
    told: Callable[[str], None],
) -> None:
    """Keys, proposals, and turns of the chosen homes until nothing moves.

    Raises Refused, naming all of them, for what could not be proposed.
    """
    problems: list[str] = []
    with ExitStack() as stack:
        opened = {name: _opened(homes, name, stack) for name in chosen}
        for name, agreements in opened.items():
            with _collected(problems):
                key = make_key(directory, name)
                agreements.learn_key(name, key.public_key, OWN)
        for one in terms:
            for name, partner in (one.parties, one.parties[::-1]):
                if name in opened and partner in public_keys:
                    with _collected(problems):
                        opened[name].learn_key(partner, public_keys[partner], SHOWN)
                elif name in opened and _has_key(directory, partner):
                    with _collected(problems):
                        public_key = load_key(directory, partner).public_key
                        opened[name].learn_key(partner, public_key, AT_HAND)
        for change, error in propose_agreements(changes, opened):
            what = f"contract {change.change.name} in the home of {change.participant}"
            if error is not None:
                problems.append(f"{what}: {error}")
        if any(agreements.has_work() for agreements in opened.values()):
            _make_turns(homes, directory, chosen, told, stack)
    if problems:
        raise Refused("; ".join(dict.fromkeys(problems)))


def _make_turns(
    homes: Homes,
    directory: Path,
    chosen: Sequence[Participant],
    told: Callable[[str], None],
    stack: ExitStack,
) -> None:
    heard: dict[str, None] = {}
    partners = _partners(homes, directory)
    desks = []
    for name in chosen:
        urls = homes.urls(name)
        assert urls is not None, "it has been brought in"
        others = {other: its for other, its in partners.items() if other != name}
        with suppress(MedusaError):  # its key was told of before
            opened = open_desk(
                directory,
                name,
                urls.job,
                others,
                lambda error: heard.update({str(error): None}),
                is_patient=True,
            )
            desks.append(stack.enter_context(opened)[0])
    settle(desks)
    for sentence in heard:
        told(sentence)


def _partners(homes: Homes, directory: Path) -> Mapping[Participant, Partner]:
    partners = {}
    for name in known_homes(directory):
        urls = homes.urls(name)
        if urls is not None:
            storage = storage_of(directory, name)
            partners[name] = Partner(reader_url=urls.reader, storage=storage)
    return partners


def _opened(homes: Homes, name: Participant, stack: ExitStack) -> PostgresAgreements:
    urls = homes.urls(name)
    assert urls is not None, "it has been brought in"
    agreements = PostgresAgreements(urls.job, name)
    stack.callback(agreements.close)
    return agreements


def _standing(homes: Homes, name: Participant) -> AgreementStanding:
    urls = homes.urls(name)
    if urls is None:
        return AgreementStanding()
    agreements: Agreements = PostgresAgreements(urls.job, name)
    try:
        return read_agreement_standing(agreements)
    finally:
        agreements.close()


def _has_key(directory: Path, name: Participant) -> bool:
    with suppress(Refused, Unavailable):
        load_key(directory, name)
        return True
    return False


@contextmanager
def _collected(problems: list[str]) -> Iterator[None]:
    """Keeps what goes wrong with one home for the end, so that the others are brought in."""
    try:
        yield
    except Refused as error:
        problems.append(str(error))
