"""Contracts of the contracts folder, brought into homes as their proposals.

A file holds a contract's terms; later agreed revisions are stored in the home. So a file that is
new, or has been changed, is an edit of its home like any other: applied in both homes it is
agreed. Later edits in SQL are never overwritten: they are shown, and left alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from medusa_core.errors import Conflict, Refused
from medusa_core.market.documents import document_of, revision_of
from medusa_core.market.terms import ContractName, Terms
from medusa_core.names import Participant
from pipelines.base.time_text import iso
from pipelines.catalog.agreement_store import (
    Agreements,
    ContractState,
    ContractStatus,
    OwnProposal,
)
from pipelines.contracts.comparison_rows import Change, Mark

APPLIED = "applied from the contracts folder"
WHAT = "contract"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementStatus:
    """What stands in a home of contracts: nothing in one that is not made yet.

    `known` are those whose key is known there; `applied` is what was applied from the folder last.
    """

    contracts: Mapping[ContractName, ContractStatus] = field(default_factory=dict)
    agreed: Mapping[ContractName, Terms] = field(default_factory=dict)
    proposed: Mapping[ContractName, OwnProposal] = field(default_factory=dict)
    applied: Mapping[ContractName, OwnProposal] = field(default_factory=dict)
    known: frozenset[Participant] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementChange:
    """How a contract stands in a home, and what is to be proposed there, if anything is."""

    participant: Participant
    change: Change
    proposes: Terms | None = None


def read_agreement_status(agreements: Agreements) -> AgreementStatus:
    """What stands in a home."""
    return AgreementStatus(
        contracts={status.contract: status for status in agreements.contracts()},
        agreed=agreements.agreed(),
        proposed=agreements.own_proposals(),
        applied=agreements.own_proposals(APPLIED),
        known=frozenset(agreements.keys()),
    )


def decide_agreements(
    contracts: Iterable[Terms],
    statuses: Mapping[Participant, AgreementStatus],
    at_hand: Collection[Participant],
) -> tuple[AgreementChange, ...]:
    """How each contract stands in those of its parties' homes that are looked at, by home.

    `at_hand` are participants whose keys will be known, whether they are yet or not.
    """
    return tuple(
        _decide(home, terms, statuses[home], at_hand)
        for home in sorted(statuses)
        for terms in contracts
        if home in terms.parties
    )


def propose_agreements(
    changes: Iterable[AgreementChange], homes: Mapping[Participant, Agreements]
) -> Iterator[tuple[AgreementChange, Exception | None]]:
    """Propose what is to be proposed; with each, why it could not be."""
    for change in changes:
        if change.proposes is None:
            continue
        try:
            homes[change.participant].propose(document_of(change.proposes), APPLIED)
        except (Refused, Conflict) as error:
            yield change, error
        else:
            yield change, None


def _decide(
    home: Participant,
    terms: Terms,
    state: AgreementStatus,
    at_hand: Collection[Participant],
) -> AgreementChange:
    name = terms.contract
    agreed, last = state.agreed.get(name), state.proposed.get(name)
    applied, status = state.applied.get(name), state.contracts.get(name)
    partner = terms.partner_of(home)

    def shown(mark: Mark, detail: str, proposes: Terms | None = None) -> AgreementChange:
        change = Change(mark=mark, what=WHAT, name=name, detail=detail)
        return AgreementChange(participant=home, change=change, proposes=proposes)

    if status is not None and (
        status.ends_at_ms is not None or status.state is ContractState.ENDED
    ):
        ends_ms = status.ends_at_ms or status.terms.valid_until_ms
        return shown(
            Mark.LEFT, f"ends at {iso(ends_ms * 1_000)}: make another one for what follows"
        )
    is_open = last is not None and last.state == "open"
    if is_open and last is not None and _same(last.terms, terms):
        return shown(Mark.SAME, f"proposed, {partner} has not agreed yet")
    if agreed is not None and not is_open and _same(agreed, terms):
        return shown(Mark.SAME, f"agreed with {partner}, number {agreed.number}")
    if partner not in state.known and partner not in at_hand:
        return shown(
            Mark.LEFT, f"no key of {partner} is known here: call medusa_api.learn_key, then apply"
        )
    current = last.terms if is_open and last is not None else agreed
    by_hand = current is not None and (applied is None or not _same(applied.terms, current))
    if by_hand or _was_withdrawn(last, agreed):
        is_same = applied is not None and _same(applied.terms, terms)
        since = "edited in SQL since" if is_same else "edited in SQL and in its file"
        return shown(Mark.LEFT, f"{since}: edit it in SQL, or make its file say the same")
    proposes = replace(
        terms,
        number=1 if agreed is None else agreed.number + 1,
        supersedes=None if agreed is None else revision_of(agreed),
    )
    if current is None:
        again = "" if last is None else " again"
        return shown(Mark.NEW, f"{terms.kind.value}, proposed to {partner}{again}", proposes)
    return shown(Mark.CHANGED, f"number {proposes.number}, proposed to {partner}", proposes)


def _same(one: Terms, other: Terms) -> bool:
    """Whether they say the same, whatever their numbers."""
    return replace(one, number=other.number, supersedes=other.supersedes) == other


def _was_withdrawn(last: OwnProposal | None, agreed: Terms | None) -> bool:
    return last is not None and last.state == "withdrawn" and agreed is None
