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
"""How long after a turn in which something could not be sent the next one is made."""

AGAIN_S = 5.0
"""How long after a turn that failed."""

CLOSES_S = 10.0
"""How long the end of a loop waits for its last turn: one that hangs goes with the process."""

REPORTED_AGAIN_S = 60.0
ALIKE_MAX = 40
"""So many first characters make two sentences one and the same that is told once a minute."""


class Made(Protocol):
    """What a turn did."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing moved."""

    @property
    def waiting(self) -> int:
        """How much could not be done yet."""


class TickMaker(Protocol):
    """Who makes turns: a desk, or the market with its desk."""

    def tick(self) -> Made:
        """Make one."""


class BackgroundWorker:
    """Makes turns of a desk; `told` hears what went wrong, each thing once a minute at most.

    `heard` is where the desk puts what it tells: it is told in the loop's thread.
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
        self._tick: Future[Made] | None = None
        self._next_s = now_s()
        self._reported_at_s: dict[str, float] = {}

    def look(self) -> None:
        """Begin the next turn if it is time, and tell what came of the last one."""
        while self._heard:
            self._show_progress(self._heard.popleft())
        if self._tick is not None:
            if not self._tick.done():
                return
            self._collect(self._tick)
            self._tick = None
        if self._now_s() >= self._next_s:
            self._tick = self._begun()

    def close(self) -> None:
        """Make no other turn, and wait for the one that is under way, as long as is sensible.

        All lies in the home: one that is left goes on where it is, or is cut short with the
        process, which does not wait for it; the next program makes it again.
        """
        if self._tick is not None and wait([self._tick], self._closes_s).not_done:
            self._on_error(
                Unavailable(
                    f"a turn about contracts has not come to its end within {self._closes_s:g} s: "
                    "it is left, and made again by the next run"
                )
            )
        self._closes()

    def _begun(self) -> Future[Made]:
        tick: Future[Made] = Future()

        def make() -> None:
            try:
                tick.set_result(self._tick_maker.tick())
            except BaseException as error:  # noqa: BLE001 - it is raised where the turn is looked at
                tick.set_exception(error)

        Thread(target=make, name="medusa-agreements", daemon=True).start()
        return tick

    def _collect(self, tick: Future[Made]) -> None:
        error = tick.exception()
        if error is None:
            made = tick.result()
            wait_s = 0.0 if not made.is_idle else WAITS_S if made.waiting else LOOK_S
            self._next_s = self._now_s() + wait_s
            return
        if not isinstance(error, Exception):
            raise error
        self._next_s = self._now_s() + AGAIN_S
        self._show_progress(error if isinstance(error, MedusaError) else _fault(error))

    def _show_progress(self, error: Exception) -> None:
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
    fault = RuntimeError(f"a fault of Medusa's own in a turn about contracts: {what}")
    fault.__cause__ = error
    return fault
