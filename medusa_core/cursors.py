"""Cursors: how far an external consumer has applied the changes of a stream, kept in a home.

A cursor moves only on request, so a consumer that was killed repeats its request and gets the
same answer. It records the history to which it belongs: the home's incarnation and the chain of
the line at its version.
"""

from __future__ import annotations

from dataclasses import dataclass

from medusa_core.errors import Diverged
from medusa_core.names import StreamName, Version
from medusa_core.segments import Producer

HOLD_PURPOSE = "changes"
"""The purpose of a cursor's hold: what may change behind its version is not trimmed."""

HOLD_MS = 7 * 86_400_000
"""How long a cursor holds after each move, by default."""


def holder_of(cursor: str) -> str:
    """The holder of a cursor's hold."""
    return f"cursor:{cursor}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """A cursor of a line that has come to `last_version`; it covers buckets from `from_us` on.

    `incarnation` and `chain` are of the past that it stands in, `incarnation_here` and `chain_here`
    of the one that the home has now (a chain is None where none is kept).
    """

    stream: StreamName
    name: str
    producer: Producer
    version: Version
    last_version: Version
    from_us: int
    incarnation: str
    incarnation_here: str
    chain: str | None = None
    chain_here: str | None = None
    stable_us: int | None = None
    placed_at_ms: int = 0
    moved_at_ms: int | None = None

    @property
    def is_diverged(self) -> bool:
        """Whether the home no longer has the past that the cursor stands in."""
        return self.incarnation != self.incarnation_here or (
            None not in (self.chain, self.chain_here) and self.chain != self.chain_here
        )


def check_cursor(cursor: Cursor) -> None:
    """Raise Diverged, with what to do, if the cursor stands in another past than the home."""
    if cursor.is_diverged:
        raise Diverged(
            f"cursor {cursor.name} of {cursor.stream} is at version {cursor.version} of a past "
            "that this home no longer has (it was restored from a backup): drop the cursor, empty "
            "its target and start again"
        )
