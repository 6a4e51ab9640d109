"""Verification of prepared jobs: their results are compared with those of an ordinary plan.

A prepared job is one plan of Spark's that runs again at every step (`pipelines.spark.prepared`).
If part of it were stored, a step would return rows of an earlier one. So before the first result
of a prepared job is committed it has run over two different inputs, first a few of the step's
records and then all of them, and the second result had the digests and the quarantine of a plan
that was made for that input alone. The result of the first run is not compared: at its first run
a prepared job is such a plan itself. One step in STEPS_PER_VERIFICATION is compared again. Where
they differ, the ordinary result is committed.

Of a large step only RECORDS_COMPARED_MAX records are compared, so that verification costs no more
than a small step does; a step over panes is compared whole. A tentative answer does not wait for
any of this: its job was compared over generated records while the driver warmed up, or else the
answer is computed by an ordinary plan.

The ordinary plan reads the same records in the same order in one partition, so that sums of
doubles have the same last digits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa

from medusa_core.columns import Column
from medusa_core.commits import QuarantinedRecord
from medusa_core.digest import Digest, sum_of
from medusa_core.names import StreamName
from pipelines.spark.compiled_fragment import CarriedShape
from pipelines.spark.results import Target, failed_records, rows_left, rows_of_output
from pipelines.storage.arrow_digests import digests_by_bucket
from pipelines.storage.arrow_schema import BUCKET, STIME

STEPS_PER_VERIFICATION = 1_000

RECORDS_COMPARED_MAX = 20_000
"""From how many records of each input on only the first ones are compared."""

FEW_RECORDS_MAX = 1_000


class Records(Enum):
    """Which of a step's records a run is given: each kind are the first ones of the next."""

    FEW = auto()
    COMPARED = auto()
    ALL = auto()

    def of(self, records: pa.Table) -> pa.Table:
        """These of all records, which are in the order of event time; fewer than all are FEW."""
        match self:
            case Records.FEW:
                return records.slice(0, min(records.num_rows // 2, FEW_RECORDS_MAX))
            case Records.COMPARED:
                return records.slice(0, RECORDS_COMPARED_MAX)
            case Records.ALL:
                return records


@dataclass(frozen=True, slots=True)
class Contents:
    """What a run gave: the digest of each non-empty bucket by stream, and the quarantine.

    `left` has the digest of the carried rows that each box leaves, where these are compared.
    """

    buckets: Mapping[StreamName, Mapping[int, Digest]]
    quarantine: Sequence[QuarantinedRecord]
    left: Mapping[str, Digest] = field(default_factory=dict)

    def difference(self, ordinary: Contents) -> str | None:
        """The first difference from the result of the ordinary plan, as a sentence."""
        for stream, buckets in ordinary.buckets.items():
            own = self.buckets.get(stream, {})
            for at in sorted({*buckets, *own}):
                if own.get(at) != buckets.get(at):
                    rows = own.get(at, Digest()).rows
                    return (
                        f"stream {stream} has {rows} rows in the bucket at {at} us where the "
                        f"ordinary plan has {_rows(buckets.get(at), rows)}"
                    )
        if sorted(self.quarantine, key=repr) != sorted(ordinary.quarantine, key=repr):
            return (
                f"{len(self.quarantine)} records are quarantined where the ordinary plan "
                f"quarantines {_other(len(ordinary.quarantine), len(self.quarantine))}"
            )
        for box, digest in ordinary.left.items():
            mine = self.left[box]
            if mine != digest:
                return (
                    f"box {box} leaves {mine.rows} carried rows where the ordinary plan leaves "
                    f"{_rows(digest, mine.rows)}"
                )
        return None


def _rows(digest: Digest | None, rows: int) -> str:
    return _other(0 if digest is None else digest.rows, rows)


def _other(number: int, than: int) -> str:
    return str(number) if number != than else f"{number} others"


class Result(Protocol):
    """What a run gave, in whatever form its job writes it from."""

    @property
    def contents(self) -> Contents: ...


@dataclass(frozen=True, slots=True)
class Tagged:
    """A tagged relation and where its rows go.

    `streams` are those that are compared, `carried` the boxes whose carried rows are compared.
    """

    target: Target
    table: pa.Table
    streams: tuple[StreamName, ...]
    carried: tuple[CarriedShape, ...] = ()

    @property
    def contents(self) -> Contents:
        """The digests of the rows within the step's range, and its quarantine."""
        shapes = [s for s in self.target.shapes if s.stream in self.streams]
        rows = {s: rows_of_output(self.target, s, self.table) for s in shapes}
        return Contents(
            buckets={
                s.stream: digests_by_bucket(mine, s.columns, mine[BUCKET].to_numpy())
                for s, mine in rows.items()
            },
            quarantine=tuple(failed_records(self.target, self.table)),
            left={shape.box: _digest(shape, self.table) for shape in self.carried},
        )


def _digest(shape: CarriedShape, tagged: pa.Table) -> Digest:
    rows, columns = rows_left(shape, tagged), (*shape.columns, Column(STIME, "bigint"))
    return sum_of(digests_by_bucket(rows, columns, np.zeros(rows.num_rows, np.int64)).values())


R = TypeVar("R", bound=Result)
Run = Callable[[Records], R]


class Verification:
    """The verification of one prepared job over the steps of its life."""

    def __init__(self) -> None:
        self._is_tried = False
        self._answers = 0
        self._steps_since: int | None = None

    @property
    def may_answer(self) -> bool:
        """Whether the job may give a tentative answer: it was compared with an ordinary plan."""
        return self._is_tried or self.has_compared

    @property
    def has_compared(self) -> bool:
        """Whether a step was compared."""
        return self._steps_since is not None

    @property
    def is_due(self) -> bool:
        """Whether the next step is compared, unless it is an answer."""
        since = self._steps_since
        return since is None or since + 1 >= STEPS_PER_VERIFICATION

    @property
    def is_trial_due(self) -> bool:
        """Whether a job that gives nothing but answers is to be compared over generated records."""
        return not self._is_tried or self._answers >= STEPS_PER_VERIFICATION

    def tried(self) -> None:
        """The job gave what an ordinary plan gives, over generated records."""
        self._is_tried, self._answers = True, 0

    def run(
        self, prepared: Run[R], ordinary: Run[R], compared: Records = Records.ALL,
        *, is_answer: bool = False,
    ) -> tuple[R, bool, str | None]:  # fmt: skip
        """A result that may be committed, whether it was compared, and how the job's differed.

        The few come first: rows that are stored show in the runs over more. An answer is not
        compared; the next step that is none is.
        """
        if is_answer or not self.is_due:
            self._answers += is_answer
            if self._steps_since is not None:
                self._steps_since += 1
            return prepared(Records.ALL), False, None
        if not self.may_answer:
            prepared(Records.FEW)
        found, expected = prepared(compared), ordinary(compared)
        difference = found.contents.difference(expected.contents)
        self._steps_since = 0  # a run that failed has compared nothing
        by, result = (ordinary, expected) if difference else (prepared, found)
        return (result if compared is Records.ALL else by(Records.ALL)), True, difference
