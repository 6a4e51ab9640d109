"""Every parser takes whatever it is given: an answer, or one of Medusa's errors, and nothing else.

The short run is part of the suite; the long one (`make fuzz`) goes on for MEDUSA_FUZZ_SECONDS, 600
if it is not set, with other inputs each time.
"""

from __future__ import annotations

import os
import time

import pytest
from hypothesis import HealthCheck, given, seed, settings

from tests.hostile.fuzzing import TARGETS, feed, spoilt
from tests.hostile.judging import in_time
from tests.sweeps import examples

EXAMPLES = examples(8, 100)
EXAMPLES_AT_ONCE = 500
every_target = pytest.mark.parametrize("name", TARGETS)


def fuzz(name: str, count: int, number: int | None = None) -> None:
    """Feed a target; with a number other inputs than without."""
    target, seeds = TARGETS[name]

    @settings(
        max_examples=count, deadline=None, database=None, print_blob=True,
        derandomize=number is None, suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(data=spoilt(seeds))
    def once(data: bytes) -> None:
        feed(target, data)

    (once if number is None else seed(number)(once))()


@pytest.mark.sweep
@every_target
def test_a_parser_answers_or_raises_an_error_of_ours(name: str) -> None:
    with in_time(300):
        fuzz(name, EXAMPLES)


@pytest.mark.fuzz
@every_target
def test_a_parser_withstands_long_fuzzing(name: str) -> None:
    seconds = float(os.environ.get("MEDUSA_FUZZ_SECONDS", "600")) / len(TARGETS)
    ends = time.monotonic() + seconds
    number = time.time_ns()
    while time.monotonic() < ends:
        number += 1
        fuzz(name, EXAMPLES_AT_ONCE, number)
