"""The store of agreements in a home, as its participant's own program uses it.

It is separate from `Catalog`: computing streams does not need it. The rules (the order of
signatures, which revision supersedes which) are the database's, in `sql/functions`; signatures
are made and verified by `pipelines.market.sync`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from medusa_core.market.agreements import (
    DocumentEnvelope,
    DocumentRequest,
    NoticeEnvelope,
    RefusalEnvelope,
    ReleaseEnvelope,
    StatusEnvelope,
    WithdrawalEnvelope,
)
from medusa_core.market.converging import AgreementDifference, HeldAgreement, Holding, Verdict
from medusa_core.market.definitions import DefinedEnvelope, DefinitionEnvelope
from medusa_core.market.envelopes import Envelope, EnvelopeKind
from medusa_core.market.moves import MovedEnvelope, MoveEnvelope
from medusa_core.market.terms import ContractName, Revision, Terms
from medusa_core.names import Participant
from pipelines.catalog.settlement_store import Bills

PROPOSAL_LASTS_MS = 7 * 86_400_000
"""How long a proposal is open unless its owner says otherwise."""


class ContractState(Enum):
    """How a home's copy of a contract stands; the values are those of `medusa_api.contract`."""

    PROPOSED = "proposed"
    REQUESTED = "requested"
    AGREED = "agreed"
    IN_FORCE = "in force"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractStatus:
    """A home's copy of a contract: its own proposal, else the agreement, else the partner's.

    `active` is the revision that counts since the last round, `partner_proposes` the partner's open
    proposal. Times are Unix times in ms; `ends_at_ms` is when it ends by notice.
    """

    contract: ContractName
    state: ContractState
    revision: Revision
    terms: Terms
    active: Revision | None
    partner_proposes: Revision | None
    expires_at_ms: int | None
    ends_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractInForce:
    """A contract that is active since a round of this home, and valid until `ends_at_ms`."""

    contract: ContractName
    revision: Revision
    round: int
    terms: Terms
    ends_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnProposal:
    """What this home proposed last for a contract, what became of it, and who or what made it."""

    state: str
    because: str
    terms: Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """An envelope in the inbox, and when it came by the home's clock."""

    envelope_id: int
    envelope: Envelope
    received_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message to a partner, not sealed yet; `lasts_ms` is None for the usual time."""

    message_id: int
    receiver: Participant
    kind: EnvelopeKind
    body: bytes
    clock_ms: int
    lasts_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A message that is sealed and being delivered."""

    message_id: int
    envelope: Envelope


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A round of this home: its number, when it was opened (Unix time in ms), by whom and why."""

    number: int
    opened_at_ms: int
    opened_by: str
    because: str


TakenMessage = (
    WithdrawalEnvelope
    | ReleaseEnvelope
    | DocumentRequest
    | RefusalEnvelope
    | StatusEnvelope
    | DefinitionEnvelope
    | DefinedEnvelope
    | MoveEnvelope
    | MovedEnvelope
)
"""Messages that are brought as they are: nothing in them is signed for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKeys:
    """The keys of a participant, newest first.

    `counting`: keys that new messages may be signed with; more than one for 7 days after a
    rotation. `ever`: all keys, which verify what was agreed under them.
    """

    counting: tuple[bytes, ...] = ()
    ever: tuple[bytes, ...] = ()

    @property
    def counts(self) -> bytes | None:
        """The newest key that counts, or None."""
        return self.counting[0] if self.counting else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """A signature that was verified, and with which key."""

    signature: bytes
    public_key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An agreement that a partner reports: the verdict, and the home's facts it was based on."""

    verdict: Verdict
    held: str


class Contracts(Protocol):
    """The contracts of a home: proposed, signed, in force."""

    @property
    def participant(self) -> Participant:
        """Whose home this is."""

    def propose(self, document: bytes, because: str, lasts_ms: int = PROPOSAL_LASTS_MS) -> Revision:
        """Propose a document's terms; Conflict if it is not the contract's next revision."""

    def contracts(self) -> tuple[ContractStatus, ...]:
        """This home's copies, by name."""

    def in_force(self) -> tuple[ContractInForce, ...]:
        """What is active and valid now, by name."""

    def agreed(self) -> Mapping[ContractName, Terms]:
        """The last revision of each contract that both have signed, active or not."""

    def own_proposals(self, because: str | None = None) -> Mapping[ContractName, OwnProposal]:
        """What this home proposed last of each contract; of what it did for that reason."""

    def expire(self) -> int:
        """Close proposals whose time has passed; how many."""

    def to_sign(self) -> tuple[Revision, ...]:
        """Revisions that this home is to sign now."""

    def sign(self, revision: Revision, signature: bytes, public_key: bytes) -> bool:
        """Keep this home's signature; False if there is nothing to sign any more."""

    def statements_due(self, statements_max: int) -> tuple[str, ...]:
        """What this home is to state and sign now."""

    def state(self, statement: str, signature: bytes, public_key: bytes) -> bool:
        """Keep a statement that this home has signed; False if it was not to."""

    def send_statuses(self) -> int:
        """Tell each partner one hash of what is agreed with it; how many."""


