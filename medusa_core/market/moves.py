"""Moves of fragments: their states, and the messages of payer and provider about them.

The payer's state decides. A message changes the actions of the other party; whether these are done,
late or left out, the payer's own line has one owner for each bucket.

    payer      accepted -> started -> released -> returning -> ended
    provider   accepted -> started -> ended

Source: CIDR 2003, 4.2 and 5 (movement contracts); VLDB 2003 (box sliding).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from medusa_core.errors import Refused
from medusa_core.grid import TIME_US_MIN
from medusa_core.market.message_fields import contract_field, message_fields, whole_number
from medusa_core.market.terms import ContractName
from medusa_core.names import check_name
from medusa_core.suggest import shown

ORDER_BYTES_MAX = 64 * 1024
REASON_LENGTH_MAX = 500
ADOPTION_TIMEOUT_MS = 10_000
"""How long after its inputs a provider's bucket is waited for, where the contract has no bound."""


class MoveState(Enum):
    """How far a move has come; the values are the labels in the catalog."""

    ACCEPTED = "accepted"
    STARTED = "started"
    RELEASED = "released"
    RETURNING = "returning"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveEnvelope:
    """A payer's message: compute a fragment by this order, or no more (`order` None)."""

    contract: ContractName
    number: int
    fragment: str
    order: str | None
    reason: str


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


@dataclass(frozen=True, slots=True)
class MoveStep:
    """What is next for a payer's move, and why in numbers; from `from_us` on the provider owns the
    fragment's buckets."""

    state: MoveState
    from_us: int | None
    reason: str


OTHER_ROWS = "the provider has computed other rows than this home"
RECALLED = "a stream that it reads or writes was recalled or revised"
LATE_BUCKETS = 4
"""So many buckets that a provider is behind, beyond its time-out, are its loss."""


def next_step(known: MoveProgress) -> MoveStep | None:
    """The next state of a payer's move; None: nothing changes now."""
    match known.state:
        case MoveState.ACCEPTED if known.age_ms > known.move_ms:
            return _ends(f"the provider has not begun within {known.move_ms} ms")
        case MoveState.ACCEPTED | MoveState.STARTED if not known.is_in_force:
            return _ends("its contract is not in force any more")
        case MoveState.STARTED if not known.agrees:
            return _ends(OTHER_ROWS)
        case MoveState.STARTED if known.is_recalled:
            return _ends(RECALLED)
        case MoveState.STARTED if known.has_ended:
            return _ends("its streams have ended")
        case MoveState.STARTED if known.age_ms > known.move_ms:
            return _ends(f"the provider has not caught up within {known.move_ms} ms")
        case MoveState.STARTED if known.provider_us is not None and (
            known.provider_us >= known.own_us - known.width_us
        ):
            # A bucket that nobody has begun: the next but one.
            from_us = known.computed_us + known.width_us
            reason = f"final through {known.provider_us}, this home through {known.own_us}"
            return MoveStep(MoveState.RELEASED, from_us, f"the provider has caught up: {reason}")
        case MoveState.RELEASED if known.has_ended:
            return _returns("its streams have ended")
        case MoveState.RELEASED if not known.is_in_force:
            return _returns("its contract is not in force any more")
        case MoveState.RELEASED if not known.agrees:
            return _returns(OTHER_ROWS)
        case MoveState.RELEASED if known.is_recalled:
            return _returns(RECALLED)
        case MoveState.RELEASED if _is_lost(known):
            return _returns(f"the provider is {_behind_us(known)} us behind")
        case MoveState.RETURNING:
            return _ends("this home computes it again")
        case _:
            return None


def _is_lost(known: MoveProgress) -> bool:
    return _behind_us(known) > LATE_BUCKETS * known.width_us + known.timeout_ms * 1_000


def _behind_us(known: MoveProgress) -> int:
    provider_us = TIME_US_MIN if known.provider_us is None else known.provider_us
    return known.own_us - provider_us


def _ends(reason: str) -> MoveStep:
    return MoveStep(MoveState.ENDED, None, reason)


def _returns(reason: str) -> MoveStep:
    return MoveStep(MoveState.RETURNING, None, reason)


def message_of_move(body: bytes) -> MoveEnvelope:
    """The payer's message in a body; ValueError or Refused for anything else."""
    given = message_fields(body, "contract", "number", "fragment", "order", "reason")
    order = None if given["order"] is None else _text(given["order"])
    if order is not None and len(order.encode()) > ORDER_BYTES_MAX:
        raise Refused(f"the order of a move is longer than {ORDER_BYTES_MAX // 1024} KiB")
    return MoveEnvelope(
        contract=contract_field(given),
        number=_number(given["number"]),
        fragment=checked_fragment(_text(given["fragment"])),
        order=order,
        reason=_text(given["reason"])[:REASON_LENGTH_MAX],
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


def _number(given: object) -> int:
    number = whole_number(given, 1)
    if number >= 2**31:
        raise ValueError("no number of a move")
    return number


def _text(given: object) -> str:
    if isinstance(given, str):
        return given
    raise ValueError("no text")
