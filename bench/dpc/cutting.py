"""Cutting participants off from each other: the product's drill, which ends by itself."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from medusa_core.names import Participant
from pipelines.platform.drills import link_faults


def cut_off(
    directory: Path, ones: Iterable[str], other: str, lasts_s: float
) -> tuple[float, float]:
    """Nothing goes between these and another from now on, all at once, for so long.

    From when until when, in s by the machine's clock.
    """
    with link_faults.faults_alone(directory):
        from_s = time.time()
        until_s = from_s + lasts_s
        ways = [
            link_faults.Lost(Participant(sender), Participant(receiver), until_s)
            for one in ones
            for sender, receiver in ((one, other), (other, one))
        ]
        before = link_faults.read_faults(directory / link_faults.FILE)
        link_faults.write_faults(directory, before.at(from_s).with_lost(*ways))
    return from_s, until_s
