"""Sweeps: what is drawn or counted is few in `make test` and all of it in `make test-long`.

`make test` shows every capability once on real parts. In `make test-long` the same tests go over
more examples, or over all cases, and tests are run that show a capability again or take long.

    MEDUSA_TEST_PART=3 make test-long

draws a third of the examples and of the sample of mutants, but never fewer than `make test` draws,
and runs a third of the cases that `long_but` leaves to it, of the networks in every mode, of the
gaps at which processes are killed, and of the pages and examples whose commands are typed. Spark
then evaluates expressions as in `make test` (tests/generated_code.py). A property of which it would
draw no more than `make test` does, and that says no number, is left to that; every other test still
runs. Of the drawn networks, MEDUSA_DIFFERENTIAL names a part (tests/spark/test_differential.py).

    MEDUSA_TEST_PART=3 MEDUSA_TEST_TURN=4 make test-long

runs another third of the cases, and one half of the files of tests: a number from 0 to 5 names each
third of each half. `.ci/run` takes it from the hash of the commit, so that all of them run over
some commits, and prints the command that runs the same tests again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

IS_LONG = os.environ.get("MEDUSA_TEST_LONG") == "1"
"""Whether this is `make test-long`."""

PART = int(os.environ.get("MEDUSA_TEST_PART") or 1)
"""What is drawn is divided by this number."""

GIVEN_TURN = os.environ.get("MEDUSA_TEST_TURN")
TURN = int(GIVEN_TURN or 0)
"""Which of the parts is run, and of which half of the files."""


def examples(few: int, many: int) -> int:
    """How many examples to draw; the test is marked `sweep`.

    Where `make test-long` has the smaller number, it is no number of examples and stays.
    """
    if not IS_LONG:
        return few
    return many if many <= few else max(few, many // PART)


def long_but(first: int, cases: Iterable[Any], *, quick: bool = False) -> Sequence[Any]:
    """Cases of a parametrized test: all but the first so many are left to `make test-long`.

    `quick` is for rooms whose tests run against mutants: those of the rest do so as before.
    """
    return [
        _long(case, quick) if number >= first and is_of_part(number - first) else case
        for number, case in enumerate(cases)
    ]


def is_of_part(number: int) -> bool:
    """Whether a case is one of those that this run of `make test-long` has: each `PART`-th."""
    return not IS_LONG or number % PART == TURN % PART


def each_of_part(cases: Iterable[str]) -> tuple[str, ...]:
    """The cases that this run of `make test-long` has, of a test that goes over all of them.

    It has at least one, also where there are fewer cases than parts.
    """
    every = tuple(cases)
    if not IS_LONG or not every:
        return every
    return every[TURN % min(PART, len(every)) :: PART]


def is_file_of_turn(path: Path) -> bool:
    """Whether this run of `make test-long` has a file of tests.

    If a turn is given, it has every other file of each folder.
    """
    if not IS_LONG or not GIVEN_TURN:
        return True
    return _files_of(path.parent).index(path) % 2 == TURN // PART % 2


@cache
def _files_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("test_*.py"))


def _long(case: Any, quick: bool) -> Any:
    mark = pytest.mark.long(quick=True) if quick else pytest.mark.long
    if isinstance(case, _Param):
        return pytest.param(*case.values, marks=[*case.marks, mark], id=case.id)
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=mark)


_Param = type(pytest.param())
