"""What is done about a component: started, started anew, left alone or given up. Pure.

A component that ends is started again at once, then after waits that double, and given up when it
has failed many times in a row without having been well for a while. One that runs but has not been
seen well for long is started anew, which is the only help for a process that stands still. While
the database is away nothing is judged: what fails then is not at fault.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from medusa_core import restart


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long what is waited for (ms); a first start may take longer than a sign of life."""

    silent_ms_max: int = 120_000
    start_ms_max: int = 240_000
    steady_ms: int = 60_000
    back_off_ms: int = 1_000
    back_off_ms_max: int = 60_000
    failures_max: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A component as its supervisor knows it; times are one clock's, None: not in this life.

    `failures` in a row; `restarts` in all, since the supervisor began.
    """

    name: str
    started_ms: int | None = None
    well_ms: int | None = None
    ended_ms: int | None = None
    failures: int = 0
    restarts: int = 0
    is_given_up: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """Start it; nothing of it runs."""

    because: str


@dataclass(frozen=True, slots=True)
class StartAnew:
    """End it and start it again."""

    because: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Start it no more; a person has to look."""

    because: str


@dataclass(frozen=True, slots=True)
class Leave:
    """It is as it should be, or nothing can be done now."""

    because: str


Decision = Start | StartAnew | GiveUp | Leave


def decide(
    standing: Standing, *, now_ms: int, judged_since_ms: int | None, patience: Patience
) -> Decision:
    """What to do about a component now.

    `judged_since_ms`: since when without a break what it needs (the database, and whatever tells
    that it is well) has answered; None: it does not answer now.
    """
    if standing.is_given_up:
        return Leave("given up")
    if standing.started_ms is None:
        return _start(standing, now_ms, judged_since_ms, patience)
    if judged_since_ms is None:
        return Leave("what it needs does not answer")
    told_ms = standing.started_ms if standing.well_ms is None else standing.well_ms
    silent_ms = now_ms - max(told_ms, judged_since_ms)
    limit_ms = patience.start_ms_max if standing.well_ms is None else patience.silent_ms_max
    if silent_ms > limit_ms:
        return StartAnew(f"no sign of life for {silent_ms // 1000} s")
    return Leave("it runs")


def _start(
    standing: Standing, now_ms: int, judged_since_ms: int | None, patience: Patience
) -> Decision:
    if standing.failures > patience.failures_max:
        return GiveUp(f"ended {standing.failures} times in a row")
    if judged_since_ms is None:
        return Leave("waits for the database")
    if standing.ended_ms is None:
        return Start("it shall run")
    wait_ms = back_off_ms(standing.failures, patience)
    left_ms = standing.ended_ms + wait_ms - now_ms
    if left_ms > 0:
        return Leave(f"is started again in {left_ms / 1000:.1f} s")
    return Start(f"it ended, {standing.failures} in a row")


def back_off_ms(failures: int, patience: Patience) -> int:
    """How long to wait before a start after so many failures in a row: none after the first."""
    return restart.back_off_ms(
        failures - 1, first_ms=patience.back_off_ms, most_ms=patience.back_off_ms_max
    )


def after_start(standing: Standing, now_ms: int) -> Standing:
    """It was started just now."""
    return replace(
        standing,
        started_ms=now_ms,
        well_ms=None,
        restarts=standing.restarts + (standing.ended_ms is not None),
    )


def after_sign(standing: Standing, seen_ms: int) -> Standing:
    """It was seen well; a sign from before its start is of an earlier life and says nothing."""
    if standing.started_ms is None or seen_ms < standing.started_ms:
        return standing
    return replace(standing, well_ms=max(seen_ms, standing.well_ms or 0))


def after_end(
    standing: Standing, now_ms: int, *, is_at_fault: bool, patience: Patience
) -> Standing:
    """It was found ended; one that had been well for long begins to count anew.

    Not `is_at_fault`: what it needs was away, so that the end does not count.
    """
    assert standing.started_ms is not None, "only what was started ends"
    well_ms = standing.well_ms or standing.started_ms
    was_steady = well_ms - standing.started_ms >= patience.steady_ms
    failures = 0 if was_steady else standing.failures
    return replace(
        standing,
        started_ms=None,
        well_ms=None,
        ended_ms=now_ms,
        failures=failures + is_at_fault,
    )


def after_giving_up(standing: Standing) -> Standing:
    """Nobody starts it any more."""
    return replace(standing, is_given_up=True)
