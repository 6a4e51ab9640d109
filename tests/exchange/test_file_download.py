"""Files of a partner: continued, checked, and never kept with other bytes."""

from __future__ import annotations

import errno
import os
import random
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from medusa_core.errors import Refused, Unavailable
from medusa_core.segments import SegmentFile
from pipelines.exchange.client import file_download, partner_link
from pipelines.exchange.client.partner_link import DOWNLOADS_MAX, PartnerLink
from pipelines.exchange.server.https_server import HttpsServer
from tests.exchange.published_home import ALPHA, ROWS
from tests.exchange.served import (
    SUMS_FILE,
    address_of,
    asking,
    request_with_token,
    scripted,
    send,
    silent,
)
from tests.sweeps import long_but
from tests.waiting import until


@pytest.fixture
def content() -> bytes:
    return random.Random(3).randbytes(5_000_000)


def a_file(content: bytes) -> SegmentFile:
    digest = sha256(content).hexdigest()
    return SegmentFile(path="x.parquet", size_bytes=len(content), sha256=digest, rows=1)


def test_a_file_goes_on_where_a_connection_broke(
    server: HttpsServer, tmp_path: Path, content: bytes
) -> None:
    """Each connection carries a fifth of it."""
    starts = []

    def answer(connection: socket.socket) -> None:
        head = request_with_token(connection)
        first = int(head.partition(b"bytes=")[2].partition(b"-")[0] or 0)
        starts.append(first)
        part = f"206 Partial\r\nContent-Range: bytes {first}-{len(content) - 1}/{len(content)}"
        status = part if first else "200 OK"
        headers = f"HTTP/1.1 {status}\r\nContent-Length: {len(content) - first}\r\n\r\n"
        connection.sendall(headers.encode() + content[first : first + 1_000_000])

    file, target = a_file(content), tmp_path / "copies" / "x.parquet"
    with scripted(answer) as url, asking(address_of(url)) as exchange:
        exchange.fetch(ALPHA, file, target)
    assert target.read_bytes() == content
    assert starts == list(range(0, 5_000_000, 1_000_000))
    assert [one.name for one in target.parent.iterdir()] == ["x.parquet"]


def part_of(folder: Path, file: SegmentFile) -> Path:
    return folder / f".medusa-{file.sha256}.parquet.part"


@pytest.mark.parametrize(
    "rest", long_but(2, [ROWS[:500_000], b"damaged" * 1_000, ROWS + b"more", b""], quick=True)
)
def test_what_an_earlier_attempt_received_is_continued_or_forgotten(
    server: HttpsServer, tmp_path: Path, rest: bytes
) -> None:
    part_of(tmp_path, SUMS_FILE).write_bytes(rest)
    with asking(address_of(server.url)) as exchange:
        exchange.fetch(ALPHA, SUMS_FILE, tmp_path / "x.parquet")
    assert (tmp_path / "x.parquet").read_bytes() == ROWS
    assert [one.name for one in tmp_path.iterdir()] == ["x.parquet"]


def test_two_fetches_of_one_file_both_end_with_it(tmp_path: Path, content: bytes) -> None:
    """Both receive the first half before either receives the second."""
    both = threading.Barrier(2, timeout=60)

    def answer(connection: socket.socket) -> None:
        request_with_token(connection)
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\n\r\n"
        connection.sendall(head.encode() + content[:3_000_000])
        both.wait()
        connection.sendall(content[3_000_000:])

    file, target = a_file(content), tmp_path / "x.parquet"
    with (
        scripted(answer) as url,
        asking(address_of(url)) as one,
        asking(address_of(url)) as other,
        ThreadPoolExecutor(2) as threads,
    ):
        for done in [threads.submit(e.fetch, ALPHA, file, target) for e in (one, other)]:
            done.result(timeout=120)
    assert target.read_bytes() == content
    assert [one.name for one in tmp_path.iterdir()] == ["x.parquet"]


@pytest.mark.long(quick=True)
def test_files_are_received_side_by_side(tmp_path: Path, content: bytes) -> None:
    """No byte of a file is sent before all of them have been requested."""
    contents = [content[:300_000] + bytes([number]) for number in range(DOWNLOADS_MAX)]
    by_hash = {a_file(one).sha256: one for one in contents}
    all_requested = threading.Barrier(len(contents), timeout=60)

    def answer(connection: socket.socket) -> None:
        head = request_with_token(connection)
        digest = head.partition(b"/v1/files/")[2].partition(b" ")[0].decode()
        all_requested.wait()
        send(connection, by_hash[digest])

    files = {a_file(one): tmp_path / f"{number}.parquet" for number, one in enumerate(contents)}
    with scripted(answer) as url, asking(address_of(url)) as exchange:
        exchange.fetch_all(ALPHA, files)
    assert [target.read_bytes() for target in files.values()] == contents


