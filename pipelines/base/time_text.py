"""Event times and durations as people write and read them: ISO 8601 in UTC, or Unix seconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation

from medusa_core.errors import Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000))


def parse_time_us(option: str, given: str) -> int:
    """Microseconds of an ISO 8601 time (without a zone: UTC) or of Unix seconds.

    Raises Refused, naming the option, for anything else.
    """
    refused = Refused(
        f"{option} {given!r} is no time: write ISO 8601, such as 2024-04-19T08:00:00Z, or Unix "
        "seconds"
    )
    if not (given.isascii() and given.isprintable()):
        raise refused
    try:
        seconds = Decimal(given)
    except InvalidOperation:
        try:
            moment = datetime.fromisoformat(given)
        except ValueError:
            raise refused from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(microseconds=1)
    if not seconds.is_finite() or seconds.copy_abs() > FOREVER_US // 1_000_000:
        raise refused
    return int(seconds * 1_000_000)


def iso(time_us: int) -> str:
    """A time as ISO 8601 with no more digits than it needs; beyond the calendar as a number."""
    if time_us == FOREVER_US:
        return "the end of time"
    if time_us == BEGINNING_US:
        return "before the first record"
    try:
        moment = _EPOCH + timedelta(microseconds=time_us)
    except OverflowError:
        return f"{time_us} us"
    return moment.isoformat().replace("+00:00", "Z")


def time_of_day(time_us: int) -> str:
    """The time of day, with seconds."""
    return iso(time_us).partition("T")[2].rstrip("Z") or iso(time_us)


def duration(length_us: float, *, units_max: int = 2) -> str:
    """A length of time in its one or two greatest units, such as `3 d 4 h` or `60 s`."""
    if length_us < 1_000:
        return f"{length_us:g} us"
    if length_us < 1_000_000:
        return f"{length_us / 1_000:.3g} ms"
    for at, (unit, size) in enumerate(_UNITS):
        # Windows of 60 s and 90 s are spoken of in seconds.
        if length_us >= size * (2 if unit == "min" else 1):
            whole, rest = divmod(int(length_us), size)
            if unit == "s":
                return f"{length_us / size:.3g} s"
            small, small_size = _UNITS[at + 1]
            has_second = units_max > 1 and rest >= small_size
            return f"{whole} {unit}" + (f" {rest // small_size} {small}" if has_second else "")
    return f"{length_us} us"


def size_of(size_bytes: int) -> str:
    """Bytes in the unit that gives them two or three digits."""
    if size_bytes < 1_000:
        return f"{size_bytes} B"
    value = float(size_bytes)
    for unit in ("kB", "MB", "GB"):
        value /= 1_000
        if value < 1_000:
            return f"{value:.3g} {unit}"
    return f"{value / 1_000:.3g} TB"
