"""A loop that comes into conflict goes on at once, and is not hurried when it comes again."""

from __future__ import annotations

from typing import Any, cast

import pytest

from medusa_core.errors import Conflict
from pipelines.participant.loop import (
    TICK_ATTEMPTS_MAX,
    Inputs,
    LoopTick,
    ParticipantLoop,
)


class InConflict(ParticipantLoop):
    """A loop whose ticks are decided by the test; its leases are always free."""

    def __init__(self, *ticks: LoopTick | Conflict) -> None:
        heard = cast("Any", self)
        super().__init__(
            catalog=heard, drivers=(), inputs=Inputs(importer=heard), leases=heard, observer=heard
        )
        self.ticks = list(ticks)
        self.errors: list[Exception] = []
        self.pauses: list[int] = []
        self.taken = 0
        self.is_anothers = False

    def take_leases(self) -> None:
        if self.is_anothers:
            raise Conflict("the lease of main is held by another driver")
        self.taken += 1

    def error(self, error: Exception) -> None:
        self.errors.append(error)

    def attempt(self) -> LoopTick:
        found = self.ticks.pop(0)
        if isinstance(found, Conflict):
            self._landed = 1
            raise found
        return found


def run(loop: InConflict) -> None:
    loop.run(
        is_done=lambda: not loop.ticks,
        wait=lambda limit_ms: None,
        recover=lambda error: None,
        pause=lambda ms: loop.pauses.append(len(loop.ticks)),
    )


@pytest.mark.parametrize(
    ("ticks", "pauses"),
    [
        ((Conflict("once"), LoopTick(steps=1), Conflict("once more"), LoopTick()), 0),
        ((Conflict("one"), Conflict("two"), Conflict("three"), LoopTick()), 2),
    ],
)
def test_a_loop_pauses_where_conflicts_follow_each_other(
    ticks: tuple[LoopTick | Conflict, ...], pauses: int
) -> None:
    loop = InConflict(*ticks)
    run(loop)
    assert len(loop.pauses) == pauses
    assert len(loop.errors) == sum(isinstance(tick, Conflict) for tick in ticks)


def test_a_single_tick_takes_its_own_expired_leases_again() -> None:
    loop = InConflict(Conflict("expired"), Conflict("expired"), LoopTick(landed=1, steps=2))
    ticked = loop.tick()
    assert (loop.taken, ticked.steps, ticked.landed) == (2, 2, 3)
    assert len(loop.errors) == 2


def test_a_single_tick_leaves_a_lease_that_another_driver_has() -> None:
    loop = InConflict(Conflict("expired"), LoopTick())
    loop.is_anothers = True
    with pytest.raises(Conflict, match="held by another driver"):
        loop.tick()
    assert len(loop.ticks) == 1


def test_a_single_tick_ends_if_its_leases_expire_again_and_again() -> None:
    loop = InConflict(*(Conflict("expired") for _ in range(TICK_ATTEMPTS_MAX + 1)))
    with pytest.raises(Conflict, match="expired"):
        loop.tick()
    assert (loop.taken, len(loop.ticks)) == (TICK_ATTEMPTS_MAX - 1, 1)
