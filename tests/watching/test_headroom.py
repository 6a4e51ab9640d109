"""The headroom of bounds as the driver tells it: a file, a line when it goes, a metric."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from medusa_core.bound_headroom import Headroom
from medusa_core.names import StreamName
from medusa_core.step_costs import Cost
from pipelines.homes.headroom_file import (
    OLD_AFTER_S,
    HeadroomFile,
    fact_of,
    headroom_sentence,
    read_headroom,
)
from pipelines.watching.metrics import Metrics
from pipelines.watching.watcher import Watcher
from tests.catalog import building as a
from tests.watching.homes import World

BUSY = Cost(slow_step_ms=4_700, wake_ms=500, blocked_ms=400, gather_ms=600)
NOW_S = 1_000.0


def a_headroom(step_ms: int = 100, cost: Cost | None = None) -> Headroom:
    return Headroom(
        fragment=a.MAIN,
        streams=(StreamName(a.SUMS), StreamName(a.BIG)),
        bound_ms=5_000,
        cost=cost or Cost(step_ms=step_ms),
        rest_ms=0,
        wait_ms=4_500,
    )


def events(directory: Path) -> list[dict[str, Any]]:
    path = directory / "logs" / "alpha.jsonl"
    lines = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return [line for line in lines if line["event"] == "headroom"]


def test_what_the_driver_writes_is_read_with_the_load_of_its_machine(tmp_path: Path) -> None:
    HeadroomFile(tmp_path, a.ALPHA).write([a_headroom(cost=BUSY)], NOW_S)
    (fact,) = read_headroom(tmp_path, a.ALPHA, NOW_S + 1)
    assert fact["streams"] == ["sums", "big"]
    assert (fact["bound_ms"], fact["needed_ms"], fact["is_kept"]) == (5_000, 6_200, False)
    assert fact["load"] >= 0
    assert fact["cores"] >= 1


def test_what_a_worker_writes_is_read_beside_what_the_driver_writes(tmp_path: Path) -> None:
    for worker, step_ms in ((None, 100), ("one", 200)):
        HeadroomFile(tmp_path, a.ALPHA, worker).write([a_headroom(step_ms)], NOW_S)
    assert [fact["step_ms"] for fact in read_headroom(tmp_path, a.ALPHA, NOW_S)] == [100, 200]
    HeadroomFile(tmp_path, a.ALPHA).write([a_headroom(300)], NOW_S + OLD_AFTER_S)
    assert len(read_headroom(tmp_path, a.ALPHA, NOW_S + OLD_AFTER_S)) == 1


def test_what_a_driver_wrote_that_does_not_run_any_more_is_not_known(tmp_path: Path) -> None:
    HeadroomFile(tmp_path, a.ALPHA).write([a_headroom()], NOW_S)
    assert read_headroom(tmp_path, a.ALPHA, NOW_S + OLD_AFTER_S) == []
    assert read_headroom(tmp_path, a.ALPHA, NOW_S - 60) == [], "the clock was set back"


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"written_at_s": "x"}', '{"written_at_s": 1000.0, "bounds": [{}]}',
     '{"written_at_s": 1000.0, "bounds": [1]}', '{"written_at_s": 1000.0, "bounds": 1}'],
)  # fmt: skip
def test_a_file_that_is_damaged_is_not_known(tmp_path: Path, text: str) -> None:
    HeadroomFile(tmp_path, a.ALPHA).write([a_headroom()], NOW_S)
    (tmp_path / "logs" / "alpha.headroom.json").write_text(text)
    assert read_headroom(tmp_path, a.ALPHA, NOW_S) == []


def test_the_sentence_says_which_bound_and_why_in_figures() -> None:
    fact = {**fact_of(a_headroom(cost=BUSY)), "load": 9.1, "cores": 2}
    assert headroom_sentence(fact) == (
        "sums, big: the bound of 5 s may not be kept on this machine now: an answer without an "
        "input may take 6.2 s (a step up to 4.7 s, the work around it 900 ms, 600 ms until its "
        "inputs are there; load 9.1 on 2 cores)"
    )
    elsewhere = fact_of(a_headroom(cost=BUSY), is_here=False)
    assert "load" not in headroom_sentence(elsewhere)


def test_the_log_says_once_that_a_bound_cannot_be_kept_and_once_that_it_can_again(
    tmp_path: Path,
) -> None:
    watcher = Watcher(a.ALPHA, tmp_path, network_of={a.MAIN: "example"})
    for step_ms in (100, 4_000, 5_000, 4_950, 4_850, 5_000, 4_850, 4_300, 4_000):
        watcher.headroom([a_headroom(step_ms)])
    lost, found = events(tmp_path)
    assert (lost["fragment"], lost["network"], lost["needed_ms"]) == (a.MAIN, "example", 5_100)
    assert lost["message"].startswith("sums, big: the bound of 5 s may not be kept on this machine")
    assert (found["needed_ms"], found["message"]) == (4_400, "the bound can be kept again")


def test_the_metric_is_below_zero_where_a_bound_cannot_be_kept() -> None:
    metrics = Metrics("alpha", str, World().catalog)
    for stream, left_ms in ((a.SUMS, 1_500), (a.BIG, -200)):
        metrics.headroom(stream, left_ms)
    name = "medusa_bound_headroom_seconds"
    found = {
        stream: metrics.registry.get_sample_value(name, {"participant": "alpha", "stream": stream})
        for stream in (a.SUMS, a.BIG)
    }
    assert found == {a.SUMS: 1.5, a.BIG: -0.2}


def test_the_file_is_written_once_a_second(tmp_path: Path) -> None:
    def written(headrooms: Sequence[Headroom], now_s: float) -> int:
        file.write(headrooms, now_s)
        (fact,) = read_headroom(tmp_path, a.ALPHA, now_s)
        return int(fact["step_ms"])

    file = HeadroomFile(tmp_path, a.ALPHA)
    now_s = time.time()
    assert written([a_headroom(100)], now_s) == 100
    assert written([a_headroom(200)], now_s + 0.5) == 100
    assert written([a_headroom(300)], now_s + 1.5) == 300
    assert written([a_headroom(400)], now_s - 60) == 400, "the clock was set back"
