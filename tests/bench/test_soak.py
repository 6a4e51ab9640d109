"""The soak sees what a federation takes and tells what grew from what stayed.

No test here judges a real process: that takes an hour.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bench.backlog import put_files
from bench.federation import CONTRACTS, Federation, shipped_federation
from bench.process_tree import Sample, processes_of, sample_driver
from bench.recovery import contracts_by_the_second
from bench.soak import SERVER, soak, soaking
from bench.soak_figures import FLAT, Series, lines_of, slope_per_h, trend_of, trends_of
from medusa_core.network import Aggregate
from pipelines.contracts.federation import read_federation
from tests.conftest import folder_on_memory
from tests.sweeps import long_but
from tests.waiting import until

HOUR_S = 3_600.0
RUNS_S_MAX = 240
RSS, HEAP = "python RSS MiB", "JVM heap after GC MiB"


def every_minute(values: list[float]) -> list[tuple[float, float]]:
    return [(60.0 * at, value) for at, value in enumerate(values)]


def test_growth_beyond_a_bound_is_reported_and_flat_figures_pass() -> None:
    bound = FLAT[RSS]
    grown = 200 * (1 + bound.share) + bound.more + 1
    flat = trend_of("alpha", RSS, every_minute([200.0] * 40))
    grew = trend_of("alpha", RSS, every_minute([200 + (grown - 200) * at / 39 for at in range(40)]))
    grew_at_once = trend_of("alpha", RSS, every_minute([200.0] * 20 + [grown] * 20))
    assert flat.is_kept
    assert grew.is_kept, "its last quarter is below the bound in the middle"
    assert not grew_at_once.is_kept
    assert "GREW" in "\n".join(lines_of([flat, grew_at_once]))


def test_one_odd_sample_is_no_growth() -> None:
    assert trend_of("alpha", RSS, every_minute([200.0] * 39 + [5_000.0])).is_kept


def test_what_grows_by_nature_has_no_bound() -> None:
    trend = trend_of("alpha", "database MiB", every_minute([float(at) for at in range(40)]))
    assert trend.is_kept
    assert (trend.first, trend.last) == (4.5, 34.5)


def test_the_heap_is_compared_where_everything_was_collected() -> None:
    between = [900.0] * 38
    assert trend_of("delta", HEAP, every_minute([100.0, *between, 105.0])).is_kept
    assert not trend_of("delta", HEAP, every_minute([100.0, *between, 200.0])).is_kept


def test_the_slope_is_per_hour_and_not_moved_by_odd_samples() -> None:
    line = [(at * 60.0, 3.0 * at) for at in range(30)]
    assert slope_per_h(line) == pytest.approx(180)
    line[7] = (line[7][0], -1_000)
    assert slope_per_h(line) == pytest.approx(180, abs=1)


def test_nothing_is_judged_before_the_warm_up_has_ended() -> None:
    warming = every_minute([10.0 * at for at in range(10)] + [100.0] * 10)
    series: Series = {"alpha": {RSS: warming}}
    (trend,) = trends_of(series, warm_up_s=600)
    assert (trend.first, trend.last, trend.slope_per_h) == (100, 100, 0)
    assert trends_of(series, warm_up_s=HOUR_S) == []


def test_a_process_is_counted_with_all_that_it_started() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as parent:
        try:
            until(lambda: len(list(processes_of(parent.pid))) == 2, "the child has started")
            sample = sample_driver(parent.pid)
            assert sample["threads"] == 2
            assert 5 < sample["python RSS MiB"] < 100
        finally:
            assert parent.stdin is not None
            parent.stdin.close()
    assert list(processes_of(parent.pid)) == [parent.pid]
    assert sample_driver(parent.pid)["threads"] == 0


@pytest.mark.parametrize(
    "running", long_but(1, [["alpha"], ["alpha", "beta"]]), ids=["one lands", "one computes too"]
)
@pytest.mark.long
def test_a_participant_is_sampled_together_with_its_server_while_it_runs(
    running: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def has_all_running(sample: dict[str, Sample]) -> bool:
        threads = [sample[name]["threads"] for name in running]
        return min(threads) > 1 and sample[SERVER]["server processes"] > 5

    monkeypatch.setattr(Federation, "participants", running)
    folder = folder_on_memory("medusa-soak-")
    documents: dict[str, object] = {
        "participants/alpha.yaml": {
            "participant": "alpha",
            "runs": [{"network": "netmon", "sources": ["connections"]}],
        },
        "participants/beta.yaml": {
            "participant": "beta",
            "runs": [{"network": "netmon", "fragments": ["main"]}],
        },
        "streams/connections.yaml": {
            "stream": "connections",
            "source": {"kind": "generate", "rate_per_s": 50, "disorder": "300s"},
        },
    }
    for name, document in documents.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(yaml.safe_dump(document))
    with shipped_federation(folder, tmp_path) as federation:
        samples = soak(federation, duration_s=RUNS_S_MAX, every_s=1, warm_up_s=2)
        sample = next(sample for _, sample in samples if has_all_running(sample))
        federation.server.discard()
    shutil.rmtree(folder)
    for name in running:
        assert sample[name]["database MiB"] > 1
        assert sample[name]["files in storage"] >= sample[name]["files"]


def test_files_of_the_backlog_hold_the_records_that_are_counted(tmp_path: Path) -> None:
    put_files(tmp_path, 7, 2, 5)
    put_files(tmp_path, 9, 1, 0)
    lines = {f.name: len(f.read_text().splitlines()) for f in tmp_path.iterdir()}
    assert lines == {"000000007.csv": 6, "000000008.csv": 6, "000000009.csv": 0}


def test_recovery_has_a_step_to_make_every_second(tmp_path: Path) -> None:
    federation = read_federation(contracts_by_the_second(tmp_path / "contracts"), tmp_path)
    (placed,) = federation.networks
    assert placed.width_us == 1_000_000
    windows = {box.size for box in placed.plan.network.boxes if isinstance(box, Aggregate)}
    assert windows == {"1s"}
    assert set(federation.streams) == {source.name for source in placed.plan.network.sources}


def test_every_stream_of_a_soak_has_a_retention_and_a_share_of_the_rate(tmp_path: Path) -> None:
    contracts = soaking(CONTRACTS, tmp_path / "contracts", "10m", 30_000)
    federation = read_federation(contracts, tmp_path)
    (placed,) = federation.networks
    assert {s.name for s in placed.streams} == set(federation.streams)
    assert {c.retention_ms for c in federation.streams.values()} == {600_000}
    sources = [
        source
        for file in (contracts / "streams").glob("*.yaml")
        if (source := yaml.safe_load(file.read_text()).get("source"))
    ]
    assert [source["rate_per_s"] for source in sources] == [10_000] * 3
