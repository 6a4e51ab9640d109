"""A Docker engine of the tests' own, from Debian's packages, and an image to build from.

The engine runs in namespaces of its own: neither the network nor the mounts of this machine are
touched, and what it has mounted goes with it. The image is a Debian made here, which holds the
packages of requirements.lock as files: what is built from it needs no network.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from pipelines.base.settings import REPOSITORY
from tests.waiting import until

LOCK = REPOSITORY / "requirements.lock"
BASE, POSTGRES = "medusa-test-base", "medusa-test-postgres"
PROGRAMS = ("dockerd", "docker", "docker-compose", "debootstrap", "unshare", "ip")
PACKAGES = "ca-certificates,postgresql-15,python3,python3-venv,procps"
CGROUP = "medusa-test-compose"
START = (
    'ip link set lo up && exec dockerd -H "unix://$1/docker.sock" --data-root "$1/data" '
    '--exec-root "$1/exec" --pidfile "$1/docker.pid" --cgroup-parent "/$2"'
)


def lacking() -> str:
    """Why no engine can be started here; nothing if one can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "an engine of its own needs Linux and root"
    missing = [name for name in PROGRAMS if _found(name) is None]
    if missing:
        return (
            f"{', '.join(missing)} is missing: apt-get install --no-install-recommends docker.io "
            "docker-compose iptables iproute2 debootstrap"
        )
    return ""


@dataclass(frozen=True)
class Engine:
    """A running engine; `folder` is gone with it."""

    folder: Path
    pid: int

    @property
    def environment(self) -> Mapping[str, str]:
        """For its clients: nothing of another engine's."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("DOCKER", "COMPOSE"))}
        return {**kept, "DOCKER_HOST": f"unix://{self.folder}/docker.sock"}

    def docker(self, *words: str, **more: object) -> str:
        """What `docker WORDS` prints; fails with what it said."""
        return run([_program("docker"), *words], self.environment, **more)


def run(command: Sequence[str], environment: Mapping[str, str], **more: object) -> str:
    """What a command prints; fails with what it said."""
    done = subprocess.run(  # type: ignore[call-overload]
        command, env=environment, capture_output=True, text=True, check=False, **more
    )
    output = f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}"
    assert done.returncode == 0, output[-4_000:]
    return str(done.stdout)


@contextmanager
def own_engine(folder: Path) -> Iterator[Engine]:
    """An engine with all its data in the folder (made); at the end nothing of it is left."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    log = folder.with_suffix(".log")
    with log.open("wb") as words:
        # The program replaces what makes the namespaces: its number is the engine's.
        made = subprocess.Popen(
            ["unshare", "-n", "-m", "--propagation", "private",
             "sh", "-c", START, "sh", str(folder), CGROUP],
            stdin=subprocess.DEVNULL, stdout=words, stderr=words, start_new_session=True,
        )  # fmt: skip
    engine = Engine(folder, made.pid)
    try:
        until(lambda: _answers(engine) or made.poll() is not None, "the engine answers", 120)
        assert made.poll() is None, log.read_text()[-2_000:]
        yield engine
    finally:
        _end(made)
        left = [one for one in psutil.process_iter(["cmdline"]) if _is_of(one, folder)]
        for one in left:
            one.kill()
        until(lambda: not any(one.is_running() for one in left), "its processes are gone")
        _remove_cgroups()
        shutil.rmtree(folder)
        assert not left, f"the engine left {left}"
        assert str(folder) not in Path("/proc/self/mounts").read_text()


def make_images(engine: Engine, kept: Path) -> None:
    """The base image and Postgres'; what makes them is kept in a folder for later runs."""
    root, wheels = kept / "debian", kept / "wheels"
    done = kept / "debian.done"
    if not done.exists():
        shutil.rmtree(root, ignore_errors=True)
        kept.mkdir(parents=True, exist_ok=True)
        words = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(root)]
        run(words, os.environ)
        done.touch()
    lock = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if not (wheels / lock).exists():
        shutil.rmtree(wheels, ignore_errors=True)
        words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                 "--require-hashes", "-r", str(LOCK), "-d", str(wheels)]  # fmt: skip
        run(words, os.environ)
        (wheels / lock).touch()
    shutil.rmtree(root / "wheels", ignore_errors=True)
    shutil.copytree(wheels, root / "wheels", copy_function=os.link)
    (root / "etc/pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n")
    with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as packed:
        engine.docker("import", "-", BASE, stdin=packed.stdout)
    here = Path(__file__).parent
    engine.docker("build", "-t", POSTGRES, "-f", str(here / "Dockerfile.postgres"), str(here))


def _answers(engine: Engine) -> bool:
    words = [_program("docker"), "version"]
    return not subprocess.run(words, env=engine.environment, capture_output=True).returncode


def _end(engine: subprocess.Popen[bytes]) -> None:
    """It ends its containers, which takes a while; forced after two minutes."""
    if engine.poll() is None:
        engine.send_signal(signal.SIGTERM)
    try:
        engine.wait(120)
    except subprocess.TimeoutExpired:
        engine.kill()
        engine.wait()


def _is_of(process: psutil.Process, folder: Path) -> bool:
    """Whether a process was started for the engine in the folder."""
    return any(str(folder) in word for word in process.info["cmdline"] or ())


def _remove_cgroups() -> None:
    """The empty groups that the engine leaves in the machine's tree."""
    for top in Path("/sys/fs/cgroup").glob(f"**/{CGROUP}"):
        for group in sorted(top.rglob("*/"), reverse=True):
            if group.is_dir():
                group.rmdir()
        top.rmdir()


def _program(name: str) -> str:
    found = _found(name)
    assert found is not None, name
    return found


def _found(name: str) -> str | None:
    """Debian's own first: another version may lack what goes with it."""
    return shutil.which(name, path=f"/usr/bin:/usr/sbin:{os.environ.get('PATH', '')}")
