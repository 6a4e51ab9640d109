"""The moves of fragments in a home, given and taken, as its program uses them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from medusa_core.market.moves import MoveState
from medusa_core.market.terms import ContractName, Method, OriginStream, Recovery
from medusa_core.names import FragmentName, Participant, StreamName


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenMove:
    """A move that has not ended, or is still deployed here (`is_deployed`).

    `is_given`: this home is the payer. `is_in_force`: its contract is, and lets the fragment move.
    `bound_ms` is the bound that the contract promises, `method` and `recovery` what it says of
    failures (None: it is not in force); a state that waits for the partner lasts `move_ms` at most.
    `is_recalled`: something that the fragment reads or writes was recalled or revised since the
    move began. `earlier` are the numbers of the payer's other moves of the fragment, of one that is
    taken and has not started. `waits`: what makes room for it here has not left yet; `lacks_room`:
    it will not leave. `reads` are the streams of third participants that the contract in force lets
    a provider read, `readable` those of this home that the payer of one that is taken may read.
    """

    id: int
    is_given: bool
    partner: Participant
    contract: ContractName
    number: int
    fragment: str
    state: MoveState
    order: str
    age_ms: int
    is_in_force: bool
    bound_ms: int | None
    move_ms: int
    is_deployed: bool
    is_recalled: bool
    earlier: frozenset[int]
    waits: bool
    lacks_room: bool
    reads: frozenset[OriginStream] = frozenset()
    readable: frozenset[StreamName] = frozenset()
    method: Method | None = None
    recovery: Recovery | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreedToGive:
    """What was agreed in a round to be given, and has not begun to move; the fragment by the name
    that contracts give it, the price in currency per hour and unit of load."""

    id: int
    partner: Participant
    contract: ContractName
    fragment: FragmentName
    round: int
    level: int
    price: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveStatus:
    """A move as a home knows it, for people."""

    id: int
    number: int
    is_given: bool
    partner: Participant
    contract: ContractName
    fragment: str
    state: MoveState
    reason: str
    changed_at_ms: int


class Moves(Protocol):
    """The moves in one home."""

    def next_number(self) -> int:
        """The number of the next move of this home."""

    def begin(self, contract: str, number: int, fragment: str, order: str, reason: str) -> None:
        """Hand a fragment over.

        Refused without a movement contract in force that names it, or while it moves; Conflict if
        another move has taken the number.
        """

    def to_begin(self) -> tuple[AgreedToGive, ...]:
        """What rounds have agreed on and has not begun to move, in the order of agreement."""

    def lapse(self, agreed: int) -> bool:
        """What was agreed comes to nothing; False if it did before."""

    def end(self, fragment: str, reason: str) -> bool:
        """Take a fragment back; False if it has not moved."""

    def settle(self, move: int, state: MoveState, reason: str, lost_us: int | None = None) -> bool:
        """The next state of a move, and the message about it; False if it was known.

        `lost_us` is the bucket for which a payer waits in vain.
        """

    def open_moves(self) -> tuple[OpenMove, ...]:
        """Those for which something is to be done or watched, as they began."""

    def statuses(self, moves_max: int = 100) -> tuple[MoveStatus, ...]:
        """All, the newest first."""
