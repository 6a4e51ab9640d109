"""Strands: production code that runs until it rests, and goes on when the world says so.

The code of the product calls its catalog and its partners and waits for them. So that others' calls
come in between on virtual time, each strand is a thread of the machine, but only one of all runs at
any time: who goes on is handed the turn and gives it back when it rests, so nothing depends on how
the machine schedules them.
"""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread
from collections.abc import Callable

from pipelines.simulation.processes import Rest


class Killed(BaseException):
    """The strand's process was killed: nothing it holds in memory matters any more."""


class Strand:
    """One strand; `go` is called by the world, `rest` by what runs in it."""

    __slots__ = ("_back", "_error", "_is_killed", "_is_over", "_said", "_turn", "_work")

    def __init__(self, work: Callable[[], None]) -> None:
        self._work: Callable[[], None] | None = work
        self._turn, self._back = allocate_lock(), allocate_lock()
        self._turn.acquire()
        self._back.acquire()
        self._said: Rest | None = None
        self._error: BaseException | None = None
        self._is_killed = self._is_over = False

    def go(self) -> Rest | None:
        """Let it run until it rests; None at its end. Raises what it raises."""
        if self._work is not None:
            work, self._work = self._work, None
            start_new_thread(self._run, (work,))
        else:
            self._turn.release()
        self._back.acquire()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return self._said

    def rest(self, rest: Rest) -> None:
        """Give the turn back until the world gives it again; raises Killed if it never will."""
        if not self._is_killed:
            self._said = rest
            self._back.release()
            self._turn.acquire()
        if self._is_killed:
            raise Killed

    def kill(self) -> None:
        """End it where it rests."""
        self._is_killed = True
        if self._work is None and not self._is_over:
            self._turn.release()
            self._back.acquire()
        self._work, self._is_over = None, True

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - handed to the world, which raises it
            self._error = error
        self._said, self._is_over = None, True
        self._back.release()
