"""A compiled fragment: what a step runs, and where it finds each row in what comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from medusa_core.columns import Column
from medusa_core.grid import floor_us
from medusa_core.names import StreamName
from medusa_core.network import UserAggregate
from pipelines.language.failure_causes import FailureCause

TAG = "_output"

STEP_VIEW = "medusa_step"
"""The name under which the step offers its bounds as data, to the boxes that need them."""
STEP_FROM, STEP_TO = "_step_from_us", "_step_to_us"
STEP_COLUMNS = (Column(STEP_FROM, "bigint"), Column(STEP_TO, "bigint"))


@dataclass(frozen=True, slots=True)
class Statement:
    """A relation that is made before the last one: SQL, then perhaps a function; then kept."""

    view: str
    sql: str
    function: Callable[[Any], Any] | None = None
    columns: tuple[Column, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputShape:
    """Where an output's columns lie in the tagged relation: one slot for each column."""

    stream: StreamName
    tag: int
    columns: tuple[Column, ...]
    slots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FallibleBox:
    """A box that can fail: what it failed on comes out under a tag of its own.

    `expressions` are those of the user by column (of a Filter: by port). `is_window`: it fails on
    groups of its windows, else on records that it reads. The first slot has the number of the
    failure, the second the row.
    """

    box: str
    tag: int
    expressions: tuple[tuple[str, str], ...]
    slots: tuple[str, ...]
    is_window: bool

    def failure(self, number: int) -> tuple[str, str, FailureCause]:
        """The column, its expression and the cause that a number stands for."""
        at, cause = divmod(number, len(FailureCause))
        return *self.expressions[at], FailureCause(cause)


@dataclass(frozen=True, slots=True)
class PaneShape:
    """A box whose panes are given from outside too, and come out under a tag of their own."""

    box: str
    tag: int
    columns: tuple[Column, ...]
    slots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CarriedShape:
    """A box that is given rows in place of earlier records, and gives those that it leaves.

    Of the rows with equal `keys` the latest one counts, in each span of `within_us`; of a Lookup
    or a Session in `max_age_us`. The other of the two lengths is None. `is_open`: the rows are
    sessions that have not ended, which give rows without a further record.
    """

    box: str
    tag: int
    columns: tuple[Column, ...]
    slots: tuple[str, ...]
    keys: tuple[str, ...]
    within_us: int | None = None
    max_age_us: int | None = None
    is_open: bool = False

    def first_us(self, end_us: int) -> int:
        """From which time on rows can matter to records at `end_us` or later."""
        if self.within_us is not None:
            return floor_us(end_us, self.within_us)
        assert self.max_age_us is not None
        return end_us - self.max_age_us


@dataclass(frozen=True, slots=True)
class CompiledFragment:
    """What the step runs: statements in order, the last statement, and how to read its rows.

    `aggregates` are the aggregate functions of users that the statements call.
    """

    statements: tuple[Statement, ...]
    sql: str
    outputs: tuple[OutputShape, ...]
    fallible: tuple[FallibleBox, ...]
    panes: tuple[PaneShape, ...] = ()
    aggregates: tuple[UserAggregate, ...] = ()
    carried: tuple[CarriedShape, ...] = ()

    @property
    def left_views(self) -> Mapping[str, tuple[Column, ...]]:
        """What the steps before have left, by view, and the step's bounds if a box needs them."""
        views = {pane_view(pane.box): pane.columns for pane in self.panes}
        for carried in self.carried:
            views |= dict.fromkeys(carried_views(carried.box), carried.columns)
            if carried.is_open:
                views[STEP_VIEW] = STEP_COLUMNS
        return views


def input_view(stream: StreamName) -> str:
    """The name under which the step offers an input's records."""
    return f"medusa_in_{stream}"


def pane_view(box: str) -> str:
    """The name under which the step offers the panes that a box has made before."""
    return f"medusa_panes_{box}"


def carried_views(box: str) -> tuple[str, str]:
    """The names under which the step offers the rows that a box has left: of a file, and since."""
    return f"medusa_carried_{box}", f"medusa_since_{box}"
