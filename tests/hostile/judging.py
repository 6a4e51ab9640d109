"""What holds of every case: in time, one sentence, no trace, nothing that a terminal obeys."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SECONDS_MAX = 120
"""Of one case; a hang is what is meant, not a slow machine or one that pauses."""

SENTENCE_LENGTH_MAX = 2_100


@contextmanager
def in_time(seconds: int = SECONDS_MAX) -> Iterator[None]:
    """TimeoutError if what is inside takes longer."""

    def ring(number: int, frame: object) -> None:
        raise TimeoutError(f"took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def a_sentence(says: str, pattern: str, *, exit_code: int = 2) -> None:
    """The error is one of a user: it says what it has to, in a length that can be read."""
    assert re.search(pattern, says), f"says {says!r}"
    assert "Traceback" not in says
    assert 1 <= exit_code <= 6
    assert len(says) <= SENTENCE_LENGTH_MAX, f"{len(says)} characters"


def fit_for_a_terminal(text: str) -> None:
    """Nothing in the text but line ends moves the cursor, colours, or turns what follows."""
    bad = sorted({c for c in text if not c.isprintable() and c != "\n"})
    assert not bad, f"holds {bad}"


def tree(folder: Path) -> dict[str, int]:
    """What lies in a folder, at any depth, and its size."""
    return {
        str(path.relative_to(folder)): path.stat().st_size if path.is_file() else -1
        for path in folder.rglob("*")
    }
