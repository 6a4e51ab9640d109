"""Small files in one answer: what is granted, of a limited size, and checked as it arrives."""

from __future__ import annotations

import socket
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from medusa_core.errors import Refused, Unavailable
from medusa_core.protocol.file_batches import BATCH_BYTES_MAX, FILE_BYTES_MAX, frame_head
from medusa_core.protocol.problems import ProblemKind, write_problem
from medusa_core.segments import SegmentFile
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.exchange.client.https_exchange import BATCH_FILES, batches_of
from pipelines.exchange.server.https_server import HttpsServer
from tests.exchange.published_home import ALPHA, CANARY, ROWS
from tests.exchange.served import (
    SUMS_FILE,
    address_of,
    asking,
    request_with_token,
    scripted,
    send,
    silent,
    token_of,
)
from tests.sweeps import long_but

ONE, TWO = b"the first file", b"the other one"


def a_file(content: bytes) -> SegmentFile:
    digest = sha256(content).hexdigest()
    return SegmentFile(path="x.parquet", size_bytes=len(content), sha256=digest, rows=1)


def framed(content: bytes) -> bytes:
    return frame_head(sha256(content).hexdigest(), len(content)) + content


def is_batch(head: bytes) -> bool:
    return head.startswith(b"POST /v1/files ")


def fetched(url: str, folder: Path) -> list[bytes]:
    """The files that are there at the end, whether or not all could be fetched."""
    files = {a_file(ONE): folder / "one.parquet", a_file(TWO): folder / "two.parquet"}
    with asking(address_of(url)) as exchange:
        exchange.fetch_all(ALPHA, files)
    assert sorted(one.name for one in folder.iterdir()) == ["one.parquet", "two.parquet"]
    return [target.read_bytes() for target in files.values()]


def served_alone(connection: socket.socket, head: bytes) -> None:
    """The answer to a request for one file."""
    name = head.partition(b"/v1/files/")[2].partition(b" ")[0].decode()
    send(connection, next(one for one in (ONE, TWO) if a_file(one).sha256 == name))


def test_a_batch_has_what_is_granted_and_small_and_nothing_else(
    server: HttpsServer, home: ExchangeHome, storage: Path
) -> None:
    token = token_of(server, home)

    def ask(*hashes: str) -> httpx.Response:
        return httpx.post(
            f"{server.url}/v1/files",
            json={"files": hashes},
            headers={"Authorization": f"Bearer {token}"},
            trust_env=False,
            timeout=60,
        )

    unknown, secret = sha256(b"unknown").hexdigest(), sha256(CANARY).hexdigest()
    answer = ask(unknown, secret, SUMS_FILE.sha256)
    assert len(ROWS) > FILE_BYTES_MAX
    assert (answer.status_code, answer.content) == (200, b""), "too large, secret or not there"
    assert ask(*[SUMS_FILE.sha256] * 2).status_code == ProblemKind.REFUSED.status
    assert ask("../etc/passwd").status_code == ProblemKind.REFUSED.status


