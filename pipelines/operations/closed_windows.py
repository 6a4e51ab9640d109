"""Closed windows that are due for certification, and the key by which each is named.

The key holds participant, stream and two event times. A window consists of whole final buckets, has
a maximum length, and begins where the last certificate of the stream ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from medusa_core.certificates import Suite
from medusa_core.errors import Refused
from medusa_core.grid import floor_us
from medusa_core.names import Participant, StreamName, check_name
from pipelines.base.settings import Settings
from pipelines.base.time_text import iso, parse_time_us
from pipelines.catalog.lines_read import lines_read
from pipelines.catalog.reading_roles import Certificates
from pipelines.catalog.records import LineStatus
from pipelines.homes.home import open_home
from pipelines.platform.jobs.supervised_homes import known_participant

WINDOW_US = 3_600_000_000
LEAST_US = 300_000_000
WINDOWS_MAX = 6
"""Maximum windows of a stream per call; the next calls return the rest."""


@dataclass(frozen=True, slots=True)
class Window:
    """A closed window of a stream in a participant's home."""

    participant: Participant
    stream: StreamName
    from_us: int
    to_us: int

    @property
    def key(self) -> str:
        """Its name: `alpha/busy_sources/2026-01-05T08:00:00Z/2026-01-05T09:00:00Z`."""
        return f"{self.participant}/{self.stream}/{iso(self.from_us)}/{iso(self.to_us)}"


def window_of(settings: Settings, key: str) -> Window:
    """The window that a key names; Refused for a text that is not one."""
    parts = key.split("/")
    if len(parts) != 4:
        raise Refused(f"{key!r} is not the key of a window: write PARTICIPANT/STREAM/FROM/TO")
    participant = known_participant(settings, parts[0])
    stream = StreamName(check_name("stream", parts[1]))
    from_us, to_us = parse_time_us("from", parts[2]), parse_time_us("to", parts[3])
    return Window(participant, stream, from_us, to_us)


def windows_due(
    settings: Settings, participant: Participant, *, length_us: int = WINDOW_US
) -> list[Window]:
    """The windows of a home that have closed since its last certificates, oldest first."""
    with open_home(settings, participant) as home:
        lines = lines_read(home.catalog.lines(), participant)
        return [
            window
            for line in lines.values()
            if line.producer.participant == participant  # a copy is certified where it was made
            for window in _of_line(home.catalog, participant, line, length_us)
        ]


def _of_line(
    catalog: Certificates, participant: Participant, line: LineStatus, length_us: int
) -> Iterator[Window]:
    stream, width_us = line.stream.name, line.stream.width_us
    kept_us, final_us = line.kept_from_us, line.stable_through_us
    if kept_us is None or final_us is None:
        return
    from_us = max(kept_us, _certified_us(catalog, stream, kept_us))
    length_us = max(width_us, floor_us(length_us, width_us))
    for _ in range(WINDOWS_MAX):
        to_us = min(final_us, floor_us(from_us + length_us, width_us))
        is_whole = to_us - from_us >= min(length_us, max(LEAST_US, width_us))
        if to_us <= from_us or not (is_whole or line.has_ended):
            return
        yield Window(participant, stream, from_us, to_us)
        from_us = to_us


def _certified_us(catalog: Certificates, stream: StreamName, from_us: int) -> int:
    """Up to where certificates say that the stream is complete."""
    found = [c.range.to_us for c in catalog.certificates(stream) if c.suite is Suite.COMPLETE]
    return max(found, default=from_us)
