"""A participant's job on a Spark cluster gives what it gives in its own process, whatever dies.

Minutes: `make cluster`. The job is started as `medusa supervise` starts it, by spark-submit.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from medusa_core.commits import Lane
from medusa_core.digest import Digest
from medusa_core.names import Participant, StreamName
from medusa_core.supervising import Job, ProcessState
from pipelines.base.settings import Settings, SparkSettings
from pipelines.homes.home import open_home
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.platform.jobs.job_processes import inspect_process, signal_process
from pipelines.platform.jobs.launch import Launch
from pipelines.platform.jobs.supervised_homes import open_jobs
from pipelines.platform.jobs.supervision_tick import supervise_home
from pipelines.quality.check_run import run_checks
from pipelines.quality.windows import WindowRequest
from tests.cluster.spark_cluster import SparkCluster, end, spark_cluster
from tests.conftest import folder_on_memory
from tests.federation.building import federation_of
from tests.replaying import parquet_files
from tests.waiting import until

if TYPE_CHECKING:
    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = pytest.mark.cluster

SOLO = Participant("solo")
OUTPUTS = ("counted", "parities")
ROWS = 300_000
ENDS_S_MAX = 900
Answers = Mapping[str, Mapping[int, Digest]]
NETWORK = """
import contextlib
import os
import time
from pathlib import Path

from medusa_core.network import Aggregate, Function, Network, Output, Source


def with_parity(frame):
    from pyspark.sql.functions import col, udf

    hold = Path(HOLD)

    def parity(number):
        if hold.exists():
            with contextlib.suppress(FileNotFoundError):
                (hold / str(os.getpid())).touch()
            while hold.exists():
                time.sleep(0.01)
        return bin(number).count("1") % 2

    return frame.select(udf(parity, "int")(col("resp_p")).alias("parity"), "stime")


network = Network(
    name="clustered",
    sources=(Source(name="given", columns={"ts_us": "bigint", "orig_h": "string", "resp_p": "int"},
                    time="ts_us"),),
    boxes=(
        Aggregate(name="per_source", input="given", size="10s", group_by=("orig_h",),
                  columns={"n": "count(*)", "ports": "count(distinct resp_p)"}, fragment="main"),
        Function(name="parity", input="given", function=with_parity, columns={"parity": "int"},
                 fragment="hatch"),
    ),
    outputs=(Output(name="counted", input="per_source"), Output(name="parities", input="parity")),
    bucket="10s",
)
"""
"""One fragment in SQL; one with a function of the user's, which workers have never heard of. It
waits while a folder is there, and says in it in which process."""
HOLD = "hold"


def write_contracts(folder: Path, records: Path) -> Path:
    """One participant that lands a recording, as fast as it can be read, and computes."""
    for kind in ("participants", "streams", "networks"):
        (folder / kind).mkdir(parents=True)
    network = NETWORK.replace("HOLD", repr(str(folder / HOLD)))
    (folder / "networks" / "clustered.py").write_text(network)
    (folder / "participants" / "solo.yaml").write_text(
        "participant: solo\nruns:\n  - network: networks/clustered.py\n"
        "    sources: [given]\n    fragments: [main, hatch]\n"
    )
    (folder / "streams" / "given.yaml").write_text(
        f"stream: given\nsource: {{kind: replay, paths: ['{records}'], speed: 1000000000}}\n"
    )
    return folder


@pytest.fixture(scope="module")
def contracts() -> Iterator[Path]:
    """Records of two minutes from 3,000 sources to as many ports."""
    chance = np.random.default_rng(7)
    times = np.sort(chance.integers(0, 120_000_000, ROWS)) + 1_600_000_000_000_000
    table = pa.table(
        {
            "ts_us": pa.array(times, pa.int64()),
            "orig_h": pa.array([f"host{n}" for n in chance.integers(0, 3_000, ROWS)]),
            "resp_p": pa.array(chance.integers(0, 3_000, ROWS), pa.int32()),
        }
    )
    folder = folder_on_memory("medusa-cluster-")
    (records,) = parquet_files(folder / "given", table)
    yield write_contracts(folder / "contracts", records)
    shutil.rmtree(folder)


@contextmanager
def home_of(server: EmbeddedServer, folder: Path, contracts: Path) -> Iterator[Settings]:
    """The participant's home, as its contracts make it."""
    with federation_of(server, folder) as settings:
        apply_contracts(settings, ApplyRequest(contracts=contracts))
        yield settings


