"""What an observer reads of a running participant: its catalog and its CPU time."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import psycopg2

from bench.federation import Federation
from bench.process_tree import Sample, processes_of

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def read_home(
    federation: Federation, participant: str, sql: str, values: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """The rows of a query in a participant's home, without a call to the participant."""
    url = federation.server.superuser_url(federation.databases[participant])
    with (
        closing(psycopg2.connect(url.replace("+psycopg2", ""))) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(sql, values)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def cpu_of_driver(driver: int) -> Sample:
    """CPU seconds so far of a driver's Python processes and of its JVM, ended children too."""
    found = {"python CPU s": 0.0, "JVM CPU s": 0.0}
    for pid in processes_of(driver):
        kind = "JVM CPU s" if _name(pid) == "java" else "python CPU s"
        found[kind] += _cpu_of(pid)
    return found


def cpu_of_server(postmaster: int) -> float:
    """CPU seconds so far of a Postgres server, ended sessions too."""
    return sum(map(_cpu_of, processes_of(postmaster)))


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _cpu_of(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS_A_SECOND


def slope(line: Sequence[tuple[float, float]]) -> float:
    """The median slope between all pairs of points that are half the line apart or more."""
    span = line[-1][0] - line[0][0]
    found = [
        (y2 - y1) / (x2 - x1)
        for at, (x1, y1) in enumerate(line)
        for x2, y2 in line[at + 1 :]
        if x2 - x1 >= span / 2
    ]
    return median(found) if found else 0.0
