"""Calendar windows: days, weeks, months, quarters and years by the clocks of a time zone.

The rule for times. A zone is a list of offsets with the instant from which each holds. A day starts
at the first instant at which a clock of the zone shows 00:00 of its date or later. A week starts on
its Monday (ISO 8601); a month, quarter or year starts with its first day. A window extends
from the start of a period to the start of the next one, so that windows have no gaps and do not
overlap. `window_start` is the instant of the start, and the event time of a row is the window's
end - 1 us.

    clocks skip midnight     The day starts at the instant at which they are put forward: its first
                             clock time is 01:00 (Asia/Beirut; America/Sao_Paulo before 2019).
    midnight occurs twice    The day starts at the first one. What clocks show of the day before,
                             once they are put back, belongs to the day that has begun
                             (America/St_Johns before 2011: back from 00:01 to 23:01).
    back from 00:00          The clocks never showed 00:00 before: the day is 25 hours long.
    a date does not exist    No window (Pacific/Apia, 2011-12-30).

The rule for ranges. Rows with event times in [a, b) are those of the periods that end in (a, b].
The first of them is the period that holds a, and the last one ends where the period that holds b
starts. So they need the records from the start of the one to the start of the other, and none if
both are the same period: at most one longest period before a.

Worked example. `every="day"`, Europe/Berlin, 2026; clocks are put forward at 2026-03-29 01:00 UTC
and back at 2026-10-25 01:00 UTC:

    day           window in UTC                                length   event time of the row
    2026-03-28    [03-27 23:00, 03-28 23:00)                   24 h     03-28 22:59:59.999999
    2026-03-29    [03-28 23:00, 03-29 22:00)                   23 h     03-29 21:59:59.999999
    2026-10-25    [10-24 22:00, 10-25 23:00)                   25 h     10-25 22:59:59.999999

The output bucket [03-29 21:59:50, 03-29 22:00:00) needs the records in [03-28 23:00, 03-29 22:00),
and the bucket before it needs none: no day ends in it.

Source: ISO 8601 for weeks; the time zone database for offsets; the rule for the start of a day is
that of Java, which takes the earlier offset where midnight occurs twice.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise

from medusa_core.errors import Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range

DAY, WEEK, MONTH, QUARTER, YEAR = "day", "week", "month", "quarter", "year"
PERIODS = (DAY, WEEK, MONTH, QUARTER, YEAR)

DAY_US = 24 * 3_600_000_000
_SECOND_US = 1_000_000
_DAYS_MAX = {DAY: 1, WEEK: 7, MONTH: 31, QUARTER: 92, YEAR: 366}
_MONTHS = {MONTH: 1, QUARTER: 3, YEAR: 12}
_OFFSETS = re.compile(r"-?\d{1,6}( -?\d{1,12}:-?\d{1,6})*")
_OFFSET_S_MAX = 26 * 3600
_EPOCH_WEEKDAY = 3
"""1970-01-01 is a Thursday; Monday is 0."""


@dataclass(frozen=True, slots=True)
class ZoneClock:
    """The offsets of a zone, by which the local time of day t is `t + offset`.

    `begins_us[i]` is the instant from which `offsets_us[i]` holds; the first one holds from the
    beginning of time. Where midnight occurs twice, the offset before holds until the second one:
    the dates by this clock never go back. `shown_us[i]` is the local time that clocks have reached
    before the end of offset i.
    """

    begins_us: tuple[int, ...]
    offsets_us: tuple[int, ...]
    shown_us: tuple[int, ...]

    def day_at(self, time_us: int) -> int:
        """The date at an instant, as the number of days since 1970-01-01."""
        at = bisect_right(self.begins_us, time_us, lo=1) - 1
        return (time_us + self.offsets_us[at]) // DAY_US

    def start_us(self, day: int) -> int:
        """The first instant at which clocks show a date or a later one."""
        midnight_us = day * DAY_US
        at = bisect_right(self.shown_us, midnight_us, hi=len(self.shown_us) - 1)
        return max(self.begins_us[at], midnight_us - self.offsets_us[at])


@lru_cache(maxsize=64)
def zone_clock(offsets: str) -> ZoneClock:
    """The clock of a zone from its offsets; Refused if they are not of their form.

    `offsets` are seconds: the first offset, then `instant:offset` for each later one, as in
    `3208 -2422054408:3600 -1693706400:7200`.
    """
    if not _OFFSETS.fullmatch(offsets):
        raise Refused(f"the offsets of a zone are {offsets[:40]!r}: leave zone_offsets out")
    first, *later = offsets.split(" ")
    pairs = [(int(at), int(offset)) for at, _, offset in (one.partition(":") for one in later)]
    shifts_s = [int(first), *(offset for _, offset in pairs)]
    is_ordered = all(a < b for (a, _), (b, _) in pairwise(pairs))
    if not is_ordered or max(map(abs, shifts_s)) > _OFFSET_S_MAX:
        raise Refused("the offsets of a zone are out of order or range: leave zone_offsets out")
    begins_us, offsets_us = [BEGINNING_US], [shifts_s[0] * _SECOND_US]
    for at_s, offset_s in pairs:
        before_us, offset_us = offsets_us[-1], offset_s * _SECOND_US
        at_us = _changed_us(at_s * _SECOND_US, before_us, offset_us)
        if at_us <= begins_us[-1]:
            begins_us.pop()
            offsets_us.pop()
        begins_us.append(at_us)
        offsets_us.append(offset_us)
    ends_us = [end + offset for end, offset in zip(begins_us[1:], offsets_us, strict=False)]
    shown_us = (*accumulate(ends_us, max), FOREVER_US)
    return ZoneClock(tuple(begins_us), tuple(offsets_us), shown_us)


def _changed_us(at_us: int, before_us: int, offset_us: int) -> int:
    """From when dates are those by a new offset: later than it holds where midnight comes again."""
    midnight_us = (at_us + before_us - 1) // DAY_US * DAY_US
    return max(at_us, midnight_us - offset_us) if offset_us < before_us else at_us


@dataclass(frozen=True, slots=True)
class CalendarWindows:
    """The periods of a kind, one of PERIODS, by the offsets of a zone (`zone_clock`)."""

    every: str
    offsets: str

    @property
    def clock(self) -> ZoneClock:
        """The clock of the zone."""
        return zone_clock(self.offsets)

    def window_at(self, time_us: int) -> Range:
        """The window that holds an instant."""
        clock = self.clock
        first = first_day(self.every, clock.day_at(time_us))
        starts_us = (clock.start_us(day) for day in _days_from(self.every, first))
        from_us = next(starts_us)
        # A date that does not exist is no window.
        return Range(from_us, next(start_us for start_us in starts_us if start_us > time_us))

    def behind(self, part: Range) -> Range | None:
        """The range of the records of the windows whose rows lie in `part`; None if none does."""
        from_us = self.window_at(part.from_us).from_us
        to_us = self.window_at(part.to_us).from_us
        return Range(from_us, to_us) if from_us < to_us else None

    def ends_us(self, end_us: int) -> int:
        """Before when the rows of the windows lie, if their records lie before `end_us`."""
        return self.window_at(end_us - 1).to_us

    def first_need_us(self, position_us: int) -> int:
        """The row of the window that holds this position."""
        return self.window_at(position_us).to_us - 1

    def needed_before_us(self, end_us: int) -> int:
        """Before which position records are needed by a row before `end_us`."""
        return self.window_at(end_us).from_us

    @property
    def back_us(self) -> int:
        """How long before a row the records that it needs begin, at most."""
        return length_us_max(self.every)

    @property
    def delay_us(self) -> int:
        """How long before a row the records that it needs end, at least."""
        return 0


def usual_length_us(every: str) -> int:
    """The length of the longest period whose clocks are not changed."""
    return _DAYS_MAX[every] * DAY_US


def length_us_max(every: str) -> int:
    """No period is as long as this, whatever is done to its clocks."""
    return usual_length_us(every) + 2 * DAY_US


def first_day(every: str, day: int) -> int:
    """The first day of the period that holds a day; days are numbered from 1970-01-01."""
    if every == DAY:
        return day
    if every == WEEK:
        return day - (day + _EPOCH_WEEKDAY) % 7
    month, months = _month_of(day), _MONTHS[every]
    return _day_of(month - month % months)


def _days_from(every: str, first: int) -> Iterator[int]:
    """The first days of a period that starts on a day, and of those behind it."""
    while True:
        yield first
        first = first_day(every, first + _DAYS_MAX[every])


def _month_of(day: int) -> int:
    """The month that holds a day, numbered from January of year 0 (proleptic Gregorian).

    Years of this count begin in March, so that a leap day is the last day of its year.
    """
    since = day + 719_468
    era, in_era = divmod(since, 146_097)
    year = (in_era - in_era // 1_460 + in_era // 36_524 - in_era // 146_096) // 365
    in_year = in_era - (365 * year + year // 4 - year // 100)
    return 12 * (400 * era + year) + (5 * in_year + 2) // 153 + 2


def _day_of(month: int) -> int:
    """The first day of a month that is numbered from January of year 0."""
    year, since_march = divmod(month - 2, 12)
    leap_days = year // 4 - year // 100 + year // 400
    return 365 * year + leap_days + (153 * since_march + 2) // 5 - 719_468
