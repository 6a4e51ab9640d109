"""A Spark cluster and an object store on machines of their own: network namespaces of root."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path

import psutil
import pytest

from pipelines.spark.java import java_home
from tests.cluster.spark_cluster import CLASSES
from tests.exchange.certificates import certificate_of
from tests.networks.namespaces import Machine, inside, network
from tests.storage.object_server import ACCESS, BUCKET, SECRET
from tests.waiting import until

PORT, MASTER_PORT = 9_000, 7_077
KEYS = f"AWS_ACCESS_KEY_ID={ACCESS} AWS_SECRET_ACCESS_KEY={SECRET}"


@dataclass(frozen=True, kw_only=True)
class SparkMachines:
    """The driver's machine, the master's URL, the URL of the object store with the file of its
    authorities, and the process of each worker."""

    driver: Machine
    master: str
    store: str
    ca_file: Path
    workers: Mapping[str, subprocess.Popen[str]]

    def executors(self) -> list[str]:
        """The workers that have started a process for tasks."""
        return [name for name in self.workers if self.pids_on(name)]

    def pids_on(self, worker: str) -> set[int]:
        """The processes that a worker has started."""
        process = self.workers[worker]
        if process.poll() is not None:
            return set()
        return {one.pid for one in psutil.Process(process.pid).children(recursive=True)}

    def files_on(self, worker: str, folder: Path) -> list[Path]:
        """The files below a folder as the machine of a worker has it."""
        below = Path(f"/proc/{self.workers[worker].pid}/root") / folder.relative_to("/")
        return [path.relative_to(below) for path in below.rglob("*") if path.is_file()]


@contextmanager
def spark_machines(folder: Path, workers: Sequence[str], hides: Path) -> Iterator[SparkMachines]:
    """Workers of one core each; in the place of the folder `hides` they have an empty one."""
    with network(folder / "machines", "driver", "master", "objects", *workers) as made:
        machines = made.machines
        objects, master = machines["objects"], machines["master"]
        ca_file = certificate_of(folder / "objects.pem", objects.host)
        _start_objects(objects, ca_file)
        java, url = java_home(folder / "java"), f"spark://{master.host}:{MASTER_PORT}"
        _start_spark(master, java, "master.Master", f"--port {MASTER_PORT} --webui-port 0")
        hidden = f"mkdir -p {hides} && mount -t tmpfs none {hides}"
        processes = {}
        for name in workers:
            words = f"--cores 1 --memory 2g --webui-port 0 --work-dir {machines[name].folder}/work"
            processes[name] = _start_spark(
                machines[name], java, "worker.Worker", f"{words} {url}", hidden
            )
        driver = machines["driver"]
        driver.type(
            f"export MEDUSA_SPARK_MASTER={url} SPARK_LOCAL_IP={driver.address} "
            f"SPARK_LOCAL_HOSTNAME={driver.host} {KEYS}"
        )
        store = f"https://{objects.host}:{PORT}"
        yield SparkMachines(
            driver=driver, master=url, store=store, ca_file=ca_file, workers=processes
        )


def _start_spark(
    machine: Machine, java: str, name: str, words: str, before: str = ""
) -> subprocess.Popen[str]:
    program = Path(sys.executable).with_name("spark-class")
    lines = [
        f"export JAVA_HOME={java} PYSPARK_PYTHON={sys.executable} SPARK_DAEMON_MEMORY=256m",
        f"export SPARK_LOCAL_IP={machine.address} SPARK_LOCAL_DIRS={machine.folder}/scratch",
        f"export {KEYS}",
        before,
        f"exec {program} {CLASSES}.{name} --host {machine.host} {words}",
    ]
    return machine.start("\n".join(lines), machine.folder / "spark.txt")


def _start_objects(machine: Machine, certificate: Path) -> None:
    """The object store, with an empty bucket."""
    pytest.importorskip("moto.server", reason="moto is not installed: run make setup")
    printed = machine.folder / "objects.txt"
    server = f"{sys.executable} -m moto.server -H {machine.address} -p {PORT}"
    lines = [
        "export S3_IGNORE_SUBDOMAIN_BUCKETNAME=true",
        f"exec {server} -c {certificate} -k {certificate}",
    ]
    process = machine.start("\n".join(lines), printed)
    trusted = ssl.create_default_context(cafile=str(certificate))

    def is_made() -> bool:
        assert process.poll() is None, printed.read_text()
        connection = HTTPSConnection(machine.host, PORT, timeout=10, context=trusted)
        try:
            with inside(machine):
                plain = socket.create_connection((machine.address, PORT), 10)
            with trusted.wrap_socket(plain, server_hostname=machine.host) as connection.sock:
                connection.request("PUT", f"/{BUCKET}")
                return connection.getresponse().status == 200
        except OSError:
            return False

    until(is_made, "the object store has a bucket")
