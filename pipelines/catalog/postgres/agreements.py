"""A home's agreements in Postgres: every call one statement, in which the database decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import RowMapping

from medusa_core.market.converging import CLOCK_MS_MAX
from medusa_core.market.documents import terms_of
from medusa_core.market.envelopes import Envelope, EnvelopeKind
from medusa_core.market.terms import ContractName, Revision, Terms
from medusa_core.names import Participant
from medusa_core.protocol.introductions import Introduction
from pipelines.catalog.agreement_store import (
    PROPOSAL_LASTS_MS,
    ContractInForce,
    ContractState,
    ContractStatus,
    KnownKeys,
    Message,
    OwnProposal,
    Received,
    Round,
    Sealed,
)
from pipelines.catalog.postgres.convergence import PostgresConverging
from pipelines.catalog.postgres.envelope_rows import envelope_of
from pipelines.catalog.postgres.introduction_values import introduction_values
from pipelines.catalog.postgres.settlements import PostgresBills
from pipelines.catalog.postgres.statements import engine_with_timeouts


class PostgresAgreements(PostgresConverging, PostgresBills):
    """An `Agreements` in the home at `url`, as its job logs in; one connection."""

    def __init__(self, url: str, participant: Participant) -> None:
        super().__init__(engine_with_timeouts(url))
        self._participant = participant

    @property
    def participant(self) -> Participant:
        """See `Agreements.participant`."""
        return self._participant

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
            known = found.get(name, KnownKeys())
            counting = (*known.counting, key) if row["counts"] else known.counting
            found[name] = KnownKeys(counting=counting, ever=(*known.ever, key))
        return found

    def learn_key(self, participant: Participant, public_key: bytes, because: str) -> bool:
        """See `Agreements.learn_key`."""
        return bool(
            self._value(
                "learn_first_key", participant=participant, public_key=public_key, because=because
            )
        )

    def note_introduction(self, known_key: bytes, introduction: Introduction) -> None:
        """Store what a participant has signed with a known key: its present key and address."""
        self._value("note_introduction", known_key=known_key, **introduction_values(introduction))

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

    def has_pending(self, *, to_all: bool = False) -> bool:
        """See `Agreements.has_pending`."""
        return bool(self._value("agreements_wait", to_all=to_all))

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
                    envelope=envelope_of(row, kind, Participant(row["sender"])),
                )
            )
        return tuple(found)

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
                lasts_ms=row["lasts_ms"],
            )
            for row in self._rows("to_seal", messages_max=messages_max, clock_ms_max=CLOCK_MS_MAX)
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

    def to_deliver(self, messages_max: int, *, to_all: bool = False) -> tuple[Sealed, ...]:
        """See `Agreements.to_deliver`."""
        return tuple(
            Sealed(
                message_id=row["message_id"],
                envelope=envelope_of(row, EnvelopeKind(row["kind"]), self._participant),
            )
            for row in self._rows("to_deliver", messages_max=messages_max, to_all=to_all)
        )

    def acknowledge(self, message_ids: Sequence[int], problem: str | None = None) -> None:
        """See `Agreements.acknowledge`."""
        for message_id in message_ids:
            self._value("acknowledge_message", message_id=message_id, problem=problem)

    def pause(self, partner: Participant, problem: str, jitter: float) -> None:
        """See `Agreements.pause`."""
        self._value("pause_delivery", partner=partner, problem=problem, jitter=jitter)

    def resume(self, partner: Participant) -> None:
        """See `Agreements.resume`."""
        self._value("resume_delivery", partner=partner)

    def tidy(self) -> int:
        """See `Agreements.tidy`."""
        return int(self._value("tidy_partners"))

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
