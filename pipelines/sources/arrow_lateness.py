"""The verdicts of `medusa_core.lateness`, over a whole column of event times at once.

Quiet stretches are judged by running maxima in numpy; around a record that may be held the plain
rule judges a few records itself, so that there is one definition of confirming. A property test
holds both equal over any cut.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from medusa_core.grid import BEGINNING_US
from medusa_core.lateness import LatenessRule, LatenessState, Verdict, judge

Int64s = NDArray[np.int64]
Verdicts = NDArray[np.int8]

_PLAIN_RECORDS = 32  # judged one by one where a record is held: a column of them costs as much
_STRETCH_RECORDS = 1 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedColumn:
    """As `medusa_core.lateness.JudgedBatch`, with the verdicts as numbers in an array."""

    verdicts: Verdicts
    released: Verdict | None
    state: LatenessState


def judge_column(
    rule: LatenessRule,
    state: LatenessState,
    times: Int64s,
    *,
    limit_us: int | None = None,
    promised_us: int | None = None,
) -> JudgedColumn:
    """As `medusa_core.lateness.judge`; `times` are int64 microseconds of the years 1 to 9999."""
    verdicts = np.zeros(len(times), np.int8)
    released: Verdict | None = None
    start, length = 0, len(times)
    while start < len(times):
        if state.held_us is not None or state.max_us is None:
            part = times[start : start + _PLAIN_RECORDS]
            judged = judge(rule, state, part.tolist(), limit_us=limit_us, promised_us=promised_us)
            if start and judged.released is not None:
                verdicts[start - 1] = judged.released
            elif judged.released is not None:
                released = judged.released
            verdicts[start : start + len(part)] = judged.verdicts
            state, start, length = judged.state, start + len(part), _STRETCH_RECORDS
            continue
        part = times[start : start + length]
        found, state = _judge_quiet(rule, state, part, limit_us, promised_us)
        verdicts[start : start + len(found)] = found
        start, length = start + len(found), 4 * length
    return JudgedColumn(verdicts=verdicts, released=released, state=state)


def _judge_quiet(
    rule: LatenessRule,
    state: LatenessState,
    times: Int64s,
    limit_us: int | None,
    promised_us: int | None,
) -> tuple[Verdicts, LatenessState]:
    """Verdicts up to the first record that is held, and that one's with them."""
    assert state.max_us is not None
    maxima = np.maximum.accumulate(np.concatenate(([state.max_us], times)))
    before = maxima[:-1]
    floor_us = BEGINNING_US if promised_us is None else promised_us
    is_late = times < np.maximum(before - rule.disorder_us, floor_us)
    count, held_us = len(times), None
    if rule.max_jump_us is not None or limit_us is not None:
        is_held = np.zeros(len(times), np.bool_)
        if rule.max_jump_us is not None:
            is_held |= times > before + rule.max_jump_us
        if limit_us is not None:
            is_held |= times > np.maximum(before, limit_us)
        is_held &= ~is_late
        first = int(is_held.argmax())
        if is_held[first]:
            count, held_us = first, int(times[first])
    verdicts = is_late[:count].astype(np.int8)
    state = replace(
        state,
        max_us=int(maxima[count]),
        held_us=held_us,
        late=state.late + int(np.count_nonzero(is_late[:count])),
    )
    if held_us is not None:
        verdicts = np.append(verdicts, np.int8(Verdict.HELD))
    return verdicts, state
