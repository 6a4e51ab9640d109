"""A connection that can be waited for until a partner's lines change."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

BYTES_MAX = 4_096


class ProgressListener:
    """A `ListenerConnection` that becomes readable when a partner's lines change.

    `watch` takes what is called when they do, in any thread, and returns what ends that.
    """

    def __init__(self, watch: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
        self.notifies: list[Any] = []
        self._read, self._written = socket.socketpair()
        for end in (self._read, self._written):
            end.setblocking(False)
        self._sends = threading.Lock()
        self._end = watch(self._notify)

    def fileno(self) -> int:
        """What is waited for."""
        return self._read.fileno()

    def poll(self) -> None:
        """Discard the notifications."""
        with suppress(BlockingIOError):
            while self._read.recv(BYTES_MAX):
                pass

    def close(self) -> None:
        """Listen no more."""
        self._end()
        with self._sends:  # else a send that has begun may meet a file that takes its number
            self._written.close()
        self._read.close()

    def _notify(self) -> None:
        # One that was not read yet is enough; it may be closed.
        with self._sends, suppress(OSError):
            self._written.send(b"!")
