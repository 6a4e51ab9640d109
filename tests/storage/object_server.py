"""An S3-compatible server that a test starts (moto's), behind a proxy that can fail on demand.

The server keeps objects in memory and checks no signatures. A fault is used up by the first request
that it applies to, so that a list of faults is a script.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from pipelines.storage.object_settings import ObjectSettings

BUCKET = "bucket"
ACCESS, SECRET = "AKIAOFTHETESTS01", "secret/of+the+tests/0123456789abcdefghij"


@dataclass(frozen=True)
class Fault:
    """What happens to the next request of a method: `kind` is one of the names below.

    slow-down: 503 in place of the answer · denied: 403, with the keys in its text · pass: none ·
    cut: the connection ends in the middle of the body · stall: nothing follows the first half of
    the body · lost: the request is carried out, and its answer does not arrive · late: the answer
    is that of an earlier equal request.
    """

    method: str
    kind: str


@dataclass
class ObjectServer:
    """The URL of the proxy, and the faults that are still to happen."""

    url: str
    upstream: tuple[str, int]
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    names_of_headers: list[set[str]] = field(default_factory=list)
    answers: dict[str, tuple[int, list[tuple[str, str]], bytes]] = field(default_factory=dict)
    ends: Event = field(default_factory=Event)

    def settings(self, prefix: str, **options: Any) -> ObjectSettings:
        address = f"s3://{BUCKET}/{prefix}"
        return ObjectSettings(address=address, endpoint=self.url, **options)

    def objects(self, prefix: str) -> dict[str, bytes]:
        """The objects below a prefix, as the server has them."""
        from moto.backends import get_backend

        backend = get_backend("s3")["123456789012"]["aws"]
        keys = backend.buckets[BUCKET].keys
        return {
            name.removeprefix(f"{prefix}/"): key.value
            for name, key in keys.items()
            if name.startswith(f"{prefix}/") and not name.endswith("/")
        }

    def make_old(self, prefix: str, path: str, seconds: float) -> None:
        """Let an object have been put a while ago."""
        from datetime import timedelta

        from moto.backends import get_backend

        backend = get_backend("s3")["123456789012"]["aws"]
        backend.buckets[BUCKET].keys[f"{prefix}/{path}"].last_modified -= timedelta(seconds=seconds)

    def fault_for(self, method: str) -> str | None:
        for fault in self.faults:
            if fault.method == method:
                self.faults.remove(fault)
                return fault.kind
        return None


@contextmanager
def object_server(certificate: Path | None = None) -> Iterator[ObjectServer]:
    """A server with an empty bucket, for as long as the block runs; by TLS with a certificate."""
    moto = pytest.importorskip("moto.server", reason="moto is not installed: run make setup")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    connection = HTTPConnection(host, port)
    connection.request("PUT", f"/{BUCKET}")
    connection.getresponse().read()
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), _Proxy)
    proxy.daemon_threads = True
    if certificate is not None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate)
        proxy.socket = tls.wrap_socket(proxy.socket, server_side=True)
    scheme = "https" if certificate else "http"
    found = ObjectServer(f"{scheme}://127.0.0.1:{proxy.server_port}", (host, port))
    proxy.objects = found  # type: ignore[attr-defined]
    thread = Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.ends.set()
        proxy.shutdown()
        proxy.server_close()
        server.stop()


@contextmanager
def keys_in_environment() -> Iterator[None]:
    given = {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def keys_file(path: Path) -> Path:
    """A file of keys that nobody else may read."""
    path.write_text(f"[default]\naws_access_key_id = {ACCESS}\naws_secret_access_key = {SECRET}\n")
    path.chmod(0o600)
    return path


class _Proxy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        server: ObjectServer = self.server.objects  # type: ignore[attr-defined]
        body = self._body()
        server.requests.append((self.command, self.path))
        server.names_of_headers.append({name.lower() for name in self.headers})
        kind = server.fault_for(self.command)
        if kind == "denied":
            text = f"<Error><Code>AccessDenied</Code><Message>{ACCESS} {SECRET}</Message></Error>"
            self._answer(403, [("Content-Type", "application/xml")], text.encode())
            return
        if kind == "slow-down":
            text = b"<Error><Code>SlowDown</Code><Message>Reduce your rate</Message></Error>"
            self._answer(503, [("Content-Type", "application/xml")], text)
            return
        if kind == "late" and self.path in server.answers:
            self._answer(*server.answers[self.path])
            return
        connection = HTTPConnection(*server.upstream, timeout=30)
        sent = {k: v for k, v in self.headers.items() if k.lower() != "transfer-encoding"}
        connection.request(
            self.command, self.path, body, {**sent, "Content-Length": str(len(body))}
        )
        response = connection.getresponse()
        content = response.read()
        left = ("content-length", "transfer-encoding", "connection", "server", "date")
        headers = [(k, v) for k, v in response.getheaders() if k.lower() not in left]
        if self.command == "HEAD":
            headers.append(("Content-Length", response.getheader("Content-Length") or "0"))
        connection.close()
        if kind == "lost":
            self.close_connection = True
            return
        server.answers[self.path] = response.status, headers, content
        self._answer(response.status, headers, content, kind)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(pieces)

    def _answer(
        self, status: int, headers: list[tuple[str, str]], content: bytes, kind: str | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with suppress(OSError):
            if kind in ("cut", "stall"):
                self.wfile.write(content[: len(content) // 2])
                self.wfile.flush()
                if kind == "stall":
                    self.server.objects.ends.wait(60)  # type: ignore[attr-defined]
                self.close_connection = True
                return
            self.wfile.write(content)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _serve  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing is logged."""
