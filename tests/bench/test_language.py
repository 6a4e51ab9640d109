"""Boxes with state against other engines: the same rows, and ratios as they say."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.contender import Milliseconds
from bench.language.cases import CASES
from bench.language.command import Measured, compare, lines_of, measure
from bench.processes import ContenderFailed
from bench.workload import Workload
from pipelines.language.check import check_network


def rows(folder: Path, name: str, keys: list[str]) -> list[Path]:
    folder.joinpath(name).mkdir()
    table = pa.table({"at_us": [1] * len(keys), "key": keys, "port": [2] * len(keys)})
    pq.write_table(table, folder / name / "rows.parquet")
    return [folder / name / "rows.parquet"]


def steps(*totals: float) -> tuple[Milliseconds, ...]:
    return tuple({"total": total, "cpu": total} for total in totals)


@pytest.mark.parametrize("name", CASES)
def test_every_case_is_a_network_with_records_at_different_times(name: str) -> None:
    case = CASES[name]
    check_network(case.network)
    for window in (0, 1):
        for stream in case.streams:
            times = case.records(stream, window, 1_000, 500)["at_us"].to_pylist()
            assert times == sorted(set(times))


def test_rows_that_one_contender_has_more_often_are_a_difference(tmp_path: Path) -> None:
    case = CASES["deduplicate"]
    own = rows(tmp_path, "medusa", ["a", "b"])
    twice = rows(tmp_path, "bare", ["a", "b", "b"])
    assert compare(case, {"medusa": own}, 10) == 2
    assert compare(case, {"medusa": own, "bare": twice}, 1) == 0
    with pytest.raises(ContenderFailed, match="deduplicate: bare has 1 other rows"):
        compare(case, {"medusa": own, "bare": twice}, 10)


def test_a_ratio_is_the_time_of_the_other_by_that_of_medusa() -> None:
    measured = Measured(
        case=CASES["join"],
        steps={"bare": steps(80, 80), "medusa": steps(100, 100), "streaming": steps(200, 300)},
        rows=7,
    )
    text = "\n".join(lines_of(measured))
    assert "0.80 x bare (paired 0.80), wanted >= 0.9: MISSED" in text
    assert "2.50 x streaming (paired 2.50), wanted >= 2.0: met" in text


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_all_contenders_of_a_case_compute_the_same_rows(name: str, tmp_path: Path) -> None:
    workload = Workload(query=name, records=500, steps=1, warm_up=2, sources=200)
    measured = measure(CASES[name], workload, tmp_path)
    assert measured.rows, "a comparison of nothing with nothing"
    assert {n: len(ms) for n, ms in measured.steps.items()} == dict.fromkeys(
        CASES[name].contenders, 1
    )
