"""Moves of fragments: their states, and the messages of payer and provider about them.

The payer's state decides. A message changes the actions of the other party; whether these are done,
late or left out, the payer's own line has one owner for each bucket.

    payer      accepted -> started -> released -> returning -> ended
    provider   accepted -> started -> ended

The payer's messages have the first bucket that it adopts, and where that ended: for the buckets
between, both know that the provider is paid.

Source: CIDR 2003, 4.2 and 5 (movement contracts); VLDB 2003 (box sliding).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import TypedDict

from medusa_core.errors import Refused
from medusa_core.grid import ceil_us, shown_s
from medusa_core.knowledge import NEVER_MS
from medusa_core.market.message_fields import (
    WHOLE_MAX,
    contract_field,
    message_fields,
    whole_number,
)
from medusa_core.market.term_rules import AMOUNT
from medusa_core.market.terms import ContractName, Method, Recovery
from medusa_core.names import check_name
from medusa_core.suggest import shown

ORDER_BYTES_MAX = 64 * 1024
REASON_LENGTH_MAX = 500
COMMITMENT_BYTES = 32
ADOPTION_TIMEOUT_MS = 10_000
"""How long after its inputs a provider's bucket is waited for, where the contract has no bound."""


def is_lossy(method: Method | None, recovery: Recovery | None) -> bool:
    """Whether what a lost provider has not computed is given up, and not computed by the payer;
    None for both: the contract is not in force."""
    return recovery is Recovery.GAP and method is not Method.ACTIVE_STANDBY


def timeout_ms(bound_ms: int | None) -> int:
    """How late a provider's bucket is at most, by the bound of its contract."""
    return ADOPTION_TIMEOUT_MS if bound_ms is None else bound_ms


def adoption_wait_ms(method: Method | None, recovery: Recovery | None, bound_ms: int | None) -> int:
    """How long a bucket of the provider is waited for before the payer computes it."""
    if method is Method.ACTIVE_STANDBY:
        return 0
    return NEVER_MS if is_lossy(method, recovery) else timeout_ms(bound_ms)


class MoveState(Enum):
    """How far a move has come; the values are the labels in the catalog."""

    ACCEPTED = "accepted"
    STARTED = "started"
    RELEASED = "released"
    RETURNING = "returning"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveEnvelope:
    """A payer's message about a move: accepted (compute a fragment by this order, for this price an
    hour and unit of load), released or ended.

    The provider is paid for the buckets from `from_us` until before `to_us`. `lost_us` is the first
    bucket for which the payer waited in vain (None: it did not). `commitment` is what the payer
    commits to when it hands the fragment over: it draws the buckets that it recomputes from seeds
    of the settlement periods from `first_period` on (`samples.py`; None: it recomputes none).
    """

    contract: ContractName
    number: int
    fragment: str
    state: MoveState
    order: str | None
    price: Decimal | None
    from_us: int | None
    to_us: int | None
    lost_us: int | None
    reason: str
    commitment: bytes | None = None
    first_period: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedEnvelope:
    """A provider's message: it computes the fragment of a move, or does so no more, and why."""

    contract: ContractName
    number: int
    state: MoveState
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveProgress:
    """How a payer's move stands: its age in this state, and how far both lines have come.

    `own_us` and `provider_us` are how far the rows are final here and in the copy of the provider's
    line (None while nothing of it is here); `computed_us` is the next bucket that this home has not
    computed, `width_us` the width of the fragment's widest output. `agrees` is whether both have
    the same rows where both are final, `is_recalled` whether an input or output was recalled or
    revised since the move began, `has_ended` whether this home's outputs are complete.

    `is_lossy`: this home computes nothing for a late provider. `ready_us` is how far its inputs are
    final here, `quiet_ms` for how long the provider's line has not become longer.
    """

    state: MoveState
    age_ms: int
    is_in_force: bool
    own_us: int
    computed_us: int
    provider_us: int | None
    width_us: int
    agrees: bool
    is_recalled: bool
    has_ended: bool
    move_ms: int
    timeout_ms: int
    is_lossy: bool = False
    ready_us: int = 0
    quiet_ms: int = 0


@dataclass(frozen=True, slots=True)
class MoveStep:
    """What is next for a payer's move, and why in numbers.

    From `from_us` on another one owns the fragment's buckets: the provider where it is released,
    else this home. `lost_us` is the first bucket for which the payer waits in vain.
    """

    state: MoveState
    from_us: int | None
    reason: str
    lost_us: int | None = None


OTHER_ROWS = "the provider has computed other rows than this home"
RECALLED = "a stream that it reads or writes was recalled or revised"
LATE_BUCKETS = 4
"""How many buckets a provider may be behind, beyond its time-out, before it is lost."""