@contextmanager
def supervised(settings: Settings, master: str | None) -> Iterator[Job]:
    """Its job, started as a supervisor starts it; gone at the end."""
    with open_jobs(settings) as jobs:
        store = jobs.of(SOLO)
        store.desire(Lane.LIVE, is_desired=True, is_lasting=False, because="a test", who="a test")
        launch = Launch(settings=settings, spark=SparkSettings(master=master))
        supervise_home(SOLO, store, launch)
        (job,) = (one for one in store.read().jobs if one.ended_at_ms is None)
        try:
            yield job
        finally:
            signal_process(job, signal.SIGKILL)
            until(lambda: inspect_process(job) is ProcessState.GONE, "the job is gone")


def wait_for_end(settings: Settings, job: Job) -> None:
    """Until the job has ended by itself, without an error."""
    until(lambda: inspect_process(job) is ProcessState.GONE, "the job ends", ENDS_S_MAX)
    with open_jobs(settings) as jobs:
        ended = next(one for one in jobs.of(SOLO).read().jobs if one.id == job.id)
    log = Launch(settings=settings).log(SOLO, Lane.LIVE)
    assert ended.exit_code == 0, (ended, log.read_text()[-2_000:])


def answers(settings: Settings) -> Answers:
    """Output -> bucket -> digest of its rows."""
    with open_home(settings, SOLO) as home:
        return {
            name: {
                at: digest
                for segment in home.catalog.segments(StreamName(name))
                for at, digest in segment.buckets.items()
            }
            for name in OUTPUTS
        }


@pytest.fixture(scope="module")
def local(
    postgres_server: EmbeddedServer, contracts: Path, tmp_path_factory: pytest.TempPathFactory
) -> Answers:
    """What the job says when its steps run in its own process, checked by another engine."""
    folder = tmp_path_factory.mktemp("local")
    with home_of(postgres_server, folder, contracts) as settings:
        with supervised(settings, None) as job:
            wait_for_end(settings, job)
        found = answers(settings)
        with open_home(settings, SOLO) as home:
            outcome = run_checks(home, WindowRequest(stream=None, from_us=None, to_us=None))
        assert outcome.passed, outcome
    assert len(found["counted"]) >= 12
    return found


@pytest.fixture
def cluster() -> Iterator[SparkCluster]:
    """A master and two workers of the test's own, so that it may kill them."""
    folder = folder_on_memory("medusa-spark-cluster-")
    try:
        with spark_cluster(folder) as made:
            yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_steps_on_two_workers_give_the_answers_of_a_local_run(
    postgres_server: EmbeddedServer, contracts: Path, cluster: SparkCluster, local: Answers,
    tmp_path: Path,
) -> None:  # fmt: skip
    with home_of(postgres_server, tmp_path / "home", contracts) as settings:
        with supervised(settings, cluster.url) as job:
            until(lambda: len(cluster.executors()) == 2, "both workers work", ENDS_S_MAX)
            wait_for_end(settings, job)
        assert answers(settings) == local


def test_a_worker_that_is_killed_during_a_step_changes_nothing(
    postgres_server: EmbeddedServer, contracts: Path, cluster: SparkCluster, local: Answers,
    tmp_path: Path,
) -> None:  # fmt: skip
    with home_of(postgres_server, tmp_path / "home", contracts) as settings:
        with held(contracts / HOLD) as at_work, supervised(settings, cluster.url) as job:
            until(lambda: len(cluster.executors()) == 2, "both have executors", ENDS_S_MAX)
            until(at_work, "a task runs", ENDS_S_MAX)
            worker = cluster.worker_of(at_work()[0])
            assert answers(settings)["parities"] == {}, "no step of the function has ended"
            end(worker)
            until(lambda: cluster.alive() == 1, "the master has noticed", ENDS_S_MAX)
            (contracts / HOLD).rename(contracts / "released")
            wait_for_end(settings, job)
        assert worker.returncode == -signal.SIGKILL
        assert answers(settings) == local
        told = Launch(settings=settings).log(SOLO, Lane.LIVE).read_text()
        assert "Lost executor" in told, "the driver has noticed"


@contextmanager
def held(folder: Path) -> Iterator[Callable[[], list[int]]]:
    """Tasks of the function wait as long as the folder is there; gives which processes do."""
    folder.mkdir()
    try:
        yield lambda: [int(one.name) for one in folder.iterdir()]
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # still there if the test has failed