class Keys(Protocol):
    """Partners' public keys, as this home has learned them."""

    def keys(self) -> Mapping[Participant, bytes]:
        """By which key each participant is known here, itself included."""

    def known_keys(self) -> Mapping[Participant, KnownKeys]:
        """All keys of each participant that were not disowned."""

    def learn_key(self, participant: Participant, public_key: bytes, because: str) -> bool:
        """Note a first key; whether it is new. Another one than the known is refused."""


class Inbox(Protocol):
    """What partners have sent, until it is taken or refused."""

    def received(self, envelopes_max: int) -> tuple[Received, ...]:
        """What came and is not verified yet, in order; what is no envelope is refused here."""

    def held(self, envelope_id: int, document: bytes) -> tuple[HeldAgreement, str]:
        """What is held here where a document belongs that an envelope brings; also as text, which
        `take_document` compares."""

    def take_document(
        self,
        envelope_id: int,
        envelope: DocumentEnvelope,
        signatures: Mapping[Participant, Signed],
        confirmation: Signed | None = None,
        judged: Judged | None = None,
    ) -> str:
        """Bring a document with those of its signatures that were verified; what came of it.

        What both have signed comes with a verdict; Conflict if something else is held by now.
        """

    def take(self, envelope_id: int, message: TakenMessage) -> str:
        """Bring another message about a contract; what came of it."""

    def take_notice(self, envelope_id: int, envelope: NoticeEnvelope, keys: Sequence[bytes]) -> str:
        """Record a notice of a contract's end, and with which key each statement was verified;
        what came of it."""

    def holdings(
        self, partner: Participant, after: ContractName | None, until: ContractName | None
    ) -> Mapping[ContractName, Holding]:
        """What is agreed with a partner, of the contracts in a range of names."""

    def take_holdings(self, envelope_id: int, differing: Sequence[AgreementDifference]) -> str:
        """Tell a partner what it lacks, and ask for what is lacking here."""

    def verify(self, envelope_id: int) -> bool:
        """An envelope of another kind is its sender's."""

    def handle(self, envelope_id: int) -> bool:
        """A verified envelope has been handled; False if it was before."""

    def keep(self, envelope_id: int, reason: str) -> None:
        """An envelope waits for something, and for what."""


class RoundEnvelopes(Protocol):
    """The rounds of the market, and the verified envelopes that belong to them."""

    def open_round(self, round_ms: int, because: str = "the time has passed") -> int | None:
        """Open the next round if `round_ms` have passed since the last (0: in any case).

        Its number; None if it is not time, or somebody else has just opened it. What is agreed is
        active from it on.
        """

    def verified(self, kind: EnvelopeKind, envelopes_max: int) -> tuple[Received, ...]:
        """Verified envelopes of a kind that wait to be handled, in order."""

    def refuse(self, envelope_id: int, reason: str) -> bool:
        """An envelope counts for nothing, and why."""


class Outbox(Protocol):
    """What partners are to receive, until they have acknowledged it."""

    def put(self, receiver: Participant, kind: EnvelopeKind, about: str, body: bytes) -> int | None:
        """Tell a partner something; None if the same `about` still waits."""

    def to_seal(self, messages_max: int) -> tuple[Message, ...]:
        """What is to be sealed, in order."""

    def seal(self, message_id: int, envelope: Envelope) -> None:
        """Keep the envelope of a message."""

    def to_deliver(self, messages_max: int, *, to_all: bool = False) -> tuple[Sealed, ...]:
        """What does not lie in its receiver's inbox, by receiver and in order; `messages_max`
        for each. Nothing for partners that are paused, unless it is `to_all`."""

    def acknowledge(self, message_ids: Sequence[int], problem: str | None = None) -> None:
        """These lie in their receiver's inbox; or why they do not."""

    def pause(self, partner: Participant, problem: str, jitter: float) -> None:
        """A partner's inbox took nothing: it is left alone for a second, twice as long each time,
        a minute at most, by half of it less or more as `jitter` (0 to 1) says."""

    def resume(self, partner: Participant) -> None:
        """A partner's inbox takes messages."""


class Agreements(Contracts, Keys, Inbox, Bills, RoundEnvelopes, Outbox, Protocol):
    """A home's agreements. Calls raise Refused, Conflict and Unavailable as the catalog's do."""

    def has_pending(self, *, to_all: bool = False) -> bool:
        """Whether a tick might have anything to do; `to_all`: see `to_deliver`."""

    def last_round(self) -> Round | None:
        """The round that is open."""

    def tidy(self) -> int:
        """A piece of housekeeping: what is older than kept goes; how much went."""

    def verify_audit(self) -> str | None:
        """The first line of the audit that is missing or altered; None if it is whole."""

    def close(self) -> None:
        """Give connections back."""
