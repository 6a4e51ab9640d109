"""The database of time zones for calendar windows: the `tzdata` package, whose version is locked.

The offsets of a zone are written into the boxes of a network when it is loaded, and so into its
plan: planner, Spark and certificates read them there and no database. Neither the database of the
machine nor that of the JVM is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib import resources
from zoneinfo import ZoneInfo

import tzdata

from medusa_core.errors import Refused
from medusa_core.network import Aggregate, Box, Network
from medusa_core.suggest import did_you_mean
from medusa_core.zone_offsets import zone_offset_us

VERSION = str(tzdata.IANA_VERSION)
"""The release of the time zone database, such as `2026f`."""

_DAY_S = 86_400
_FIRST_S, _LAST_S = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (1800, 2100))
"""Before the first instant a zone has its first offset, and from the last one on its last."""


@cache
def zone_names() -> frozenset[str]:
    """The names of all zones."""
    return frozenset(resources.files("tzdata").joinpath("zones").read_text().split())


@lru_cache(maxsize=64)
def offsets_of(zone: str) -> str:
    """The offsets of a zone, as `medusa_core.calendar_windows.zone_clock` reads them.

    Raises Refused if there is no zone of that name.
    """
    offset_us = zone_offset_us(zone)
    if offset_us is not None:
        return str(offset_us // 1_000_000)
    if zone not in zone_names():
        near = did_you_mean(zone, sorted(zone_names()), "write a name such as Europe/Berlin")
        raise Refused(f"{zone!r} is not a known time zone: {near}")
    with resources.files("tzdata").joinpath("zoneinfo", *zone.split("/")).open("rb") as file:
        database = _Offsets(ZoneInfo.from_file(file, key=zone))
    return " ".join((str(database.at(_FIRST_S)), *database.changes()))


class _Offsets:
    """The offsets of a zone in seconds."""

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone

    def at(self, time_s: int) -> int:
        """The offset that holds at an instant."""
        offset = datetime.fromtimestamp(time_s, self._zone).utcoffset()
        assert offset is not None
        return offset.days * _DAY_S + offset.seconds

    def changes(self) -> Iterator[str]:
        """Each instant from which another offset holds, and that offset."""
        offset_s = self.at(_FIRST_S)
        for day_s in range(_FIRST_S, _LAST_S, _DAY_S):
            from_s, last_s = day_s, self.at(day_s + _DAY_S)
            while offset_s != last_s:
                # Found by halves: the offset holds at `from_s`, and another one at `to_s`.
                to_s = day_s + _DAY_S
                while to_s - from_s > 1:
                    middle_s = (from_s + to_s) // 2
                    is_before = self.at(middle_s) == offset_s
                    from_s, to_s = (middle_s, to_s) if is_before else (from_s, middle_s)
                from_s, offset_s = to_s, self.at(to_s)
                yield f"{to_s}:{offset_s}"


def with_zone_offsets(network: Network) -> Network:
    """The network with the offsets of the zones of its calendar windows; Refused if one has none.

    The very same network if it has no calendar windows, or has their offsets already.
    """
    boxes = tuple(_with_offsets(network.name, box) for box in network.boxes)
    is_same = all(a is b for a, b in zip(boxes, network.boxes, strict=True))
    return network if is_same else replace(network, boxes=boxes)


def _with_offsets(network: str, box: Box) -> Box:
    if not isinstance(box, Aggregate) or box.zone is None or box.zone_offsets is not None:
        return box
    try:
        return replace(box, zone_offsets=offsets_of(box.zone))
    except Refused as error:
        raise Refused(f"zone of aggregate {box.name} of network {network}: {error}") from None
