"""The links between participants: losses in each direction, and how slow they are.

A request travels from a reader to its partner, the answer and the notification travel back: each
direction fails separately. A fault has a time until which it lasts, so that faults that overlap
heal when the last of them does.
"""

from __future__ import annotations

from medusa_core.names import Participant

TIMEOUT_MS = 500
"""How long an answer is waited for; one that takes longer is none."""


class Links:
    """The state of the links; times are the world's."""

    def __init__(self) -> None:
        self._lost_until_ms: dict[tuple[Participant, Participant], int] = {}
        self._slow: dict[frozenset[Participant], tuple[int, int]] = {}

    def lose(self, sender: Participant, receiver: Participant, until_ms: int) -> None:
        """Nothing that one sends reaches the other until then."""
        link = (sender, receiver)
        self._lost_until_ms[link] = max(until_ms, self._lost_until_ms.get(link, 0))

    def cut(self, one: Participant, other: Participant, until_ms: int) -> None:
        """Nothing passes in either direction until then."""
        self.lose(one, other, until_ms)
        self.lose(other, one, until_ms)

    def slow_down(self, one: Participant, other: Participant, factor: int, until_ms: int) -> None:
        """Every call between two takes so many times as long until then."""
        self._slow[frozenset((one, other))] = (until_ms, factor)

    def is_lost(self, sender: Participant, receiver: Participant, now_ms: int) -> bool:
        """Whether what one sends does not reach the other now."""
        return self._lost_until_ms.get((sender, receiver), 0) > now_ms

    def calm_since_ms(self, one: Participant, other: Participant) -> int:
        """Since, or from, when everything goes between two, and as fast as ever."""
        lost = [self._lost_until_ms.get(link, 0) for link in ((one, other), (other, one))]
        return max(*lost, self._slow.get(frozenset((one, other)), (0, 1))[0])

    def factor(self, one: Participant, other: Participant, now_ms: int) -> int:
        """How many times as long a call between two takes now."""
        until_ms, factor = self._slow.get(frozenset((one, other)), (0, 1))
        return factor if until_ms > now_ms else 1

    def carries_notification(self, home: Participant, listener: Participant, now_ms: int) -> bool:
        """Whether a home's notification arrives: not over a link that is cut or slow."""
        return not self.is_lost(home, listener, now_ms) and self.factor(home, listener, now_ms) == 1
