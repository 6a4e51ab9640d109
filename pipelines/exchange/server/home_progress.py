"""What happens in a home, for requests that wait: one LISTEN wakes all of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pipelines.exchange.notification_listener import NotificationListener

LOOK_AGAIN_MS = 500
"""How often it is checked whether listening should end; without a connection to the home each of
these wakes the requests, and so does the first one after a connection was made."""


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
        thread = threading.Thread(target=self._listen, name="medusa-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ends.set()
            thread.join()

    def _listen(self) -> None:
        listener = NotificationListener([self._url])
        try:
            while not self._ends.is_set():
                if listener.wait(LOOK_AGAIN_MS) and self._loop is not None:
                    with suppress(RuntimeError):  # the loop is closed
                        self._loop.call_soon_threadsafe(self._wake)
        finally:
            listener.close()

    def _wake(self) -> None:
        if self._happened is not None:
            self._happened.set()
            self._happened = asyncio.Event()
