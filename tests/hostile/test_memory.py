"""Small files that unpack to more than a machine has are read in bounded memory and time."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from tests.hostile.cases.dangerous import CASES
from tests.hostile.cases.shapes import FileCase
from tests.sweeps import IS_LONG

PEAK_BYTES_MAX = 1 << 30
"""Beyond the imports: a chunk of 256 MiB as text, as columns, and as what it is cut from."""

CPU_S_MAX = 10.0
"""Of one case; most take less than one."""

SECONDS_MAX = 600

QUICK = ("a line of 2 GiB", "JSON lines of brackets, 2 GiB", "Parquet: 20,000 columns")
"""One of each kind of file; `make test-long` reads them all."""


@pytest.fixture(scope="module")
def told() -> Mapping[str, Mapping[str, Any]]:
    """What came of each case, in a process of its own."""
    names = [case.name for case in CASES] if IS_LONG else QUICK
    ended = subprocess.run(
        [sys.executable, "-m", "tests.hostile.dangerous", *names],
        capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-2_000:]
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    return {line["name"]: line for line in lines}


@pytest.mark.sweep
@pytest.mark.parametrize(
    "case",
    [case if case.name in QUICK else pytest.param(case, marks=pytest.mark.long) for case in CASES],
    ids=lambda case: case.name,
)
def test_a_small_file_that_unpacks_to_much_costs_bounded_memory_and_time(
    case: FileCase, told: Mapping[str, Mapping[str, Any]]
) -> None:
    found = told[case.name]
    assert found["peak_bytes"] < PEAK_BYTES_MAX
    assert found["cpu_s"] < CPU_S_MAX
    if case.refused is not None:
        assert found["refused"] is not None
        assert re.search(case.refused, found["refused"])
        return
    assert (found["refused"], found["landed"]) == (None, case.landed)
    for (position, field, reason), expected in zip(found["aside"], case.quarantined, strict=False):
        assert (position, field) == expected[:2]
        assert re.search(expected[2], reason)
    assert bool(found["aside"]) == bool(case.quarantined)
