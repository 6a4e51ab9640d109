"""The trigger hears what is said in homes, and finds out what it did not hear."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg2
import pytest

from medusa_core.commits import Lane
from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import known_homes
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.platform.jobs.supervised_homes import JobsOfHomes, open_jobs
from tests.airflow.runner import ROOT
from tests.conftest import folder_on_memory
from tests.home_pool import home_pool
from tests.supervising.conftest import ALPHA, BETA, write_contracts

HEARD_S_MAX = 60
HANG_UP = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = 'medusa trigger' AND datname = ANY (%s)"""


@pytest.fixture
def homes(postgres_server: EmbeddedServer) -> Iterator[Settings]:
    folder = folder_on_memory("medusa-triggers-")
    with home_pool(postgres_server, folder, ALPHA, BETA) as settings:
        apply_contracts(settings, ApplyRequest(contracts=write_contracts(folder / "contracts")))
        yield settings
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def listener(settings: Settings) -> Iterator[subprocess.Popen[str]]:
    extra = {"extra": {"directory": str(settings.directory)}, "password": settings.catalog_url}
    connection = {"conn_type": "medusa", **extra}
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.airflow.listening"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env=os.environ
        | {
            "AIRFLOW_HOME": str(settings.directory / "airflow"),
            "AIRFLOW_CONN_MEDUSA_DEFAULT": json.dumps(connection),
        },
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def heard(process: subprocess.Popen[str]) -> list[str]:
    """The participants of the next event."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], HEARD_S_MAX)
    assert ready, "nothing was heard"
    return list(json.loads(process.stdout.readline())["participants"])


def wants(jobs: JobsOfHomes, name: str, why: str) -> None:
    jobs.of(next(p for p in (ALPHA, BETA) if p == name)).desire(
        Lane.LIVE, is_desired=False, is_lasting=True, because=why, who="a test", renews=True
    )


def test_what_is_said_is_heard_and_what_was_missed_is_found_out(
    homes: Settings, postgres_server: EmbeddedServer
) -> None:
    with open_jobs(homes) as jobs, listener(homes) as process:
        assert heard(process) == ["alpha", "beta"], "a look comes first"
        began_s = time.monotonic()
        wants(jobs, BETA, "a word")
        assert heard(process) == ["beta"]
        assert time.monotonic() - began_s < HEARD_S_MAX
        with psycopg2.connect(postgres_server.superuser_url().replace("+psycopg2", "")) as owner:
            databases = list(known_homes(homes.directory).values())
            owner.cursor().execute(HANG_UP, (databases,))
        wants(jobs, ALPHA, "a word while nobody listens")
        assert heard(process) == ["alpha"]
