"""Many streams: what the samples come to, and when a bound is broken."""

from __future__ import annotations

from pathlib import Path

import pyarrow.csv
import pytest

from bench.home_samples import slope
from bench.streams import broken_bounds, figures_of, lines_of
from bench.streams_made import Writer, write_contracts
from pipelines.contracts.streams import read_streams
from pipelines.language.load import load_network


def a_sample(at_s: float, behind_s: float) -> dict[str, float]:
    counted = ("landed", "batches", "commits", "spark_jobs", "python CPU s", "JVM CPU s",
               "server CPU s")  # fmt: skip
    return {
        "at_s": at_s, "behind_s": behind_s, "python RSS MiB": 1.0, "threads": 7.0,
        **dict.fromkeys(counted, at_s),
    }  # fmt: skip


def measured(
    streams: int, *, slope_s: float = 0.0, cost_ms: float = 10.0, threads: float = 0.0
) -> dict[str, object]:
    figures = {
        "lag slope s/min": slope_s, "CPU ms per stream": cost_ms, "threads begun": threads
    }  # fmt: skip
    return {"streams": streams, "figures": figures}


def test_a_lag_that_swings_by_a_bucket_has_no_slope() -> None:
    swinging = [(at * 2.3, (at * 2.3) % 10) for at in range(80)]
    assert abs(60 * slope(swinging)) < 0.2
    growing = [(at, behind + at / 10) for at, behind in swinging]
    assert 60 * slope(growing) == pytest.approx(6, abs=0.3)


def test_costs_are_reported_per_bucket() -> None:
    figures = figures_of(2, [a_sample(0, 5), a_sample(10, 5), a_sample(20, 5)])
    assert figures["commits"] == 10
    assert figures["CPU ms per stream"] == 15_000


def test_a_lag_that_grows_and_a_stream_that_costs_more_among_many_are_broken_bounds() -> None:
    assert broken_bounds([measured(100), measured(1_000, cost_ms=11)]) == []
    assert len(broken_bounds([measured(100), measured(1_000, slope_s=2, cost_ms=13)])) == 2
    assert next(lines_of([measured(100)])).split() == ["streams", "100"]


def test_threads_that_nothing_ends_are_a_broken_bound() -> None:
    assert broken_bounds([measured(100, threads=2)]) == []
    assert len(broken_bounds([measured(100, threads=160)])) == 1


def test_the_network_that_is_made_is_one_and_its_files_hold_every_stream(tmp_path: Path) -> None:
    inbox = write_contracts(tmp_path / "contracts", 7, bucket="10s", retention="10m")
    network = load_network(str(tmp_path / "contracts" / "networks" / "sensors.py"))
    assert len(network.sources) == len(network.outputs) == 7
    sources = [s for s in read_streams(tmp_path / "contracts") if s.source]
    assert [s.stream for s in sources] == [source.name for source in network.sources]
    writer = Writer(inbox, 7, per_stream=3.0, every_s=1.0)
    writer.write(0)
    (file,) = inbox.glob("*.csv")
    assert (
        pyarrow.csv.read_csv(file)["sensor"].value_counts().field("counts").to_pylist() == [3] * 7
    )
