"""Files through the exchange, beside a plain copy of the same bytes.

The plain copy is the fastest way to the same end: one TCP connection over loopback, `sendfile` at
the sender, 1 MiB at a time at the receiver, which computes the SHA-256, writes to the same disk,
syncs and renames. It has no HTTP, no token, no right to check, no TLS and no limit.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from bench.exchange.asking import AskedReader
from bench.process_tree import cpu_seconds
from medusa_core.segments import SegmentFile
from pipelines.base.files import sync_folder

PIECE_BYTES = 1 << 20
MIB = 1 << 20

SENDER = """\
import socket, sys
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
connection, _ = listening.accept()
for path in sys.stdin:
    with open(path.strip(), "rb") as file:
        connection.sendfile(file)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """Copies of files: wall and CPU seconds; the CPU of the server and of the reader, if known."""

    files: int
    size_bytes: int
    seconds: float
    cpu_s: float

    @property
    def mib_per_s(self) -> float:
        """The rate."""
        return self.files * self.size_bytes / MIB / self.seconds


def contents_of(files: int, size_bytes: int, seed: int) -> list[bytes]:
    """Bytes that nothing can compress, other ones in each file."""
    chance = random.Random(seed)
    return [chance.randbytes(size_bytes) for _ in range(files)]


def fetched(
    reader: AskedReader, files: Sequence[SegmentFile], to: Path, processes: Sequence[int]
) -> Copied:
    """Copies of files through the exchange; the CPU is that of the named processes."""
    to.mkdir(parents=True)
    before_s = cpu_seconds(processes)
    seconds = reader.fetch(files, to)
    cpu_s = cpu_seconds(processes) - before_s
    _check(files, to)
    return Copied(files=len(files), size_bytes=files[0].size_bytes, seconds=seconds, cpu_s=cpu_s)


def copied_plainly(storage: Path, files: Sequence[SegmentFile], to: Path) -> Copied:
    """The same files by the plain copy."""
    to.mkdir(parents=True)
    with subprocess.Popen(
        [sys.executable, "-I", "-c", SENDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as sender:
        assert sender.stdin is not None
        assert sender.stdout is not None
        port = int(sender.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as connection:
            before_s, began_s = cpu_seconds([sender.pid, os.getpid()]), time.monotonic()
            for file in files:
                sender.stdin.write(f"{storage / file.path}\n")
            sender.stdin.flush()
            for file in files:
                _received(connection, file, to)
            sync_folder(to)
            seconds = time.monotonic() - began_s
            cpu_s = cpu_seconds([sender.pid, os.getpid()]) - before_s
            sender.stdin.close()
    _check(files, to)
    return Copied(files=len(files), size_bytes=files[0].size_bytes, seconds=seconds, cpu_s=cpu_s)


def _received(connection: socket.socket, file: SegmentFile, to: Path) -> None:
    digest, piece = sha256(), memoryview(bytearray(PIECE_BYTES))
    missing = file.size_bytes
    part = to / "part"
    with part.open("wb", buffering=0) as written:
        while missing:
            received = connection.recv_into(piece, min(missing, PIECE_BYTES), socket.MSG_WAITALL)
            assert received, "the sender has ended"
            digest.update(piece[:received])
            written.write(piece[:received])
            missing -= received
        os.fsync(written.fileno())
    assert digest.hexdigest() == file.sha256
    part.rename(to / Path(file.path).name)


def _check(files: Sequence[SegmentFile], to: Path) -> None:
    """All copies are there."""
    for file in files:
        assert (to / Path(file.path).name).stat().st_size == file.size_bytes
