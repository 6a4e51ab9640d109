"""What happens in a home, for requests that wait: one LISTEN wakes all of them."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from pipelines.exchange.notification_listener import (
    ListenerConnection,
    ListenerIO,
    NotificationListener,
    readable,
)

LOOK_AGAIN_MS = 500
"""Without a connection to the home, the requests are woken this often, and once more after a
connection was made."""


class HomeProgress:
    """Wakes the requests of one event loop whenever the home notifies."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ends = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._happened: asyncio.Event | None = None

    def next(self) -> asyncio.Event:
        """What is set when something happens from now on."""
        if self._happened is None:
            self._loop, self._happened = asyncio.get_running_loop(), asyncio.Event()
        return self._happened

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen in a thread meanwhile."""
        end, ended = socket.socketpair()
        thread = threading.Thread(
            target=self._listen, args=(ended,), name="medusa-progress", daemon=True
        )
        with end, ended:
            thread.start()
            try:
                yield
            finally:
                self._ends.set()
                end.send(b"x")
                thread.join()

    def _listen(self, ended: socket.socket) -> None:
        listener_io = ListenerIO(wait=partial(self._wait, ended), sleep=self._ends.wait)
        listener = NotificationListener([self._url], listener_io)
        try:
            while not self._ends.is_set():
                if listener.wait(LOOK_AGAIN_MS) and self._loop is not None:
                    with suppress(RuntimeError):  # the loop is closed
                        self._loop.call_soon_threadsafe(self._wake)
        finally:
            listener.close()

    def _wait(
        self, ended: socket.socket, lines: list[ListenerConnection], limit_s: float
    ) -> list[ListenerConnection]:
        """The connections that can be read, within a time; all of them when listening ends."""
        ready = readable([*lines, ended], limit_s)
        return lines if self._ends.is_set() else ready

    def _wake(self) -> None:
        if self._happened is not None:
            self._happened.set()
            self._happened = asyncio.Event()
