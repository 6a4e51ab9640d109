"""Names of delivered files, determined by their content: stream, range of event time, version."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from medusa_core.errors import Refused
from medusa_core.grid import Range
from medusa_core.names import StreamName, Version

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NAME = re.compile(
    r"(?P<stream>[a-z][a-z0-9_.]*)-(?P<begin>[0-9T.]{15,22})Z-(?P<end>[0-9T.]{15,22})Z"
    r"-v(?P<version>[0-9]{1,19})(?P<suffix>\.[a-z]+)"
)
_TIME = re.compile(r"([0-9]{8}T[0-9]{6})(?:\.([0-9]{6}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileName:
    """What a file's name says."""

    part: Range
    version: Version


def file_name(stream: StreamName, part: Range, version: Version, suffix: str, width_us: int) -> str:
    """The name of the file with the rows of a range; sorted by name, files are in order.

    So all times of a stream are written alike: with microseconds if its buckets' width has some.
    """
    named = stream.replace("/", ".")
    times = "-".join(_written(at_us, width_us) for at_us in (part.from_us, part.to_us))
    return f"{named}-{times}-v{version}{suffix}"


def parse_file_name(name: str, stream: StreamName, suffix: str) -> FileName | None:
    """What the name says; None if it is not one of this stream."""
    match = _NAME.fullmatch(name)
    if not match or match["suffix"] != suffix or match["stream"] != stream.replace("/", "."):
        return None
    try:
        part = Range(_read(match["begin"]), _read(match["end"]))
    except (ValueError, Refused):
        return None
    return FileName(part=part, version=Version(int(match["version"])))


def _written(time_us: int, width_us: int) -> str:
    try:
        moment = _EPOCH + time_us * _MICROSECOND
    except OverflowError:
        raise Refused(
            f"event time {time_us} us is outside the years 1 to 9999: a file cannot be named "
            "after it"
        ) from None
    has_fraction = moment.microsecond or width_us % 1_000_000
    fraction = f".{moment.microsecond:06}" if has_fraction else ""
    return f"{moment.year:04}{moment:%m%dT%H%M%S}{fraction}Z"


def _read(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    moment = datetime.strptime(match[1], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MICROSECOND + int(match[2] or 0)
