"""The trigger hears what is said in homes, and finds out what it did not hear."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

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

HEARD_S_MAX = 180
HANG_UP = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = 'medusa trigger' AND datname = ANY (%s)"""


@pytest.fixture
def homes(postgres_server: EmbeddedServer) -> Iterator[Settings]:
    folder = folder_on_memory("medusa-triggers-")
    with home_pool(postgres_server, folder, ALPHA, BETA) as settings:
        apply_contracts(settings, ApplyRequest(contracts=write_contracts(folder / "contracts")))
        yield settings
    shutil.rmtree(folder, ignore_errors=True)


Lines = queue.Queue[str]


@contextmanager
def listener(settings: Settings) -> Iterator[Lines]:
    """What a process with the trigger prints."""
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
        lines: Lines = queue.Queue()

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                lines.put(line)

        reading = threading.Thread(target=read, daemon=True)
        reading.start()
        try:
            yield lines
        finally:
            process.kill()
            reading.join()


def heard(lines: Lines) -> list[str]:
    """The participants of the next event; queue.Empty if nothing is heard."""
    return list(json.loads(lines.get(timeout=HEARD_S_MAX))["participants"])


def wants(jobs: JobsOfHomes, name: str, why: str) -> None:
    jobs.of(next(p for p in (ALPHA, BETA) if p == name)).desire(
        Lane.LIVE, is_desired=False, is_lasting=True, because=why, who="a test", renews=True
    )


def test_what_is_said_is_heard_and_what_was_missed_is_found_out(
    homes: Settings, postgres_server: EmbeddedServer
) -> None:
    with open_jobs(homes) as jobs, listener(homes) as lines:
        assert heard(lines) == ["alpha", "beta"], "a look comes first"
        wants(jobs, BETA, "a word")
        assert heard(lines) == ["beta"]
        owner = psycopg2.connect(postgres_server.superuser_url().replace("+psycopg2", ""))
        with closing(owner), owner, owner.cursor() as cursor:
            cursor.execute(HANG_UP, (list(known_homes(homes.directory).values()),))
        wants(jobs, ALPHA, "a word while nobody listens")
        assert heard(lines) == ["alpha"]