def test_one_file_that_fails_costs_no_other(server: HttpsServer, tmp_path: Path) -> None:
    files = {SUMS_FILE: tmp_path / "x.parquet", a_file(b"unknown"): tmp_path / "y.parquet"}
    with (
        asking(address_of(server.url)) as exchange,
        pytest.raises(Refused, match="nothing of this name"),
    ):
        exchange.fetch_all(ALPHA, files)
    assert [target.exists() for target in files.values()] == [True, False]


def test_a_disk_that_is_full_leaves_the_part_file_for_the_next_attempt(
    server: HttpsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: object, piece: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with asking(address_of(server.url)) as exchange:
        for _ in range(2):
            with monkeypatch.context() as patch:
                patch.setattr(file_download._PartFile, "write", full)
                with pytest.raises(Unavailable, match="No space left"):
                    exchange.fetch(ALPHA, SUMS_FILE, tmp_path / "x.parquet")
        assert list(tmp_path.iterdir()) == [part_of(tmp_path, SUMS_FILE)]
        exchange.fetch(ALPHA, SUMS_FILE, tmp_path / "x.parquet")
    assert [one.name for one in tmp_path.iterdir()] == ["x.parquet"]


def test_a_connection_that_falls_silent_in_a_file_is_given_up_and_the_file_continued(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_download, "SILENT_S", 0.5)
    starts: list[int] = []
    brought: list[int] = []
    receive = file_download.Downloads._receive

    async def received(
        self: file_download.Downloads, link: PartnerLink, part: file_download._PartFile
    ) -> None:
        before = part.length
        try:
            await receive(self, link, part)
        finally:
            brought.append(part.length - before)

    monkeypatch.setattr(file_download.Downloads, "_receive", received)

    def answer(connection: socket.socket) -> None:
        head = request_with_token(connection)
        first = int(head.partition(b"bytes=")[2].partition(b"-")[0] or 0)
        starts.append(first)
        part = f"206 Partial\r\nContent-Range: bytes {first}-{len(content) - 1}/{len(content)}"
        headers = f"HTTP/1.1 {part if first else '200 OK'}\r\n"
        headers += f"Content-Length: {len(content) - first}\r\n\r\n"
        connection.sendall(headers.encode() + content[first : None if first else 3_000_000])
        silent(connection)

    def is_fetched() -> bool:
        try:
            exchange.fetch(ALPHA, a_file(content), tmp_path / "x.parquet")
        except Unavailable:
            # This machine itself was silent for so long that a connection brought nothing. One
            # that brought something is no reason to give up the file.
            assert brought[-1] == 0
            return False
        return True

    with scripted(answer) as url, asking(address_of(url)) as exchange:
        until(is_fetched, "the file is there", seconds_max=60)
    # Twice, unless this machine itself was silent in between: it never goes back.
    assert starts[0] == 0 < starts[-1]
    assert starts == sorted(starts)
    assert (tmp_path / "x.parquet").read_bytes() == content


@pytest.mark.long(quick=True)
def test_a_connection_that_is_too_slow_for_a_file_is_given_up(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_download, "ATTEMPTS_MAX", 1)
    content = content[:100_000]

    def answer(connection: socket.socket) -> None:
        request_with_token(connection)
        # Only now: for silence the connection, which has begun, is not given up so soon.
        monkeypatch.setattr(partner_link, "SILENT_S", 0.5)
        connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\n\r\n".encode())
        for one in content:
            connection.sendall(bytes([one]))
            time.sleep(0.05)

    with (
        scripted(answer) as url,
        asking(address_of(url)) as exchange,
        pytest.raises(Unavailable, match="broken off 1 times"),
    ):
        exchange.fetch(ALPHA, a_file(content), tmp_path / "x.parquet")


def test_a_file_that_the_disk_has_no_room_for_is_not_requested(
    server: HttpsServer, tmp_path: Path
) -> None:
    file = replace(SUMS_FILE, size_bytes=2**60)
    with (
        asking(address_of(server.url)) as exchange,
        pytest.raises(Unavailable, match="no room for a file"),
    ):
        exchange.fetch(ALPHA, file, tmp_path / "x.parquet")


@pytest.mark.parametrize("sent", [b"x" * len(ROWS), ROWS + b"more"], ids=["other", "more"])
def test_a_file_with_other_bytes_than_announced_is_not_kept(tmp_path: Path, sent: bytes) -> None:
    def answer(connection: socket.socket) -> None:
        request_with_token(connection)
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(sent)}\r\n\r\n"
        connection.sendall(head.encode() + sent)

    with (
        scripted(answer) as url,
        asking(address_of(url)) as exchange,
        pytest.raises(Unavailable, match=r"other bytes than it announced|more than 700000 bytes"),
    ):
        exchange.fetch(ALPHA, SUMS_FILE, tmp_path / "x.parquet")
    assert not (tmp_path / "x.parquet").exists()


def test_a_copy_that_cannot_be_written_says_so(server: HttpsServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with (
        asking(address_of(server.url)) as exchange,
        pytest.raises(Unavailable, match="could not be written"),
    ):
        exchange.fetch(ALPHA, SUMS_FILE, tmp_path / "file" / "x.parquet")
