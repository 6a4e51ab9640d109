"""How two homes agree on one thing, although messages are lost, late, doubled or replayed.

An agreement is made by the payer, who signs last, and kept by the provider, which confirms it in
a signed statement. What the provider holds *counts*. Where two revisions of one number have both
signatures, as after a home was restored from an old backup, the one that counts precedes the one
that does not; of two that count, the one with the smaller hash does, which neither party can
choose. The other one is void, with all that builds on it. The provider refuses what arrived too
late, and then it is void in the payer's home too, unless it counted once.

Both homes judge messages by these rules alone, so the order of arrival does not matter: a
revision under a number is only ever replaced by one that precedes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from medusa_core.market.terms import ContractName, Revision


class Verdict(Enum):
    """What becomes of an agreement that a partner tells of; the values are the database's."""

    KNOWN = "known"
    AGREE = "agree"
    REPLACE = "replace"
    KEEP = "keep"
    LATE = "late"
    EARLIER = "earlier"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedAgreement:
    """A revision with both signatures; `counts`: the provider sends it, or states to hold it."""

    number: int
    revision: Revision
    supersedes: Revision | None
    counts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAgreement:
    """What a home holds under that number and the one before (None: nothing).

    `counts` is of what is held under the number. `is_bound`: in the provider's home, whether its
    offer still binds it; what comes later, or was let go, does not.
    """

    revision: Revision | None
    before: Revision | None
    counts: bool
    is_bound: bool = True


def judge(reported: ReportedAgreement, held: HeldAgreement) -> Verdict:
    """What to do about an agreement that a partner tells of.

    AGREE to it; REPLACE what is held under its number; KEEP that, and tell the partner of it;
    refuse it as too LATE; ask for what comes EARLIER, since it builds on what is not held here.
    """
    if held.revision == reported.revision:
        return Verdict.KNOWN
    if held.before != reported.supersedes:
        return Verdict.EARLIER
    if held.revision is None:
        return Verdict.AGREE if reported.counts or held.is_bound else Verdict.LATE
    if reported.counts and (not held.counts or reported.revision < held.revision):
        return Verdict.REPLACE
    return Verdict.KEEP


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The last that is agreed of a contract, and when it ends by notice (None: none is given)."""

    contract: ContractName
    number: int
    revision: Revision
    ends_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementDifference:
    """What to do about a contract of which two homes hold different things: tell the partner what
    is agreed from a number on, ask for it from a number on, tell of its notices."""

    contract: ContractName
    sends_from: int | None = None
    wants_from: int | None = None
    sends_end: bool = False


def differences(
    here: Mapping[ContractName, Holding], there: Iterable[Holding]
) -> Iterator[AgreementDifference]:
    """What to do so that both hold the same; both are of the same range of names."""
    holdings = {holding.contract: holding for holding in there}
    for contract in sorted(here.keys() | holdings.keys()):
        own, other = here.get(contract), holdings.get(contract)
        if own == other:
            continue
        if own is None:
            yield AgreementDifference(contract=contract, wants_from=1)
        elif other is None:
            yield AgreementDifference(
                contract=contract, sends_from=1, sends_end=own.ends_at_ms is not None
            )
        else:
            is_behind = other.number > own.number
            is_same = (other.number, other.revision) == (own.number, own.revision)
            yield AgreementDifference(
                contract=contract,
                sends_from=None if is_behind or is_same else other.number,
                wants_from=own.number + 1 if is_behind else None,
                sends_end=own.ends_at_ms is not None and own.ends_at_ms != other.ends_at_ms,
            )


CLOCK_MS_MAX = 3_600_000
"""How far apart the clocks of two homes may be."""
