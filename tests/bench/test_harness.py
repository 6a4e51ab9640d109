"""The comparisons run and compare equal results; their figures are computed as they say.

No test here looks at a speed: a busy machine is no fault.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from bench import figures, report
from bench.__main__ import work_folder
from bench.contender import Milliseconds
from bench.growth import Growth, measure_growth
from bench.rounds import Measured, measure
from bench.workload import (
    CLOSING_WINDOWS,
    QUERIES,
    WINDOW_US,
    Workload,
    judged_rows,
    start_us,
    window_records,
)
from tests.conftest import folder_on_memory


def steps(*totals: float) -> tuple[Milliseconds, ...]:
    return tuple({"total": total} for total in totals)


def measured_steps(records: int, **totals: tuple[float, ...]) -> Measured:
    workload = Workload(query="three", records=records, steps=3, warm_up=0)
    return Measured(
        workload=workload, steps={name: steps(*ms) for name, ms in totals.items()}, rows={}
    )


def test_a_step_at_a_third_of_the_time_of_streaming_misses_the_bound_for_small_steps() -> None:
    measured = measured_steps(
        1_000, bare=(50, 50, 50), streaming=(100, 300, 200), medusa=(50, 100, 65)
    )
    (target,) = figures.targets_of(measured)
    assert target.measured == pytest.approx(65 / 200)
    assert target.paired == pytest.approx(1 / 3)
    assert not target.is_met


def test_throughput_at_large_steps_is_compared_with_both_others() -> None:
    measured = measured_steps(
        250_000, bare=(95, 95, 95), streaming=(210, 210, 210), medusa=(100, 100, 100)
    )
    by_bare, by_streaming = figures.targets_of(measured)
    assert by_bare.measured == pytest.approx(0.95)
    assert by_bare.is_met
    assert by_streaming.measured == pytest.approx(2.1)
    assert by_streaming.is_met


def test_growth_compares_the_largest_catalog_with_the_smallest() -> None:
    growth = Growth(
        segments={100: 101, 1_000: 1_002},
        ticks={100: steps(10, 10), 1_000: steps(13, 13)},
        fill_s={100: 0, 1_000: 0},
    )
    (target,) = figures.growth_targets_of(growth)
    assert target.measured == pytest.approx(1.3)
    assert not target.is_met


def test_nine_in_ten_values_are_not_above_the_90th_percentile() -> None:
    assert figures.p90(range(1, 11)) == 9
    assert figures.p90([5.0]) == 5.0


def test_all_records_of_a_window_lie_in_it() -> None:
    for records in (1, 1_000, 70_000):
        workload = Workload(query="one", records=records, steps=1, warm_up=0)
        stimes = window_records(workload, 3)["_stime"].to_pylist()
        assert len(stimes) == records
        assert start_us(3) <= stimes[0] <= stimes[-1] < start_us(3) + WINDOW_US


@pytest.mark.long
def test_contenders_compute_what_another_engine_computes(tmp_path: Path) -> None:
    """The whole harness with two steps: processes, both kinds of result files, a judge."""
    workload = Workload(query="three", records=1_000, steps=1, warm_up=1)
    with work_folder(tmp_path) as folder:
        measured = measure(workload, folder, lambda line: None, ("streaming", "medusa"))
    assert all(measured.rows.values()), "a comparison of nothing with nothing"
    assert {name: len(ms) for name, ms in measured.steps.items()} == {"streaming": 1, "medusa": 1}
    json.dumps(figures.document_of(measured))
    assert "c Medusa" in "\n".join(report.lines_of(measured))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_ticks_over_a_filled_catalog_each_compute_the_next_window() -> None:
    folder = folder_on_memory("medusa-bench-")
    try:
        growth = measure_growth((10, 100), 2, 1, folder, lambda line: None)
    finally:
        shutil.rmtree(folder)
    assert growth.segments[100] >= 100 > growth.segments[10] >= 10
    json.dumps(figures.growth_document_of(growth))
    assert "knowledge" in "\n".join(report.growth_lines_of(growth))


def test_the_judge_counts_prefixes_of_ipv4_scanners_only(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    at = start_us(0)
    sources = ["198.51.100.1"] * 11 + ["198.51.100.2"] * 11 + ["2001:db8::1"] * 11
    table = pa.table({"orig_h": sources, "resp_p": list(range(11)) * 3, "_stime": [at] * 33})
    pq.write_table(table, tmp_path / "w.parquet")
    rows = judged_rows(QUERIES["three"], [tmp_path / "w.parquet"])
    assert rows["scanning_prefixes"] == [(at // 1_000_000, "198.51.100.0/24", 2)]
    assert len(rows["scanning_sources"]) == 3
    assert rows["busy_sources"] == []
    assert CLOSING_WINDOWS == 2
