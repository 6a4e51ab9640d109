"""A contender seen from the harness: its process, asked one line at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from bench.contender import Milliseconds
from bench.workload import Workload

REPOSITORY = Path(__file__).resolve().parents[1]
END_S_MAX = 60
INTERRUPTED = 130
"""The exit code of a measurement that was interrupted."""


class ContenderFailed(Exception):
    """A contender's process ended before it answered; its log says why."""


class Worker:
    """One contender's process. Only one worker is asked at a time; the others wait for input."""

    def __init__(self, name: str, process: subprocess.Popen[str], log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    def wait_ready(self) -> None:
        """Wait until Spark runs."""
        assert self._reply()["ready"]

    def prepare(self, files: Sequence[Path]) -> list[Path]:
        """Give the windows' files, or let the contender make them."""
        reply = self._ask({"do": "prepare", "files": [str(f) for f in files]})
        return [Path(f) for f in reply["files"]]

    def step(self, window: int) -> Milliseconds:
        """Let it close one window."""
        ms: dict[str, float] = self._ask({"do": "step", "window": window})["ms"]
        return ms

    def finish(self) -> dict[str, list[Path]]:
        """Let it close what is open; the files of each output."""
        outputs = self._ask({"do": "finish"})["outputs"]
        return {name: [Path(f) for f in files] for name, files in outputs.items()}

    def let_go(self) -> None:
        """Close its input: it comes to its end by itself."""
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):  # it is gone, and what it was asked last has not come
                _pipe(pipe).close()

    def end(self) -> None:
        """Wait until it is gone, which it is soon once it was let go."""
        try:
            self._process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, line: Mapping[str, Any]) -> dict[str, Any]:
        try:
            _pipe(self._process.stdin).write(json.dumps(line) + "\n")
            _pipe(self._process.stdin).flush()
        except BrokenPipeError:
            raise self._failed() from None
        return self._reply()

    def _reply(self) -> dict[str, Any]:
        line = _pipe(self._process.stdout).readline()
        if not line:
            raise self._failed()
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _failed(self) -> ContenderFailed:
        last = self._log.read_text(errors="replace").strip().splitlines()[-15:]
        return ContenderFailed("\n".join([f"contender {self.name} failed ({self._log}):", *last]))


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


@contextmanager
def started(names: Sequence[str], workload: Workload, folder: Path) -> Iterator[dict[str, Worker]]:
    """A worker for each contender, all ready; every one of them is gone at the end."""
    workers: dict[str, Worker] = {}
    try:
        for name in names:
            workers[name] = _start(name, workload, folder / name)
        for worker in workers.values():
            worker.wait_ready()
        yield workers
    finally:
        # All at once: to stop Spark and a server takes each of them seconds.
        for worker in workers.values():
            worker.let_go()
        for worker in workers.values():
            worker.end()


def _start(name: str, workload: Workload, folder: Path) -> Worker:
    folder.mkdir(parents=True)
    order = {"contender": name, "workload": asdict(workload), "folder": str(folder)}
    log = folder / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.worker", json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=REPOSITORY,
        )
    return Worker(name, process, log)
