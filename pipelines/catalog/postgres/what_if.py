"""The recorded data of a home that a what-if replay needs, and the effect of edits: read-only.

All data is read in read-only transactions, so that nothing can be written or sent by mistake.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import RowMapping

from medusa_core.loads import RecordedSample
from medusa_core.market.documents import terms_of
from medusa_core.market.estimating import ObservedAnswer, ObservedOffer, Priced
from medusa_core.market.messages import offer_from
from medusa_core.market.terms import ContractName, Terms
from medusa_core.names import Participant
from pipelines.catalog.postgres.database_errors import errors_of_catalog
from pipelines.catalog.postgres.loads import recorded_of
from pipelines.catalog.postgres.queries import query
from pipelines.catalog.postgres.statements import NamedStatements, engine_with_timeouts

WORDS_MAX = 20_000
"""So many of the newest answers and offers are looked at."""

MOVES_MAX = 200_000

SLICE_MS = 6 * 3_600_000
"""Samples are read for so much time at once: what is read of them is larger than what is kept."""

TIMEOUT_MS = 120_000


class PostgresWhatIf(NamedStatements):
    """A home as the owner's question reads it, logged in as its job."""

    def __init__(self, url: str) -> None:
        super().__init__(engine_with_timeouts(url, time_limit_ms=TIMEOUT_MS))

    def agreed(self) -> dict[ContractName, Terms]:
        """What was agreed on last, of contracts that have not ended."""
        terms = (terms_of(bytes(row["document"])) for row in self._rows("agreed_contracts"))
        return {each.contract: each for each in terms}

    def edited(self, contract: str, edits: Sequence[Mapping[str, Any]]) -> Terms | None:
        """What a contract would say after these edits, one after the other, each checked as a real
        one is: Refused in the same words. None: there is no such contract."""
        document = self._value("what_if_edited", contract=contract, edits=json.dumps([*edits]))
        return None if document is None else terms_of(bytes(document))

    def proposed(self, document: bytes) -> Terms:
        """What this home would propose with a document; Refused as that is."""
        return terms_of(bytes(self._value("what_if_document", document=document)))

    def loads(self, from_ms: int, until_ms: int) -> tuple[RecordedSample, ...]:
        """The samples that ended in `(from_ms, until_ms]`, in order."""
        found: list[RecordedSample] = []
        for begins_ms in range(from_ms, until_ms, SLICE_MS):
            ends_ms = min(begins_ms + SLICE_MS, until_ms)
            rows = self._rows("loads_between", from_ms=begins_ms, until_ms=ends_ms)
            found += recorded_of(rows)
        return tuple(found)

    def words(self, from_ms: int) -> dict[tuple[Participant, str], list[ObservedAnswer]]:
        """Providers' answers since then, by provider and currency."""
        rows = self._rows("words_of_providers", from_ms=from_ms, most=WORDS_MAX)
        moves = self._rows("given_moves", from_ms=from_ms, most=MOVES_MAX)
        found: dict[tuple[Participant, str], list[ObservedAnswer]] = {}
        for row, lay in with_placed_load(map(dict, rows), map(dict, moves)):
            of = Participant(row["partner"]), str(row["currency"])
            found.setdefault(of, []).append(_word(row, lay))
        return found

    def observed_offers(self, from_ms: int) -> dict[tuple[ContractName, str], list[ObservedOffer]]:
        """What payers offered since then, by contract and currency."""
        found: dict[tuple[ContractName, str], list[ObservedOffer]] = {}
        for row in self._rows("offers_of_payers", from_ms=from_ms, most=WORDS_MAX):
            offer = offer_from(bytes(row["body"]))
            of = ContractName(row["contract"]), str(row["currency"])
            found.setdefault(of, []).append(
                ObservedOffer(
                    at_ms=row["at_ms"],
                    price=float(row["price"]),
                    items=offer.items,
                    for_overload=offer.for_overload,
                )
            )
        return found

    # ------------------------------------------------------------ how statements are sent

    def _rows(self, name: str, **values: Any) -> Sequence[RowMapping]:
        with errors_of_catalog(), self._snapshot() as connection:
            return connection.execute(query(name), values).mappings().all()


def with_placed_load(
    rows: Iterable[Mapping[str, Any]], moves: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[Mapping[str, Any], Priced]]:
    """Words from the oldest on, each with what had been agreed before, and lay with the provider
    then: price and load."""
    coming = sorted(moves, key=lambda move: -int(move["from_ms"]))
    by_contract: dict[str, list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: int(row["at_ms"])):
        at_ms, partner = row["at_ms"], row["partner"]
        while coming and coming[-1]["from_ms"] < at_ms:
            move = coming.pop()
            by_contract.setdefault(move["partner"], []).append(move)
        there = [move for move in by_contract.get(partner, ()) if move["until_ms"] > at_ms]
        by_contract[partner] = there
        yield row, tuple((float(move["price"]), float(move["load"])) for move in there)


def _word(row: Mapping[str, Any], lay: Priced) -> ObservedAnswer:
    def price_of(level: int) -> float:
        return float(row["price_low"] + level * row["price_step"])

    return ObservedAnswer(
        at_ms=row["at_ms"],
        low=float(row["price_low"]),
        high=float(row["price_high"]),
        price=float(row["price"]),
        level=row["level"],
        took=row["load"],
        rooms=tuple((price_of(room["level"]), float(room["load"])) for room in row["rooms"]),
        lay=lay,
        is_more=row["is_more"],
        is_silence=row["reason"] is None,
    )
