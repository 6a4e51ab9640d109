"""A Spark master and workers from the wheel, as processes of a test, on this machine alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil

from pipelines.platform.airflow_components.ports import free_port
from pipelines.spark.java import java_home
from tests.waiting import until

LOOPBACK = "127.0.0.1"
CLASSES = "org.apache.spark.deploy"
START_S_MAX = 600


@dataclass(frozen=True)
class SparkCluster:
    """A master with workers of one core each; `workers` are their processes."""

    url: str
    page: str
    workers: tuple[subprocess.Popen[bytes], ...]

    def state(self) -> Mapping[str, Any]:
        """What the master says of itself."""
        with urlopen(self.page, timeout=5) as answer:
            told: Mapping[str, Any] = json.load(answer)
        return told

    def alive(self) -> int:
        """How many workers the master has; none while it does not answer."""
        with suppress(OSError):
            return sum(one["state"] == "ALIVE" for one in self.state()["workers"])
        return 0

    def executors(self) -> dict[psutil.Process, subprocess.Popen[bytes]]:
        """The processes that run tasks, with the worker that started each."""
        found = {}
        for worker in self.workers:
            if worker.poll() is None:
                for child in psutil.Process(worker.pid).children(recursive=True):
                    with suppress(psutil.NoSuchProcess):
                        if any("CoarseGrainedExecutorBackend" in word for word in child.cmdline()):
                            found[child] = worker
        return found

    def worker_of(self, pid: int) -> subprocess.Popen[bytes]:
        """The worker on which a process works for a task."""
        parents = {one.pid for one in psutil.Process(pid).parents()}
        (found,) = (worker for worker in self.workers if worker.pid in parents)
        return found


@contextmanager
def spark_cluster(folder: Path, *, workers: int = 2) -> Iterator[SparkCluster]:
    """A cluster whose logs and scratch files lie in the folder; all of it ends with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    port, page = free_port(LOOPBACK), free_port(LOOPBACK)
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "MEDUSA_"))},
        "JAVA_HOME": java_home(folder),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "SPARK_DAEMON_MEMORY": "256m",
    }
    url = f"spark://{LOOPBACK}:{port}"
    words = ["--host", LOOPBACK, "--port", str(port), "--webui-port", str(page)]
    started = [_start("master.Master", words, environment, folder / "master.log")]
    try:
        words = ["--host", LOOPBACK, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
        for number in range(workers):
            place = ["--work-dir", str(folder / f"work{number}"), url]
            log = folder / f"worker{number}.log"
            started.append(_start("worker.Worker", [*words, *place], environment, log))
        cluster = SparkCluster(url, f"http://{LOOPBACK}:{page}/json/", tuple(started[1:]))
        until(lambda: cluster.alive() == workers, "the workers are there", START_S_MAX)
        yield cluster
    finally:
        for process in started:
            end(process)


def end(process: subprocess.Popen[Any]) -> None:
    """End a process at once with all that it leads, as by kill -9."""
    with suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
        for one in family:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(family, timeout=30)
    process.wait()


def _start(
    name: str, words: list[str], environment: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes]:
    program = Path(sys.executable).with_name("spark-class")
    with log.open("wb") as output:
        return subprocess.Popen(
            [program, f"{CLASSES}.{name}", *words],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=dict(environment),
            start_new_session=True,
        )  # fmt: skip
