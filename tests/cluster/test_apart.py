"""Workers that share no file with their driver compute what a local run does.

The driver, the master, two workers and the object store are machines of their own (network
namespaces). A worker has an empty folder in the place of the homes. Minutes: `make cluster`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipelines.base.settings import Settings
from tests.cluster.clustered import ENDS_S_MAX, HOLD, Answers, answers, held, write_contracts
from tests.cluster.spark_cluster import end
from tests.cluster.spark_machines import SparkMachines, spark_machines
from tests.federation.building import federation_of
from tests.networks.linked_homes import database_on
from tests.storage.object_server import BUCKET
from tests.waiting import until

if TYPE_CHECKING:
    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = pytest.mark.cluster

WORKERS = ("one", "two")


@dataclass(frozen=True)
class Apart:
    """A home whose driver is on one machine, and its files in the object store of another."""

    machines: SparkMachines
    settings: Settings
    contracts: Path

    def start(self) -> subprocess.Popen[str]:
        """Apply the contracts and run the participant until its records end."""
        applied = self.machines.driver.type(f"medusa apply --contracts {self.contracts}")
        assert applied.returncode == 0, applied.stderr
        return self.machines.driver.start("medusa run --until-ended", self._printed)

    @property
    def _printed(self) -> Path:
        return self.settings.directory.parent / "run.txt"

    def wait_for_end(self, job: subprocess.Popen[str]) -> None:
        assert job.wait(ENDS_S_MAX) == 0, self._printed.read_text()[-2_000:]

    def log(self) -> str:
        return (self.settings.directory / "drivers/solo/logs/spark.log").read_text()


@pytest.fixture
def apart(postgres_server: EmbeddedServer, records: Path, tmp_path: Path) -> Iterator[Apart]:
    with ExitStack() as stack:
        homes = tmp_path / "homes"
        settings = stack.enter_context(federation_of(postgres_server, homes))
        machines = stack.enter_context(spark_machines(tmp_path, WORKERS, homes))
        stack.enter_context(database_on(machines.driver, postgres_server))
        machines.driver.type(
            f"export MEDUSA_DIR={settings.directory} MEDUSA_CATALOG_URL='{settings.catalog_url}'"
        )
        contracts = write_contracts(
            tmp_path / "contracts", records,
            f"storage: s3://{BUCKET}/solo\nstorage_endpoint: {machines.store}\n"
            f"storage_ca_file: {machines.ca_file}\n",
        )  # fmt: skip
        yield Apart(machines, settings, contracts)


def test_workers_without_files_of_the_driver_give_the_answers_of_a_local_run(
    apart: Apart, local: Answers
) -> None:
    apart.wait_for_end(apart.start())
    assert answers(apart.settings) == local
    for worker in WORKERS:
        files = apart.machines.files_on(worker, apart.settings.directory)
        assert files, "its tasks have read objects"
        assert {path.parts[0] for path in files} == {"storage"}, "nothing else was shared"


def test_the_death_of_such_a_worker_during_a_step_changes_nothing(
    apart: Apart, local: Answers
) -> None:
    machines = apart.machines
    with held(apart.contracts / HOLD) as at_work:
        job = apart.start()
        until(lambda: machines.executors() == list(WORKERS), "both have executors", ENDS_S_MAX)
        until(at_work, "a task runs", ENDS_S_MAX)
        (killed,) = (name for name in WORKERS if at_work()[0] in machines.pids_on(name))
        end(machines.workers[killed])
        until(lambda: "Lost executor" in apart.log(), "the driver has noticed", ENDS_S_MAX)
        (apart.contracts / HOLD).rename(apart.contracts / "released")
        apart.wait_for_end(job)
    assert answers(apart.settings) == local
