"""Mailboxes between homes in memory: an inbox, an outbox, and the agreed revisions.

The rules are those of `sql/functions`, for the simulation of rounds: an outgoing message is sent
until it is in its receiver's inbox, and a nonce counts once; a revision that both parties have
signed is active from the next round of a home on. Limit: signatures, proposals and notice are not
implemented here; agreed revisions are.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from medusa_core.errors import Refused
from medusa_core.market.documents import document_of, revision_of, terms_of
from medusa_core.market.envelopes import Envelope, EnvelopeKind
from medusa_core.market.terms import ContractName, Revision, Terms
from medusa_core.names import Participant
from pipelines.catalog.agreement_store import Received

LASTS_MS = 7 * 86_400_000
REPLAYED = "the nonce has been used before: this is a replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxEntry:
    """An envelope in the inbox; `state` is received, verified, handled or refused."""

    envelope: Envelope
    received_at_ms: int
    state: str = "received"
    reason: str = ""


@dataclass(slots=True)
class MemoryMailbox:
    """A home's envelopes, contracts and rounds."""

    participant: Participant
    clock_ms: Callable[[], int]
    draw_nonce: Callable[[], str]
    inbox: dict[int, InboxEntry] = field(default_factory=dict)
    outbox: dict[int, tuple[str, Envelope]] = field(default_factory=dict)
    agreed: dict[ContractName, dict[int, Terms]] = field(default_factory=dict)
    active: dict[ContractName, int] = field(default_factory=dict)
    rounds: list[int] = field(default_factory=list)
    """When each was opened; the first is number 1."""
    _nonces: set[tuple[Participant, str]] = field(default_factory=set)
    _last_number: int = 0

    # ------------------------------------------------------------ rounds and what is in force

    @property
    def round(self) -> int:
        """The round that is open; 0 before the first."""
        return len(self.rounds)

    def open_round(self, round_ms: int, because: str = "") -> int | None:
        """See `Agreements.open_round`."""
        if self.rounds and self.rounds[-1] + round_ms > self.clock_ms():
            return None
        self.rounds.append(self.clock_ms())
        for contract, numbers in self.agreed.items():
            self.active[contract] = max(numbers)
        return self.round

    def in_force(self) -> dict[ContractName, Terms]:
        """The active revisions."""
        return {name: self.agreed[name][number] for name, number in sorted(self.active.items())}

    def agree(self, terms: Terms) -> None:
        """Both have signed a revision; of a number there is one."""
        self.agreed.setdefault(terms.contract, {}).setdefault(terms.number, terms)

    # ------------------------------------------------------------ inbox

    def take_envelope(self, envelope: Envelope) -> str:
        """A partner puts an envelope into the inbox; the same one again is no second."""
        if not any(envelope == entry.envelope for entry in self.inbox.values()):
            self._last_number += 1
            self.inbox[self._last_number] = InboxEntry(
                envelope=envelope, received_at_ms=self.clock_ms()
            )
        return "taken"

    def read_inbox(self) -> int:
        """Bring what came; how many. A nonce that was used before counts for nothing."""
        came = [number for number, entry in self.inbox.items() if entry.state == "received"]
        for number in came:
            envelope = self.inbox[number].envelope
            if (envelope.sender, envelope.nonce) in self._nonces:
                self.refuse(number, REPLAYED)
                continue
            self._nonces.add((envelope.sender, envelope.nonce))
            if envelope.kind in (EnvelopeKind.OFFER, EnvelopeKind.ANSWER):
                self.inbox[number] = replace(self.inbox[number], state="verified")
                continue
            if envelope.kind is EnvelopeKind.DOCUMENT:
                self.agree(terms_of(envelope.body))
            elif envelope.kind is EnvelopeKind.WANT:
                document = json.loads(envelope.body)
                self.send_agreements(document["contract"], envelope.sender, document["number"])
            self.end(number)
        return len(came)

    def verified(self, kind: EnvelopeKind, envelopes_max: int) -> tuple[Received, ...]:
        """See `Agreements.verified`."""
        return tuple(
            Received(
                envelope_id=number,
                envelope=entry.envelope,
                received_at_ms=entry.received_at_ms,
            )
            for number, entry in self.inbox.items()
            if entry.state == "verified" and entry.envelope.kind is kind
        )[:envelopes_max]

    def end(self, number: int) -> InboxEntry:
        """An envelope is handled."""
        entry = self.inbox[number]
        if entry.state not in ("received", "verified"):
            raise Refused(f"envelope {number} is handled already")
        self.inbox[number] = replace(entry, state="handled")
        return entry

    def refuse(self, envelope_id: int, reason: str) -> bool:
        """See `Agreements.refuse`."""
        entry = self.inbox[envelope_id]
        self.inbox[envelope_id] = replace(entry, state="refused", reason=reason)
        return True

    # ------------------------------------------------------------ outbox

    def put(self, receiver: Participant, kind: EnvelopeKind, about: str, body: bytes) -> None:
        """Tell a partner something; once, while the same still waits for it."""
        if any((about, receiver) == (subject, e.receiver) for subject, e in self.outbox.values()):
            return
        self._last_number += 1
        now_ms = self.clock_ms()
        self.outbox[self._last_number] = (
            about,
            Envelope(
                kind=kind,
                sender=self.participant,
                receiver=receiver,
                nonce=self.draw_nonce(),
                sent_at_ms=now_ms,
                expires_at_ms=now_ms + LASTS_MS,
                body=body,
            ),
        )

    def take_back(self, receiver: Participant, about: str) -> None:
        """What was not sent to a partner yet is not sent."""
        self.outbox = {
            number: (subject, envelope)
            for number, (subject, envelope) in self.outbox.items()
            if (subject, envelope.receiver) != (about, receiver)
        }

    def send_agreements(self, contract: ContractName, to: Participant, number: int) -> None:
        """Send a contract's agreed documents from a number on."""
        for of, terms in sorted(self.agreed.get(contract, {}).items()):
            if of >= number:
                about = f"agreement/{revision_of(terms)}"
                self.put(to, EnvelopeKind.DOCUMENT, about, document_of(terms))

    def want(self, contract: ContractName, of: Participant, number: int) -> None:
        """Ask a partner for what was agreed from a number on."""
        body = json.dumps({"contract": contract, "number": number}).encode()
        self.put(of, EnvelopeKind.WANT, f"want/{contract}", body)

    def holds(self, contract: ContractName, revision: Revision) -> bool:
        """Whether a revision is agreed here."""
        return any(revision_of(t) == revision for t in self.agreed.get(contract, {}).values())
