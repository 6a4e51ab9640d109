"""A home's agreements in Postgres: every call one statement, in which the database decides."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import RowMapping

from medusa_core.errors import Refused
from medusa_core.market.agreements import (
    DocumentTold,
    LetGoTold,
    NoticeTold,
    RefusalTold,
    StandingTold,
    WantTold,
    WithdrawalTold,
)
from medusa_core.market.converging import Differing, HeldAgreement, Holding
from medusa_core.market.documents import terms_of
from medusa_core.market.envelopes import Envelope, EnvelopeKind
from medusa_core.market.terms import ContractName, Revision, Terms
from medusa_core.names import Participant
from pipelines.catalog.agreements import (
    PROPOSAL_LASTS_MS,
    ContractInForce,
    ContractState,
    ContractStatus,
    Judged,
    KnownKeys,
    Message,
    OwnProposal,
    Received,
    Round,
    Sealed,
    Signed,
    TakenAsTold,
)
from pipelines.catalog.postgres import catalog_engine
from pipelines.catalog.postgres_errors import errors_of_catalog
from pipelines.catalog.queries import query

PATIENCE = {"options": "-c jit=off -c statement_timeout=30000"}


class PostgresAgreements:
    """An `Agreements` in the home at `url`, as its job logs in; one connection."""

    def __init__(self, url: str, participant: Participant) -> None:
        self._participant = participant
        self._engine = catalog_engine(url, pool_size=1, connect_args=PATIENCE)

    @property
    def participant(self) -> Participant:
        """See `Agreements.participant`."""
        return self._participant

    def close(self) -> None:
        """See `Agreements.close`."""
        self._engine.dispose()

    def _rows(self, name: str, **values: Any) -> Sequence[RowMapping]:
        with errors_of_catalog(), self._engine.connect() as connection:
            return connection.execute(query(name), values).mappings().all()

    def _value(self, name: str, **values: Any) -> Any:
        (row,) = self._rows(name, **values)
        (value,) = row.values()
        return value

    # keys and contracts

    def keys(self) -> Mapping[Participant, bytes]:
        """See `Agreements.keys`."""
        return {
            participant: known.counts
            for participant, known in self.known_keys().items()
            if known.counts is not None
        }

    def known_keys(self) -> Mapping[Participant, KnownKeys]:
        """See `Agreements.known_keys`."""
        found: dict[Participant, KnownKeys] = {}
        for row in self._rows("party_keys"):
            name, key = Participant(row["participant"]), bytes(row["public_key"])
            if name in found:
                found[name] = replace(found[name], ever=(*found[name].ever, key))
            else:
                found[name] = KnownKeys(counts=None if row["is_past"] else key, ever=(key,))
        return found

    def learn_key(self, participant: Participant, public_key: bytes, because: str) -> bool:
        """See `Agreements.learn_key`."""
        return bool(
            self._value(
                "learn_first_key", participant=participant, public_key=public_key, because=because
            )
        )

    def propose(self, document: bytes, because: str, lasts_ms: int = PROPOSAL_LASTS_MS) -> Revision:
        """See `Agreements.propose`."""
        values = {"document": document, "lasts_ms": lasts_ms, "because": because}
        return Revision(self._value("propose_document", **values))

    def contracts(self) -> tuple[ContractStatus, ...]:
        """See `Agreements.contracts`."""
        return tuple(
            ContractStatus(
                contract=ContractName(row["contract"]),
                state=ContractState(row["state"]),
                revision=Revision(row["revision"]),
                terms=terms_of(bytes(row["document"])),
                active=row["active_revision"],
                partner_proposes=row["partner_proposes"],
                expires_at_ms=row["expires_at_ms"],
                ends_at_ms=row["ends_at_ms"],
            )
            for row in self._rows("contracts")
        )

    def in_force(self) -> tuple[ContractInForce, ...]:
        """See `Agreements.in_force`."""
        return tuple(
            ContractInForce(
                contract=ContractName(row["contract"]),
                revision=Revision(row["revision"]),
                round=row["round"],
                terms=terms_of(bytes(row["document"])),
                ends_at_ms=row["ends_at_ms"],
            )
            for row in self._rows("contracts_in_force")
        )

    def agreed(self) -> Mapping[ContractName, Terms]:
        """See `Agreements.agreed`."""
        return {
            ContractName(row["contract"]): terms_of(bytes(row["document"]))
            for row in self._rows("agreed_documents")
        }

    def own_proposals(self, because: str | None = None) -> Mapping[ContractName, OwnProposal]:
        """See `Agreements.own_proposals`."""
        return {
            ContractName(row["contract"]): OwnProposal(
                state=row["state"], because=row["because"], terms=terms_of(bytes(row["document"]))
            )
            for row in self._rows("own_proposals", because=because)
        }

    # signing

    def has_work(self) -> bool:
        """See `Agreements.has_work`."""
        return bool(self._value("agreements_wait"))

    def expire(self) -> int:
        """See `Agreements.expire`."""
        return int(self._value("expire_proposals"))

    def to_sign(self) -> tuple[Revision, ...]:
        """See `Agreements.to_sign`."""
        return tuple(Revision(row["revision"]) for row in self._rows("to_sign"))

    def sign(self, revision: Revision, signature: bytes, public_key: bytes) -> bool:
        """See `Agreements.sign`."""
        values = {"revision": revision, "signature": signature, "public_key": public_key}
        return bool(self._value("sign_contract", **values))

    # the inbox

    def received(self, envelopes_max: int) -> tuple[Received, ...]:
        """See `Agreements.received`."""
        return self._envelopes(self._rows("to_verify", envelopes_max=envelopes_max))

    def verified(self, kind: EnvelopeKind, envelopes_max: int) -> tuple[Received, ...]:
        """See `Agreements.verified`."""
        return self._envelopes(
            self._rows("verified_envelopes", kind=kind.value, envelopes_max=envelopes_max)
        )

    def _envelopes(self, rows: Sequence[RowMapping]) -> tuple[Received, ...]:
        found = []
        for row in rows:
            try:
                kind = EnvelopeKind(row["kind"])
            except ValueError:
                self.refuse(row["envelope_id"], f"nothing is known of the kind {row['kind']!r}")
                continue
            found.append(
                Received(
                    envelope_id=row["envelope_id"],
                    received_at_ms=row["received_at_ms"],
                    envelope=_envelope(row, kind, Participant(row["sender"])),
                )
            )
        return tuple(found)

    def held(self, envelope_id: int, document: bytes) -> tuple[HeldAgreement, str]:
        """See `Agreements.held`."""
        text = str(self._value("held_agreement", envelope_id=envelope_id, document=document))
        return HeldAgreement(**json.loads(text)), text

    def take_document(
        self,
        envelope_id: int,
        told: DocumentTold,
        signatures: Mapping[Participant, Signed],
        confirmation: Signed | None = None,
        judged: Judged | None = None,
    ) -> str:
        """See `Agreements.take_document`."""
        terms = told.terms
        given = {
            "payer": signatures.get(terms.payer),
            "provider": signatures.get(terms.provider),
            "confirmation": confirmation,
        }
        return str(
            self._value(
                "take_document",
                envelope_id=envelope_id,
                document=told.document,
                signatures=json.dumps(
                    {
                        of: {"signature": s.signature.hex(), "public_key": s.public_key.hex()}
                        for of, s in given.items()
                        if s is not None
                    }
                ),
                proposal=told.proposal,
                expires_at_ms=told.expires_at_ms,
                verdict=None if judged is None else judged.verdict.value,
                judged=None if judged is None else judged.held,
            )
        )

    def take(self, envelope_id: int, told: TakenAsTold) -> str:
        """See `Agreements.take`."""
        values: dict[str, Any] = {"envelope_id": envelope_id}
        match told:
            case WithdrawalTold() | LetGoTold():
                values |= {"contract": told.contract, "revision": told.revision}
                is_let_go = isinstance(told, LetGoTold)
                name = "take_let_go" if is_let_go else "take_withdrawal"
                return str(self._value(name, **values, proposal=told.proposal))
            case WantTold():
                values |= {"contract": told.contract, "number": told.number}
                return str(self._value("take_want", **values))
            case RefusalTold():
                values |= {"contract": told.contract, "number": told.number}
                values |= {"revision": told.revision, "newest": told.newest}
                return str(self._value("take_refusal", **values))
            case StandingTold():
                values |= {"incarnation": str(told.incarnation), "digest": told.digest}
                return str(self._value("take_standing", **values))

    def take_notice(self, envelope_id: int, told: NoticeTold, keys: Sequence[bytes]) -> str:
        """See `Agreements.take_notice`."""
        statements = [
            {
                "given_by": one.given_by,
                "told_by": one.told_by,
                "ends_at_ms": one.ends_at_ms,
                "signature": one.signature.hex(),
                "public_key": key.hex(),
            }
            for one, key in zip(told.statements, keys, strict=True)
        ]
        values = {"contract": told.contract, "statements": json.dumps(statements)}
        return str(self._value("take_notice", envelope_id=envelope_id, **values))

    def holdings(
        self, partner: Participant, after: ContractName | None, until: ContractName | None
    ) -> Mapping[ContractName, Holding]:
        """See `Agreements.holdings`."""
        rows = self._rows("holdings_with", partner=partner, after=after, until=until)
        return {ContractName(row["contract"]): Holding(**row) for row in rows}

    def take_holdings(self, envelope_id: int, differing: Sequence[Differing]) -> str:
        """See `Agreements.take_holdings`."""
        given = json.dumps([asdict(one) for one in differing])
        return str(self._value("take_holdings", envelope_id=envelope_id, differing=given))

    def tell_standings(self) -> int:
        """See `Agreements.tell_standings`."""
        return int(self._value("tell_standings"))

    def statements_due(self, statements_max: int) -> tuple[str, ...]:
        """See `Agreements.statements_due`."""
        rows = self._rows("statements_due", statements_max=statements_max)
        return tuple(str(row["statement"]) for row in rows)

    def state(self, statement: str, signature: bytes, public_key: bytes) -> bool:
        """See `Agreements.state`."""
        values = {"statement": statement, "signature": signature, "public_key": public_key}
        return bool(self._value("state", **values))

    def verify(self, envelope_id: int) -> bool:
        """See `Agreements.verify`."""
        return bool(self._value("verify_envelope", envelope_id=envelope_id))

    def handle(self, envelope_id: int) -> bool:
        """See `Agreements.handle`."""
        return bool(self._value("handle_envelope", envelope_id=envelope_id))

    def refuse(self, envelope_id: int, reason: str) -> bool:
        """See `Agreements.refuse`."""
        return bool(self._value("refuse_envelope", envelope_id=envelope_id, reason=reason))

    def keep(self, envelope_id: int, reason: str) -> None:
        """See `Agreements.keep`."""
        self._value("keep_envelope", envelope_id=envelope_id, reason=reason)

    # the outbox

    def put(self, receiver: Participant, kind: EnvelopeKind, about: str, body: bytes) -> int | None:
        """See `Agreements.put`."""
        values = {"receiver": receiver, "kind": kind.value, "about": about, "body": body}
        found: int | None = self._value("put_message", **values)
        return found

    def to_seal(self, messages_max: int) -> tuple[Message, ...]:
        """See `Agreements.to_seal`."""
        return tuple(
            Message(
                message_id=row["message_id"],
                receiver=Participant(row["receiver"]),
                kind=EnvelopeKind(row["kind"]),
                body=bytes(row["body"]),
                clock_ms=row["clock_ms"],
            )
            for row in self._rows("to_seal", messages_max=messages_max)
        )

    def seal(self, message_id: int, envelope: Envelope) -> None:
        """See `Agreements.seal`."""
        self._value(
            "seal_message",
            message_id=message_id,
            nonce=envelope.nonce,
            sent_at_ms=envelope.sent_at_ms,
            expires_at_ms=envelope.expires_at_ms,
            signature=envelope.signature,
        )

    def to_deliver(self, messages_max: int) -> tuple[Sealed, ...]:
        """See `Agreements.to_deliver`."""
        return tuple(
            Sealed(
                message_id=row["message_id"],
                envelope=_envelope(row, EnvelopeKind(row["kind"]), self._participant),
            )
            for row in self._rows("to_deliver", messages_max=messages_max)
        )

    def acknowledge(self, message_ids: Sequence[int], problem: str | None = None) -> None:
        """See `Agreements.acknowledge`."""
        for message_id in message_ids:
            self._value("acknowledge_message", message_id=message_id, problem=problem)

    # rounds and the audit

    def open_round(self, round_ms: int, because: str = "the time has passed") -> int | None:
        """See `Agreements.open_round`."""
        number: int | None = self._value("open_round", round_ms=round_ms, because=because)
        return number

    def last_round(self) -> Round | None:
        """See `Agreements.last_round`."""
        rows = self._rows("last_round")
        return Round(**rows[0]) if rows else None

    def verify_audit(self) -> str | None:
        """See `Agreements.verify_audit`."""
        broken: str | None = self._value("verify_audit")
        return broken


def _envelope(row: RowMapping, kind: EnvelopeKind, sender: Participant) -> Envelope:
    return Envelope(
        kind=kind,
        sender=sender,
        receiver=Participant(row["receiver"]),
        nonce=row["nonce"],
        sent_at_ms=row["sent_at_ms"],
        expires_at_ms=row["expires_at_ms"],
        body=bytes(row["body"]),
        signature=bytes(row["signature"]),
    )


def envelopes_document(envelopes: Sequence[Envelope]) -> str:
    """What medusa.take_envelopes takes."""
    return json.dumps(
        [
            {
                "kind": one.kind.value,
                "sender": one.sender,
                "receiver": one.receiver,
                "nonce": one.nonce,
                "sent_at_ms": one.sent_at_ms,
                "expires_at_ms": one.expires_at_ms,
                "body": base64.b64encode(one.body).decode(),
                "signature": one.signature.hex(),
            }
            for one in envelopes
        ]
    )


def answers_of(given: object, count: int, partner: str) -> tuple[str, ...]:
    """What a partner's home answered to so many envelopes; Refused if it is nothing of the kind."""
    if isinstance(given, list) and len(given) == count and all(isinstance(a, str) for a in given):
        return tuple(given)
    raise Refused(f"{partner} answers envelopes in a form that is not Medusa's")
