"""Which records of a stream's next batch land, which are held, and which go to quarantine, and why.

A function of the state behind the batch before and of the records in their order; the definition is
`medusa_core.lateness`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from medusa_core.commits import LateRow, QuarantinedRecord
from medusa_core.grid import BEGINNING_US
from medusa_core.lateness import LatenessRule, LatenessState, Verdict, end_of_sequence
from medusa_core.names import StreamName
from medusa_core.network import Source
from pipelines.sources.arrow_lateness import Int64s, Verdicts, judge_column
from pipelines.sources.live.source_state import HeldRecord, LiveState
from pipelines.sources.recorded.parquet_rows import record_text
from pipelines.storage.arrow_schema import STIME, columns_of
from pipelines.storage.late_rows import late_rows_of

UNCONFIRMED = (
    "is dated far ahead of the records before it, or beyond the clock, and the next one does not "
    "confirm it"
)
BEHIND_PROMISE = "is late: its idle source had promised a later boundary meanwhile"


@dataclass(frozen=True, slots=True)
class Places:
    """Where each row of a batch came from."""

    positions: Int64s
    owners: Int64s
    origins: Sequence[str]

    def of(self, row: int) -> tuple[str, int]:
        """File (or what else it is of) and position of a row."""
        return self.origins[int(self.owners[row])], int(self.positions[row])


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRecords:
    """Which rows land, what is refused, what waits for the next record, and the state behind."""

    is_in_time: npt.NDArray[np.bool_]
    refused: tuple[QuarantinedRecord, ...]
    held: HeldRecord | None
    lateness: LatenessState


def judge_records(
    source: Source,
    rule: LatenessRule,
    state: LiveState,
    records: pa.Table,
    places: Places,
    *,
    limit_us: int | None,
    promised_us: int | None,
    is_last: bool = False,
) -> JudgedRecords:
    """Judge the next records of a stream; if one is held, it is the first row.

    `is_last`: no record can follow, so what is held is not confirmed any more.
    """
    times = records[STIME].to_numpy()
    judged = judge_column(
        rule,
        state.lateness,
        times[1:] if state.held else times,
        limit_us=limit_us,
        promised_us=promised_us,
    )
    verdicts, lateness = judged.verdicts, judged.state
    if state.held:
        first = Verdict.HELD if judged.released is None else judged.released
        verdicts = np.concatenate((np.array([first], np.int8), verdicts))
    if is_last:
        lateness = end_of_sequence(lateness)
        verdicts = np.where(verdicts == Verdict.HELD, Verdict.UNCONFIRMED, verdicts)
    waiting = np.flatnonzero(verdicts == Verdict.HELD)
    held = None
    if len(waiting):
        row = int(waiting[0])
        held = HeldRecord.of(*places.of(row), records.slice(row, 1))
    return JudgedRecords(
        is_in_time=verdicts == Verdict.IN_TIME,
        refused=tuple(
            _refused(source, rule, state.lateness.max_us, records, times, verdicts, places)
        ),
        held=held,
        lateness=lateness,
    )


def _refused(
    source: Source,
    rule: LatenessRule,
    max_us: int | None,
    records: pa.Table,
    times: Int64s,
    verdicts: Verdicts,
    places: Places,
) -> list[QuarantinedRecord]:
    """The records that are late or were not confirmed, with the reason."""
    rows = np.flatnonzero((verdicts == Verdict.LATE) | (verdicts == Verdict.UNCONFIRMED))
    if not len(rows):
        return []
    start_us = BEGINNING_US // 2 if max_us is None else max_us
    is_counted = (verdicts == Verdict.IN_TIME) | (verdicts == Verdict.LATE)
    counted = np.where(is_counted, times, start_us)
    before = np.maximum.accumulate(np.concatenate(([start_us], counted)))
    by_sequence = (
        f"is late: more than {rule.disorder_us / 1e6:g} s, the declared disorder, behind a record "
        "before it"
    )
    found = []
    taken = records.drop_columns([STIME]).take(pa.array(rows))
    late = _late_rows(source, records, rows[verdicts[rows] == Verdict.LATE])
    for number, row in enumerate(rows.tolist()):
        reason = UNCONFIRMED
        if verdicts[row] == Verdict.LATE:
            is_behind = times[row] < before[row] - rule.disorder_us
            reason = by_sequence if is_behind else BEHIND_PROMISE
        origin, position = places.of(row)
        whole = record_text({name: taken[name][number] for name in taken.column_names})
        found.append(
            QuarantinedRecord.of(
                whole,
                stream=StreamName(source.name),
                origin=origin,
                position=position,
                field=source.time,
                reason=reason,
                late=late.get(row),
            )
        )
    return found


def _late_rows(source: Source, records: pa.Table, rows: Int64s) -> Mapping[int, LateRow]:
    """Row -> what is kept of a late record; nothing if they stay in quarantine."""
    if source.late_every_us is None or not len(rows):
        return {}
    columns = columns_of(f"source {source.name!r}", source.columns)
    kept = late_rows_of(records.take(pa.array(rows)), columns)
    return dict(zip(rows.tolist(), kept, strict=True))
