"""A relay on loopback that loses the answer to a commit: sent and made, but never heard of."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

CHUNK = 65_536


class Relay:
    """Passes bytes on; of the next request that names `word` the answer is dropped."""

    def __init__(self, port: int, listener: socket.socket | None = None) -> None:
        self._target = port
        self._listener = listener or socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._word: bytes | None = None
        self.lost = 0
        self._sockets: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_answer_to(self, word: str) -> None:
        """Break the connection after the server has answered the next request with this word."""
        self._word = word.encode()

    def close(self) -> None:
        """Break every connection."""
        for each in self._sockets:
            with suppress(OSError):
                each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += [client, server]
                threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        loses = False
        with selectors.DefaultSelector() as selector, suppress(OSError):
            selector.register(client, selectors.EVENT_READ)
            selector.register(server, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    data = key.fileobj.recv(CHUNK)  # type: ignore[union-attr]
                    if not data:
                        return self._break(client, server)
                    if key.fileobj is client:
                        if self._word and self._word in data:
                            loses, self._word = True, None
                        server.sendall(data)
                    elif loses:
                        self.lost += 1
                        return self._break(client, server)
                    else:
                        client.sendall(data)

    @staticmethod
    def _break(*sockets: socket.socket) -> None:
        for each in sockets:
            each.close()


@contextmanager
def relay_to(port: int, listener: socket.socket | None = None) -> Iterator[Relay]:
    """A relay, gone with the block; `listener` may be a socket of another network namespace."""
    relay = Relay(port, listener)
    try:
        yield relay
    finally:
        relay.close()
