"""What one partner may use of the exchange server at a time: a slow partner costs its own budget.

Connections, open requests and bytes of answers in memory beyond a partner's number are refused. Of
its calls to the catalog a few are made at a time, the others wait for these, so that no partner
takes all threads and connections. Requests of programs that have not proved who they are share one
budget, so that they cannot use up that of a partner. Counted in the server's one thread.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, TypeVar

from starlette.concurrency import run_in_threadpool

from medusa_core.names import Participant

P = ParamSpec("P")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Limits of each partner, of whoever has not proved who it is, and of time.

    `header_s_max`: in which the header of a request arrives; `idle_s_max`: for how long a
    connection is kept that nothing arrives on.
    """

    connections_max: int = 64
    requests_max: int = 256
    memory_bytes_max: int = 128 << 20
    calls_max: int = 4
    anonymous_connections_max: int = 256
    anonymous_max: int = 64
    header_bytes_max: int = 16 << 10
    header_s_max: float = 10.0
    idle_s_max: float = 60.0
    wait_ms_max: int = 30_000
    body_s_max: float = 10.0
    answer_s_max: float = 600.0


class TooManyRequests(Exception):
    """A budget is used up."""


class PartnerBudgets:
    """Counts the requests that are open, and makes the calls to the catalog.

    A partner that is None stands for everybody without a token.
    """

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._open: Counter[Participant | None] = Counter()
        self._memory: Counter[Participant] = Counter()
        self._calls: dict[Participant | None, asyncio.Semaphore] = {}

    @contextmanager
    def request(self, holder: Participant | None) -> Iterator[None]:
        """Hold one open request of a budget."""
        limits = self._limits
        most = limits.anonymous_max if holder is None else limits.requests_max
        if self._open[holder] >= most:
            raise TooManyRequests
        self._open[holder] += 1
        try:
            yield
        finally:
            self._open[holder] -= 1
            if not self._open[holder]:
                del self._open[holder]
                self._calls.pop(holder, None)

    @contextmanager
    def memory(self, partner: Participant, size_bytes: int) -> Iterator[None]:
        """Hold an answer in memory; one alone may be larger than the budget."""
        if self._memory[partner] and self._memory[partner] + size_bytes > (
            self._limits.memory_bytes_max
        ):
            raise TooManyRequests
        self._memory[partner] += size_bytes
        try:
            yield
        finally:
            self._memory[partner] -= size_bytes
            if not self._memory[partner]:
                del self._memory[partner]

    async def call(
        self, holder: Participant | None, function: Callable[P, Answer],
        *args: P.args, **kwargs: P.kwargs,
    ) -> Answer:  # fmt: skip
        """What a function answers that waits for the catalog or a file: it runs in a thread."""
        calls = self._calls.setdefault(holder, asyncio.Semaphore(self._limits.calls_max))
        async with calls:
            return await run_in_threadpool(partial(function, *args, **kwargs))
