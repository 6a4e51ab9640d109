"""A participant's turn about contracts: verify what came, sign, seal, and send until it is heard.

Numbered, and the same numbers stand in the code:

1. let proposals expire
2. take the inbox: who is it from, is it meant for us, is it still good, was it counted before? Then
   what it says of contracts is brought into the home, in the transaction that ends the envelope
3. sign what this home proposes (the payer: what the provider has signed)
4. seal what is to be told
5. deliver it; what does not arrive stays, and is sent again at the next turn

Everything lies in the home, so a turn may be cut short anywhere, and two may be made at once. An
envelope that is wrong is refused with the reason, and holds up no other; a partner that is away
holds up nobody.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from medusa_core.errors import Conflict, Diverged, Refused, Unavailable
from medusa_core.market.agreements import DocumentTold, read_message
from medusa_core.market.documents import revision_of
from medusa_core.market.envelopes import Envelope, check_envelope, contract_bytes
from medusa_core.names import Participant
from pipelines.agreements.delivering import Deliveries
from pipelines.agreements.signing import SigningKey, is_signed
from pipelines.catalog.agreements import Agreements, Message, Received
from pipelines.exchange.interface import Post
from pipelines.failpoints import reached

ENVELOPES_MAX = 512
LASTS_MS = 7 * 86_400_000
AWAY_MAX = 3
TIDIES_S = 10.0
"""How often the house is kept."""

OPEN_MS_MAX = 15_000
"""How long a partner's login may have a transaction open here; its questions take 5 s at most."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn did; `waiting` envelopes and messages are looked at again."""

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


class AgreementDesk:
    """Makes a participant's turns; `told` hears what is refused and who is away.

    `to_all`, `draw_jitter`: see `Deliveries`. `now_s` is a clock that never goes back.
    """

    def __init__(
        self,
        agreements: Agreements,
        key: SigningKey,
        post: Post,
        told: Callable[[Exception], None] = lambda error: None,
        *,
        draw_nonce: Callable[[], str] = lambda: secrets.token_hex(16),
        lasts_ms: int = LASTS_MS,
        to_all: bool = False,
        draw_jitter: Callable[[], float] = random.random,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._agreements = agreements
        self._key = key
        self._told = told
        self._draw_nonce = draw_nonce
        self._lasts_ms = lasts_ms
        self._to_all = to_all
        self._deliveries = Deliveries(
            agreements, post, told, to_all=to_all, draw_jitter=draw_jitter
        )
        self._now_s = now_s
        self._tidies_s = now_s()

    @property
    def participant(self) -> Participant:
        """Whose desk it is."""
        return self._agreements.participant

    def turn(self) -> Turn:
        """Do what is to be done now; raises Unavailable if this home is away."""
        self._keep_house()
        if not self._agreements.has_work(to_all=self._to_all):
            return Turn()
        expired = self._agreements.expire()  # 1
        taken, refused, kept = self._take_inbox()  # 2
        signed = self._sign()  # 3
        for message in self._agreements.to_seal(ENVELOPES_MAX):  # 4
            self._agreements.seal(message.message_id, self._sealed(message))
        reached("agreement.sealed")
        sent, left = self._deliveries.deliver()  # 5
        return Turn(expired, taken, refused, signed, sent, kept + left)

    def _keep_house(self) -> None:
        if self._now_s() >= self._tidies_s:
            self._agreements.tidy(OPEN_MS_MAX)
            self._tidies_s = self._now_s() + TIDIES_S

    # ------------------------------------------------------------ the inbox

    def _take_inbox(self) -> tuple[int, int, int]:
        taken = refused = kept = away = 0
        keys = self._agreements.keys()
        blocked: set[Participant] = set()
        for received in self._agreements.received(ENVELOPES_MAX):
            sender = received.envelope.sender
            if sender in blocked:
                kept += 1
                continue
            try:
                if self._is_taken(received, keys.get(sender)):
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

    def _is_taken(self, received: Received, key: bytes | None) -> bool:
        """Take an envelope; False, and noted with the reason, where it is refused."""
        try:
            self._take(received, key)
        except Refused as error:
            self._agreements.refuse(received.envelope_id, str(error))
            envelope = received.envelope
            kind = envelope.kind.value
            told = f"a {kind} in the name of {envelope.sender} is refused: {error}"
            self._told(Refused(told))
            return False
        return True

    def _take(self, received: Received, key: bytes | None) -> None:
        envelope = received.envelope
        # Whose it is comes first: a forged one says nothing about anything else.
        if key is None:
            raise Refused(
                f"no key of {envelope.sender} is known here: if it is a partner, let the owner "
                "call medusa_api.learn_key"
            )
        if not is_signed(key, envelope.signature, envelope.bytes_to_sign):
            raise Refused(
                f"its signature is not by the key of {envelope.sender} that is known here: it is "
                "forged or altered, or the key is another one"
            )
        check_envelope(envelope, self.participant, received.clock_ms)
        reached("agreement.verified")
        told = read_message(envelope.kind, envelope.body)
        match told:
            case None:
                self._agreements.verify(received.envelope_id)
            case DocumentTold():
                signatures = self._verified(told)
                self._agreements.take_document(received.envelope_id, told, signatures)
            case _:
                self._agreements.take(received.envelope_id, told)
        reached("agreement.taken")

    def _verified(self, told: DocumentTold) -> dict[Participant, bytes]:
        """The signatures that a document came with, each looked at with the key known here."""
        keys = self._agreements.keys()
        revision = revision_of(told.terms)
        for party, signature in told.signatures.items():
            if party not in keys or not is_signed(keys[party], signature, contract_bytes(revision)):
                raise Refused(
                    f"contract {told.terms.contract} is not signed by the key of {party} that is "
                    "known here"
                )
        return dict(told.signatures)

    # ------------------------------------------------------------ signing and sending

    def _sign(self) -> int:
        signed = 0
        for revision in self._agreements.to_sign():
            signature = self._key.sign(contract_bytes(revision))
            try:
                signed += self._agreements.sign(revision, signature, self._key.public_key)
            except (Refused, Conflict) as error:
                self._told(error)
            except Unavailable as error:
                # Somebody edits it just now, which keeps nothing else from being told.
                self._told(error)
                break
            reached("agreement.signed")
        return signed

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
        return replace(blank, signature=self._key.sign(blank.bytes_to_sign))


def settle(desks: Iterable[AgreementDesk], *, turns_max: int = 12) -> int:
    """Turns of several desks until nothing moves, or so many; how many were made.

    For homes at hand all at once: a command, not a participant's loop.
    """
    those = tuple(desks)
    for made in range(turns_max):
        if all([desk.turn().is_idle for desk in those]):  # noqa: C419 - each has its turn
            return made + 1
    return turns_max
