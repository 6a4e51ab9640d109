"""Revisions of a partner's line: how news announces them, and what a reading home does about them.

A page of news never reaches over a revision: the version that made it is a page of its own, which
holds the segments of the named ranges as they are since. A home follows it if the contract of the
stream says so, or once its operator has agreed; else its copy stays at the version before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from medusa_core.errors import Refused
from medusa_core.frozen import freeze
from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import StreamName, Version
from medusa_core.recalls import (
    BECAUSE_CHARACTERS_MAX,
    GENERATION_MAX,
    WHO_CHARACTERS_MAX,
    check_text,
)
from medusa_core.segments import Producer

RANGES_MAX = 10_000
"""How many ranges one revision may name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRevision:
    """The first revision of a line behind a version, as its news tells of it.

    `ranges` (in order, apart from each other) were replaced in `version`, with which `generation`
    began. `last_generation` is that of the newest revision of the line, and `from_us` the first
    event time that one of them up to there names.
    """

    generation: int
    last_generation: int
    from_us: int
    version: Version
    because: str
    ranges: tuple[Range, ...]

    def __post_init__(self) -> None:
        if not 1 < self.generation <= self.last_generation <= GENERATION_MAX:
            raise Refused(
                f"generations {self.generation} to {self.last_generation} are not those of "
                "revisions"
            )
        if not 0 < self.version <= FOREVER_US:
            raise Refused(f"a revision cannot have made version {self.version}")
        check_text("the reason of a revision", self.because, BECAUSE_CHARACTERS_MAX)
        if not 0 < len(self.ranges) <= RANGES_MAX:
            raise Refused(f"a revision names {len(self.ranges)} ranges, not 1 to {RANGES_MAX:,}")
        for one, next_ in pairwise(self.ranges):
            if next_.from_us <= one.to_us:
                raise Refused(f"a revision names ranges out of order at {next_.from_us}")
        if self.ranges[0].from_us < self.from_us:
            raise Refused(
                f"a revision names {self.ranges[0].from_us}, before its first event time "
                f"{self.from_us}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionAgreement:
    """An operator's agreement to follow the revisions of a partner's line, up to a generation of
    that line and for no event time before `from_us`."""

    stream: StreamName
    producer: Producer
    generation: int
    from_us: int
    because: str
    who: str

    def __post_init__(self) -> None:
        check_text("the reason of a revision", self.because, BECAUSE_CHARACTERS_MAX)
        check_text("who revises", self.who, WHO_CHARACTERS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisedStream:
    """What a revision may change of a stream that is computed from it: so many buckets."""

    stream: StreamName
    from_us: int
    buckets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionReach:
    """The streams behind a revision in a home, and from when on each fragment needs each stream for
    them: the inputs that it reads again, and the outputs that it replaces."""

    streams: tuple[RevisedStream, ...] = ()
    needed: Mapping[str, Mapping[StreamName, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze(self, "needed")

    @property
    def behind(self) -> dict[StreamName, int]:
        """The first event time of each stream that may change."""
        return {one.stream: one.from_us for one in self.streams}


NO_REACH = RevisionReach()
