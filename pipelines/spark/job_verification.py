"""Verification of prepared jobs: their results are compared with those of an ordinary plan.

A prepared job is one plan of Spark's that runs again at every step (`pipelines.spark.prepared`). If
part of it were stored, a step would return rows of an earlier one. So before the first result of a
prepared job is committed it has run over two different inputs, first half of the step's records and
then all of them, and each result had the digests and the quarantine of a plan that was made for
that input alone. One step in STEPS_PER_VERIFICATION is compared again. Where they differ, the
ordinary result is committed.

The ordinary plan reads the same records in the same order in one partition, so that sums of doubles
have the same last digits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol, TypeVar

import pyarrow as pa

from medusa_core.commits import QuarantinedRecord
from medusa_core.digest import Digest
from medusa_core.names import StreamName
from pipelines.spark.results import Target, failed_records, rows_of_output
from pipelines.storage.arrow_digests import digests_by_bucket
from pipelines.storage.arrow_schema import BUCKET

STEPS_PER_VERIFICATION = 1_000


class Records(Enum):
    """Which of a step's records a run is given."""

    HALF = auto()
    ALL = auto()


@dataclass(frozen=True, slots=True)
class Contents:
    """What a run gave: the digest of each non-empty bucket by stream, and the quarantine."""

    buckets: Mapping[StreamName, Mapping[int, Digest]]
    quarantine: Sequence[QuarantinedRecord]

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
    """A tagged relation and where its rows go; `streams` are those that are compared."""

    target: Target
    table: pa.Table
    streams: tuple[StreamName, ...]

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
        )


R = TypeVar("R", bound=Result)
Run = Callable[[Records], R]


class Verification:
    """The verification of one prepared job over the steps of its life."""

    def __init__(self) -> None:
        self._steps = 0

    def run(self, prepared: Run[R], ordinary: Run[R]) -> tuple[R, bool, str | None]:
        """A result that may be committed, whether it was compared, and how the job's differed.

        The half comes first: rows that are stored show in the run over all records.
        """
        number, self._steps = self._steps, self._steps + 1
        if number == 0:
            difference = prepared(Records.HALF).contents.difference(ordinary(Records.HALF).contents)
            if difference is not None:
                return ordinary(Records.ALL), True, difference
        found = prepared(Records.ALL)
        if number % STEPS_PER_VERIFICATION:
            return found, False, None
        expected = ordinary(Records.ALL)
        difference = found.contents.difference(expected.contents)
        return (found if difference is None else expected), True, difference


def first_half(records: pa.Table) -> pa.Table:
    """The earlier half of records in the order of event time; none of a single record."""
    return records.slice(0, records.num_rows // 2)
