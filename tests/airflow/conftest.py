"""One federation and one process with Airflow for the tests of a module."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from tests.airflow.runner import DAGS, ROOT
from tests.conftest import folder_on_memory
from tests.federation.building import federation_of

ANSWER_S_MAX = 240
"""Of a run of a DAG, which takes seconds: a hang is to be told before minutes add up."""


@dataclass
class Ran:
    """What became of a run of a DAG."""

    state: str
    note: str | None
    tasks: list[tuple[str, int, str]]
    xcoms: list[tuple[str, int, str, Any]]
    partitions: list[str]

    def states(self, task: str) -> list[str]:
        """Of each of its mapped tasks, or its one."""
        return [state for name, _, state in self.tasks if name == task]

    def told(self, task: str, key: str = "return_value") -> Any:
        """What a task left; of a mapped one the first."""
        return next((v for name, _, k, v in self.xcoms if (name, k) == (task, key)), None)


@dataclass
class Airflow:
    """The process; `dags` is what it found in the folder."""

    process: subprocess.Popen[str]
    answers: IO[str]
    log: Path
    dags: Mapping[str, Any]

    def run(self, dag: str, /, at: str | None = None, **form: Any) -> Ran:
        """Run a DAG to its end, with these fields of its form; `at` the same time, the same run."""
        document = self._asked({"dag": dag, "form": form, "at": at})
        return Ran(**{**document, "tasks": [tuple(t) for t in document["tasks"]]})

    @contextmanager
    def unfinished(self, dag: str, state: str) -> Iterator[None]:
        """A run of a DAG is in this state for as long as the block lasts."""
        self._asked({"dag": dag, "unfinished": state})
        try:
            yield
        finally:
            self._asked({"dag": dag, "unfinished": None})

    @contextmanager
    def logged(self) -> Iterator[list[str]]:
        """What is logged in the block, by line, once it has ended."""
        begins = self.log.stat().st_size
        lines: list[str] = []
        yield lines
        with self.log.open() as log:
            log.seek(begins)
            lines += log.read().splitlines()

    def _asked(self, question: Mapping[str, Any]) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        document = answered(self.process, self.answers, self.log)
        assert "failed" not in document, document["failed"]
        return document


def answered(process: subprocess.Popen[str], answers: IO[str], log: Path) -> Any:
    ends_s = time.monotonic() + ANSWER_S_MAX
    while time.monotonic() < ends_s:
        ready, _, _ = select.select([answers], [], [], 1.0)
        if ready:
            line = answers.readline()
            assert line, f"the process ended: {log.read_text()[-4_000:]}"
            return json.loads(line)
        assert process.poll() is None, f"the process ended: {log.read_text()[-4_000:]}"
    raise AssertionError(f"no answer within {ANSWER_S_MAX} s: {log.read_text()[-4_000:]}")


def environment(home: Path, settings: Settings, contracts: Path) -> dict[str, str]:
    """Of a process with Airflow in it."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "MEDUSA"))}
    bundles = [
        {
            "name": "medusa",
            "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
            "kwargs": {"path": str(DAGS)},
        }
    ]
    return ours | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "pipelines" / "airflow" / "plugins"),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
        "MEDUSA_DIR": str(settings.directory),
        "MEDUSA_CATALOG_URL": settings.catalog_url or "",
        "MEDUSA_CONTRACTS": str(contracts),
    }


@pytest.fixture(scope="module")
def settings(postgres_server: EmbeddedServer) -> Iterator[Settings]:
    """A folder without homes yet."""
    folder = folder_on_memory("medusa-airflow-")
    with federation_of(postgres_server, folder) as made:
        yield made
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def airflow(settings: Settings) -> Iterator[Airflow]:
    """Airflow with our DAGs, over that folder."""
    home = settings.directory / "airflow"
    home.mkdir()
    log = home / "runner.log"
    reads, writes = os.pipe()
    surroundings = environment(home, settings, settings.directory / "contracts")
    with log.open("w") as words, os.fdopen(reads) as answers:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.airflow.runner"],
            stdin=subprocess.PIPE,
            stdout=words,
            stderr=words,
            text=True,
            cwd=ROOT,
            env=surroundings | {"ANSWERS": str(writes)},
            pass_fds=(writes,),
        )
        os.close(writes)
        try:
            found = answered(process, answers, log)
            assert found["errors"] == {}, found["errors"]
            yield Airflow(process, answers, log, found["dags"])
        finally:
            process.kill()
            process.communicate()
