"""The reader's process as the harness sees it: asked one line at a time, heard all the time."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.exchange.homes import environment
from bench.processes import REPOSITORY, ContenderFailed
from medusa_core.segments import SegmentFile
from pipelines.base.settings import Settings

ANSWER_S_MAX = 600
Line = tuple[str, int]
"""A stream and a version of its line."""


class AskedReader:
    """The process; `arrived` is when the news of a line was there, in monotonic nanoseconds."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.arrived: dict[Line, int] = {}
        self.problems: list[str] = []
        self._answers: list[Mapping[str, Any]] = []
        self._heard = threading.Condition()
        self._is_over = False
        self.thread = threading.Thread(target=self._hear, daemon=True)

    def start(self) -> None:
        """Hear what the process says, and wait until it takes requests."""
        self.thread.start()
        self._await("start")

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def ask(self, what: str) -> None:
        """`import`, `settle`, `alone` or `stop`."""
        self._send({"do": what})
        self._await(what)

    def fetch(self, files: Sequence[SegmentFile], to: Path) -> float:
        """Seconds for copies of files."""
        self._send({"do": "fetch", "files": [asdict(file) for file in files], "to": str(to)})
        return float(self._await("fetch")["seconds"])

    def wait_for(self, line: Line, seconds_max: float = ANSWER_S_MAX) -> int:
        """When the news of a line, up to a version, was there."""
        self._until(lambda: line in self.arrived, seconds_max)
        return self.arrived[line]

    def _send(self, document: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(document) + "\n")
        self._process.stdin.flush()

    def _await(self, what: str) -> Mapping[str, Any]:
        """What was answered until it is done."""
        found: dict[str, Any] = {}

        def is_done() -> bool:
            while self._answers:
                found.update(self._answers.pop(0))
            return found.get("done") == what

        self._until(is_done, ANSWER_S_MAX)
        return found

    def _until(self, is_so: Any, seconds_max: float) -> None:
        ends_s = time.monotonic() + seconds_max
        with self._heard:
            while not is_so():
                if self._is_over or time.monotonic() > ends_s:
                    raise ContenderFailed(f"the reader is silent or has ended: {self.problems}")
                self._heard.wait(1)

    def _hear(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:  # to the end of the process
            document = json.loads(text)
            with self._heard:
                if "news" in document:
                    self._note(document["news"], document["version"], document["at_ns"])
                elif "problem" in document:
                    self.problems.append(document["problem"])
                else:
                    self._answers.append(document)
                self._heard.notify_all()
        with self._heard:
            self._is_over = True
            self._heard.notify_all()

    def _note(self, stream: str, version: int, at_ns: int) -> None:
        """News up to a version is news of those before, too."""
        while version and (stream, version) not in self.arrived:
            self.arrived[stream, version] = at_ns
            version -= 1


@contextmanager
def reading(settings: Settings) -> Iterator[AskedReader]:
    """Beta's process, until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.exchange.reader"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env=environment(settings),
    )
    reader = AskedReader(process)
    try:
        reader.start()
        yield reader
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait(60)
        reader.thread.join(60)
        process.stdout.close()
