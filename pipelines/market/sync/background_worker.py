"""A background worker that synchronises contracts in a thread of its participant's loop.

The loop calls `look` at every tick and never waits for a synchronisation. A home that is
unavailable, a silent partner or a wrong envelope delays no answer: it is reported, and tried
again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread
from typing import Protocol

from medusa_core.errors import MedusaError, Unavailable
from pipelines.base import clock

LOOK_S = 0.5
WAITS_S = 2.0
"""Pause after a tick that could not send everything."""

AGAIN_S = 5.0
"""Pause after a tick that failed."""

CLOSES_S = 10.0
"""How long `close` waits for the last tick; one that hangs ends with the process."""

REPORTED_AGAIN_S = 60.0
ALIKE_MAX = 40
"""Errors that begin with the same so many characters are reported once in REPORTED_AGAIN_S."""


class TickResult(Protocol):
    """What a tick did."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing moved."""

    @property
    def waiting(self) -> int:
        """How much could not be done yet."""


class TickMaker(Protocol):
    """A contract synchronisation, or the market with its synchronisation."""

    def tick(self) -> TickResult:
        """Do what is to be done now."""


class BackgroundWorker:
    """Ticks in a thread; `on_error` receives each error once in REPORTED_AGAIN_S at most.

    `heard` holds the errors that the ticks report; `look` passes them on in the loop's thread.
    """

    def __init__(
        self,
        tick_maker: TickMaker,
        heard: deque[Exception],
        on_error: Callable[[Exception], None],
        *,
        now_s: Callable[[], float] = clock.monotonic_s,
        closes: Callable[[], None] = lambda: None,
        closes_s: float = CLOSES_S,
    ) -> None:
        self._tick_maker = tick_maker
        self._heard = heard
        self._on_error = on_error
        self._now_s = now_s
        self._closes = closes
        self._closes_s = closes_s
        self._tick: Future[TickResult] | None = None
        self._next_s = now_s()
        self._reported_at_s: dict[str, float] = {}

    def look(self) -> None:
        """Begin the next tick if it is due, and report the errors of the last one."""
        while self._heard:
            self._report_error(self._heard.popleft())
        if self._tick is not None:
            if not self._tick.done():
                return
            self._collect(self._tick)
            self._tick = None
        if self._now_s() >= self._next_s:
            self._tick = self._begun()

    def close(self) -> None:
        """Begin no other tick, and wait at most `closes_s` for the one in progress.

        All state is stored in the home: a tick that is still running ends by itself or with the
        process, and the next program repeats what it has not done.
        """
        if self._tick is not None and wait([self._tick], self._closes_s).not_done:
            self._on_error(
                Unavailable(
                    f"the contract synchronisation has not ended within {self._closes_s:g} s: "
                    "the next run repeats what is missing"
                )
            )
        self._closes()

    def _begun(self) -> Future[TickResult]:
        tick: Future[TickResult] = Future()

        def make() -> None:
            try:
                tick.set_result(self._tick_maker.tick())
            except BaseException as error:  # noqa: BLE001 - `_collect` takes it
                tick.set_exception(error)

        Thread(target=make, name="medusa-agreements", daemon=True).start()
        return tick

    def _collect(self, tick: Future[TickResult]) -> None:
        error = tick.exception()
        if error is None:
            result = tick.result()
            wait_s = 0.0 if not result.is_idle else WAITS_S if result.waiting else LOOK_S
            self._next_s = self._now_s() + wait_s
            return
        if not isinstance(error, Exception):
            raise error
        self._next_s = self._now_s() + AGAIN_S
        self._report_error(error if isinstance(error, MedusaError) else _fault(error))

    def _report_error(self, error: Exception) -> None:
        alike, now_s = str(error)[:ALIKE_MAX], self._now_s()
        if now_s - self._reported_at_s.get(alike, -REPORTED_AGAIN_S) >= REPORTED_AGAIN_S:
            self._reported_at_s[alike] = now_s
            self._on_error(error)
        if len(self._reported_at_s) > 1_000:
            self._reported_at_s.clear()


def _fault(error: Exception) -> Exception:
    """What is told of an error that nobody foresaw: streams go on without the market, and nobody
    is to take it for a partner's doing."""
    sentence = " ".join(str(error).split())
    what = f"{type(error).__name__}: {sentence}" if sentence else type(error).__name__
    fault = RuntimeError(f"a fault of Medusa's own in the contract synchronisation: {what}")
    fault.__cause__ = error
    return fault
