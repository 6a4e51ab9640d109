"""The moves in a home in Postgres: every call one statement; the database decides."""

from __future__ import annotations

from typing import Any

from medusa_core.market.moves import MoveState
from medusa_core.market.terms import ContractName, Method, OriginStream, Recovery
from medusa_core.names import FragmentName, Participant, StreamName
from pipelines.catalog.move_store import AgreedToGive, Moves, MoveStatus, OpenMove
from pipelines.catalog.postgres.statements import NamedStatements, engine_with_timeouts


class PostgresMoves(NamedStatements, Moves):
    """A `Moves` in a home, as its job logs in."""

    def next_number(self) -> int:
        """See `Moves.next_number`."""
        return int(self._value("next_move"))

    def begin(self, contract: str, number: int, fragment: str, order: str, reason: str) -> None:
        """See `Moves.begin`."""
        self._value(
            "begin_move",
            contract=contract,
            number=number,
            fragment=fragment,
            order_document=order,
            reason=reason,
        )

    def to_begin(self) -> tuple[AgreedToGive, ...]:
        """See `Moves.to_begin`."""
        return tuple(
            AgreedToGive(
                id=row["move_id"],
                partner=Participant(row["partner"]),
                contract=ContractName(row["contract"]),
                fragment=FragmentName(row["fragment"]),
                round=row["round"],
                level=row["level"],
                price=row["price"],
            )
            for row in self._rows("moves_to_begin")
        )

    def lapse(self, agreed: int) -> bool:
        """See `Moves.lapse`."""
        return bool(self._value("lapse_agreed", agreed_id=agreed))

    def end(self, fragment: str, reason: str) -> bool:
        """See `Moves.end`."""
        return bool(self._value("return_fragment", fragment=fragment, reason=reason))

    def settle(self, move: int, state: MoveState, reason: str, lost_us: int | None = None) -> bool:
        """See `Moves.settle`."""
        values = {"state": state.value, "reason": reason, "lost_us": lost_us}
        return bool(self._value("settle_move", move_id=move, **values))

    def open_moves(self) -> tuple[OpenMove, ...]:
        """See `Moves.open_moves`."""
        return tuple(
            OpenMove(
                id=row["move_id"],
                is_given=row["is_given"],
                partner=Participant(row["partner"]),
                contract=ContractName(row["contract"]),
                number=row["number"],
                fragment=row["fragment"],
                state=MoveState(row["state"]),
                order=row["order_document"],
                age_ms=row["age_ms"],
                is_in_force=row["is_in_force"],
                bound_ms=row["bound_ms"],
                move_ms=row["move_ms"],
                is_deployed=row["is_deployed"],
                is_recalled=row["is_recalled"],
                earlier=frozenset(row["earlier"]),
                waits=row["waits"],
                lacks_room=row["lacks_room"],
                reads=frozenset(map(OriginStream, row["reads"])),
                readable=frozenset(map(StreamName, row["readable"])),
                method=None if row["method"] is None else Method(row["method"]),
                recovery=None if row["recovery"] is None else Recovery(row["recovery"]),
            )
            for row in self._rows("open_moves")
        )

    def statuses(self, moves_max: int = 100) -> tuple[MoveStatus, ...]:
        """See `Moves.statuses`."""
        return self._statuses("moves", moves_max=moves_max)

    def noted(self, begins: str) -> tuple[MoveStatus, ...]:
        """The moves that came to one of their states for a reason that begins so, the newest
        first."""
        return self._statuses("moves_noted", begins=begins)

    def _statuses(self, name: str, **values: Any) -> tuple[MoveStatus, ...]:
        return tuple(
            MoveStatus(
                id=row["move_id"],
                number=row["number"],
                is_given=row["is_given"],
                partner=Participant(row["partner"]),
                contract=ContractName(row["contract"]),
                fragment=row["fragment"],
                state=MoveState(row["state"]),
                reason=row["reason"],
                changed_at_ms=row["changed_at_ms"],
            )
            for row in self._rows(name, **values)
        )


def open_moves_of(url: str) -> PostgresMoves:
    """The moves of the home at `url`; one connection."""
    return PostgresMoves(engine_with_timeouts(url))
