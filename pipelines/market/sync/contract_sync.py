"""A participant's contract synchronisation: verify, sign, seal, and send until acknowledged.

Numbered, and the same numbers are in the code:

1. let proposals expire
2. process the inbox: verify the sender, the addressee, the validity and that it was not counted
   before; then bring its message about contracts into the home, in the transaction that ends the
   envelope
3. sign this home's proposals (the payer: those that the provider has signed), and its statements
4. seal outgoing messages
5. deliver them; an undelivered one remains, and is sent again at the next tick

All state is stored in the home, so a tick may be cut short anywhere, and two may run at once. An
envelope that is wrong is refused with the reason, and holds up no other; an unavailable partner
holds up no other partner.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from medusa_core.errors import WRONG_FORM, Conflict, Diverged, Refused, Unavailable
from medusa_core.market.agreements import (
    DocumentEnvelope,
    HoldingsEnvelope,
    NoticeEnvelope,
    read_message,
)
from medusa_core.market.bill_messages import (
    ConcessionEnvelope,
    StatementAnswerEnvelope,
    StatementEnvelope,
)
from medusa_core.market.converging import ReportedAgreement, differences, judge
from medusa_core.market.documents import revision_of
from medusa_core.market.envelopes import Envelope, check_envelope, contract_bytes
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.base.failpoints import reached
from pipelines.catalog.agreement_store import (
    Agreements,
    Judged,
    KnownKeys,
    Message,
    Received,
)
from pipelines.exchange.exchange_port import Transport
from pipelines.homes.signatures import SigningKey
from pipelines.market.sync.bill_inbox import BillInbox
from pipelines.market.sync.outbox_delivery import Deliveries
from pipelines.market.sync.verification import (
    bytes_of_due,
    check_sender,
    verified_document,
    verified_notice,
)

ENVELOPES_MAX = 512
LASTS_MS = 7 * 86_400_000
AWAY_MAX = 3
TIDIES_S = 10.0
"""How often expired messages are removed."""


@dataclass(frozen=True, slots=True)
class SyncResult:
    """What a tick did; `waiting` envelopes and messages are tried again at the next one.

    Messages to a partner that is paused are not in `waiting`: nothing is sent to it until its
    pause has ended.
    """

    expired: int = 0
    taken: int = 0
    refused: int = 0
    signed: int = 0
    sent: int = 0
    waiting: int = 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing moved."""
        return not (self.expired or self.taken or self.refused or self.signed or self.sent)


