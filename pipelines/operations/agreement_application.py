"""Apply contracts with partners: keys, proposals, and their exchange between the applied homes.

The terms in the files are proposed in the homes of the parties among them; then these exchange
them, so that what both propose is agreed when this returns. A home whose participant runs
continues to run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from medusa_core.errors import MedusaError, Refused, Unavailable
from medusa_core.market.envelopes import Envelope
from medusa_core.market.terms import Terms
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.catalog.agreement_store import Agreements, KnownKeys
from pipelines.catalog.postgres.agreements import PostgresAgreements
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.exchange.own_identity import OwnIdentity
from pipelines.exchange.signed_introductions import verified_introduction
from pipelines.homes.home import Homes, known_homes
from pipelines.homes.signing_keys import has_key, load_key, make_key
from pipelines.market.sync.contract_proposals import (
    AgreementChange,
    AgreementStatus,
    decide_agreements,
    propose_agreements,
    read_agreement_status,
)
from pipelines.market.sync.contract_sync import settle
from pipelines.market.sync.sync_assembly import open_contract_sync
from pipelines.platform.drills.fault_injected_exchange import FaultInjectedTransport
from pipelines.platform.drills.fault_injected_links import FaultInjectedLinks

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
        if name in chosen or name in public_keys or has_key(directory, name)
    }
    statuses = {name: _status_of(homes, name) for name in chosen if name in parties}
    return decide_agreements(terms, statuses, at_hand)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementProblems:
    """Sentences: what was refused, and what could not be sent to a partner yet."""

    refused: tuple[str, ...]
    unsent: tuple[str, ...]

    def check(self) -> None:
        """Raises Refused, naming all that was refused."""
        if self.refused:
            raise Refused("; ".join(self.refused))


def apply_agreements(
    homes: Homes,
    directory: Path,
    terms: Sequence[Terms],
    chosen: Sequence[Participant],
    changes: Sequence[AgreementChange],
    public_keys: Mapping[Participant, bytes],
    readings: Collection[tuple[Participant, Participant]],
) -> AgreementProblems:
    """Make keys, propose, and exchange between the chosen homes until nothing changes.

    Homes of one folder learn each other's keys: a contract may also be proposed in SQL, of which
    no file says anything. The parties of a contract learn each other's keys, and so do a reader and
    the home that it reads (`readings`, in this order): each proves to the other who it is. A key
    that the contracts do not show, and that is not in this folder either, is declared by the owner.
    """
    refused: list[str] = []
    unsent: tuple[str, ...] = ()
    with ExitStack() as stack:
        opened = {name: _opened(homes, name, stack) for name in chosen}
        for name, agreements in opened.items():
            with _collected(refused):
                key = make_key(directory, name)
                agreements.learn_key(name, key.public_key, OWN)
        pairs = {*(one.parties for one in terms), *readings}
        pairs |= {(second, first) for first, second in pairs}
        pairs |= {(name, home) for name in opened for home in known_homes(directory)}
        known = {name: agreements.known_keys() for name, agreements in opened.items()}
        for name, partner in sorted(pair for pair in pairs if len(set(pair)) > 1):
            if name not in opened:
                continue
            before = known[name].get(partner)
            if partner in public_keys:
                with _collected(refused):
                    _learn(opened[name], partner, before, public_keys[partner], SHOWN)
            elif has_key(directory, partner):
                with _collected(refused):
                    _learn_at_hand(opened[name], directory, partner, before)
        for change, error in propose_agreements(changes, opened):
            what = f"contract {change.change.name} in the home of {change.participant}"
            if error is not None:
                refused.append(f"{what}: {error}")
        if any(agreements.has_pending(to_all=True) for agreements in opened.values()):
            unsent = _exchange(homes, directory, chosen, stack)
    return AgreementProblems(refused=tuple(dict.fromkeys(refused)), unsent=unsent)


def _exchange(
    homes: Homes, directory: Path, chosen: Sequence[Participant], stack: ExitStack
) -> tuple[str, ...]:
    """Exchange until nothing changes; a sentence for each thing that could not be sent."""
    unsent: dict[str, None] = {}
    desks = []

    def note(error: Exception) -> None:
        unsent[str(error)] = None

    for name in chosen:
        url = homes.url(name, as_it_is=True)
        assert url is not None, "its changes have been applied"
        to_homes = FolderTransport(name, partial(_exchange_url, homes))
        stack.enter_context(closing(to_homes))
        transport = FaultInjectedTransport(to_homes, FaultInjectedLinks(directory, name, note))
        with suppress(MedusaError):  # its key was reported before
            opened = open_contract_sync(directory, name, url, transport, note, to_all=True)
            desks.append(stack.enter_context(opened)[0])
    settle(desks)
    return tuple(unsent)


def _exchange_url(homes: Homes, partner: Participant) -> str | None:
    return homes.url(partner, "exchange", as_it_is=True)


class FolderTransport:
    """A `Transport` to the homes of a folder while they are applied: no server need run yet.

    An envelope is taken as by the partner's exchange server, under its login. `url_of` gives the
    URL of that login, None for a home elsewhere.
    """

    def __init__(self, sender: Participant, url_of: Callable[[Participant], str | None]) -> None:
        self._sender = sender
        self._url_of = url_of
        self._opened: dict[Participant, ExchangeHome] = {}

    def deliver(self, partner: Participant, envelopes: Sequence[Envelope]) -> tuple[str, ...]:
        """See `Transport.deliver`."""
        if partner not in self._opened:
            url = self._url_of(partner)
            if url is None:
                raise Unavailable(
                    f"the home of partner {partner} is not known here: apply its contracts in this "
                    "folder, or let its operator exchange keys with this home's"
                )
            self._opened[partner] = ExchangeHome(url, partner)
        return self._opened[partner].deliver(self._sender, envelopes)

    def close(self) -> None:
        """See `Transport.close`."""
        for home in self._opened.values():
            home.close()


def _opened(homes: Homes, name: Participant, stack: ExitStack) -> PostgresAgreements:
    url = homes.url(name, as_it_is=True)
    assert url is not None, "its changes have been applied"
    agreements = PostgresAgreements(url, name)
    stack.callback(agreements.close)
    return agreements


def _status_of(homes: Homes, name: Participant) -> AgreementStatus:
    url = homes.url(name, as_it_is=True)
    if url is None:
        return AgreementStatus()
    agreements: Agreements = PostgresAgreements(url, name)
    try:
        return read_agreement_status(agreements)
    finally:
        agreements.close()


def _learn(
    agreements: PostgresAgreements,
    partner: Participant,
    known: KnownKeys | None,
    public_key: bytes,
    because: str,
) -> None:
    """Record a key unless it is known, now or before: recording locks the table of keys."""
    if known is None or public_key not in known.ever:
        agreements.learn_key(partner, public_key, because)


def _learn_at_hand(
    agreements: PostgresAgreements,
    directory: Path,
    partner: Participant,
    known: KnownKeys | None,
) -> None:
    """Record the key of a home in the same folder, which may have succeeded the known one."""
    key = load_key(directory, partner).public_key
    if known is not None and known.counting and key not in known.ever:
        with suppress(Refused):
            introduction = OwnIdentity(directory, partner).introduction()
            now_ms = int(clock.wall_s() * 1_000)
            signed_by, found = verified_introduction(introduction, partner, known.counting, now_ms)
            agreements.note_introduction(signed_by, found)
            known = agreements.known_keys().get(partner)
    _learn(agreements, partner, known, key, AT_HAND)


@contextmanager
def _collected(problems: list[str]) -> Iterator[None]:
    """Collects what one home refuses, so that the others are applied all the same."""
    try:
        yield
    except Refused as error:
        problems.append(str(error))
