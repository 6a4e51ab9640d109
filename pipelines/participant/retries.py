"""Retries of a failed step: later each time, while other fragments continue.

A step may lack something that no other needs: a file, memory, a commit that the catalog does not
accept now. So each fragment is delayed separately, its corrections apart from its new buckets. It
has a separate alarm, which ends with the next commit, or when there is nothing left to do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from medusa_core.errors import Unavailable
from medusa_core.restart import RestartPolicy

RETRIES = RestartPolicy(back_off_ms=500, back_off_ms_max=10_000)
"""Of steps and of the loop itself: they are never given up."""


@dataclass(frozen=True, slots=True)
class _PutOff:
    """How often in a row the step has failed, and until when it waits (ms)."""

    failures: int
    until_ms: int


class Retries:
    """What one driver has put off; `alarm` is given each reason, and None at its end."""

    def __init__(self, alarm: Callable[[str, str | None], None]) -> None:
        self._alarm = alarm
        self._put_off: dict[str, _PutOff] = {}

    def waits(self, of: str, now_ms: int) -> bool:
        """Whether this is put off at that time; a clock that was set back puts nothing off."""
        put_off = self._put_off.get(of)
        return put_off is not None and 0 < put_off.until_ms - now_ms <= RETRIES.back_off_ms_max

    def failed(self, of: str, error: Unavailable, now_ms: int) -> None:
        """A step could not be made."""
        last = self._put_off.get(of)
        failures = 1 + (last.failures if last else 0)
        wait_ms = RETRIES.wait_ms(failures)
        self._put_off[of] = _PutOff(failures, now_ms + wait_ms)
        self._alarm(of, str(error))

    def succeeded(self, of: str) -> None:
        """A commit was made."""
        if self._put_off.pop(of, None) is not None:
            self._alarm(of, None)

    def keep(self, due: Collection[str]) -> None:
        """Forget all but these, for which there is something to do."""
        for of in [one for one in self._put_off if one not in due]:
            self.succeeded(of)
