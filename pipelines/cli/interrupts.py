"""Ctrl-C and SIGTERM: they end a command once, wherever they interrupt it.

An exception can be lost where it is raised: Python drops it in a finalizer or in the callback of a
weak reference (py4j runs thousands of them), and C code may clear it (extensions of numpy do while
they are imported). So an interrupt is raised again until it is seen to be handled.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pipelines.base.exit_codes import is_of_an_interrupt

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

ENDINGS = (signal.SIGTERM, signal.SIGINT)
AGAIN_S = 0.05
LOOKS = 2
"""So often in succession an interrupt is seen to be handled. Once is too few: code that is about to
lose it may have handlers, too, which run for a moment."""


def deferred_interrupts() -> Callable[[], None]:
    """Remember SIGTERM and SIGINT from now on, instead of ending the process.

    Call the result within `interruptible`: it raises KeyboardInterrupt if a signal came before.
    """
    signals: list[int] = []
    for ending in ENDINGS:
        signal.signal(ending, lambda number, frame: signals.append(number))

    def raise_deferred() -> None:
        if signals:
            raise KeyboardInterrupt

    return raise_deferred


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Either signal raises KeyboardInterrupt within; from then on both are ignored for good, so
    that no second one interrupts the clean-up of the first."""
    interrupt = _Interrupt()
    for ending in ENDINGS:
        signal.signal(ending, interrupt.begin)
    report, sys.unraisablehook = sys.unraisablehook, interrupt.not_raised
    try:
        yield
    finally:
        interrupt.stop()
        sys.unraisablehook = report
        if interrupt.is_dropped:  # the command was faster
            raise KeyboardInterrupt


class _Interrupt:
    """One interrupt, and whether it has come through."""

    def __init__(self) -> None:
        self.is_dropped = False
        self._report = sys.unraisablehook
        self._is_raised_again = False
        self._looks = 0

    def begin(self, number: int, frame: object) -> None:
        """The handler of the signals."""
        for ending in ENDINGS:
            signal.signal(ending, signal.SIG_IGN)
        # Not by print: the signal may have come in the middle of one.
        with contextlib.suppress(OSError):
            os.write(2, b"medusa: ending what was started; this takes a moment\n")
        self._is_raised_again = True
        signal.signal(signal.SIGALRM, self._again)
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S, AGAIN_S)
        raise KeyboardInterrupt

    def _again(self, number: int, frame: object) -> None:
        self._looks = self._looks + 1 if is_of_an_interrupt(sys.exc_info()[1]) else 0
        if self._looks == LOOKS:
            self.stop()
        elif not self._looks:
            self.is_dropped = False
            raise KeyboardInterrupt

    def not_raised(self, what: UnraisableHookArgs) -> None:
        """The hook for what Python drops."""
        if issubclass(what.exc_type, KeyboardInterrupt):
            self.is_dropped = True
        else:
            self._report(what)

    def stop(self) -> None:
        """Raise it no more. A timer of the caller goes on if there was no interrupt."""
        if self._is_raised_again:
            self._is_raised_again = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
