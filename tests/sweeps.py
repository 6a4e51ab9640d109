"""Sweeps: what is drawn or counted is few in `make test` and all of it in `make test-long`.

`make test` shows every capability once on real parts. In `make test-long` the same tests go over
more examples, or over all cases, and tests are run that show a capability again or take long.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

IS_LONG = os.environ.get("MEDUSA_TEST_LONG") == "1"
"""Whether this is `make test-long`."""


def examples(few: int, many: int) -> int:
    """How many examples to draw; the test is marked `sweep`."""
    return many if IS_LONG else few


def long_but(first: int, cases: Iterable[Any]) -> Sequence[Any]:
    """Cases of a parametrized test: all but the first so many are left to `make test-long`."""
    return [
        case if number < first else pytest.param(*_values(case), marks=pytest.mark.long)
        for number, case in enumerate(cases)
    ]


def _values(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
