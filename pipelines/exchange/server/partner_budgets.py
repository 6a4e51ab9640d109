"""What one partner may use of the exchange server at a time: a slow partner costs its own budget.

Connections, open requests and bytes in memory beyond a partner's number are refused. Of its calls
to the catalog and to files a few are made at a time, the others wait for these. Calls of partners
that have one already take half of the threads at most, so that slow calls of some partners leave
threads for the others. Each thread has a connection to the catalog. Unauthenticated clients share
one budget of calls and use up none of a partner's. Counted in the server's one thread.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread

from medusa_core.names import Participant

P = ParamSpec("P")
Answer = TypeVar("Answer")
Holder = TypeVar("Holder", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Limits of each partner, of all unauthenticated clients together, and of time.

    `header_s_max`: time in which the header of a request must arrive; `idle_s_max`: time for which
    a connection without requests stays open; `body_s_max`, `token_s_max`: time for a body, and for
    that of a request for a token; `request_s_max`: time for a request with its answer.
    `anonymous_per_s`: how often a second what unauthenticated clients send is looked at, handshakes
    included, and `anonymous_burst` times at once. `threads_max`: calls of all together at a time.
    """

    connections_max: int = 64
    requests_max: int = 256
    memory_bytes_max: int = 128 << 20
    calls_max: int = 4
    anonymous_connections_max: int = 256
    anonymous_per_s: float = 50.0
    anonymous_burst: int = 100
    header_bytes_max: int = 16 << 10
    header_s_max: float = 10.0
    idle_s_max: float = 60.0
    wait_ms_max: int = 30_000
    token_s_max: float = 2.0
    body_s_max: float = 10.0
    request_s_max: float = 600.0
    threads_max: int = 13

    @property
    def catalog_connections_max(self) -> int:
        """Connections to the catalog: of the threads, and two for what is recorded meanwhile."""
        return self.threads_max + 2


class TooManyRequests(Exception):
    """A budget is used up."""


class PartnerBudgets:
    """Counts the requests that are open, and makes the calls to the catalog.

    A partner that is None stands for all unauthenticated clients.
    """

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._open: Counter[Participant | None] = Counter()
        self._memory: Counter[Participant] = Counter()
        self._threads = CapacityLimiter(limits.threads_max)
        self._running: Counter[Participant | None] = Counter()
        self._ended = asyncio.Event()
        self._calls: dict[Participant | None, asyncio.Semaphore] = {}
        self._bodies: dict[Participant | None, asyncio.Lock] = {}

    @contextmanager
    def request(self, holder: Participant | None) -> Iterator[None]:
        """Hold one open request; those of unauthenticated clients are as many as connections."""
        is_full = self._open[holder] >= self._limits.requests_max
        if is_full and holder is not None:
            raise TooManyRequests
        try:
            with _counted(self._open, holder):
                yield
        finally:
            if holder not in self._open:
                self._calls.pop(holder, None)
                self._bodies.pop(holder, None)

    @contextmanager
    def memory(self, partner: Participant, size_bytes: int) -> Iterator[None]:
        """Hold an answer in memory; one alone may be larger than the budget."""
        if self._memory[partner] and self._memory[partner] + size_bytes > (
            self._limits.memory_bytes_max
        ):
            raise TooManyRequests
        with _counted(self._memory, partner, size_bytes):
            yield

    def large_body(self, partner: Participant) -> asyncio.Lock:
        """Held while a large body is read, in a request: one at a time, as they take turns of the
        server's one thread. The others wait in the partner's sockets."""
        return self._bodies.setdefault(partner, asyncio.Lock())

    async def call(
        self, holder: Participant | None, function: Callable[P, Answer],
        *args: P.args, **kwargs: P.kwargs,
    ) -> Answer:  # fmt: skip
        """The result of a function that waits for the catalog or a file: it runs in a thread."""
        calls = self._calls.setdefault(holder, asyncio.Semaphore(self._limits.calls_max))
        async with calls, self._thread(holder):
            return await to_thread.run_sync(
                partial(function, *args, **kwargs), limiter=self._threads
            )

    @asynccontextmanager
    async def _thread(self, holder: Participant | None) -> AsyncIterator[None]:
        """Wait until a call may take a thread: at once, unless others of its partner have one."""
        while holder in self._running and self._further >= self._limits.threads_max // 2:
            await self._ended.wait()
        try:
            with _counted(self._running, holder):
                yield
        finally:
            self._ended.set()
            self._ended = asyncio.Event()

    @property
    def _further(self) -> int:
        """How many calls run beyond the first of each partner."""
        return self._running.total() - len(self._running)


@contextmanager
def _counted(counts: Counter[Holder], holder: Holder, number: int = 1) -> Iterator[None]:
    """Count so many of a holder while the block runs; who has none is not in the counts."""
    counts[holder] += number
    try:
        yield
    finally:
        counts[holder] -= number
        if not counts[holder]:
            del counts[holder]
