"""A sensor of connections: a thread that moves a file into a folder twice a second.

How many connections it reports in a second can be changed while it runs.
"""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType

from pipelines.base import clock
from pipelines.base.files import rename

EVERY_S = 0.5
SOURCES, PORTS, STRIDE = 199, 65_521, 7_919
"""Primes, so that sources and ports are spread."""


class Sensor:
    """Writes files of connections into `folder` from when the block begins until it ends."""

    def __init__(self, folder: Path, per_s: int) -> None:
        self.per_s = per_s
        self._folder = folder
        self._ends = threading.Event()
        self._written = 0
        self._thread = threading.Thread(target=self._run, name="demo-sensor", daemon=True)

    def __enter__(self) -> Sensor:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        from_us = int(clock.wall_s() * 1e6)
        while not self._ends.wait(EVERY_S):
            to_us = int(clock.wall_s() * 1e6)
            self._write(from_us, to_us)
            from_us = to_us

    def _write(self, from_us: int, to_us: int) -> None:
        """One file with the connections of a time, in order."""
        count = self.per_s * (to_us - from_us) // 1_000_000
        lines = ["ts_us,orig_h,resp_p"]
        for number in range(count):
            n = self._written + number
            at_us = from_us + number * (to_us - from_us) // count
            lines.append(f"{at_us},198.18.0.{n * n % SOURCES},{n * STRIDE % PORTS}")
        self._written += count
        path = self._folder / f"connections-{to_us}.csv"
        unfinished = path.with_name(f".{path.name}")
        unfinished.write_text("\n".join(lines) + "\n", encoding="utf-8")
        rename(unfinished, path)
