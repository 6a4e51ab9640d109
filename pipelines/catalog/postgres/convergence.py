"""Partners' messages about contracts, applied to a home in Postgres so that both homes agree."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from medusa_core.errors import WRONG_FORM, Unavailable
from medusa_core.market.agreements import (
    DocumentEnvelope,
    DocumentRequest,
    NoticeEnvelope,
    RefusalEnvelope,
    ReleaseEnvelope,
    StatusEnvelope,
    WithdrawalEnvelope,
)
from medusa_core.market.converging import AgreementDifference, HeldAgreement, Holding
from medusa_core.market.definitions import DefinedEnvelope, DefinitionEnvelope
from medusa_core.market.moves import MovedEnvelope, MoveEnvelope
from medusa_core.market.terms import ContractName
from medusa_core.names import Participant
from pipelines.catalog.agreement_store import Judged, Signed, TakenMessage
from pipelines.catalog.postgres.statements import NamedStatements


class PostgresConverging(NamedStatements):
    """The part of `Agreements` that takes what partners tell of contracts."""

    def held(self, envelope_id: int, document: bytes) -> tuple[HeldAgreement, str]:
        """See `Agreements.held`."""
        text = str(self._value("held_agreement", envelope_id=envelope_id, document=document))
        try:
            return HeldAgreement(**json.loads(text)), text
        except WRONG_FORM as error:
            raise Unavailable(
                f"the catalog holds a contract in a form that is not Medusa's "
                f"({type(error).__name__}): run medusa migrate, or restore the catalog"
            ) from error

    def take_document(
        self,
        envelope_id: int,
        envelope: DocumentEnvelope,
        signatures: Mapping[Participant, Signed],
        confirmation: Signed | None = None,
        judged: Judged | None = None,
    ) -> str:
        """See `Agreements.take_document`."""
        terms = envelope.terms
        given = {
            "payer": signatures.get(terms.payer),
            "provider": signatures.get(terms.provider),
            "confirmation": confirmation,
        }
        return str(
            self._value(
                "take_document",
                envelope_id=envelope_id,
                document=envelope.document,
                signatures=json.dumps(
                    {
                        of: {"signature": s.signature.hex(), "public_key": s.public_key.hex()}
                        for of, s in given.items()
                        if s is not None
                    }
                ),
                proposal=envelope.proposal,
                expires_at_ms=envelope.expires_at_ms,
                verdict=None if judged is None else judged.verdict.value,
                judged=None if judged is None else judged.held,
            )
        )

    def take(self, envelope_id: int, message: TakenMessage) -> str:
        """See `Agreements.take`."""
        values: dict[str, Any] = {"envelope_id": envelope_id}
        match message:
            case WithdrawalEnvelope() | ReleaseEnvelope():
                values |= {"contract": message.contract, "revision": message.revision}
                is_let_go = isinstance(message, ReleaseEnvelope)
                name = "take_let_go" if is_let_go else "take_withdrawal"
                return str(self._value(name, **values, proposal=message.proposal))
            case DocumentRequest():
                values |= {"contract": message.contract, "number": message.number}
                return str(self._value("take_want", **values))
            case RefusalEnvelope():
                values |= {"contract": message.contract, "number": message.number}
                values |= {"revision": message.revision, "newest": message.newest}
                return str(self._value("take_refusal", **values))
            case DefinitionEnvelope():
                values |= {"contract": message.contract, "definition": message.name}
                values |= {"number": message.number, "document": message.document}
                is_withdrawal = message.definition is None
                return str(self._value("take_definition", **values, is_withdrawal=is_withdrawal))
            case DefinedEnvelope():
                values |= {"contract": message.contract, "definition": message.name}
                values |= {"state": message.state, "reason": message.reason}
                return str(self._value("take_defined", **values))
            case MoveEnvelope():
                values |= {"contract": message.contract, "number": message.number}
                values |= {"fragment": message.fragment, "order_document": message.order}
                values |= {"state": message.state.value, "price": message.price}
                values |= {"from_us": message.from_us, "to_us": message.to_us}
                values |= {"lost_us": message.lost_us, "reason": message.reason}
                values |= {"commitment": message.commitment, "first_period": message.first_period}
                return str(self._value("take_move", **values))
            case MovedEnvelope():
                values |= {"contract": message.contract, "number": message.number}
                values |= {"state": message.state.value, "reason": message.reason}
                return str(self._value("take_moved", **values))
            case StatusEnvelope():
                values |= {"incarnation": message.incarnation, "digest": message.digest}
                return str(self._value("take_status", **values))

    def take_notice(self, envelope_id: int, envelope: NoticeEnvelope, keys: Sequence[bytes]) -> str:
        """See `Agreements.take_notice`."""
        statements = [
            {
                "given_by": one.given_by,
                "stated_by": one.stated_by,
                "ends_at_ms": one.ends_at_ms,
                "signature": one.signature.hex(),
                "public_key": key.hex(),
            }
            for one, key in zip(envelope.statements, keys, strict=True)
        ]
        values = {"contract": envelope.contract, "statements": json.dumps(statements)}
        return str(self._value("take_notice", envelope_id=envelope_id, **values))

    def holdings(
        self, partner: Participant, after: ContractName | None, until: ContractName | None
    ) -> Mapping[ContractName, Holding]:
        """See `Agreements.holdings`."""
        rows = self._rows("holdings_with", partner=partner, after=after, until=until)
        return {ContractName(row["contract"]): Holding(**row) for row in rows}

    def take_holdings(self, envelope_id: int, differing: Sequence[AgreementDifference]) -> str:
        """See `Agreements.take_holdings`."""
        given = json.dumps([asdict(one) for one in differing])
        return str(self._value("take_holdings", envelope_id=envelope_id, differing=given))

    def send_statuses(self) -> int:
        """See `Agreements.send_statuses`."""
        return int(self._value("send_statuses"))

    def statements_due(self, statements_max: int) -> tuple[str, ...]:
        """See `Agreements.statements_due`."""
        rows = self._rows("statements_due", statements_max=statements_max)
        return tuple(str(row["statement"]) for row in rows)

    def state(self, statement: str, signature: bytes, public_key: bytes) -> bool:
        """See `Agreements.state`."""
        values = {"statement": statement, "signature": signature, "public_key": public_key}
        return bool(self._value("state", **values))