class ContractSync:
    """Synchronises a participant's contracts; `on_error` receives refusals and silent partners.

    `key` reads the participant's own key, which may be rotated meanwhile. `to_all` and
    `draw_jitter`: see `Deliveries`. A command sends `to_all`, since its user waits for
    the answer. A loop `greets`: its first tick sends partners a hash of what is agreed with them.
    """

    def __init__(
        self,
        agreements: Agreements,
        key: Callable[[], SigningKey],
        transport: Transport,
        on_error: Callable[[Exception], None] = lambda error: None,
        *,
        draw_nonce: Callable[[], str] = lambda: secrets.token_hex(16),
        lasts_ms: int = LASTS_MS,
        greets: bool = False,
        to_all: bool = False,
        draw_jitter: Callable[[], float] = random.random,
    ) -> None:
        self._agreements = agreements
        self._key = key
        self._on_error = on_error
        self._draw_nonce = draw_nonce
        self._lasts_ms = lasts_ms
        self._to_all = to_all
        self._deliveries = Deliveries(
            agreements, transport, on_error, to_all=to_all, draw_jitter=draw_jitter
        )
        self._tidies_s = clock.monotonic_s()
        self._greets = greets

    @property
    def participant(self) -> Participant:
        """The participant whose contracts are synchronised."""
        return self._agreements.participant

    def tick(self) -> SyncResult:
        """Do what is to be done now; raises Unavailable if this home is away."""
        if self._greets:
            self._agreements.send_statuses()
            self._greets = False
        self._keep_house()
        if not self._agreements.has_pending(to_all=self._to_all):
            return SyncResult()
        expired = self._agreements.expire()  # 1
        taken, refused, kept = self._take_inbox()  # 2
        signed = self._sign() + self._state()  # 3
        for message in self._agreements.to_seal(ENVELOPES_MAX):  # 4
            self._agreements.seal(message.message_id, self._sealed(message))
        reached("agreement.sealed")
        sent, left = self._deliveries.deliver()  # 5
        return SyncResult(expired, taken, refused, signed, sent, kept + left)

    def _keep_house(self) -> None:
        if clock.monotonic_s() >= self._tidies_s:
            self._agreements.tidy()
            self._tidies_s = clock.monotonic_s() + TIDIES_S

    # ------------------------------------------------------------ the inbox

    def _take_inbox(self) -> tuple[int, int, int]:
        taken = refused = kept = away = 0
        keys = self._agreements.known_keys()
        blocked: set[Participant] = set()
        for received in self._agreements.received(ENVELOPES_MAX):
            sender = received.envelope.sender
            if sender in blocked:
                kept += 1
                continue
            try:
                if self._is_taken(received, keys):
                    taken += 1
                else:
                    refused += 1
            except Unavailable:
                # One that somebody else has hold of must not keep other senders' from being taken;
                # what follows it must not come before it.
                blocked.add(sender)
                kept, away = kept + 1, away + 1
                if away == AWAY_MAX:
                    raise
            except (Conflict, Diverged) as error:
                self._agreements.keep(received.envelope_id, str(error))
                kept += 1
        return taken, refused, kept

    def _is_taken(self, received: Received, keys: Mapping[Participant, KnownKeys]) -> bool:
        """Take an envelope; False, and noted with the reason, where it is refused."""
        try:
            self._take_or_refuse(received, keys)
        except Refused as error:
            self._agreements.refuse(received.envelope_id, str(error))
            envelope = received.envelope
            kind = envelope.kind.value
            text = f"a {kind} in the name of {envelope.sender} is refused: {error}"
            self._on_error(Refused(text))
            return False
        return True

    def _take_or_refuse(self, received: Received, keys: Mapping[Participant, KnownKeys]) -> None:
        """A form that no check names is refused too: else the envelope would end every tick."""
        try:
            self._take(received, keys)
        except WRONG_FORM as error:
            raise Refused(f"its content has no form that Medusa writes ({error!r:.200})") from error

    def _take(self, received: Received, keys: Mapping[Participant, KnownKeys]) -> None:
        envelope, envelope_id = received.envelope, received.envelope_id
        # Whose it is comes first: a forged one says nothing about anything else.
        check_sender(envelope, keys)
        check_envelope(envelope, self.participant, received.received_at_ms)
        reached("agreement.verified")
        holdings = read_message(envelope.kind, envelope.body)
        match holdings:
            case None:
                self._agreements.verify(envelope_id)
            case DocumentEnvelope():
                self._take_document(envelope_id, envelope.sender, holdings, keys)
            case NoticeEnvelope():
                verified = verified_notice(holdings, keys)
                self._agreements.take_notice(envelope_id, holdings, verified)
            case HoldingsEnvelope():
                here = self._agreements.holdings(envelope.sender, holdings.after, holdings.until)
                differing = tuple(differences(here, holdings.holdings))
                self._agreements.take_holdings(envelope_id, differing)
            case StatementEnvelope() | StatementAnswerEnvelope() | ConcessionEnvelope():
                bills = BillInbox(self._agreements, self.participant, keys)
                bills.take(envelope_id, envelope.sender, holdings)
            case _:
                self._agreements.take(envelope_id, holdings)
        reached("agreement.taken")

    def _take_document(
        self,
        envelope_id: int,
        sender: Participant,
        envelope: DocumentEnvelope,
        keys: Mapping[Participant, KnownKeys],
    ) -> None:
        terms = envelope.terms
        signatures, confirmation = verified_document(envelope, keys)
        judged = None
        if len(signatures) == len(terms.parties):
            held, text = self._agreements.held(envelope_id, envelope.document)
            agreement = ReportedAgreement(
                number=terms.number,
                revision=revision_of(terms),
                supersedes=terms.supersedes,
                counts=confirmation is not None or sender == terms.provider,
            )
            judged = Judged(verdict=judge(agreement, held), held=text)
        self._agreements.take_document(envelope_id, envelope, signatures, confirmation, judged)

    # ------------------------------------------------------------ signing and sending

    def _sign(self) -> int:
        signed = 0
        for revision in self._agreements.to_sign():
            key = self._key()
            signature = key.sign(contract_bytes(revision))
            try:
                signed += self._agreements.sign(revision, signature, key.public_key)
            except (Refused, Conflict) as error:
                self._on_error(error)
            except Unavailable as error:
                # Another session edits it now; the other messages are sent.
                self._on_error(error)
                break
            reached("agreement.signed")
        return signed

    def _state(self) -> int:
        stated = 0
        for statement in self._agreements.statements_due(ENVELOPES_MAX):
            key = self._key()
            signature = key.sign(bytes_of_due(statement))
            try:
                stated += self._agreements.state(statement, signature, key.public_key)
            except (Refused, Conflict) as error:
                self._on_error(error)
        return stated

    def _sealed(self, message: Message) -> Envelope:
        blank = Envelope(
            kind=message.kind,
            sender=self.participant,
            receiver=message.receiver,
            nonce=self._draw_nonce(),
            sent_at_ms=message.clock_ms,
            expires_at_ms=message.clock_ms + (message.lasts_ms or self._lasts_ms),
            body=message.body,
        )
        return replace(blank, signature=self._key().sign(blank.bytes_to_sign))


def settle(syncs: Iterable[ContractSync], *, ticks_max: int = 12) -> int:
    """Tick several synchronisations until nothing moves, `ticks_max` times at most; how often.

    For homes at hand all at once: a command, not a participant's loop.
    """
    those = tuple(syncs)
    for made in range(ticks_max):
        if all([contract_sync.tick().is_idle for contract_sync in those]):  # noqa: C419 - each ticks
            return made + 1
    return ticks_max
