"""Waiting for a state of the catalogs while participants run; an early end is detected."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.federation import Federation
from bench.processes import ContenderFailed

SETTLE_S_MAX = 180.0
LOOK_AGAIN_S = 0.5


def wait_until(at_s: float, federation: Federation) -> None:
    """Until a time by the machine's clock: a failure lasts as long as it is to last.

    Raises ContenderFailed as soon as a participant has ended.
    """
    while (left_s := at_s - time.time()) > 0:
        federation.check_all_run()
        time.sleep(min(left_s, LOOK_AGAIN_S))


def until(
    holds: Callable[[], bool], what: str, federation: Federation, s_max: float = SETTLE_S_MAX
) -> None:
    """Until something holds; raises ContenderFailed with everybody's last words if it does not."""
    ends_s = time.monotonic() + s_max
    while not holds():
        federation.check_all_run()
        if time.monotonic() > ends_s:
            output = " · ".join(
                f"{who}: {federation.last_words(who)[-300:]}" for who in federation.running
            )
            raise ContenderFailed(f"waited {s_max:g} s in vain until {what} ({output})")
        time.sleep(LOOK_AGAIN_S)
