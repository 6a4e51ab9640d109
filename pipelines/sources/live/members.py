"""The streams of a feed: their state, and the verdicts over their records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from medusa_core.commits import Lease, QuarantinedRecord
from medusa_core.lateness import LatenessRule, LatenessState, judge
from medusa_core.names import StreamName
from medusa_core.network import Source
from pipelines.sources.arrow_lateness import Int64s, judge_column
from pipelines.sources.live.claims import Split, Value
from pipelines.sources.live.judgement import Places, judge_records
from pipelines.sources.live.live_source import Polled
from pipelines.sources.live.source_state import HeldRecord, LiveState
from pipelines.storage.arrow_schema import STIME

_PLAIN_RECORDS = 32  # judged one by one: a column of them costs more


@dataclass(slots=True, kw_only=True)
class Member:
    """A stream of a feed: which value is its, its lease, and how it stands."""

    source: Source
    width_us: int
    value: Value
    lease: Callable[[], Lease]
    state: LiveState = field(default_factory=LiveState)
    origin_us: int | None = None
    promised_us: int | None = None
    has_ended: bool = False
    because: str = ""
    polled: Polled = field(default_factory=Polled)

    @property
    def stream(self) -> StreamName:
        """Its name."""
        return StreamName(self.source.name)


@dataclass(frozen=True, slots=True)
class JudgedMember:
    """The verdicts over one member's records; `is_in_time` None: all of them are."""

    lateness: LatenessState
    is_in_time: npt.NDArray[np.bool_] | None = None
    refused: tuple[QuarantinedRecord, ...] = ()
    held: HeldRecord | None = None


def judge_members(
    members: Sequence[Member],
    rule: LatenessRule,
    records: pa.Table,
    split: Split,
    places: Places,
    *,
    limit_us: int | None,
) -> dict[int, JudgedMember]:
    """Member -> the verdicts over its records, of those that have some.

    `records` are those of the table behind `split` that are claimed, in its order; `places` is
    where the rows of that table came from.
    """
    times = records[STIME].to_numpy()
    found: dict[int, JudgedMember] = {}
    for number in np.unique(split.members).tolist():
        member = members[number]
        start, end = int(split.bounds[number]), int(split.bounds[number + 1])
        plain = _plainly(member, rule, times[start:end], limit_us)
        if plain is not None:
            found[number] = JudgedMember(plain)
            continue
        rows = split.rows[start:end]
        judged = judge_records(
            member.source,
            rule,
            member.state,
            records.slice(start, end - start),
            Places(places.positions[rows], places.owners[rows], places.origins),
            limit_us=limit_us,
            promised_us=member.promised_us,
        )
        found[number] = JudgedMember(
            judged.lateness, judged.is_in_time, judged.refused, judged.held
        )
    return found


def _plainly(
    member: Member, rule: LatenessRule, times: Int64s, limit_us: int | None
) -> LatenessState | None:
    """The state behind the records if all of them are in time, as they nearly always are."""
    if member.state.held is not None:
        return None
    before, promised_us = member.state.lateness, member.promised_us
    if len(times) <= _PLAIN_RECORDS:
        one_by_one = judge(rule, before, times.tolist(), limit_us=limit_us, promised_us=promised_us)
        return one_by_one.state if not any(one_by_one.verdicts) else None
    judged = judge_column(rule, before, times, limit_us=limit_us, promised_us=promised_us)
    return judged.state if not judged.verdicts.any() else None