def test_small_files_are_sent_together_and_others_alone(
    server: HttpsServer, home: ExchangeHome, storage: Path, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    contents = [bytes([number]) * 20_000 for number in range(BATCH_FILES + 1)]
    for content in contents:
        (storage / a_file(content).sha256).write_bytes(content)
    asked: list[int] = []
    real = ExchangeHome.published_file

    def together(self: ExchangeHome, partner: str, hashes: list[str]) -> tuple[SegmentFile, ...]:
        asked.append(len(hashes))
        sizes = {a_file(one).sha256: len(one) for one in contents}
        return tuple(SegmentFile(path=h, size_bytes=sizes[h], sha256=h, rows=1) for h in hashes)

    monkeypatch.setattr(ExchangeHome, "published_files", together)
    monkeypatch.setattr(ExchangeHome, "published_file", real)
    files = {a_file(one): tmp_path / f"{n}.parquet" for n, one in enumerate(contents)}
    with asking(address_of(server.url)) as exchange:
        exchange.fetch_all(ALPHA, {**files, SUMS_FILE: tmp_path / "sums.parquet"})
    assert [target.read_bytes() for target in files.values()] == contents
    assert (tmp_path / "sums.parquet").read_bytes() == ROWS
    assert sorted(asked) == [1, BATCH_FILES]


def test_a_server_that_sends_no_batches_is_asked_for_each_file(tmp_path: Path) -> None:
    def answer(connection: socket.socket) -> None:
        content = write_problem(ProblemKind.NOT_FOUND, "there is no such call")
        while head := request_with_token(connection):
            if is_batch(head):
                status = f"HTTP/1.1 404 -\r\nContent-Length: {len(content)}\r\n\r\n"
                connection.sendall(status.encode() + content)
            else:
                served_alone(connection, head)

    with scripted(answer) as url:
        assert fetched(url, tmp_path) == [ONE, TWO]


@pytest.mark.parametrize("sent", long_but(2, [0, 1, 50, 80], quick=True))
def test_what_a_batch_lacks_is_requested_alone(tmp_path: Path, sent: int) -> None:
    """The connection ends after so many bytes; a file that is whole by then is kept."""
    alone: list[bytes] = []
    batch = framed(ONE) + framed(TWO)

    def answer(connection: socket.socket) -> None:
        while head := request_with_token(connection):
            if is_batch(head):
                begins = f"HTTP/1.1 200 OK\r\nContent-Length: {len(batch)}\r\n\r\n"
                connection.sendall(begins.encode() + batch[:sent])
                return
            alone.append(head)
            served_alone(connection, head)

    with scripted(answer) as url:
        assert fetched(url, tmp_path) == [ONE, TWO]
    assert len(alone) == (2 if sent < len(framed(ONE)) else 1)


LIES: dict[str, tuple[Callable[[], bytes], type[Exception], str]] = {
    "a longer file": (
        lambda: frame_head(a_file(ONE).sha256, len(ONE) + 1) + ONE + b"x",
        Refused, "has 15 bytes of .* 14 are expected",
    ),
    "a file without end": (
        lambda: frame_head(a_file(ONE).sha256, 2**64 - 1), Refused, "are expected",
    ),
    "a file that was not requested": (lambda: framed(b"x"), Refused, "0 are expected"),
    "one file twice": (lambda: framed(TWO) + framed(TWO), Refused, "0 are expected"),
    "other bytes": (
        lambda: frame_head(a_file(ONE).sha256, len(ONE)) + b"x" * len(ONE),
        Unavailable, "other bytes than it announced",
    ),
}  # fmt: skip


@pytest.mark.parametrize("lie", long_but(3, LIES, quick=True))
def test_a_batch_that_lies_is_refused_in_a_sentence(tmp_path: Path, lie: str) -> None:
    content, error, says = LIES[lie]

    def answer(connection: socket.socket) -> None:
        while head := request_with_token(connection):
            if is_batch(head):
                send(connection, content())
            else:
                served_alone(connection, head)

    with scripted(answer) as url, pytest.raises(error, match=says):
        fetched(url, tmp_path)
    assert not (tmp_path / "one.parquet").exists()
    assert not list(tmp_path.glob("*.part"))


def announces_too_much(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n")
    silent(connection)


def never_ends(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"400\r\n" + b"x" * 1_024 + b"\r\n")


@pytest.mark.parametrize("misbehaves", [announces_too_much, never_ends])
def test_a_batch_that_is_too_large_or_has_no_end_is_not_read(
    tmp_path: Path, misbehaves: Callable[[socket.socket], None]
) -> None:
    def answer(connection: socket.socket) -> None:
        while head := request_with_token(connection):
            if is_batch(head):
                misbehaves(connection)
                return
            served_alone(connection, head)

    with scripted(answer) as url:
        assert fetched(url, tmp_path) == [ONE, TWO], "each was requested alone"


def test_a_batch_is_as_large_as_a_server_sends_it() -> None:
    files = [a_file(n.to_bytes(2, "big") * (FILE_BYTES_MAX // 2)) for n in range(2 * BATCH_FILES)]
    large = a_file(b"x" * (FILE_BYTES_MAX + 1))
    batches = batches_of([*files, large, *files])
    assert [file for batch in batches for file in batch] == files
    for batch in batches:
        assert len(batch) <= BATCH_FILES
        assert sum(file.size_bytes + 40 for file in batch) <= BATCH_BYTES_MAX
