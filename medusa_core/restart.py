"""The restart policy of everything that is supervised or tried again. Pure.

A run that ends before it has been stable for a while is a failure. After failures in a row the
next start waits, twice as long each time; after a number of them a person has to look. A stable
run is not a failure, and earlier failures are forgotten. A process that was killed is restarted
at once after its first failure: a kill from outside says nothing about its program.

A process that runs but gives no sign of life for long is ended: a restart is the only remedy for
one that is frozen. Nothing is judged while the source of the signs, a database say, is
unavailable.

Jobs of participants (`supervising.py`), components of Airflow, failed steps and failed deliveries
follow this one policy, each with its own numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

_DOUBLINGS_MAX = 20
"""More would make a large number of failures a large number of bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """The numbers of one kind of supervised thing; without `failures_max` it is never given up.

    A first sign of life is waited for `start_ms_max`, each later one `silent_ms_max`.
    """

    back_off_ms: int
    back_off_ms_max: int
    failures_max: int | None = None
    stable_ms: int = 60_000
    start_ms_max: int = 120_000
    silent_ms_max: int = 30_000

    def wait_ms(self, failures: int) -> int:
        """How long after the last end the next start is: none without a failure.

        `back_off_ms` after one, then twice the wait before, up to `back_off_ms_max`.
        """
        if failures < 1:
            return 0
        doubled_ms = self.back_off_ms << min(failures - 1, _DOUBLINGS_MAX)
        return min(self.back_off_ms_max, doubled_ms)

    def failures_after(self, failures: int, ran_ms: int, *, is_at_fault: bool = True) -> int:
        """Failures in a row after one more run; one that is not at fault does not count."""
        return 0 if ran_ms >= self.stable_ms else failures + is_at_fault


# The decisions: what ended is started or not, what runs is left alone or ended.


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartNow:
    """Start it; nothing of it runs."""

    failures: int

    @property
    def because(self) -> str:
        """The reason, in words."""
        return f"{self.failures} in a row failed" if self.failures else "it is to run"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartLater:
    """Start it at that time, `wait_ms` after its end."""

    failures: int
    wait_ms: int
    until_ms: int

    @property
    def because(self) -> str:
        """The reason, in words."""
        return f"{self.failures} in a row failed: the next start waits {self.wait_ms / 1_000:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartNever:
    """Do not start it again: an operator has to act."""

    failures: int

    @property
    def because(self) -> str:
        """The reason, in words."""
        return f"{self.failures} in a row failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveRunning:
    """It has given a sign of life lately."""

    silent_ms: int

    @property
    def because(self) -> str:
        """The reason, in words."""
        return "it runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndSilent:
    """End it: it was silent for longer than the limit."""

    silent_ms: int
    limit_ms: int

    @property
    def because(self) -> str:
        """The reason, in words."""
        return f"no sign of life for {self.silent_ms // 1_000} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveUnjudged:
    """Leave it as it is while what it depends on is away."""

    is_running: bool

    @property
    def because(self) -> str:
        """The reason, in words."""
        return "its dependency does not answer" if self.is_running else "it waits for the database"


RestartDecision = RestartNow | RestartLater | RestartNever
SilenceDecision = LeaveRunning | EndSilent


def decide_restart(
    policy: RestartPolicy, *, failures: int, ended_ms: int, now_ms: int, was_killed: bool = False
) -> RestartDecision:
    """What to do about what has ended, after so many failures in a row.

    A clock that was set back behind the end delays nothing.
    """
    if policy.failures_max is not None and failures >= policy.failures_max:
        return RestartNever(failures=failures)
    wait_ms = 0 if was_killed and failures == 1 else policy.wait_ms(failures)
    if ended_ms <= now_ms < ended_ms + wait_ms:
        return RestartLater(failures=failures, wait_ms=wait_ms, until_ms=ended_ms + wait_ms)
    return RestartNow(failures=failures)


def decide_silence(
    policy: RestartPolicy, *, now_ms: int, heard_ms: int, has_begun: bool, judged_since_ms: int = 0
) -> SilenceDecision:
    """What to do about what runs and was last heard of, or else started, at `heard_ms`.

    `judged_since_ms`: before it, no sign could be seen.
    """
    silent_ms = now_ms - max(heard_ms, judged_since_ms)
    limit_ms = policy.silent_ms_max if has_begun else policy.start_ms_max
    if silent_ms > limit_ms:
        return EndSilent(silent_ms=silent_ms, limit_ms=limit_ms)
    return LeaveRunning(silent_ms=silent_ms)


# The state that a supervisor keeps of a thing which it starts itself.


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartState:
    """The state of one supervised thing. Times are of one clock; None: not since its last start.

    `failures` in a row; `restarts` in all, since the supervisor began.
    """

    name: str
    started_ms: int | None = None
    well_ms: int | None = None
    ended_ms: int | None = None
    failures: int = 0
    restarts: int = 0
    was_killed: bool = False
    is_given_up: bool = False

    def after_start(self, now_ms: int) -> RestartState:
        """It was started just now."""
        return replace(
            self,
            started_ms=now_ms,
            well_ms=None,
            restarts=self.restarts + (self.ended_ms is not None),
        )

    def after_sign(self, seen_ms: int) -> RestartState:
        """It was seen well; a sign from before its start is of an earlier life and is ignored."""
        if self.started_ms is None or seen_ms < self.started_ms:
            return self
        return replace(self, well_ms=max(seen_ms, self.well_ms or 0))

    def after_end(
        self, now_ms: int, policy: RestartPolicy, *, was_killed: bool, is_at_fault: bool = True
    ) -> RestartState:
        """It has ended. `is_at_fault` is false if a thing that it depends on was unavailable."""
        assert self.started_ms is not None, "only what was started ends"
        ran_ms = (self.well_ms or self.started_ms) - self.started_ms
        return replace(
            self,
            started_ms=None,
            well_ms=None,
            ended_ms=now_ms,
            failures=policy.failures_after(self.failures, ran_ms, is_at_fault=is_at_fault),
            was_killed=was_killed,
        )

    def after_giving_up(self) -> RestartState:
        """It is started no more."""
        return replace(self, is_given_up=True)


def decide_state(
    state: RestartState, policy: RestartPolicy, *, now_ms: int, judged_since_ms: int | None
) -> RestartDecision | SilenceDecision | LeaveUnjudged:
    """What to do about one thing now.

    `judged_since_ms`: since when without a break what it depends on (the database, and what tells
    of its signs of life) has answered; None: it does not answer now.
    """
    if state.started_ms is None:
        decided = decide_restart(
            policy,
            failures=state.failures,
            ended_ms=now_ms if state.ended_ms is None else state.ended_ms,
            now_ms=now_ms,
            was_killed=state.was_killed,
        )
        if judged_since_ms is None and not isinstance(decided, RestartNever):
            return LeaveUnjudged(is_running=False)
        return decided
    if judged_since_ms is None:
        return LeaveUnjudged(is_running=True)
    return decide_silence(
        policy,
        now_ms=now_ms,
        heard_ms=state.started_ms if state.well_ms is None else state.well_ms,
        has_begun=state.well_ms is not None,
        judged_since_ms=judged_since_ms,
    )
