"""Ctrl-C and SIGTERM: they end a command once, wherever they interrupt it.

Python drops an exception that is raised where none can be passed on (a finalizer, the callback of
a weak reference; py4j runs thousands of them). An interrupt at such a place is raised again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

ENDINGS = (signal.SIGTERM, signal.SIGINT)
AGAIN_S = 0.05


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Either signal raises KeyboardInterrupt within; from then on both are ignored for good, so
    that no second one interrupts the clean-up of the first."""
    for ending in ENDINGS:
        signal.signal(ending, _interrupt)
    dropped = sys.unraisablehook
    sys.unraisablehook = _or_again(dropped)
    try:
        yield
    finally:
        is_to_come = _is_to_come()
        sys.unraisablehook = dropped
        if is_to_come:  # the command was faster
            raise KeyboardInterrupt


def _interrupt(number: int, frame: object) -> NoReturn:
    for ending in ENDINGS:
        signal.signal(ending, signal.SIG_IGN)
    # Not by print: the signal may have come in the middle of one.
    with contextlib.suppress(OSError):
        os.write(2, b"medusa: ending what was started; this takes a moment\n")
    raise KeyboardInterrupt


def _or_again(dropped: Callable[[UnraisableHookArgs], Any]) -> Callable[[UnraisableHookArgs], None]:
    def hook(what: UnraisableHookArgs) -> None:
        if not issubclass(what.exc_type, KeyboardInterrupt):
            dropped(what)
            return
        # Later, for it would be dropped here as well.
        signal.signal(signal.SIGALRM, _again)
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S)

    return hook


def _is_to_come() -> bool:
    """Whether an interrupt is still to come again; now it will not. A caller's timer goes on."""
    if signal.getsignal(signal.SIGALRM) is not _again:
        return False
    left_s, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    return left_s > 0.0


def _again(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt
