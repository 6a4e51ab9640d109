"""A query in SQL and in Python, and who runs it in its own process or on a cluster."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

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
from tests.federation.building import federation_of
from tests.waiting import until

if TYPE_CHECKING:
    from pipelines.catalog.server.embedded_server import EmbeddedServer

SOLO = Participant("solo")
OUTPUTS = ("counted", "parities", "seen")
ROWS = 300_000
ENDS_S_MAX = 900
Answers = Mapping[str, Mapping[int, Digest]]
NETWORK = """
import contextlib
import os
import time
from pathlib import Path

from medusa_core.network import Aggregate, Deduplicate, Function, Network, Output, Source


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
        Deduplicate(name="first", input="given", by=("orig_h",), within="60s", fragment="carried"),
    ),
    outputs=(Output(name="counted", input="per_source"), Output(name="parities", input="parity"),
             Output(name="seen", input="first")),
    bucket="10s",
)
"""
"""A fragment in SQL, one with a function of the user's, which workers have never heard of, and one
whose steps leave rows to the next. The function waits while a folder is there, and says in it in
which process."""
HOLD = "hold"


def write_contracts(folder: Path, records: Path, more: str = "") -> Path:
    """One participant that lands a recording, as fast as it can be read, and computes.

    `more` are lines of its file.
    """
    for kind in ("participants", "streams", "networks"):
        (folder / kind).mkdir(parents=True)
    network = NETWORK.replace("HOLD", repr(str(folder / HOLD)))
    (folder / "networks" / "clustered.py").write_text(network)
    (folder / "participants" / "solo.yaml").write_text(
        "participant: solo\nruns:\n  - network: networks/clustered.py\n"
        "    sources: [given]\n    fragments: [main, hatch, carried]\n" + more
    )
    (folder / "streams" / "given.yaml").write_text(
        f"stream: given\nsource: {{kind: replay, paths: ['{records}'], speed: 1000000000}}\n"
    )
    return folder


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


@contextmanager
def held(folder: Path) -> Iterator[Callable[[], list[int]]]:
    """Tasks of the function wait as long as the folder is there; gives which processes do."""
    folder.mkdir()
    try:
        yield lambda: [int(one.name) for one in folder.iterdir()]
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # still there if the test has failed
