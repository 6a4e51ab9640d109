"""Resample: a row for each key at every multiple of a step, from the records around that time.

The rule for values. Let T be a multiple of `step`, counted from 1970. For each key:

    previous    the newest record in [T - max_age, T] gives the values at T.
    linear      numbers lie on the line between the newest record in [T - max_age, T] and the
                oldest one in [T, T + max_age]; the other columns are those of the first of them.

Without these neighbours there is no row. A record at T is both neighbours. Of several records at
one time the last in canonical order is the newest, and the first the oldest.

The rule for times. No record after T changes a row of `previous`, so it is at T. A row of
`linear` is certain once T + max_age is known, and is there. The column `sample_time` is T.

The rule for ranges. With `linear`, a record at t is a neighbour of the times from t - max_age to
t + max_age, whose rows lie max_age later (`Reach`):

    previous    [a, b) needs [a - max_age, b)
    linear      [a, b) needs [a - 2 max_age, b)

A bucket without a multiple of `step` needs less, but it is not worth a rule of its own.

Worked example. `step="10s"`, `max_age="15s"`, and the output bucket [100 s, 110 s):

    previous    the row of T = 100 s; records in [85 s, 110 s)
    linear      the row of T = 90 s, at 105 s; records in [70 s, 110 s)

The row of T = 90 s is made of records from 75 s to 105 s.

Without one of the streams behind the input, a tentative row may be made of an older record, as the
rows of an Aggregate are made of fewer records.

Source: time series systems (last observation carried forward, linear interpolation); the rules are
ours.
"""

from __future__ import annotations

from dataclasses import dataclass

from medusa_core.errors import Refused
from medusa_core.grid import parse_duration_us
from medusa_core.joins import Reach
from medusa_core.names import check_name
from medusa_core.suggest import did_you_mean

PREVIOUS, LINEAR = "previous", "linear"
METHODS = (PREVIOUS, LINEAR)
ROWS_PER_RECORD_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Resample:
    """Rows at every multiple of `step` for each key, from records at most `max_age` away.

    `by` are the columns of the key; NULL is a key like any other. `method` is "previous" or
    "linear" (`medusa_core.resamples`). The columns are `sample_time`, those of `by`, and `columns`,
    by default all others of the input. With "linear", numbers become doubles.
    """

    name: str
    input: str
    step: str
    max_age: str
    by: tuple[str, ...] = ()
    method: str = PREVIOUS
    columns: tuple[str, ...] = ()
    fragment: str = "main"

    @property
    def step_us(self) -> int:
        """The time between two rows of a key, in microseconds."""
        return parse_duration_us(self.step)

    @property
    def max_age_us(self) -> int:
        """How far a record may be from a row's `sample_time`, at most, in microseconds."""
        return parse_duration_us(self.max_age)

    @property
    def delay_us(self) -> int:
        """How long after its `sample_time` a row is certain and lies."""
        return self.max_age_us if self.method == LINEAR else 0

    @property
    def reach(self) -> Reach:
        """Which output positions need a record of the input."""
        return Reach(0, self.max_age_us + self.delay_us)


def check_resample(box: Resample) -> None:
    """Refuse a Resample whose own parameters cannot be, naming it."""
    owner = f"resample {box.name}"
    if box.method not in METHODS:
        near = did_you_mean(str(box.method), METHODS, f"write {' or '.join(METHODS)}")
        raise Refused(f"method of {owner} is {box.method!r}, which is not a method: {near}")
    if box.max_age is None:
        raise Refused(
            f"{owner} has no max_age: write how far a record may be from a row, such as "
            "max_age='1m'; records are not kept without limit"
        )
    for field, duration in (("step", box.step), ("max_age", box.max_age)):
        try:
            parse_duration_us(duration)
        except Refused as error:
            raise Refused(f"{field} of {owner}: {error}") from None
    if box.max_age_us > ROWS_PER_RECORD_MAX * box.step_us:
        raise Refused(
            f"{owner} has a max_age of {box.max_age} and a step of {box.step}: a record would give "
            f"more than {ROWS_PER_RECORD_MAX} rows; write a longer step"
        )
    for name in (*box.by, *box.columns):
        check_name(f"column of {owner},", name)
    names = ["sample_time", *box.by, *box.columns]
    if len(set(names)) < len(names):
        raise Refused(f"{owner} has two columns of one name among {', '.join(names)}")
