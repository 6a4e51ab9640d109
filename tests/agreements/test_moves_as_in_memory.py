"""Moves in memory, which the simulator plays, go as those in Postgres do, step by step."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pytest

from medusa_core.commits import Cause, Commit, LeaseKey, OutputSegment
from medusa_core.errors import MedusaError
from medusa_core.grid import Range
from medusa_core.market.envelopes import Envelope, EnvelopeKind
from medusa_core.market.moves import MoveState, message_of_move, message_of_moved
from medusa_core.market.terms import ContractName
from medusa_core.names import FIRST_EPOCH, FragmentName, Participant
from medusa_core.segments import Producer, Stability
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.moves import Force, MemoryMoves, MovementTerms
from pipelines.catalog.memory.store import ManualClock
from pipelines.catalog.move_store import Moves
from pipelines.language.check import check_network, fragments_for
from pipelines.market.moves.move_order import document_of_order
from pipelines.market.moves.move_sync import MoveSync
from pipelines.market.moves.moved_deployments import order_of
from pipelines.spark.deployment import deployment_of, plan_of
from tests.agreements.building import ALPHA, BETA, DAY_MS, Party
from tests.agreements.test_moves import (
    FRAGMENT,
    LENDS,
    NETWORK,
    WIDTH_US,
    exchanged,
    moves,
    syncs,
)

CONTRACT = "load_of_alpha"
__all__ = ["syncs"]


class Pair(Protocol):
    """Two homes that have agreed on a contract, and their messages."""

    def of(self, who: Participant) -> Moves: ...
    def order(self) -> str: ...
    def lend(self) -> None:
        """The contract is agreed, and in force at its payer."""

    def open_round(self) -> None:
        """It is in force at its provider too."""

    def exchange(self) -> None: ...
    def send(self, sender: Participant, fields: dict[str, Any]) -> None:
        """A message that the sender's home would not send now."""


class StoredPair:
    """In Postgres."""

    def __init__(self, alpha: Party, beta: Party) -> None:
        self._parties = {ALPHA: alpha, BETA: beta}
        self._moves = {who: moves(party) for who, party in self._parties.items()}
        self._nonces = count(1)

    def of(self, who: Participant) -> Moves:
        return self._moves[who]

    def order(self) -> str:
        return document_of_order(order_of(self._parties[ALPHA].connections.catalog, FRAGMENT, 1))

    def lend(self) -> None:
        for party in self._parties.values():
            party.sql(LENDS.format(fragments="'{main}'"))
        self.exchange()
        self._parties[ALPHA].agreements.open_round(0, "a test")

    def open_round(self) -> None:
        self._parties[BETA].agreements.open_round(0, "a test")

    def exchange(self) -> None:
        exchanged(self._parties[ALPHA], self._parties[BETA])

    def send(self, sender: Participant, fields: dict[str, Any]) -> None:
        party = self._parties[sender]
        receiver = BETA if sender == ALPHA else ALPHA
        ((now_ms,),) = party.sql("SELECT medusa.to_ms(clock_timestamp())")
        blank = Envelope(
            kind=EnvelopeKind.MOVE if sender == ALPHA else EnvelopeKind.MOVED,
            sender=sender, receiver=receiver, nonce=f"{next(self._nonces):032x}",
            sent_at_ms=now_ms, expires_at_ms=now_ms + DAY_MS, body=json.dumps(fields).encode(),
        )  # fmt: skip
        sealed = replace(blank, signature=party.key.sign(blank.bytes_to_sign))
        assert party.post.exchange.deliver(receiver, (sealed,)) == ("taken",)
        self._parties[receiver].contract_sync.tick()

    def close(self) -> None:
        for one in self._moves.values():
            one.close()


class ModelledPair:
    """In memory."""

    def __init__(self, directory: Path) -> None:
        self._clock = ManualClock(DAY_MS)
        self._catalogs = {who: MemoryCatalog(who, self._clock) for who in (ALPHA, BETA)}
        self._moves = {who: MemoryMoves(catalog) for who, catalog in self._catalogs.items()}
        checked = check_network(NETWORK)
        plan = plan_of(NETWORK, checked, WIDTH_US, directory)
        payer = self._catalogs[ALPHA]
        payer.deploy(deployment_of(plan, checked, fragments_for(checked), Producer(ALPHA)))
        for fragment in ("landing/seen", FRAGMENT):
            key = LeaseKey(fragment=fragment, producer=Producer(ALPHA))
            lease = payer.acquire_lease(key, FIRST_EPOCH, "me", DAY_MS)
            name = "seen" if fragment == "landing/seen" else "counted"
            (stream,) = (s.stream.name for s in payer.lines() if s.stream.name == name)
            segment = OutputSegment(
                stream=stream, range=Range(0, 3 * WIDTH_US), stability=Stability.STABLE
            )
            payer.commit(Commit(lease=lease, plan=plan.id, cause=Cause.NORMAL, segments=(segment,)))

    def of(self, who: Participant) -> Moves:
        return self._moves[who]

    def order(self) -> str:
        return document_of_order(order_of(self._catalogs[ALPHA], FRAGMENT, 1))

    def lend(self) -> None:
        terms = MovementTerms(
            contract=ContractName(CONTRACT),
            payer=ALPHA,
            provider=BETA,
            fragments=frozenset({FragmentName("main")}),
        )
        self._moves[ALPHA].declare(terms)
        self._moves[BETA].declare(replace(terms, force=Force.AGREED))
        self._terms = terms

    def open_round(self) -> None:
        self._moves[BETA].declare(self._terms)

    def exchange(self) -> None:
        for _ in range(3):
            for sender, home in self._moves.items():
                for to, about, message in home.outbox():
                    try:
                        self._moves[to].take(sender, message)
                    except MedusaError:
                        continue
                    home.sent(to, about)

    def send(self, sender: Participant, fields: dict[str, Any]) -> None:
        body = json.dumps(fields).encode()
        message = message_of_move(body) if sender == ALPHA else message_of_moved(body)
        with suppress(MedusaError):  # the home keeps it, refused
            self._moves[BETA if sender == ALPHA else ALPHA].take(sender, message)


