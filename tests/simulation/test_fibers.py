"""A fiber runs until it rests, continues where it rested, and ends there when it is killed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipelines.simulation.faults.fibers import Fiber
from pipelines.simulation.faults.simulated_processes import Rest

A_WHILE, LONGER = Rest(5), Rest(50)


def a_fiber(work: Callable[[Fiber], None]) -> Fiber:
    fiber = Fiber(lambda: work(fiber))
    return fiber


def test_it_goes_on_where_it_rested_until_it_ends() -> None:
    done: list[str] = []

    def plan(fiber: Fiber) -> None:
        fiber.rest(A_WHILE)
        done.append("one thing")
        fiber.rest(LONGER)
        done.append("another")

    fiber = a_fiber(plan)
    assert fiber.go() == A_WHILE
    assert done == []
    assert fiber.go() == LONGER
    assert done == ["one thing"]
    assert fiber.go() is None
    assert done == ["one thing", "another"]


def test_its_error_is_raised_where_it_was_resumed() -> None:
    def plan(fiber: Fiber) -> None:
        fiber.rest(A_WHILE)
        raise ValueError("of its own")

    fiber = a_fiber(plan)
    fiber.go()
    with pytest.raises(ValueError, match="of its own"):
        fiber.go()


@pytest.mark.parametrize("error", [None, ValueError("nobody hears it")])
def test_killed_it_leaves_where_it_rests_and_rests_no_more(error: Exception | None) -> None:
    done: list[str] = []

    def plan(fiber: Fiber) -> None:
        try:
            fiber.rest(A_WHILE)
            done.append("never")
        finally:
            done.append("on its way out")
            if error is not None:
                raise error
            fiber.rest(LONGER)
            done.append("never")

    fiber = a_fiber(plan)
    fiber.go()
    fiber.kill()
    fiber.kill()
    assert done == ["on its way out"]


def test_killed_before_it_began_it_does_nothing() -> None:
    def plan(fiber: Fiber) -> None:
        raise AssertionError("it was killed")

    a_fiber(plan).kill()


def test_an_interrupt_on_its_way_out_is_heard() -> None:
    def plan(fiber: Fiber) -> None:
        try:
            fiber.rest(A_WHILE)
        finally:
            raise KeyboardInterrupt

    fiber = a_fiber(plan)
    fiber.go()
    with pytest.raises(KeyboardInterrupt):
        fiber.kill()
