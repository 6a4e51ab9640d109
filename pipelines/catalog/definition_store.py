"""The definitions in a home, those of its buyers and its own, as its program uses them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from medusa_core.market.definitions import Definition
from medusa_core.market.terms import BoxKind, ContractName
from medusa_core.names import Participant, StreamName


@dataclass(frozen=True, slots=True, kw_only=True)
class DueDefinition:
    """A definition of a buyer and the terms under which it may run; it waits, or runs since
    `running_ms`.

    `stream`, `boxes` and `load_max` are those of its contract; None if that is not in force any
    more, or lets the buyer define no boxes.
    """

    number: int
    contract: ContractName
    buyer: Participant
    name: StreamName
    document: str
    running_ms: int | None
    stream: StreamName | None
    boxes: frozenset[BoxKind] | None
    load_max: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionStatus:
    """A definition as a home knows it; `stream` is what it writes in the home of the seller.

    `cpu_s` is what it has taken here, as far as samples of load are kept; None at the buyer.
    """

    name: StreamName
    contract: ContractName
    buyer: Participant
    state: str
    reason: str | None
    stream: StreamName
    cpu_s: float | None


class Definitions(Protocol):
    """The definitions in one home."""

    def define(self, definition: Definition) -> None:
        """Send a definition to the seller; the same again is nothing.

        Refused without a contract in force that lets this home define boxes, and for a name that
        was used before.
        """

    def withdraw(self, name: str) -> bool:
        """End a definition of this home; whether it was there and had not ended."""

    def due(self) -> tuple[DueDefinition, ...]:
        """The definitions of buyers that wait or run, as they came."""

    def settle(self, number: int, state: str, reason: str | None) -> bool:
        """A definition runs, is refused, or has ended; False if that is known."""

    def statuses(self) -> tuple[DefinitionStatus, ...]:
        """All definitions, by buyer and name."""
