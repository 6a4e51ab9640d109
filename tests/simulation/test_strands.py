"""A strand runs until it rests, goes on where it rested, and is ended there when it is killed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipelines.simulation.faults.fibers import Strand
from pipelines.simulation.faults.simulated_processes import Rest

A_WHILE, LONGER = Rest(5), Rest(50)


def a_strand(work: Callable[[Strand], None]) -> Strand:
    strand = Strand(lambda: work(strand))
    return strand


def test_it_goes_on_where_it_rested_until_it_ends() -> None:
    done: list[str] = []

    def work(strand: Strand) -> None:
        strand.rest(A_WHILE)
        done.append("one thing")
        strand.rest(LONGER)
        done.append("another")

    strand = a_strand(work)
    assert strand.go() == A_WHILE
    assert done == []
    assert strand.go() == LONGER
    assert done == ["one thing"]
    assert strand.go() is None
    assert done == ["one thing", "another"]


def test_its_error_is_raised_where_it_was_resumed() -> None:
    def work(strand: Strand) -> None:
        strand.rest(A_WHILE)
        raise ValueError("of its own")

    strand = a_strand(work)
    strand.go()
    with pytest.raises(ValueError, match="of its own"):
        strand.go()


@pytest.mark.parametrize("error", [None, ValueError("nobody hears it")])
def test_killed_it_leaves_where_it_rests_and_rests_no_more(error: Exception | None) -> None:
    done: list[str] = []

    def work(strand: Strand) -> None:
        try:
            strand.rest(A_WHILE)
            done.append("never")
        finally:
            done.append("on its way out")
            if error is not None:
                raise error
            strand.rest(LONGER)
            done.append("never")

    strand = a_strand(work)
    strand.go()
    strand.kill()
    strand.kill()
    assert done == ["on its way out"]


def test_killed_before_it_began_it_does_nothing() -> None:
    def work(strand: Strand) -> None:
        raise AssertionError("it was killed")

    a_strand(work).kill()


def test_an_interrupt_on_its_way_out_is_heard() -> None:
    def work(strand: Strand) -> None:
        try:
            strand.rest(A_WHILE)
        finally:
            raise KeyboardInterrupt

    strand = a_strand(work)
    strand.go()
    with pytest.raises(KeyboardInterrupt):
        strand.kill()
