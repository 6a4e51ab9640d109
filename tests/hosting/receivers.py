"""Receivers on this machine: of webhooks and of mail; each keeps what it was sent."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_string, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Webhooks:
    """What was posted, and the status that is answered."""

    def __init__(self) -> None:
        self.status = 200
        self.posted: list[tuple[str, dict[str, Any]]] = []
        self.port = 0


@contextmanager
def webhook_receiver() -> Iterator[Webhooks]:
    kept = Webhooks()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if kept.status == 200:
                kept.posted.append((self.headers.get("Authorization", ""), json.loads(body)))
            self.send_response(kept.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, serving(server):
        kept.port = server.server_port
        yield kept


class Mails:
    """The messages that were delivered."""

    def __init__(self) -> None:
        self.delivered: list[Any] = []
        self.port = 0


@contextmanager
def mail_receiver() -> Iterator[Mails]:
    kept = Mails()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 here")
            for line in iter(self.rfile.readline, b""):
                word = line.split(b" ", 1)[0].strip().upper()
                if word == b"DATA":
                    self._say("354 go on")
                    kept.delivered.append(self._message())
                elif word == b"QUIT":
                    self._say("221 bye")
                    return
                self._say("250 done")

        def _message(self) -> Any:
            lines = list(iter(lambda: self.rfile.readline().decode(), ".\r\n"))
            return message_from_string("".join(lines), policy=policy.default)

        def _say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server, serving(server):
        kept.port = server.server_address[1]
        yield kept


@contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
