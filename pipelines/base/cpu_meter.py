"""The CPU meter of a driver's loop: the cost of each activity, by fragment and cause.

Each call of `did` names the activity since the last one: the CPU time of the process tree in
between is counted for it. Every ten seconds the CPU time is attributed (`medusa_core.market`) and
recorded in the home, by a background thread; a sample that could not be recorded is sent again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from medusa_core.commits import Lane
from medusa_core.errors import MedusaError, OutcomeUnknown, Unavailable
from medusa_core.loads import ActivityKind, FragmentSpan, LoadSample, Span, shares_of
from pipelines.base import clock
from pipelines.base.process_tree import ProcessTree

PERIOD_S = 10.0
PENDING_MAX = 360
"""How many samples wait for a catalog that is away: an hour's; then the oldest are given up."""

FLUSH_S_MAX = 5.0


class Meter(Protocol):
    """What a loop tells its meter."""

    def did(self, *spans: FragmentSpan, kind: ActivityKind = ActivityKind.UNATTRIBUTED) -> None:
        """What was done since the last call: these works, or else something of a kind."""

    def tick(self) -> None:
        """Deciding from now on is for the works that follow, until the next call."""

    @contextmanager
    def delivering(self) -> Iterator[None]:
        """What this thread does inside the block is delivery; called by threads of sinks."""

    def look(self) -> None:
        """Record a period that is over."""

    def flush(self) -> None:
        """Record what was spent until now, and come back when that is done, or cannot be."""

    def close(self) -> None:
        """Record what is left; no span is added any more."""


class NoMeter:
    """Of a loop that is not metered."""

    def did(self, *spans: FragmentSpan, kind: ActivityKind = ActivityKind.UNATTRIBUTED) -> None:
        """See `Meter`."""

    def tick(self) -> None:
        """See `Meter`."""

    @contextmanager
    def delivering(self) -> Iterator[None]:
        """See `Meter`."""
        yield

    def look(self) -> None:
        """See `Meter`."""

    def flush(self) -> None:
        """See `Meter`."""

    def close(self) -> None:
        """See `Meter`."""


NO_METER = NoMeter()


class CpuMeter:
    """The meter of one driver, named `driver`, which no other process is; it counts from now on.

    `record` writes a sample into the home; `on_error` receives why one could not be written.
    """

    def __init__(
        self,
        record: Callable[[LoadSample], object],
        *,
        driver: str,
        lane: Lane = Lane.LIVE,
        on_error: Callable[[Exception], None] = lambda error: None,
        spent_ns: Callable[[], int] | None = None,
        period_s: float = PERIOD_S,
        now_s: Callable[[], float] = clock.monotonic_s,
    ) -> None:
        self._record = record
        self._driver = driver
        self._lane = lane
        self._on_error = on_error
        self._spent_ns = spent_ns or ProcessTree().spent_ns
        self._period_s = period_s
        self._now_s = now_s
        self._threads = _ThreadClocks()
        self._spans: list[Span] = []
        self._tick = 0
        self._number = 0
        self._looked_us, self._delivered_us = self._spent_ns() // 1_000, 0
        self._began_s = now_s()
        self._pending: deque[tuple[LoadSample, float]] = deque(maxlen=PENDING_MAX)
        self._sender = ThreadPoolExecutor(1, "medusa-load")
        self._sent: Future[None] | None = None

    def did(self, *spans: FragmentSpan, kind: ActivityKind = ActivityKind.UNATTRIBUTED) -> None:
        """See `Meter`."""
        spent_us, delivered_us = self._spent_ns() // 1_000, self._threads.spent_ns() // 1_000
        self._spans.append(
            Span(
                cpu_us=spent_us - self._looked_us,
                fragments=spans,
                kind=kind,
                delivery_us=delivered_us - self._delivered_us,
                tick=self._tick,
            )
        )
        self._looked_us, self._delivered_us = spent_us, delivered_us

    def tick(self) -> None:
        """See `Meter`."""
        self._tick += 1

    @contextmanager
    def delivering(self) -> Iterator[None]:
        """See `Meter`."""
        with self._threads.counted():
            yield

    def look(self) -> None:
        """See `Meter`."""
        if self._now_s() - self._began_s >= self._period_s:
            self._end_period()
            self._send()

    def flush(self) -> None:
        """See `Meter`."""
        self.did()
        self._end_period()
        for _ in range(2):  # the recording that ran when this period ended, and the next one
            self._send()
            try:
                assert self._sent is not None
                self._sent.result(timeout=FLUSH_S_MAX)
            except TimeoutError:
                self._on_error(Unavailable("the last load is not recorded: the catalog is silent"))
                return

    def close(self) -> None:
        """See `Meter`."""
        self.flush()
        self._sender.shutdown(wait=False)

    def _end_period(self) -> None:
        now_s = self._now_s()
        self._number += 1
        sample = LoadSample(
            driver=self._driver,
            number=self._number,
            lane=self._lane,
            length_ms=max(round((now_s - self._began_s) * 1_000), 1),
            shares=shares_of(self._spans),
        )
        self._spans.clear()
        self._began_s = now_s
        self._pending.append((sample, now_s))

    def _send(self) -> None:
        """Record what is pending, unless a recording is running."""
        if self._sent is None or self._sent.done():
            self._sent = self._sender.submit(self._record_pending)

    def _record_pending(self) -> None:
        while self._pending:
            sample, ended_s = self._pending[0]
            ago_ms = max(round((self._now_s() - ended_s) * 1_000), 0)
            try:
                self._record(replace(sample, ended_ago_ms=ago_ms))
            except (Unavailable, OutcomeUnknown):
                return  # the loop says so itself; it is sent again with the next one
            except MedusaError as error:
                self._on_error(error)
            if self._pending and self._pending[0][0] is sample:
                self._pending.popleft()


class _ThreadClocks:
    """The CPU of some threads while they are at some work, together (ns)."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._working: dict[int, int] = {}
        self._spent_ns = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        me = threading.get_ident()
        with self._guard:
            self._working[me] = clock.thread_cpu_ns()
        try:
            yield
        finally:
            with self._guard:
                self._spent_ns += max(clock.thread_cpu_ns() - self._working.pop(me), 0)

    def spent_ns(self) -> int:
        """So far, with the part of running work that is done."""
        with self._guard:
            for thread, counted_ns in self._working.items():
                # It works, so it lives: only then may its clock be read.
                now_ns = clock.cpu_ns_of_thread(thread)
                self._spent_ns += max(now_ns - counted_ns, 0)
                self._working[thread] = now_ns
            return self._spent_ns
