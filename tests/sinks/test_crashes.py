"""Killed before and after each numbered step of delivering, a target ends as if nothing had been.

`medusa deliver` is stopped at a point and killed there, from outside; then it is run again. A sink
beside it, delivered without a disturbance, says what must be there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from medusa_core.segments import Stability
from pipelines.base.failpoints import DELIVERY_POINTS, FILE, POINT
from tests.sinks.building import COPIES, URL_VARIABLE, Database, SinkHome, a_row, record_of
from tests.sweeps import long_but
from tests.waiting import until

END_S_MAX = 120
VICTIM, CALM = "victim", "calm"
FOLDER_POINTS = DELIVERY_POINTS[1:]
TABLE_POINTS = tuple(point for point in DELIVERY_POINTS[1:] if point != "sink.renamed")
"""Behind `sink.prepared` all."""

PASSES = [1, *(pytest.param(passes, marks=pytest.mark.crash) for passes in (2, 3))]
"""A run has at most three rows, so every delivery passes each point as often at least."""


def start(home: SinkHome, **environment: str) -> subprocess.Popen[str]:
    """`medusa deliver` to the victim, in a process group of its own."""
    command = [sys.executable, "-m", "pipelines.cli.main", "deliver", "--sink", VICTIM]
    return subprocess.Popen(
        [*command, "--participant", "alpha"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={
            **os.environ,
            "MEDUSA_DIR": str(home.settings.directory),
            "MEDUSA_CATALOG_URL": str(home.settings.catalog_url),
            URL_VARIABLE: home.target_url,
            **environment,
        },
    )


def kill_at(home: SinkHome, point: str) -> None:
    """Deliver up to a point and kill the process there."""
    announced = home.settings.directory / "reached"
    process = start(home, **{POINT: point, FILE: str(announced)})
    try:
        until(
            lambda: announced.exists() or process.poll() is not None,
            f"delivering reaches {point}",
            seconds_max=END_S_MAX,
        )
        assert announced.exists(), f"{point} was not reached: {process.communicate()[1]}"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=60)
        assert process.stderr is not None
        process.stderr.close()
        announced.unlink(missing_ok=True)


def finish(home: SinkHome) -> None:
    """Deliver all there is."""
    process = start(home)
    _, errors = process.communicate(timeout=END_S_MAX)
    assert process.returncode == 0, errors


def write_more(home: SinkHome, at: int) -> None:
    """Two buckets of final rows; behind them one that is tentative, corrected the next time."""
    home.write(COPIES, 2 * at, 2 * at + 1, [a_row(10 * at + i, 2 * at) for i in range(3)])
    home.write(COPIES, 2 * at + 1, 2 * at + 2, [a_row(at, 2 * at + 1), a_row(at + 1, 2 * at + 1)])
    guess = [a_row(at + i, 2 * at + 2, name="guess") for i in range(3)]
    home.write(COPIES, 2 * at + 2, 2 * at + 3, guess, stability=Stability.TENTATIVE)


def kill_everywhere(
    home: SinkHome, points: tuple[str, ...], passes: int, seen: Callable[[], list[int]]
) -> None:
    """Kill at every point, at its so-manieth pass; in between more is written.

    `seen` are the ids in the target: after each kill the first of those that are final.
    """
    write_more(home, 0)
    kill_at(home, "sink.prepared")  # once in the life of a target
    for position, point in enumerate(points):
        write_more(home, position + 1)
        kill_at(home, f"{point}:{passes}")
        final = [row["id"] for row in home.rows(COPIES)[:-3]]
        found = seen()
        assert found == final[: len(found)], f"nothing twice, nothing left out at {point}"
    finish(home)


def visible(folder: Path) -> dict[str, bytes]:
    """What a reader of the folder sees."""
    return {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.startswith(("_", "."))}


@pytest.mark.long
@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_folder_ends_as_if_nothing_had_been(
    home: SinkHome, tmp_path: Path, kind: str, passes: int
) -> None:
    for name in (VICTIM, CALM):
        home.declare(COPIES, name, kind=kind, path=str(tmp_path / name), rows_max=3)

    def ids() -> list[int]:
        return [ids_of(kind, row) for row in rows_of(kind, tmp_path / VICTIM)]

    kill_everywhere(home, FOLDER_POINTS, passes, ids)
    home.deliver(CALM)
    # A run is cut where the stable prefix ended when it began, so the files may be cut otherwise.
    assert rows_of(kind, tmp_path / VICTIM) == rows_of(kind, tmp_path / CALM)
    assert len(rows_of(kind, tmp_path / CALM)) == len(home.rows(COPIES)) - 3
    victim, calm = record_of(tmp_path / VICTIM), record_of(tmp_path / CALM)
    for fact in ("through_us", "rows", "lost_us", "version"):
        assert victim[fact] == calm[fact], fact
    assert not list((tmp_path / VICTIM).glob(".medusa-*")), "nothing half written is left"


def ids_of(kind: str, row: Any) -> int:
    return int(row["id"] if kind == "parquet" else row.split(",")[2])


def rows_of(kind: str, folder: Path) -> list[Any]:
    """The rows of a folder in the order of its files."""
    import pyarrow.parquet as pq

    rows: list[Any] = []
    for name, data in sorted(visible(folder).items()):
        if kind == "parquet":
            rows += pq.read_table(folder / name).to_pylist()
        else:
            rows += data.decode().splitlines()[1:]
    return rows


@pytest.mark.sweep
@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.parametrize(
    "is_keyed", long_but(0, [False, True]), ids=["appended", "by key, tentative too"]
)
def test_a_table_ends_as_if_nothing_had_been(
    home: SinkHome, database: Database, is_keyed: bool, passes: int
) -> None:
    more: dict[str, Any] = {"key": ["id"], "stability": "all"} if is_keyed else {}
    for name in (VICTIM, CALM):
        home.declare(
            COPIES,
            name,
            kind="postgres",
            url=f"${{{URL_VARIABLE}}}",
            table=name,
            rows_max=3,
            **more,
        )

    def ids() -> list[int]:
        return [] if is_keyed else [row["id"] for row in database.rows(VICTIM)]

    kill_everywhere(home, TABLE_POINTS, passes, ids)
    home.deliver(CALM)
    assert database.rows(VICTIM) == database.rows(CALM)
    expected = home.rows(COPIES) if is_keyed else home.rows(COPIES)[:-3]
    if is_keyed:
        expected = list({row["id"]: row for row in expected}.values())
    assert database.rows(CALM) == sorted(expected, key=itemgetter("at", "id"))
    facts = "SELECT through_us, rows, lost_us, version, overlay FROM medusa_sink WHERE target = %s"
    assert database.run(facts, VICTIM) == database.run(facts, CALM)
