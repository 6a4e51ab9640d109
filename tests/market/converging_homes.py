"""Two homes in memory that agree, forget and tell each other, by the rules of the core alone.

What the database does around them (signatures, proposals, envelopes) is here as little as it can
be: a revision is a text, a signature the fact that it was made.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256

from medusa_core.market.converging import (
    HeldAgreement,
    Holding,
    ReportedAgreement,
    Verdict,
    differences,
    judge,
)
from medusa_core.market.terms import ContractName, Revision
from tests.market.ending import Ending, end_of, heard_end, is_heard_in_time

CONTRACT = ContractName("spare_load")
PAYER, PROVIDER = "payer", "provider"
NOTICE_MS = 86_400_000
OFFER_MS = 7 * 86_400_000


@dataclass(frozen=True)
class Document:
    """What both may sign."""

    number: int
    supersedes: Revision | None
    terms: int

    @property
    def revision(self) -> Revision:
        text = f"{self.number} {self.supersedes} {self.terms}"
        return Revision(sha256(text.encode()).hexdigest())


@dataclass(frozen=True)
class Statement:
    """That a contract ends, by whose notice and as who says."""

    given_by: str
    stated_by: str
    ends_at_ms: int


@dataclass(frozen=True)
class Message:
    """What travels; `what` is one of offer, agreement, refusal, want, notice, holding."""

    what: str
    document: Document | None = None
    counts: bool = False
    number: int = 0
    statements: frozenset[Statement] = frozenset()
    holding: Holding | None = None


@dataclass
class Memory:
    """What a home keeps: a backup holds all of it."""

    chain: list[Document] = field(default_factory=list)
    counted: set[Revision] = field(default_factory=set)
    offers: dict[Revision, tuple[Document, int]] = field(default_factory=dict)
    statements: set[Statement] = field(default_factory=set)
    voids: list[Revision] = field(default_factory=list)
    arrived_ms: int | None = None


class Home:
    """One of the two; `skew_ms` is how far its clock goes from the other's."""

    def __init__(self, name: str, skew_ms: int) -> None:
        self.name = name
        self.skew_ms = skew_ms
        self.memory = Memory()
        self.backup = Memory()
        self.sends: list[Message] = []

    @property
    def partner(self) -> str:
        return PAYER if self.name == PROVIDER else PROVIDER

    @property
    def chain(self) -> list[Document]:
        return self.memory.chain

    def back_up(self) -> None:
        self.backup = copy.deepcopy(self.memory)

    def restore(self) -> None:
        self.memory = copy.deepcopy(self.backup)

    def offer(self, terms: int, now_ms: int) -> None:
        """The provider signs the next revision."""
        last = self.chain[-1] if self.chain else None
        document = Document(len(self.chain) + 1, last and last.revision, terms)
        self.memory.offers[document.revision] = (document, now_ms + self.skew_ms + OFFER_MS)
        self.sends.append(Message("offer", document))

    def accept(self) -> None:
        """The payer signs last."""
        for document, _ in list(self.memory.offers.values()):
            last = self.chain[-1].revision if self.chain else None
            if (document.number, document.supersedes) == (len(self.chain) + 1, last):
                self._agree(document)
                self.sends.append(Message("agreement", document))

    def give_notice(self, now_ms: int) -> None:
        if self.chain and not any(one.given_by == self.name for one in self.memory.statements):
            ends = now_ms + self.skew_ms + NOTICE_MS
            self.memory.statements.add(Statement(self.name, self.name, ends))
            self._send_notices()

    def compare(self) -> None:
        """Tell what is held here."""
        self.sends.append(Message("holding", holding=self.holding()))

    def holding(self) -> Holding | None:
        if not self.chain:
            return None
        last = self.chain[-1]
        return Holding(
            contract=CONTRACT, number=last.number, revision=last.revision, ends_at_ms=self.ends()
        )

    def ends(self) -> int | None:
        if not self.chain:
            return None
        return end_of(
            {
                giver: [
                    Ending(ends_at_ms=one.ends_at_ms, is_heard=one.stated_by != giver)
                    for one in self.memory.statements
                    if one.given_by == giver
                ]
                for giver in (PAYER, PROVIDER)
            }
        )

    def take(self, message: Message, now_ms: int) -> None:
        match message.what:
            case "offer":
                assert message.document is not None
                self.memory.offers[message.document.revision] = (message.document, 0)
            case "agreement":
                assert message.document is not None
                self._take_agreement(message.document, message.counts, now_ms)
            case "refusal":
                assert message.document is not None
                self._take_refusal(message.document, message.number)
            case "want":
                self._send_agreements(message.number)
            case "notice":
                self._take_notices(message.statements, now_ms)
            case _:
                self._take_holding(message.holding)

    # ------------------------------------------------------------ how each is taken

    def _take_agreement(self, document: Document, counts: bool, now_ms: int) -> None:
        at = self.chain[document.number - 1] if len(self.chain) >= document.number else None
        before = document.number - 2
        held = HeldAgreement(
            revision=at and at.revision,
            before=self.chain[before].revision if 0 <= before < len(self.chain) else None,
            counts=at is not None and self._counts(at),
            is_bound=self._is_bound(document, now_ms),
        )
        told = ReportedAgreement(
            number=document.number,
            revision=document.revision,
            supersedes=document.supersedes,
            counts=counts or self.name == PAYER,
        )
        match judge(told, held):
            case Verdict.KNOWN:
                if counts:
                    self.memory.counted.add(document.revision)
                elif self.name == PROVIDER:
                    self._send_agreements(document.number)
            case Verdict.AGREE | Verdict.REPLACE:
                self._void(document.number)
                if counts:
                    self.memory.counted.add(document.revision)
                self._agree(document)
            case Verdict.KEEP:
                self._send_agreements(document.number)
            case Verdict.LATE:
                self.sends.append(Message("refusal", document, number=len(self.chain)))
            case Verdict.EARLIER:
                expected = min(document.number - 1, len(self.chain) + 1)
                self.sends.append(Message("want", number=expected))

    def _is_bound(self, document: Document, now_ms: int) -> bool:
        offered = self.memory.offers.get(document.revision)
        return self.name == PAYER or offered is None or now_ms + self.skew_ms < offered[1]

    def _counts(self, document: Document) -> bool:
        return self.name == PROVIDER or document.revision in self.memory.counted

    def _agree(self, document: Document) -> None:
        self.chain.append(document)
        if self.name == PROVIDER:
            self.memory.counted.add(document.revision)
            self.sends.append(Message("agreement", document, counts=True))
        self._hear(0)

    def _void(self, number: int) -> None:
        self.memory.voids += [one.revision for one in self.chain[number - 1 :]]
        del self.chain[number - 1 :]

    def _take_refusal(self, document: Document, newest: int) -> None:
        at = document.number - 1
        if at < len(self.chain) and self.chain[at] == document:
            if self._counts(document):
                self._send_agreements(document.number)
            else:
                self._void(document.number)
                if newest >= document.number:
                    self.sends.append(Message("want", number=document.number))

    def _send_agreements(self, number: int) -> None:
        for document in self.chain[max(number, 1) - 1 :]:
            counts = document.revision in self.memory.counted
            self.sends.append(Message("agreement", document, counts=counts))
        self._send_notices()

    def _send_notices(self) -> None:
        if self.memory.statements and self.chain:
            self.sends.append(Message("notice", statements=frozenset(self.memory.statements)))

    def _take_notices(self, received: frozenset[Statement], now_ms: int) -> None:
        here_ms = now_ms + self.skew_ms
        known = set(self.memory.statements)
        for one in sorted(received - known, key=lambda one: one.stated_by != one.given_by):
            if one.given_by == self.name and one.stated_by == self.partner and self.chain:
                own = [
                    s.ends_at_ms
                    for s in self.memory.statements
                    if s.given_by == s.stated_by == self.name
                ]
                if not own or not is_heard_in_time(one.ends_at_ms, min(own), here_ms, NOTICE_MS):
                    continue
            self.memory.statements.add(one)
        self.memory.arrived_ms = self.memory.arrived_ms or here_ms
        if not self.chain:
            self.sends.append(Message("want", number=1))
            return
        self._hear(here_ms)
        if any(one.stated_by == self.partner for one in self.memory.statements - received):
            self._send_notices()

    def _hear(self, here_ms: int) -> None:
        """Say once when the partner's notice ends."""
        given = [
            one.ends_at_ms
            for one in self.memory.statements
            if one.given_by == one.stated_by == self.partner
        ]
        heard = any(
            one.given_by == self.partner and one.stated_by == self.name
            for one in self.memory.statements
        )
        if given and not heard and self.chain:
            came_ms = here_ms or self.memory.arrived_ms or 0
            ends = heard_end(min(given), came_ms, NOTICE_MS)
            self.memory.statements.add(Statement(self.partner, self.name, ends))
            self._send_notices()

    def _take_holding(self, there: Holding | None) -> None:
        here = self.holding()
        for one in differences(_by_name(here), [there] if there else []):
            if one.sends_from is not None:
                self._send_agreements(one.sends_from)
            elif one.sends_end:
                self._send_notices()
            if one.wants_from is not None:
                self.sends.append(Message("want", number=one.wants_from))


def _by_name(held: Holding | None) -> dict[ContractName, Holding]:
    return {} if held is None else {held.contract: held}


def numbers(home: Home) -> Iterator[int]:
    """The numbers of what is held, in order."""
    return (document.number for document in home.chain)
