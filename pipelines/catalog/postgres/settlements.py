"""Statements and books of a home in Postgres: every call one statement; the database decides."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import RowMapping

from medusa_core.digest import Digest
from medusa_core.grid import Range
from medusa_core.market.bill_answers import BillAnswer
from medusa_core.market.bill_messages import (
    ConcessionEnvelope,
    StatementAnswerEnvelope,
    StatementEnvelope,
)
from medusa_core.market.bill_statements import (
    CORRECTIONS_MAX,
    BilledRange,
    RangeChange,
    Statement,
    StatementId,
    digest_text,
    statement_from,
)
from medusa_core.market.books import Entry
from medusa_core.market.documents import revision_of, terms_of
from medusa_core.market.load_statements import GRAIN_US, BilledMove
from medusa_core.market.sample_claims import Commitment
from medusa_core.market.settlement_periods import ActiveRevision, SettlementPeriod
from medusa_core.market.terms import ContractName, plain
from medusa_core.names import StreamName
from pipelines.catalog.postgres.statements import NamedStatements, engine_with_timeouts
from pipelines.catalog.settlement_store import (
    BilledContract,
    Bills,
    CountedRows,
    DisputedStatements,
    ReceivedStatement,
    Settlements,
)


class PostgresBills(NamedStatements, Bills):
    """A `Bills` in a home, as its job logs in."""

    def take_bill(self, envelope_id: int, message: StatementEnvelope, public_key: bytes) -> str:
        """See `Bills.take_bill`."""
        return str(
            self._value(
                "take_bill",
                envelope_id=envelope_id,
                document=message.document,
                signature=message.signature,
                public_key=public_key,
            )
        )

    def take_bill_answer(
        self,
        envelope_id: int,
        answer: BillAnswer,
        message: StatementAnswerEnvelope,
        public_key: bytes,
    ) -> str:
        """See `Bills.take_bill_answer`."""
        values = _answer_values(answer) | {"signature": message.signature}
        return str(
            self._value(
                "take_bill_answer", envelope_id=envelope_id, public_key=public_key, **values
            )
        )

    def take_concession(
        self, envelope_id: int, message: ConcessionEnvelope, answer: BillAnswer | None
    ) -> str:
        """See `Bills.take_concession`."""
        return str(
            self._value(
                "take_concession",
                envelope_id=envelope_id,
                contract=message.contract,
                period=message.period,
                statement=message.statement,
                amount=None if answer is None else answer.amount,
                entries=_entries_text(() if answer is None else answer.entries),
            )
        )

    def bill_of_period(self, contract: ContractName, period: int) -> DisputedStatements | None:
        """See `Bills.bill_of_period`."""
        rows = self._rows("bill_of_period", contract=contract, period=period)
        if not rows:
            return None
        (row,) = rows
        return DisputedStatements(
            claimed=statement_from(bytes(row["claimed"])),
            own=None if row["own"] is None else statement_from(bytes(row["own"])),
            is_open=row["is_disputed"],
        )

    def commitments(self, statement: Statement) -> tuple[Commitment, ...]:
        """See `Bills.commitments`."""
        rows = self._rows(
            "sampled_lines",
            contract=statement.contract,
            period=statement.period,
            revision=statement.revision,
            begins_us=statement.from_ms * 1_000,
        )
        widths: dict[int, dict[StreamName, int]] = {}
        for row in rows:
            of_move = widths.setdefault(row["number"], {})
            of_move[StreamName(row["stream"])] = row["width_us"]
        return tuple(
            Commitment(
                number=number,
                fragment=row["fragment"],
                commitment=bytes(row["commitment"]),
                first_period=row["first_period"],
                from_us=row["from_us"],
                to_us=row["to_us"],
                widths_us=widths[number],
                rate=row["verify"],
            )
            for number, row in {row["number"]: row for row in rows if not row["is_given"]}.items()
        )


class PostgresSettlements(PostgresBills, Settlements):
    """A `Settlements` in a home, as its job logs in."""

    def billed_contracts(self) -> tuple[BilledContract, ...]:
        """See `Settlements.billed_contracts`."""
        return tuple(_billed_contract(row) for row in self._rows("settlement_contracts"))

    def count(
        self, contract: ContractName, period: SettlementPeriod, cut_us: int
    ) -> CountedRows | None:
        """See `Settlements.count`."""
        found = self._value(
            "note_billed",
            contract=contract,
            revision=revision_of(period.terms),
            period=period.number,
            from_ms=period.from_ms,
            to_us=period.range.to_us,
            cut_us=cut_us,
        )
        if found is None:
            return None
        return CountedRows(stable_us=found["stable_us"], counts=found["counts"])

    def ranges(
        self, contract: ContractName, period: int
    ) -> tuple[Sequence[BilledRange], Sequence[RangeChange]]:
        """See `Settlements.ranges`."""
        values = {"contract": contract, "period": period, "changes_max": CORRECTIONS_MAX}
        rows = self._rows("billed_ranges", **values)
        counted = [
            BilledRange(
                range=Range(row["from_us"], row["to_us"]),
                digest=_digest(row),
                subject=row["subject"],
                gap_us=row["gap_us"],
            )
            for row in rows
            if row["period"] == period
        ]
        changes = [
            RangeChange(
                period=row["period"],
                range=Range(row["from_us"], row["to_us"]),
                stated=Digest(row["stated_rows"], int(row["stated_a"]), int(row["stated_b"])),
                digest=_digest(row),
                price=row["price"],
            )
            for row in rows
            if row["period"] != period
        ]
        return counted, changes

    def billed_moves(
        self, contract: ContractName, period: SettlementPeriod
    ) -> tuple[BilledMove, ...]:
        """See `Settlements.billed_moves`."""
        rows = self._rows("billed_moves", contract=contract, from_us=period.range.from_us)
        return tuple(BilledMove(**row) for row in rows)

    def make(
        self, document: bytes, cut_us: int, counted: CountedRows, *, is_last: bool
    ) -> StatementId:
        """See `Settlements.make`."""
        return StatementId(
            self._value(
                "make_bill",
                document=document,
                cut_us=cut_us,
                counts=counted.counts,
                is_last=is_last,
            )
        )

    def to_answer(self, bills_max: int) -> tuple[ReceivedStatement, ...]:
        """See `Settlements.to_answer`."""
        return tuple(
            ReceivedStatement(
                claimed=statement_from(bytes(row["claimed"])),
                own=statement_from(bytes(row["own"])),
                revisions=_revisions(row["revisions"]),
            )
            for row in self._rows("bills_to_answer", bills_max=bills_max)
        )

    def claimed(self, contract: ContractName, before: int) -> tuple[Statement, ...]:
        """See `Settlements.claimed`."""
        rows = self._rows("claimed_documents", contract=contract, before=before)
        return tuple(statement_from(bytes(row["document"])) for row in rows)

    def held_digests(self, contract: ContractName, begins: Collection[int]) -> Mapping[int, str]:
        """See `Settlements.held_digests`."""
        rows = self._rows("held_ranges", contract=contract, begins=list(begins)) if begins else ()
        return {row["from_us"]: digest_text(_digest(row)) for row in rows}

    def open_disputes(self) -> tuple[tuple[ContractName, int], ...]:
        """See `Settlements.open_disputes`."""
        rows = self._rows("open_bill_disputes")
        return tuple((ContractName(row["contract"]), row["period"]) for row in rows)

    def answer(self, answer: BillAnswer) -> bool:
        """See `Settlements.answer`."""
        return bool(self._value("answer_bill", **_answer_values(answer)))

    def concede(self, contract: ContractName, period: int) -> bool:
        """See `Settlements.concede`."""
        return bool(self._value("concede_bill", contract=contract, period=period))

    def send_again(self) -> int:
        """See `Settlements.send_again`."""
        return int(self._value("bills_again"))


def open_settlements(url: str) -> PostgresSettlements:
    """The statements and books of the home at `url`; one connection."""
    return PostgresSettlements(engine_with_timeouts(url))


def _billed_contract(row: RowMapping) -> BilledContract:
    revisions = _revisions(row["revisions"])
    before = None
    if row["period"] is not None and row["period"] > 1:
        terms = next(one.terms for one in revisions if one.terms.number == row["number"])
        # Only its number, its end and its terms count for what follows.
        before = SettlementPeriod(
            number=row["period"] - 1,
            from_ms=row["from_ms"] - 1,
            to_ms=row["from_ms"],
            terms=terms,
        )
    return BilledContract(
        contract=ContractName(row["contract"]),
        revisions=revisions,
        ends_at_ms=row["ends_at_ms"],
        before=before,
        width_us=row["width_us"] or GRAIN_US,
        clock_ms=row["clock_ms"],
    )


def _revisions(given: Sequence[Mapping[str, Any]]) -> tuple[ActiveRevision, ...]:
    return tuple(
        ActiveRevision(
            terms=terms_of(one["document"].encode()), active_from_ms=one["active_from_ms"]
        )
        for one in given
    )


def _digest(row: RowMapping) -> Digest:
    return Digest(row["rows"], int(row["sum_a"]), int(row["sum_b"]))


def _answer_values(answer: BillAnswer) -> dict[str, Any]:
    from_us, to_us = answer.segment or (None, None)
    return {
        "statement": answer.statement,
        "outcome": answer.outcome.value,
        "own": answer.own,
        "amount": answer.amount,
        "blocked": answer.blocked,
        "from_us": from_us,
        "to_us": to_us,
        "entries": _entries_text(answer.entries),
    }


def _entries_text(entries: Sequence[Entry]) -> str:
    return json.dumps(
        [
            {
                "key": entry.key,
                "kind": entry.kind.value,
                "partner": entry.partner,
                "currency": entry.currency,
                "contract": entry.contract,
                "revision": entry.revision,
                "period": entry.period,
                "statement": entry.statement,
                "postings": [
                    {"account": one.account.value, "amount": plain(one.amount)}
                    for one in entry.postings
                ],
            }
            for entry in entries
        ]
    )