def settle(pair: Pair, who: Participant, number: int, state: MoveState) -> bool:
    known = next(s for s in pair.of(who).statuses() if s.number == number)
    return pair.of(who).settle(known.id, state, f"{who} says {state.value}")


def begin(pair: Pair, number: int, fragment: str = FRAGMENT) -> None:
    pair.of(ALPHA).begin(CONTRACT, number, fragment, pair.order(), "a test")


def a_move(number: int, order: str | None = "{}", fragment: str = FRAGMENT) -> dict[str, Any]:
    return {"contract": CONTRACT, "number": number, "fragment": fragment, "order": order,
            "reason": "a partner says so"}  # fmt: skip


def moved(number: int, state: MoveState) -> dict[str, Any]:
    return {"contract": CONTRACT, "number": number, "state": state.value,
            "reason": "a partner says so"}  # fmt: skip


def steps() -> Iterator[tuple[str, Callable[[Pair], object]]]:
    """What happens, in this order."""
    yield "without a contract nothing begins", lambda p: begin(p, 1)
    yield "the contract is agreed", lambda p: p.lend()
    yield "a fragment that it does not name does not move", lambda p: begin(p, 1, "sums/other")
    yield "numbers count", lambda p: begin(p, 2)
    yield "it begins", lambda p: begin(p, 1)
    yield "once at a time", lambda p: begin(p, 2)
    yield "the provider's round has not begun: the order waits", lambda p: p.exchange()
    yield "it has", lambda p: p.open_round()
    yield "the order is taken", lambda p: p.exchange()
    yield "the same number is not another move", lambda p: p.send(ALPHA, a_move(1, fragment="a/b"))
    yield "nor does it begin again", lambda p: p.send(ALPHA, a_move(1))
    yield "the provider begins", lambda p: settle(p, BETA, 1, MoveState.STARTED)
    yield "once", lambda p: settle(p, BETA, 1, MoveState.STARTED)
    yield "its payer hears of it", lambda p: p.exchange()
    yield "and hears it again", lambda p: p.send(BETA, moved(1, MoveState.STARTED))
    yield "it is released", lambda p: settle(p, ALPHA, 1, MoveState.RELEASED)
    yield "the provider lets it go", lambda p: settle(p, BETA, 1, MoveState.ENDED)
    yield "so it returns", lambda p: p.exchange()
    yield "the payer takes it back too", lambda p: p.of(ALPHA).end(FRAGMENT, "enough")
    yield "and has it", lambda p: settle(p, ALPHA, 1, MoveState.ENDED)
    yield "both know", lambda p: p.exchange()
    yield "what has ended stays so", lambda p: p.send(BETA, moved(1, MoveState.STARTED))
    yield "at both", lambda p: p.exchange()
    yield "no order revives it", lambda p: p.send(ALPHA, a_move(1))
    yield "an end may come before its order", lambda p: p.send(ALPHA, a_move(9, None))
    yield "which then counts no more", lambda p: p.send(ALPHA, a_move(9))
    yield "without a contract nothing is taken", lambda p: p.send(ALPHA, a_move(8, fragment="a/b"))
    yield "the next one begins", lambda p: begin(p, 2)
    yield "and is taken back before it starts", lambda p: p.of(ALPHA).end(FRAGMENT, "enough")
    yield "there is nothing more to take back", lambda p: p.of(ALPHA).end(FRAGMENT, "enough")
    yield "its order and its end arrive", lambda p: p.exchange()
    yield "nobody knows of a third", lambda p: p.send(BETA, moved(3, MoveState.STARTED))


def outcome(call: Callable[[Pair], object], pair: Pair) -> str:
    try:
        return repr(call(pair))
    except MedusaError as error:
        return f"{type(error).__name__}: {error}"


def known(pair: Pair) -> dict[str, Any]:
    """What both must say alike: all but times and numbers of rows."""
    return {
        who: (
            pair.of(who).next_number(),
            sorted(
                (s.is_given, s.number, s.partner, s.contract, s.fragment, s.state.value, s.reason)
                for s in pair.of(who).statuses()
            ),
            [replace(one, id=0, age_ms=0) for one in pair.of(who).open_moves()],
        )
        for who in (ALPHA, BETA)
    }


@pytest.mark.long(quick=True)
def test_what_homes_in_postgres_know_after_each_step_those_in_memory_know(
    alpha: Party, beta: Party, syncs: tuple[MoveSync, MoveSync], tmp_path: Path
) -> None:
    modelled = ModelledPair(tmp_path)
    with closing(StoredPair(alpha, beta)) as stored:
        for what, call in steps():
            assert outcome(call, modelled) == outcome(call, stored), what
            assert known(modelled) == known(stored), what
