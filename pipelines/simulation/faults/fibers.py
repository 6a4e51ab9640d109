"""Fibers: production code that runs until it waits, and continues when the world resumes it.

The code of the product calls its catalog and its partners and waits for them. So that calls of
others are interleaved on virtual time, each fiber has its own stack (a greenlet), and only one of
all runs at any time. A fiber that waits passes control to the next, so nothing depends on how a
machine schedules threads.
"""

from __future__ import annotations

from collections.abc import Callable

from greenlet import getcurrent, greenlet

from pipelines.simulation.faults.simulated_processes import Rest


class Killed(BaseException):
    """The fiber's process was killed: nothing it holds in memory matters any more."""


class Fiber:
    """One fiber; `go` is called by the world, `rest` by what runs in it."""

    __slots__ = ("_function", "_is_killed", "_stack")

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._stack = greenlet(self._run)
        self._is_killed = False

    def go(self) -> Rest | None:
        """Let it run until it rests; None at its end. Raises what it raises."""
        self._stack.parent = getcurrent()
        rest: Rest | None = self._stack.switch()
        return rest

    def rest(self, rest: Rest) -> None:
        """Pass control to the world until it resumes this fiber; raises Killed if it never will."""
        if not self._is_killed:
            self._stack.parent.switch(rest)
        if self._is_killed:
            raise Killed

    def kill(self) -> None:
        """End it where it rests; called by the world, never from a fiber."""
        self._is_killed = True
        if self._stack:  # it has begun and is not over
            self.go()
        assert not self._stack, "a killed fiber does not rest"

    def _run(self) -> None:
        try:
            self._function()
        except Killed:
            pass
        except Exception:
            # Nobody receives what a killed process raises as it ends.
            if not self._is_killed:
                raise
