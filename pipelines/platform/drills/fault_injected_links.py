"""A participant's links to its partners, with the faults injected by drills in its folder.

The faults are read on every call to a partner, which costs a `stat` while nothing changes: over a
cut link the call fails as with a partner that does not answer; over a slow one it takes longer. A
file that cannot be read cuts nothing, and is reported once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.platform.drills.link_faults import FILE, NOTHING, LinkFaults, read_faults

TIMEOUT_MS = 5_000
"""How long an answer is waited for over a slow link."""

Looked = tuple[int, int, int] | str | None
"""By which a file that has changed is known: its time, number and size; why it has none."""


class FaultInjectedLinks:
    """The links of one participant; `on_error` receives a faults file that cannot be read."""

    def __init__(
        self,
        directory: Path,
        here: Participant,
        on_error: Callable[[Exception], None] = lambda error: None,
        *,
        now_s: Callable[[], float] = clock.wall_s,
        sleep: Callable[[float], None] = clock.sleep_s,
    ) -> None:
        self._file = directory / FILE
        self._path = os.fspath(self._file)
        self._here = here
        self._on_error = on_error
        self._now_s = now_s
        self._sleep = sleep
        self._looked: Looked = None
        self._faults = NOTHING

    def ask(self, partner: Participant) -> None:
        """A request is sent to a partner; Unavailable if it does not reach it in time."""
        faults = self._read()
        if faults is NOTHING:
            return
        if faults.is_lost(self._here, partner, self._now_s()):
            raise Unavailable(f"partner {partner} is not reached: the link is cut by a drill")
        by_ms = faults.by_ms(self._here, partner, self._now_s())
        if by_ms:
            self._sleep(min(by_ms, TIMEOUT_MS) / 1_000)
        if by_ms > TIMEOUT_MS:
            raise Unavailable(
                f"partner {partner} does not answer within {TIMEOUT_MS // 1_000} s: the link is "
                "slowed down by a drill"
            )

    def hear(self, partner: Participant) -> None:
        """A partner's answer is sent; Unavailable if it does not arrive."""
        faults = self._read()
        if faults is not NOTHING and faults.is_lost(partner, self._here, self._now_s()):
            raise Unavailable(f"partner {partner} does not answer: the link is cut by a drill")

    def carries_notification(self, partner: Participant) -> bool:
        """Whether a partner's notification arrives: not over a link that is slow or lost.

        It is an answer to a request, so both ways are needed.
        """
        faults, now_s = self._read(), self._now_s()
        return not (
            faults.is_lost(self._here, partner, now_s)
            or faults.is_lost(partner, self._here, now_s)
            or faults.by_ms(self._here, partner, now_s)
        )

    def _read(self) -> LinkFaults:
        looked = self._look()
        if looked != self._looked:
            faults = NOTHING
            if looked is not None:
                try:
                    faults = read_faults(self._file)
                except Refused as error:
                    self._on_error(error)
            # In this order: another thread takes the faults that it finds for the newest.
            self._faults = faults
            self._looked = looked
        return self._faults

    def _look(self) -> Looked:
        try:
            found = os.stat(self._path, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            return str(error)
        return found.st_mtime_ns, found.st_ino, found.st_size