def next_step(known: MoveProgress) -> MoveStep | None:
    """The next state of a payer's move; None: nothing changes now."""
    match known.state:
        case MoveState.ACCEPTED if known.age_ms > known.move_ms:
            return _ends(f"the provider has not begun within {shown_s(known.move_ms * 1_000)}")
        case MoveState.ACCEPTED | MoveState.STARTED if not known.is_in_force:
            return _ends("its contract is not in force any more")
        case MoveState.STARTED if not known.agrees:
            return _ends(OTHER_ROWS)
        case MoveState.STARTED if known.is_recalled:
            return _ends(RECALLED)
        case MoveState.STARTED if known.has_ended:
            return _ends("its streams have ended")
        case MoveState.STARTED if known.age_ms > known.move_ms:
            limit = shown_s(known.move_ms * 1_000)
            return _ends(f"the provider has not caught up within {limit}")
        case MoveState.STARTED if known.provider_us is not None and (
            known.provider_us >= known.own_us - known.width_us
        ):
            # A bucket that nobody has begun: the next but one.
            from_us = known.computed_us + known.width_us
            behind = shown_s(max(known.own_us - known.provider_us, 0))
            reason = f"the provider has caught up: it is {behind} behind this home"
            return MoveStep(MoveState.RELEASED, from_us, reason)
        case MoveState.RELEASED if known.has_ended:
            return _returns("its streams have ended")
        case MoveState.RELEASED if not known.is_in_force:
            return _returns("its contract is not in force any more")
        case MoveState.RELEASED if not known.agrees:
            return _returns(OTHER_ROWS)
        case MoveState.RELEASED if known.is_recalled:
            return _returns(RECALLED)
        case MoveState.RELEASED if known.is_lossy:
            return _given_up(known)
        case MoveState.RELEASED if _is_lost(known):
            reason = f"the provider is {shown_s(_behind_us(known))} behind"
            return MoveStep(MoveState.RETURNING, None, reason, known.provider_us)
        case MoveState.RETURNING:
            return _ends("this home computes it again")
        case _:
            return None


def _given_up(known: MoveProgress) -> MoveStep | None:
    """This home continues with the next bucket; what it has not received before is lost.

    It may have been away itself: the provider must have had its time since.
    """
    behind_us = known.ready_us - _provider_us(known)
    is_late = behind_us > LATE_BUCKETS * known.width_us + known.timeout_ms * 1_000
    if not is_late or known.quiet_ms < known.timeout_ms:
        return None
    from_us = max(ceil_us(known.ready_us, known.width_us), known.computed_us)
    reason = f"the provider is {shown_s(behind_us)} behind: what it has not sent is lost"
    return MoveStep(MoveState.RETURNING, from_us, reason)


def _is_lost(known: MoveProgress) -> bool:
    return _behind_us(known) > LATE_BUCKETS * known.width_us + known.timeout_ms * 1_000


def _behind_us(known: MoveProgress) -> int:
    return known.own_us - _provider_us(known)


def _provider_us(known: MoveProgress) -> int:
    """How far the provider's line is final; without one it is as late as the state is old."""
    if known.provider_us is None:
        return known.own_us - known.age_ms * 1_000
    return known.provider_us


def _ends(reason: str) -> MoveStep:
    return MoveStep(MoveState.ENDED, None, reason)


def _returns(reason: str) -> MoveStep:
    return MoveStep(MoveState.RETURNING, None, reason)


def message_of_move(body: bytes) -> MoveEnvelope:
    """The payer's message in a body; ValueError or Refused for anything else."""
    given = message_fields(
        body, "contract", "number", "fragment", "state", "order", "price", "from_us", "to_us",
        "lost_us", "reason", "commitment", "first_period", later=("commitment", "first_period"),
    )  # fmt: skip
    state = MoveState(given["state"])
    order = None if given["order"] is None else _text(given["order"])
    if state not in _MESSAGES or (state is MoveState.ACCEPTED) != (order is not None):
        raise ValueError("no message of a payer")
    if order is not None and len(order.encode()) > ORDER_BYTES_MAX:
        raise Refused(f"the order of a move is longer than {ORDER_BYTES_MAX // 1024} KiB")
    return MoveEnvelope(
        contract=contract_field(given),
        number=_number(given["number"]),
        fragment=checked_fragment(_text(given["fragment"])),
        state=state,
        order=order,
        price=_price(given["price"], is_needed=order is not None),
        from_us=_time(given["from_us"]),
        to_us=_time(given["to_us"]),
        lost_us=_time(given["lost_us"]),
        reason=_text(given["reason"])[:REASON_LENGTH_MAX],
        **_commitment(given["commitment"], given["first_period"]),
    )


def message_of_moved(body: bytes) -> MovedEnvelope:
    """The provider's message in a body; ValueError or Refused for anything else."""
    given = message_fields(body, "contract", "number", "state", "reason")
    state = MoveState(given["state"])
    if state not in (MoveState.STARTED, MoveState.ENDED):
        raise ValueError("no state of a provider")
    return MovedEnvelope(
        contract=contract_field(given),
        number=_number(given["number"]),
        state=state,
        reason=_text(given["reason"])[:REASON_LENGTH_MAX],
    )


def checked_fragment(text: str) -> str:
    """A fragment as its home names it, NETWORK/FRAGMENT; Refused for anything else."""
    network, _, name = text.partition("/")
    if network in ("landing", "import", "moved"):
        raise Refused(f"fragment {shown(text)} does not move")
    check_name("network", network)
    check_name("fragment", name)
    return text


_MESSAGES = (MoveState.ACCEPTED, MoveState.RELEASED, MoveState.ENDED)


def _price(given: object, *, is_needed: bool) -> Decimal | None:
    if given is None and not is_needed:
        return None
    price = AMOUNT.read(given) if isinstance(given, str) else None
    if not isinstance(price, Decimal) or not AMOUNT.holds(price):
        raise ValueError("no price")
    return price


class _Commitment(TypedDict, total=False):
    commitment: bytes
    first_period: int


def _commitment(commitment: object, first_period: object) -> _Commitment:
    """What a payer commits to, or nothing."""
    if commitment is None and first_period is None:
        return {}
    found = bytes.fromhex(_text(commitment))
    if len(found) != COMMITMENT_BYTES:
        raise ValueError("no commitment")
    return {"commitment": found, "first_period": whole_number(first_period, 1)}


def _time(given: object) -> int | None:
    return None if given is None else whole_number(given, 1 - WHOLE_MAX)


def _number(given: object) -> int:
    number = whole_number(given, 1)
    if number >= 2**31:
        raise ValueError("no number of a move")
    return number


def _text(given: object) -> str:
    if isinstance(given, str):
        return given
    raise ValueError("no text")
