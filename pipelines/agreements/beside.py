"""Turns about contracts beside a participant's loop, in a thread of their own.

The loop calls `look` at every turn; it never waits for one. A home that is away, a partner that is
silent, an envelope that is wrong hold up no answer: they are told, and tried again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

LOOK_S = 0.5
WAITS_S = 2.0
"""How long after a turn in which something could not be sent the next one is made."""

AGAIN_S = 5.0
"""How long after a turn that failed."""

TOLD_S = 60.0
TOLD_ALIKE = 40
"""So many first characters make two sentences one and the same that is told once a minute."""


class Made(Protocol):
    """What a turn did."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing moved."""

    @property
    def waiting(self) -> int:
        """How much could not be done yet."""


class Turns(Protocol):
    """Who makes turns: a desk, or the market with its desk."""

    def turn(self) -> Made:
        """Make one."""


class TurnsBeside:
    """Makes turns of a desk; `told` hears what went wrong, each thing once a minute at most.

    `heard` is where the desk puts what it tells: it is told in the loop's thread.
    """

    def __init__(
        self,
        desk: Turns,
        heard: deque[Exception],
        told: Callable[[Exception], None],
        *,
        now_s: Callable[[], float] = time.monotonic,
        closes: Callable[[], None] = lambda: None,
    ) -> None:
        self._desk = desk
        self._heard = heard
        self._told = told
        self._now_s = now_s
        self._closes = closes
        self._thread = ThreadPoolExecutor(1, "medusa-agreements")
        self._turn: Future[Made] | None = None
        self._next_s = now_s()
        self._told_at_s: dict[str, float] = {}

    def look(self) -> None:
        """Begin the next turn if it is time, and tell what came of the last one."""
        while self._heard:
            self._tell(self._heard.popleft())
        if self._turn is not None:
            if not self._turn.done():
                return
            self._collect(self._turn)
            self._turn = None
        if self._now_s() >= self._next_s:
            self._turn = self._thread.submit(self._desk.turn)

    def close(self) -> None:
        """Wait for the turn that is under way, and make no other."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._closes()

    def _collect(self, turn: Future[Made]) -> None:
        error = turn.exception()
        if error is None:
            made = turn.result()
            wait_s = 0.0 if not made.is_idle else WAITS_S if made.waiting else LOOK_S
            self._next_s = self._now_s() + wait_s
            return
        if not isinstance(error, Exception):
            raise error
        # Also what is a fault of ours: streams go on without the market.
        self._next_s = self._now_s() + AGAIN_S
        self._tell(error)

    def _tell(self, error: Exception) -> None:
        alike, now_s = str(error)[:TOLD_ALIKE], self._now_s()
        if now_s - self._told_at_s.get(alike, -TOLD_S) >= TOLD_S:
            self._told_at_s[alike] = now_s
            self._told(error)
        if len(self._told_at_s) > 1_000:
            self._told_at_s.clear()
