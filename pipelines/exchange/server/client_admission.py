"""Unauthenticated clients take turns: what they may cost a server a second is limited.

Beyond the rate, what a client has sent waits, and nothing more is read from its connection. The
addresses take turns, so that a flood from some of them delays others by one turn each. Connections
of partners are not concerned.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable

from pipelines.base import clock


class Admission:
    """Calls what it is given, `per_s` times a second and `burst` times at once, in one thread."""

    def __init__(
        self, per_s: float, burst: int, *, now_s: Callable[[], float] = clock.monotonic_s
    ) -> None:
        self._each_s = 1 / per_s
        self._burst_s = burst / per_s
        self._now_s = now_s
        self._free_s = now_s() - self._burst_s
        self._waiting: OrderedDict[str, deque[Callable[[], None]]] = OrderedDict()
        self._is_timed = False

    def enter(self, address: str, go: Callable[[], None]) -> None:
        """Call `go`, at once or when it is the turn of the address."""
        if not self._waiting and self._take():
            go()
            return
        self._waiting.setdefault(address, deque()).append(go)
        self._time()

    def _take(self) -> bool:
        """Use one turn up, if there is one."""
        now_s = self._now_s()
        self._free_s = max(self._free_s, now_s - self._burst_s)
        if self._free_s > now_s:
            return False
        self._free_s += self._each_s
        return True

    def _time(self) -> None:
        if self._waiting and not self._is_timed:
            self._is_timed = True
            wait_s = max(self._free_s - self._now_s(), 0.0)
            asyncio.get_running_loop().call_later(wait_s, self._serve_next)

    def _serve_next(self) -> None:
        self._is_timed = False
        try:
            if self._waiting and self._take():
                address, queue = self._waiting.popitem(last=False)
                go = queue.popleft()
                if queue:
                    self._waiting[address] = queue
                go()
        finally:
            self._time()
