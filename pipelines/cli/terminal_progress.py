"""Lines of progress on standard error."""

from __future__ import annotations

import sys


class Progress:
    """Lines of progress on standard error: rewritten in a terminal, sparse in a file."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._live = sys.stderr.isatty()
        self._open = False
        self._last = ""

    def __call__(self, line: str) -> None:
        """Say how far it is."""
        text = f"{self._prefix}{line}"
        if self._live:
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
            self._open = True
        elif line.split(" ")[0] != self._last.split(" ")[0] or "exported" in line:
            print(text, file=sys.stderr, flush=True)
        self._last = line

    def end(self) -> None:
        """Leave the last line standing."""
        if self._open:
            print(file=sys.stderr, flush=True)
            self._open = False
