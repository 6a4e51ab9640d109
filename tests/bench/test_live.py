"""Live participants at a rate: the recording that is played, and what the samples come to."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from bench.live import main
from bench.live_figures import LiveRun, lines_of, wanted_of
from bench.live_made import BLOCK_S, CHAIN, DISORDER_S, NETWORK, write_contracts, write_recording
from pipelines.contracts.federation import read_federation
from pipelines.language.load import load_network
from pipelines.sources.generator import START_US


def a_run(rate: int, *, landed: float, lag_per_s: float = 0.0) -> LiveRun:
    """A minute of one participant that takes 0.1 s of CPU a second, half of it the JVM's."""
    samples = []
    for at in range(61):
        home = {
            "at_s": float(at), "lag_s": 2 + at * lag_per_s, "landed": at * landed,
            "commits": 2.0 * at, "python CPU s": 0.05 * at, "JVM CPU s": 0.05 * at,
        }  # fmt: skip
        server = {"at_s": float(at), "server CPU s": 0.02 * at}
        samples.append({"postgres": server, "alpha": home})
    parts = {"alpha": {"landing/connections": 0.06, "deciding": 0.04}}
    return LiveRun(rate=rate, samples=samples, parts=parts, phases={"alpha": {"spark": 40.0}})


@pytest.mark.parametrize("rate", [1_000, 80_000])
def test_each_second_of_a_recording_has_the_rate_of_records(rate: int, tmp_path: Path) -> None:
    files = write_recording(tmp_path / "recording", rate=rate, seconds=2 * BLOCK_S)
    assert len(files) == 2
    times_us = np.concatenate([pq.read_table(file)["ts_us"].to_numpy() for file in files])
    assert len(times_us) == 2 * BLOCK_S * rate
    assert times_us.min() == START_US
    blocks = np.bincount((times_us - START_US) // (BLOCK_S * 1_000_000))
    assert list(blocks) == [BLOCK_S * rate] * 2
    behind_us = np.maximum.accumulate(times_us) - times_us
    assert 0 < behind_us.max() <= DISORDER_S * 1_000_000


@pytest.mark.parametrize("homes", [1, 3])
def test_each_home_of_a_chain_has_its_own_task(homes: int, tmp_path: Path) -> None:
    files = write_recording(tmp_path / "recording", rate=1_000, seconds=1)
    contracts = write_contracts(tmp_path / "contracts", homes, files)
    federation = read_federation(contracts, tmp_path)
    assert {p.participant for p in federation.participants} == set(CHAIN[:homes])
    network = load_network(str(contracts / NETWORK))
    fragments = {box.fragment for box in network.boxes}
    assert fragments == ({"main"} if homes == 1 else {"middle", "last"})


def test_a_rate_is_sustained_while_all_of_it_lands_and_no_lag_grows() -> None:
    assert a_run(200_000, landed=199_000).is_sustained
    assert not a_run(200_000, landed=150_000).is_sustained
    assert not a_run(200_000, landed=200_000, lag_per_s=0.1).is_sustained


def test_the_largest_sustained_rate_is_compared_with_the_promise() -> None:
    runs = [a_run(100_000, landed=100_000), a_run(200_000, landed=150_000)]
    (wanted,) = wanted_of(runs)
    assert (wanted.measured, wanted.verdict) == (100_000, "MISSED")
    (wanted,) = wanted_of([a_run(200_000, landed=200_000)])
    assert wanted.verdict == "met, goal missed"


def test_the_cpu_of_a_record_counts_every_process_and_the_server() -> None:
    text = "\n".join(lines_of(a_run(100_000, landed=100_000)))
    assert "1.20   0.12 cores" in text
    assert "landing/connections 0.60" in text
    assert "spark 40" in text


@pytest.mark.long
@pytest.mark.parametrize("homes", [1, 3])
def test_homes_compute_a_recording_that_is_played_and_are_measured(
    homes: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "live.json"
    times = ["--warm-up", "1", "--seconds", "4", "--every", "0.5"]
    assert main(["--homes", str(homes), "--rate", "500", *times, "--json", str(file)]) == 0
    (run,) = json.loads(file.read_text())["runs"]
    assert set(run["samples"][0]) == {"postgres", *CHAIN[:homes]}
    assert run["landed_per_s"] > 0
    assert "with flat lag" in capsys.readouterr().out
