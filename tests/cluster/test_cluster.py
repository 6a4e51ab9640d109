"""A participant's job on a Spark cluster gives what it gives in its own process, whatever dies.

Minutes: `make cluster`. The job is started as `medusa supervise` starts it, by spark-submit.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from medusa_core.commits import Lane
from pipelines.platform.jobs.launch import Launch
from tests.cluster.clustered import (
    ENDS_S_MAX,
    HOLD,
    SOLO,
    Answers,
    answers,
    held,
    home_of,
    supervised,
    wait_for_end,
)
from tests.cluster.spark_cluster import SparkCluster, end, spark_cluster
from tests.conftest import folder_on_memory
from tests.waiting import until

if TYPE_CHECKING:
    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = pytest.mark.cluster


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
