"""A home's market in Postgres: it is read in one snapshot, and every change is one statement."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Engine, RowMapping

from medusa_core.loads import WINDOW_MS
from medusa_core.market.documents import terms_of
from medusa_core.market.knowledge import (
    ContractInForce,
    MovedLoad,
    RequestedLoad,
    contract_in_force,
)
from medusa_core.market.messages import Item, Nonce, answer_from, offer_from
from medusa_core.market.terms import ContractKind, ContractName, Revision
from medusa_core.names import FragmentName, Participant
from pipelines.catalog.postgres.database_errors import errors_of_catalog
from pipelines.catalog.postgres.declared_costs import declared_of
from pipelines.catalog.postgres.loads import recorded_of
from pipelines.catalog.postgres.queries import query
from pipelines.catalog.postgres.statements import NamedStatements, engine_with_timeouts
from pipelines.catalog.round_store import (
    AgreedMove,
    AnswerRecord,
    MarketFacts,
    OpenOffer,
    PlacedMove,
    ReceivedAnswer,
    Silence,
    Trading,
)

Rows = Callable[..., Sequence[RowMapping]]


class PostgresRounds(NamedStatements):
    """A `Rounds` over an engine that logs in as the home's job."""

    def __init__(self, engine: Engine, participant: Participant) -> None:
        super().__init__(engine)
        self._participant = participant
        self._contracts: dict[Revision, tuple[ContractInForce, str] | None] = {}

    @property
    def participant(self) -> Participant:
        """See `Rounds.participant`."""
        return self._participant

    def waits(self) -> bool:
        """See `Rounds.waits`."""
        return bool(self._value("market_waits"))

    def is_due(self) -> bool:
        """See `Rounds.is_due`."""
        return bool(self._value("round_is_due"))

    def read(self) -> MarketFacts:
        """See `Rounds.read`."""
        with errors_of_catalog(), self._snapshot() as connection:

            def rows(name: str, **values: Any) -> Sequence[RowMapping]:
                return connection.execute(query(name), values).mappings().all()

            return self._facts(rows)

    def last_answers(self) -> tuple[AnswerRecord, ...]:
        """See `Rounds.last_answers`."""
        return tuple(
            AnswerRecord(**{**row, "price": None if row["price"] is None else str(row["price"])})
            for row in self._rows("last_answers")
        )

    def expire(self) -> int:
        """See `Rounds.expire`."""
        return int(self._value("expire_market"))

    def take_offer(self, envelope_id: int) -> int:
        """See `Rounds.take_offer`."""
        return int(self._value("take_offer", envelope_id=envelope_id))

    def take_answer(
        self,
        envelope_id: int,
        keeps: Sequence[Item] | None = None,
        judged_at: int | None = None,
    ) -> int:
        """See `Rounds.take_answer`."""
        kept = None if keeps is None else json.dumps([[i.fragment, i.partition] for i in keeps])
        values = {"envelope_id": envelope_id, "keeps": kept, "judged_at": judged_at}
        return int(self._value("take_answer", **values))

    def apply(self, request: Mapping[str, Any]) -> None:
        """See `Rounds.apply`."""
        self._value("apply_round", request=json.dumps(request))

    # ------------------------------------------------------------ reading

    def _facts(self, rows: Rows) -> MarketFacts:
        (market_row,) = rows("market_state")
        declared = rows("declared_cost")
        in_force = self._in_force(rows("contracts_in_force"))
        return MarketFacts(
            participant=self._participant,
            clock_ms=market_row["clock_ms"],
            round=market_row["round"],
            opened_at_ms=market_row["opened_at_ms"],
            decided_round=market_row["decided_round"],
            changes=market_row["changes"],
            trading=Trading(
                round_ms=market_row["round_ms"],
                move_ms=market_row["move_ms"],
                residence_ms=market_row["residence_ms"],
                dead_band=market_row["dead_band"],
                partners_max=market_row["partners_max"],
            ),
            loads=recorded_of(rows("loads_since", window_ms=WINDOW_MS)),
            declared=declared_of(declared[0]) if declared else None,
            contracts=tuple(contract for contract, _ in in_force),
            currencies={contract.name: currency for contract, currency in in_force},
            open=tuple(_open_of(row) for row in rows("open_offers")),
            moves=tuple(_move_of(row) for row in rows("agreed_moves")),
            placed=tuple(_placed_of(row) for row in rows("placed_moves", window_ms=WINDOW_MS)),
            moving=frozenset(row["fragment"] for row in rows("moving_fragments")),
            answers={
                ContractName(row["contract"]): ReceivedAnswer(
                    answer=answer_from(bytes(row["body"])),
                    round=row["round"],
                    level=None if row["is_more"] else row["level"],
                    smallest=_smallest_of(row["offered"]),
                )
                for row in rows("reported_headroom")
            },
            requested_loads={
                ContractName(r["contract"]): _requested_load_of(r) for r in rows("requested_loads")
            },
            silent={
                Participant(row["partner"]): Silence(
                    since_ms=row["since_ms"], asks_round=row["asks_round"]
                )
                for row in rows("silent_partners")
            },
        )

    def _in_force(self, rows: Sequence[RowMapping]) -> list[tuple[ContractInForce, str]]:
        """Contracts of kind movement; what a revision says is read once."""
        found = []
        for row in rows:
            revision = Revision(row["revision"])
            if revision not in self._contracts:
                terms = terms_of(bytes(row["document"]))
                moves = terms.kind is ContractKind.MOVEMENT
                self._contracts[revision] = (
                    (contract_in_force(terms, revision), terms.currency) if moves else None
                )
            contract = self._contracts[revision]
            if contract is not None:
                found.append(contract)
        return found


def open_postgres_rounds(url: str, participant: Participant) -> PostgresRounds:
    """A `Rounds` in the home at `url`, as its job logs in; one connection."""
    return PostgresRounds(engine_with_timeouts(url), participant)


def _open_of(row: RowMapping) -> OpenOffer:
    return OpenOffer(
        offer_id=row["offer_id"],
        is_own=row["is_own"],
        partner=Participant(row["partner"]),
        relays=row["relays"],
        round=row["round"],
        is_stale=row["is_stale"],
        expires_at_ms=row["expires_at_ms"],
        offer=offer_from(bytes(row["body"])),
    )


def _move_of(row: RowMapping) -> AgreedMove:
    return AgreedMove(
        move_id=row["move_id"],
        is_given=row["is_given"],
        is_granted=row["state"] == "granted",
        partner=Participant(row["partner"]),
        contract=ContractName(row["contract"]),
        item=Item(FragmentName(row["fragment"]), row["partition"], row["load"]),
        level=row["level"],
        round=row["round"],
        expires_at_ms=row["expires_at_ms"],
    )


def _placed_of(row: RowMapping) -> PlacedMove:
    item = Item(FragmentName(row["fragment"]), row["partition"], row["load"])
    contract, price = ContractName(row["contract"]), float(row["price"] or 0)
    return PlacedMove(
        of=row["metered_as"],
        moved=MovedLoad(row["move_id"], row["is_given"], contract, item, price, row["since_ms"]),
        round=row["round"],
        has_returned=row["has_returned"],
    )


def _smallest_of(offered: bytes | memoryview) -> float:
    return min(item.load for item in offer_from(bytes(offered)).items)


def _requested_load_of(row: RowMapping) -> RequestedLoad:
    return RequestedLoad(
        offer=Nonce(row["nonce"]),
        load=row["load"],
        smallest=row["smallest"],
        for_overload=row["for_overload"],
        reported_level=row["reported_level"],
    )
