"""Event time, cut into buckets: integer microseconds UTC, every grid starting at the Unix epoch.

A bucket is a half-open interval [k * width, (k + 1) * width); a Range is a run of event time that
need not lie on a grid. Nothing here is aligned to the first record seen: two replicas that start at
different records cut time at the same places (Borealis calls it independent window alignment).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from medusa_core.errors import Refused
from medusa_core.suggest import nearest

FOREVER_US = 2**63 - 1
"""The boundary of a stream that has ended: no later record can come."""

BEGINNING_US = -(2**63)
"""Before any record: the boundary of a stream that has not begun."""

TIME_US_MIN = -62_135_596_800_000_000
"""The first microsecond of year 1."""

TIME_US_MAX = 253_402_300_799_999_999
"""The last microsecond of year 9999."""

_UNIT_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_UNIT_US["d"] = 24 * _UNIT_US["h"]
_DURATION = re.compile(r"([0-9]{1,15})\s*(us|ms|s|m|h|d)")
_WRITTEN = re.compile(r"([0-9]{1,15})\s*([A-Za-zµ]{1,16})")
_UNIT_WORDS = {
    "microseconds": "us", "usec": "us", "µs": "us", "milliseconds": "ms", "msec": "ms",
    "seconds": "s", "sec": "s", "minutes": "m", "min": "m", "hours": "h", "hour": "h", "hrs": "h",
    "days": "d", "day": "d",
}  # fmt: skip
DURATION_DAYS_MAX = 366
DURATION_US_MAX = DURATION_DAYS_MAX * _UNIT_US["d"]


def shown_us(value: float) -> str:
    """A number of microseconds as text; the limits of event time in words."""
    if value == BEGINNING_US:
        return "before the first record"
    return "the end of time" if value == FOREVER_US else str(value)


def shown_s(length_us: int) -> str:
    """A length of time in seconds, to the millisecond, with the unit."""
    text = f"{length_us / 1_000_000:.3f}".rstrip("0").rstrip(".")
    return f"{text} s"


def parse_duration_us(text: str | int, *, days_max: int = DURATION_DAYS_MAX) -> int:
    """Microseconds of a duration such as '10s', '250ms', '15m'; an integer is seconds.

    Raises Refused for anything else, for zero, and beyond so many days.
    """
    if isinstance(text, bool) or not isinstance(text, str | int):
        raise Refused(f"duration {text!r} is not one: write a number and us, ms, s, m, h or d")
    if isinstance(text, str):
        return _written_us(text, None, days_max)
    return _written_us(f"{text}s", text, days_max)


def parse_offset_us(text: str | int) -> int:
    """Microseconds of a signed duration such as '-5s', '0s' or '10m'; an integer is seconds.

    Raises Refused for anything else, and beyond a year in either direction.
    """
    if isinstance(text, bool) or not isinstance(text, str | int):
        raise Refused(f"duration {text!r} is not one: write a number and us, ms, s, m, h or d")
    written = (text if isinstance(text, str) else f"{text}s").strip()
    size = written.removeprefix("-")
    match = _DURATION.fullmatch(size)
    if match and int(match[1]) == 0:
        return 0
    duration_us = _written_us(size, text)
    return duration_us if size == written else -duration_us


@lru_cache(maxsize=256)
def _written_us(
    written: str, given: str | int | None = None, days_max: int = DURATION_DAYS_MAX
) -> int:
    """The duration that is written there; cached, since it is read for each window's size."""
    text = written if given is None else given
    match = _DURATION.fullmatch(written.strip())
    if not match:
        hint = _nearest_duration(str(text)) or "write a number and us, ms, s, m, h or d"
        raise Refused(f"duration {text!r} is not one: {hint}")
    duration_us = int(match[1]) * _UNIT_US[match[2]]
    if not 0 < duration_us <= days_max * _UNIT_US["d"]:
        raise Refused(f"duration {text!r} is out of range: above 0 and at most {days_max} days")
    return duration_us


def unit_near(word: str) -> str | None:
    """The unit that a word such as `sec` or `minutes` stands for; None if it is none."""
    meant = nearest(word, (*_UNIT_US, *_UNIT_WORDS))
    return None if meant is None else _UNIT_WORDS.get(meant, meant)


def _nearest_duration(text: str) -> str:
    """`did you mean '10s'?` where a unit is written in another form, else nothing."""
    written = _WRITTEN.fullmatch(text.strip()[:64])
    unit = written and unit_near(written[2])
    return f"did you mean '{written[1]}{unit}'?" if written and unit else ""


def floor_us(time_us: int, width_us: int) -> int:
    """The start of the bucket that holds `time_us`."""
    return time_us - time_us % width_us


def ceil_us(time_us: int, width_us: int) -> int:
    """The first bucket start at or after `time_us`."""
    return -floor_us(-time_us, width_us)


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """A half-open run of event time [from_us, to_us), never empty."""

    from_us: int
    to_us: int

    def __post_init__(self) -> None:
        if not self.from_us < self.to_us:
            raise Refused(f"range [{self.from_us}, {self.to_us}) is empty: give from before to")

    def holds(self, time_us: int) -> bool:
        """Whether `time_us` lies inside."""
        return self.from_us <= time_us < self.to_us

    def overlaps(self, other: Range) -> bool:
        """Whether the two share an instant."""
        return self.from_us < other.to_us and other.from_us < self.to_us

    def covers(self, other: Range) -> bool:
        """Whether `other` lies wholly inside."""
        return self.from_us <= other.from_us and other.to_us <= self.to_us

    def intersection(self, other: Range) -> Range | None:
        """What both share, or None."""
        from_us, to_us = max(self.from_us, other.from_us), min(self.to_us, other.to_us)
        return Range(from_us, to_us) if from_us < to_us else None

    def hull(self, other: Range) -> Range:
        """The least range that covers both."""
        return Range(min(self.from_us, other.from_us), max(self.to_us, other.to_us))

    def widened(self, width_us: int) -> Range:
        """The least run of whole buckets of `width_us` that covers this range."""
        return Range(floor_us(self.from_us, width_us), ceil_us(self.to_us, width_us))

    def without(self, parts: Iterable[Range]) -> Iterator[Range]:
        """What `parts` (in order, apart from each other) leave of this range."""
        at_us = self.from_us
        for part in parts:
            if at_us < min(part.from_us, self.to_us):
                yield Range(at_us, min(part.from_us, self.to_us))
            at_us = max(at_us, part.to_us)
        if at_us < self.to_us:
            yield Range(at_us, self.to_us)

    def __str__(self) -> str:
        return f"[{self.from_us}, {self.to_us})"

    @property
    def shown(self) -> str:
        """The range for people; its plain text is in the keys of commits and never changes."""
        return f"[{shown_us(self.from_us)}, {shown_us(self.to_us)})"


def merged_ranges(parts: Iterable[Range]) -> tuple[Range, ...]:
    """The union of ranges: in order, neither overlapping nor touching."""
    found: list[Range] = []
    for part in sorted(parts):
        if found and part.from_us <= found[-1].to_us:
            found[-1] = found[-1].hull(part)
        else:
            found.append(part)
    return tuple(found)
