"""Two participants whose jobs a test supervises; all that it starts is gone at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from medusa_core.commits import Lane
from medusa_core.names import Participant
from medusa_core.supervising import JobPolicy
from medusa_core.supervision import Job, ProcessState
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.supervision import PostgresSupervision
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import known_homes
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.platform.jobs.job_processes import inspect_process, reap, signal_process
from pipelines.platform.jobs.lane_lock import occupied_ms
from pipelines.platform.jobs.launch import Launch
from pipelines.platform.jobs.supervised_homes import JobsOfHomes, open_jobs
from pipelines.platform.jobs.supervision_tick import SupervisionTick, supervise_home
from tests.conftest import folder_on_memory
from tests.home_pool import home_pool
from tests.waiting import until

ALPHA, BETA = Participant("alpha"), Participant("beta")
LEASE_S = 2.0
BEGINS_S_MAX = 180
NETWORK = """
from medusa_core.network import Filter, Network, Output, Source

network = Network(
    name="kept",
    sources=(Source(name="given", columns={"ts_us": "bigint", "orig_h": "string", "resp_p": "int"},
                    time="ts_us"),),
    boxes=(Filter(name="low", input="given", cases={"yes": "resp_p < 1024"}, fragment="main"),),
    outputs=(Output(name="lower", input="low"),),
    bucket="1s",
)
"""


def write_contracts(folder: Path) -> Path:
    """Alpha lands what is generated, and nothing else; beta computes from it."""
    for kind in ("participants", "streams", "networks"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    (folder / "networks" / "kept.py").write_text(NETWORK)
    for name, does in (("alpha", "sources: [given]"), ("beta", "fragments: [main]")):
        (folder / "participants" / f"{name}.yaml").write_text(
            f"participant: {name}\nruns:\n  - network: networks/kept.py\n    {does}\n"
        )
    (folder / "streams" / "given.yaml").write_text(
        "stream: given\nsource: {kind: generate, seed: 1, rate_per_s: 20, sources: 4}\n"
    )
    return folder


@dataclass
class Supervised:
    """Homes in a folder, and what a supervisor does with them."""

    settings: Settings
    jobs: JobsOfHomes
    launch: Launch
    met: dict[int, Job] = field(default_factory=dict)

    def store(self, name: Participant = ALPHA) -> PostgresSupervision:
        return self.jobs.of(name)

    def wants(
        self, wanted: bool = True, *, name: Participant = ALPHA, lane: Lane = Lane.LIVE,
        lasting: bool = True,
    ) -> int:  # fmt: skip
        return self.store(name).desire(
            lane, is_desired=wanted, is_lasting=lasting, because="a test", who="a test"
        )

    def tick(self, name: Participant = ALPHA, policy: JobPolicy | None = None) -> SupervisionTick:
        tick = supervise_home(name, self.store(name), self.launch, policy)
        self.all_jobs(name)
        return tick

    def all_jobs(self, name: Participant = ALPHA) -> tuple[Job, ...]:
        found = self.store(name).read().jobs
        self.met.update({job.pid: job for job in found if job.pid is not None})
        return found

    def open_job(self, name: Participant = ALPHA) -> Job | None:
        return next((job for job in self.all_jobs(name) if job.ended_at_ms is None), None)

    def begun(self, name: Participant = ALPHA) -> Job:
        """The open job, once its process says that it is there."""

        found: list[Job] = []

        def has_begun() -> bool:
            job = self.open_job(name)
            if job is not None and job.begun_at_ms is not None:
                found.append(job)
            return bool(found)

        until(has_begun, f"the job of {name} begins", seconds_max=BEGINS_S_MAX)
        return found[0]

    def holders(self, name: Participant = ALPHA) -> set[str]:
        """Who holds leases there now."""
        return {held.holder for held in self.store(name).read().held}

    def taken(self, name: Participant = ALPHA) -> set[str]:
        """Who holds leases, once somebody does: short ones may have lapsed at the next look."""
        found: set[str] = set()
        until(
            lambda: found.update(self.holders(name)) or found,
            f"leases of {name} are taken",
            BEGINS_S_MAX,
        )
        return found

    def wait_until_free(self) -> None:
        """A killed process' leases, and the lane held by what it had started, may outlast it."""
        directory = self.settings.directory
        for name in known_homes(directory):
            until(
                lambda name=name: (
                    not self.holders(name)  # type: ignore[misc]
                    and all(occupied_ms(directory, name, lane) is None for lane in Lane)
                ),
                f"nobody drives {name}",
                BEGINS_S_MAX,
            )

    def supervisor(self, *more: str, **environment: str) -> subprocess.Popen[str]:
        """`medusa supervise` as a process of its own."""
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "pipelines.cli.main",
                "supervise",
                "--lease",
                str(LEASE_S),
                *more,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.environment(), **environment},
        )

    def environment(self) -> Mapping[str, str]:
        return {
            "MEDUSA_DIR": str(self.settings.directory),
            "MEDUSA_CATALOG_URL": self.settings.catalog_url or "",
        }

    def end_all(self) -> None:
        """Whatever was met is ended, as by kill -9."""
        for name in known_homes(self.settings.directory):
            self.all_jobs(name)
        for job in self.met.values():
            signal_process(job, signal.SIGKILL)
        for job in self.met.values():
            until(
                lambda job=job: inspect_process(job) is ProcessState.GONE,
                f"process {job.pid} is gone",
            )  # type: ignore[misc]
        reap()


@pytest.fixture(scope="module")
def homes(postgres_server: EmbeddedServer) -> Iterator[Settings]:
    """The homes of a module."""
    import shutil

    folder = folder_on_memory("medusa-supervised-")
    with home_pool(postgres_server, folder, ALPHA, BETA) as settings:
        apply_contracts(settings, ApplyRequest(contracts=write_contracts(folder / "contracts")))
        yield settings
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def supervised(homes: Settings) -> Iterator[Supervised]:
    """A supervisor's view, with leases that are short; nothing is wanted and nothing runs after."""
    with open_jobs(homes) as jobs:
        made = Supervised(homes, jobs, Launch(settings=homes, lease_s=LEASE_S))
        made.wait_until_free()
        try:
            yield made
        finally:
            made.end_all()
            for name in known_homes(homes.directory):
                for lane in Lane:
                    made.wants(False, name=name, lane=lane, lasting=False)
                for job in made.all_jobs(name):
                    if job.ended_at_ms is None and job.pid is None:
                        made.store(name).end(job.id, None, "the test has ended")
                made.tick(name)
                assert made.open_job(name) is None
