"""What happens in a home, for requests that wait: one LISTEN wakes all of them."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pipelines.exchange.notification_listener import (
    ListenerConnection,
    ListenerIO,
    NotificationListener,
    readable,
)

LOOK_AGAIN_MS = 500
"""Without a connection to the home, the requests are woken this often, and once more after a
connection was made."""

REST_MS = 60_000
"""How long the thread waits with a connection."""


class HomeProgress:
    """Wakes the requests of one event loop whenever the home notifies.

    `is_connected`: whether there is a connection to the home, as far as is known.
    """

    def __init__(self, url: str) -> None:
        self.is_connected = False
        self._url = url
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
                end.close()
                thread.join()

    def _listen(self, ended: socket.socket) -> None:
        """Listen until the other end of the socket is closed."""

        def wait(lines: list[ListenerConnection], limit_s: float) -> list[ListenerConnection]:
            ready = readable([*lines, ended], limit_s)
            # At the end every connection counts as readable, so that a wait returns at once.
            return lines if ended in ready else ready

        listener_io = ListenerIO(wait=wait, sleep=lambda limit_s: readable([ended], limit_s))
        listener = NotificationListener([self._url], listener_io)
        try:
            while not readable([ended], 0):
                # What is connected is readable when it notifies or breaks: no need to look.
                has_happened = listener.wait(REST_MS if self.is_connected else LOOK_AGAIN_MS)
                self.is_connected = listener.hears_all
                if has_happened and self._loop is not None:
                    with suppress(RuntimeError):  # the loop is closed
                        self._loop.call_soon_threadsafe(self._wake)
        finally:
            self.is_connected = False
            listener.close()

    def _wake(self) -> None:
        if self._happened is not None:
            self._happened.set()
            self._happened = asyncio.Event()
