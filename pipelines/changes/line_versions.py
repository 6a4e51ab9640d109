"""Which line a stream is read from here, and which version of it a person means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from medusa_core.changes import LineVersion
from medusa_core.errors import Diverged, Refused
from medusa_core.names import StreamName, Version
from medusa_core.segments import reading_order
from medusa_core.suggest import did_you_mean
from pipelines.base.time_text import parse_time_us
from pipelines.catalog.reading_roles import Lines, LineVersions
from pipelines.catalog.records import LineStatus


class VersionedLines(Lines, LineVersions, Protocol):
    """Lines, and the versions that each had."""


_POSITION = re.compile(r"([0-9]{1,15})(?::([0-9a-f]{64}))?")
_DATE = re.compile(r"[0-9]{4}-")
_VERSION = re.compile(r"[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class Position:
    """A version of a line and, if the consumer kept it, the chain that the line had there."""

    version: Version
    chain: str | None = None

    def __str__(self) -> str:
        return f"{self.version}" if self.chain is None else f"{self.version}:{self.chain}"


def line_of(catalog: VersionedLines, name: str) -> LineStatus:
    """The line that this home reads of a stream: see `reading_order`.

    Raises Refused, with the nearest name, if there is none.
    """
    lines: Sequence[LineStatus] = catalog.lines(StreamName(name))
    if not lines:
        known = sorted({str(s.stream.name) for s in catalog.lines()})
        hint = did_you_mean(name, known, "it has " + (", ".join(known) or "none"))
        raise Refused(f"the home of {catalog.participant} has no stream {name!r}: {hint}")
    here = catalog.participant
    return min(lines, key=lambda s: reading_order(s.producer, here))


def lost_before_us(line: LineStatus) -> int | None:
    """Before when rows may have been let go; None if all of them are there."""
    return None if line.trimmed_us == line.origin_us else line.trimmed_us


def parse_position(option: str, given: str) -> Position:
    """`12`, or `12:` and the chain that an answer named; Refused, naming the option, for others."""
    match = _POSITION.fullmatch(given)
    if match is None:
        raise Refused(
            f"{option} {given[:100]!r} is no version: give a number, or a position as an earlier "
            "answer named it"
        )
    return Position(Version(int(match[1])), match[2])


def check_position(
    catalog: VersionedLines, line: LineStatus, position: Position
) -> LineVersion | None:
    """How the line stood at a position; None for its beginning, or where nothing is known of it.

    Raises Refused for a version that the line never stood at here, Diverged if it has another past.
    """
    stream, producer, version = line.stream.name, line.producer, position.version
    if version == 0:
        return None
    stood = catalog.line_version(stream, producer, version)
    is_known = stood is not None and stood.version == version
    if position.chain is not None and (not is_known or stood is None or (
        stood.chain != position.chain
    )):  # fmt: skip
        raise Diverged(
            f"the home of {catalog.participant} no longer has version {version} of {stream} as it "
            "was read (it was restored from a backup): empty the target and start again"
        )
    if version > line.version:
        raise Refused(
            f"version {version} of {stream} is not there yet: the newest is {line.version}"
        )
    if stood is not None and not is_known:
        raise Refused(
            f"this home never had version {version} of {stream}: the one before it is "
            f"{stood.version}"
        )
    return stood


def version_of(catalog: VersionedLines, line: LineStatus, option: str, given: str) -> Version:
    """The version that `--as-of` means: a number, or an ISO 8601 time by this home's clock.

    Raises Refused, naming the option, for a version that is not there yet.
    """
    if _VERSION.fullmatch(given):
        version = Version(int(given))
        check_position(catalog, line, Position(version))
        return version
    if not _DATE.match(given):
        raise Refused(
            f"{option} {given[:100]!r} is neither a version nor an ISO 8601 time, such as "
            "2024-04-19T08:00:00Z"
        )
    at_ms = parse_time_us(option, given) // 1_000
    if at_ms > catalog.read_clock_ms():
        raise Refused(f"{option} {given} is in the future: give a time that has passed")
    return catalog.version_at(line.stream.name, line.producer, at_ms)
