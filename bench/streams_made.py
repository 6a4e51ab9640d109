"""A network of many similar streams in a folder of contracts, and one writer of their files.

Every stream has a source, distinguished by a column of the files, and a separate fragment that
counts and sums its records per window.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

PARTICIPANT = "solo"
COLUMN = "sensor"
_NETWORK = '''\
"""{streams} streams of one kind."""

from medusa_core.network import Aggregate, Network, Output, Source

names = [f"s{{number:04}}" for number in range({streams})]
network = Network(
    name="sensors",
    sources=tuple(
        Source(
            name=f"read_{{name}}",
            columns={{"ts_us": "bigint", "{column}": "string", "value": "bigint"}},
            time="ts_us",
        )
        for name in names
    ),
    boxes=tuple(
        Aggregate(
            name=f"sum_{{name}}",
            input=f"read_{{name}}",
            size="{bucket}",
            columns={{"records": "count(*)", "total": "sum(value)", "greatest": "max(value)"}},
            fragment=f"of_{{name}}",
        )
        for name in names
    ),
    outputs=tuple(Output(name=f"total_{{name}}", input=f"sum_{{name}}") for name in names),
    bucket="{bucket}",
)
'''
_STREAM = """\
stream: read_{name}
source: {{kind: directory, path: {inbox}, format: csv, disorder: 1s, where: {{{column}: {name}}}}}
retention: {retention}
"""


def write_contracts(folder: Path, streams: int, *, bucket: str, retention: str) -> Path:
    """Contracts of one participant with so many streams; returns the folder that it watches."""
    inbox = folder.parent / "inbox"
    for made in (folder / "participants", folder / "streams", folder / "networks", inbox):
        made.mkdir(parents=True)
    names = names_of(streams)
    text = _NETWORK.format(streams=streams, column=COLUMN, bucket=bucket)
    (folder / "networks" / "sensors.py").write_text(text)
    (folder / "participants" / f"{PARTICIPANT}.yaml").write_text(
        f"participant: {PARTICIPANT}\n"
        "runs:\n"
        "  - network: networks/sensors.py\n"
        f"    bucket: {bucket}\n"
        f"    sources: [{', '.join(f'read_{name}' for name in names)}]\n"
        f"    fragments: [{', '.join(f'of_{name}' for name in names)}]\n"
    )
    for name in names:
        (folder / "streams" / f"read_{name}.yaml").write_text(
            _STREAM.format(name=name, inbox=inbox, column=COLUMN, retention=retention)
        )
        (folder / "streams" / f"total_{name}.yaml").write_text(
            f"stream: total_{name}\nretention: {retention}\n"
        )
    return inbox


def names_of(streams: int) -> list[str]:
    """The values of the column, a stream each."""
    return [f"s{number:04}" for number in range(streams)]


class Writer:
    """Writes a file every `every_s` with what a rate of records makes in that time."""

    def __init__(self, inbox: Path, streams: int, *, per_stream: float, every_s: float) -> None:
        self._inbox = inbox
        self._names = pa.array(names_of(streams))
        self._streams = streams
        self._per_stream = per_stream
        self._every_s = every_s
        self._done = threading.Event()
        self.records = self.files = 0

    def write(self, number: int) -> None:
        """One file of the records of the time since the one before, in their order."""
        now_us = time.time_ns() // 1_000
        count = round(self._streams * self._per_stream * self._every_s)
        sensors = (np.arange(count) + self.records) % self._streams
        table = pa.table(
            {
                "ts_us": now_us
                - (np.arange(count)[::-1] * self._every_s * 1e6 // count).astype(int),
                COLUMN: self._names.take(pa.array(sensors)),
                "value": (np.arange(count) * 7_919 + number) % 1_000,
            }
        )
        unfinished = self._inbox / f".{number:06}.csv"
        pa.csv.write_csv(table, unfinished)
        unfinished.rename(self._inbox / f"{number:06}.csv")
        self.records, self.files = self.records + count, self.files + 1

    def _run(self) -> None:
        began_s = time.monotonic()
        for number in range(10**6):
            due_s = began_s + number * self._every_s
            if self._done.wait(max(due_s - time.monotonic(), 0)):
                return
            self.write(number)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Write for as long as the block lasts."""
        thread = threading.Thread(target=self._run, name="writer", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._done.set()
            thread.join()
