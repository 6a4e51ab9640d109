"""Moves of fragments by hand: begin one under a movement contract, end one, list what has moved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from medusa_core.errors import Refused
from medusa_core.market.moves import MoveState
from medusa_core.market.terms import Movement, Terms
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.catalog.move_store import MoveStatus
from pipelines.catalog.postgres.agreements import PostgresAgreements
from pipelines.catalog.postgres.moves import PostgresMoves, open_moves_of
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.homes.deployed_fragments import fragment_named
from pipelines.homes.home import chosen_participant, home_server
from pipelines.market.moves import move_begin
from pipelines.market.moves.move_order import MoveOrder
from pipelines.market.moves.moved_deployments import order_of

BY_HAND = "by hand"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRequest:
    """Hand a fragment of `participant` over to a partner; the fragment as FRAGMENT,
    NETWORK.FRAGMENT or NETWORK/FRAGMENT. `reason` is recorded with the move, and sent to the
    partner."""

    participant: str | None
    fragment: str
    to: str
    reason: str = BY_HAND


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveBegun:
    """A move that the provider has been sent."""

    fragment: str
    provider: Participant
    contract: str
    number: int

    @property
    def sentence(self) -> str:
        """What was done."""
        return (
            f"move {self.number}: fragment {self.fragment} goes to {self.provider} under "
            f"{self.contract}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveEnded:
    """A fragment goes back to `payer`, which is this participant if it has taken its own back."""

    fragment: str
    payer: Participant

    @property
    def sentence(self) -> str:
        """What was done."""
        return f"fragment {self.fragment} goes back to {self.payer}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveList:
    """The moves that a home knows."""

    participant: Participant
    moves: tuple[MoveStatus, ...]


def begin_move(settings: Settings, request: MoveRequest) -> MoveBegun:
    """Send the order of a move with the next exchange of messages.

    Raises Refused for a fragment that is not computed here or does not move, and without a movement
    contract in force with the partner that names it.
    """
    here = chosen_participant(settings, request.participant)
    with (
        _opened(settings, here) as (url, moves),
        closing(PostgresCatalog(url, here)) as catalog,
        closing(PostgresAgreements(url, here)) as agreements,
    ):
        own = {a.fragment for a in catalog.assignments() if a.producer.participant == here}
        fragment = fragment_named(request.fragment, here, own)
        provider = Participant(request.to)
        order = order_of(catalog, fragment, moves.next_number())
        contract = _contract(agreements.agreed().values(), here, provider, order)
        number = move_begin.begin_move(
            moves,
            catalog,
            catalog,
            contract=contract,
            provider=provider,
            fragment=fragment,
            reason=request.reason,
        )
    return MoveBegun(fragment=fragment, provider=provider, contract=contract, number=number)


def end_move(
    settings: Settings, participant: str | None, fragment: str, reason: str = BY_HAND
) -> MoveEnded:
    """Take a fragment back, or give a partner's back to it; Refused if it has not moved, or if two
    partners have handed over one of its name."""
    here = chosen_participant(settings, participant)
    with _opened(settings, here) as (_, moves):
        known = [one for one in moves.statuses() if one.state is not MoveState.ENDED]
        found = fragment_named(fragment, here, {one.fragment for one in known}, "moved fragment")
        given, *others = [one for one in known if one.fragment == found]
        if others:
            raise Refused(
                f"fragment {found} is moved by {len(others) + 1} participants: end the contract "
                "with one of them"
            )
        if given.is_given:
            moves.end(found, reason)
            return MoveEnded(fragment=found, payer=here)
        moves.settle(given.id, MoveState.ENDED, reason)
        return MoveEnded(fragment=found, payer=given.partner)


def list_moves(settings: Settings, participant: str | None) -> MoveList:
    """The moves that a home knows, the newest first."""
    here = chosen_participant(settings, participant)
    with _opened(settings, here) as (_, moves):
        return MoveList(participant=here, moves=moves.statuses())


def _contract(agreed: Iterable[Terms], here: Participant, to: Participant, order: MoveOrder) -> str:
    """The first agreed contract under which the fragment may move, with all that it reads."""
    fragment = order.fragment
    network, _, name = fragment.partition("/")
    foreign = {one.origin for one in order.inputs_from_others(to)}
    lacking: str | None = None
    for terms in agreed:
        subject = terms.subject
        if not isinstance(subject, Movement) or (terms.payer, terms.provider) != (here, to):
            continue
        if subject.fragments is None or {name, f"{network}.{name}"} & set(subject.fragments):
            others = foreign - (subject.reads or frozenset())
            if not others:
                return str(terms.contract)
            lacking = lacking or (
                f"contract {terms.contract} does not let {to} read {', '.join(sorted(others))}, "
                f"which {fragment} reads: agree on it under reads"
            )
    if lacking is not None:
        raise Refused(lacking)
    raise Refused(
        f"no movement contract lets {here} hand {fragment} over to {to}: agree on one first "
        "(medusa contract check)"
    )


def moves_noted(settings: Settings, participant: str | None, begins: str) -> tuple[MoveStatus, ...]:
    """The moves that came to one of their states for a reason that begins so, the newest first."""
    here = chosen_participant(settings, participant)
    with _opened(settings, here) as (_, moves):
        return moves.noted(begins)


@contextmanager
def _opened(settings: Settings, participant: Participant) -> Iterator[tuple[str, PostgresMoves]]:
    with home_server(settings, participant) as server:
        url = server.login_url("job")
        with closing(open_moves_of(url)) as moves:
            yield url, moves
