"""Session: one row for each run of records of a key that follow each other closely.

A *run* of a key has its records in the order of event time, each less than `gap` after the one
before it. A record that comes exactly `gap` later begins the next run. A *session* is a run, or a
piece of one that lasts too long: a run is cut `length_max` after its first record, and from there
on at every multiple of `length_max` since the Unix epoch. So the last record of a session is less
than `length_max` after its first one, and a run that is no longer stays whole wherever it is.

A cut depends on the first record of the run and on nothing that follows. The rule for times: with
the last record of the session at p, its row is at p + gap - 1 us, the last instant at which a
record could still have continued it. So a row needs no record behind its own position.

The rule for ranges. Let the output positions be [a, b). The last records of their sessions lie at
q = a - gap + 1 us or later; let m be the multiple of `length_max` at q or before it. A session of a
record at p >= m begins at m or later, unless its run began behind m - length_max: if the run began
at m - length_max or before, it has been cut by m, and at m. Where it began is seen from the records
of the run behind m - length_max and the one before them, if it is nearer than `gap`. So the needed
input is

    [m - length_max - gap + 2 us, b)

and no smaller one would do: a record at its first position, one gap - 1 us later and one at m make
a run that is cut at m; without the first of them, it would be cut 1 us later. The range begins less
than 2 * (length_max + gap) before a.

Worked example. `gap="5m", length_max="1h"`, one key:

    records                                        session             its row is at
    11:50, 11:54, ..., 12:10 (20 minutes)          11:50 to 12:10      12:14:59.999999
    12:15 (5 minutes after the last)               12:15               12:19:59.999999
    13:10, 13:14, ..., 15:30 (two hours and more)  13:10 to 14:06      14:10:59.999999
                                                   14:10 to 14:58      15:02:59.999999
                                                   15:02 to 15:30      15:34:59.999999

The first cut of the last run is at 14:10, an hour after its first record, which is the first of the
next session; the second cut is at 15:00. The output bucket [15:02, 15:03) needs the input from
12:55:00.000002 on: q is 14:57:00.000001 and m is 14:00.

Of a missing part of the input nothing is known: with a record more, two sessions could be one. As
for an Aggregate, a tentative answer is computed of the records that are there, and the correction
replaces it; there is one input, so a Session never waits.

Source: session windows of Flink and Spark. Their sessions have no greatest length and so need
state, and a record exactly `gap` after the last one still continues a session, although it is at
its end, which belongs to no other window. The cuts and the rules are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from medusa_core.errors import Refused
from medusa_core.frozen import freeze
from medusa_core.grid import Range, floor_us, parse_duration_us
from medusa_core.names import check_name

BOUNDS = ("window_start", "window_end")
"""The first columns of a Session: its first record, and when it ended."""


def needed_range(part: Range, gap_us: int, length_us_max: int) -> Range:
    """The range of the input that the output positions in `part` need."""
    last_us = floor_us(part.from_us - gap_us + 1, length_us_max)
    return Range(last_us - length_us_max - gap_us + 2, part.to_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The sessions of each key `by`: records that are each less than `gap` after the one before.

    A session lasts less than `length_max` from its first record to its last. A longer run of
    records is cut `length_max` after its first one, and then at multiples of it since 1970. NULL is
    a key like any other; without `by`, all records have one key.

    The output has `window_start` (the event time of the first record), `window_end` (that of the
    last one + `gap`), the key and `columns` (name -> aggregate expression); its event time is
    `window_end` - 1 us.
    """

    name: str
    input: str
    by: tuple[str, ...] = ()
    gap: str
    length_max: str
    columns: Mapping[str, str]
    fragment: str = "main"

    def __post_init__(self) -> None:
        freeze(self, "columns")

    @property
    def gap_us(self) -> int:
        """After how many microseconds without a record a session has ended."""
        return parse_duration_us(self.gap)

    @property
    def length_us_max(self) -> int:
        """How many microseconds a session lasts, more than at most."""
        return parse_duration_us(self.length_max)


def check_session(box: Session) -> None:
    """Refuse a Session whose own parameters cannot be, naming it."""
    owner = f"session {box.name}"
    if box.gap is None:
        raise Refused(
            f"{owner} has no gap: write how long after its last record a session ends, such as "
            "gap='5m'"
        )
    if box.length_max is None:
        raise Refused(
            f"{owner} has no length_max: write how long a session may last, such as "
            "length_max='4h'; a longer one is cut, since a session without limit would need state"
        )
    for field, duration in (("gap", box.gap), ("length_max", box.length_max)):
        try:
            parse_duration_us(duration)
        except Refused as error:
            raise Refused(f"{field} of {owner}: {error}") from None
    if box.gap_us >= box.length_us_max:
        raise Refused(
            f"{owner} has a gap of {box.gap} and a length_max of {box.length_max}: write a "
            "length_max that is longer than the gap"
        )
    for name in (*box.by, *box.columns):
        check_name(f"column of {owner},", name)
        if name in BOUNDS:
            where = "in by" if name in box.by else "among its columns"
            raise Refused(
                f"{owner} has {name} {where}: window_start and window_end are those of the "
                "session; give the column another name, in a map before it if it is a key"
            )
    names = (*box.by, *box.columns)
    if len(set(names)) < len(names):
        raise Refused(f"{owner} has a column twice among {', '.join(names)}: name each once")
