"""The laws that can be read off the rows a line has or had, each with the figure it turns on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from medusa_core.certificates import LineEvent
from medusa_core.first_outputs import FirstOutput, computations_max
from medusa_core.suggest import counted
from pipelines.base.time_text import duration

COMPUTATIONS_MAX = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """A law, what it says, what was found, and whether it holds."""

    name: str
    says: str
    found: str
    holds: bool


def laws_of(
    answers: Sequence[FirstOutput], events: Sequence[LineEvent], bound_ms: int | None
) -> tuple[Law, ...]:
    """The laws over these rows, in the order of their names."""
    left = sum(answer.final_at_ms is None for answer in answers)
    replaced = sum(e.stability.is_final and e.end_version is not None for e in events)
    live = sorted(e.range for e in events if e.end_version is None)
    overlaps = sum(a.overlaps(b) for a, b in pairwise(live))
    most = computations_max(events)
    return (
        Law(
            name="L1",
            says="once the failure is over, nothing tentative is left",
            found=f"{counted(left, 'answer')} still tentative",
            holds=not left,
        ),
        Law(
            name="S2",
            says="what is final never changes",
            found=f"{counted(replaced, 'final row')} replaced",
            holds=not replaced,
        ),
        Law(
            name="S3",
            says="live segments never overlap",
            found=f"{counted(overlaps, 'overlap')} of {counted(len(live), 'live segment')}",
            holds=not overlaps,
        ),
        _in_time(answers, bound_ms),
        Law(
            name="S12",
            says="a bucket is computed twice at most, whatever fails",
            found=f"{most} times at most",
            holds=most <= COMPUTATIONS_MAX,
        ),
    )


def _in_time(answers: Sequence[FirstOutput], bound_ms: int | None) -> Law:
    delays = [a.delay_ms for a in answers if a.delay_ms is not None]
    most = max(delays, default=0)
    found = f"{duration(most * 1_000) if most else '0 ms'} at most"
    if bound_ms is None:
        found += ", no bound declared"
    else:
        late = sum(delay > bound_ms for delay in delays)
        found += f" of {duration(bound_ms * 1_000)}, {counted(late, 'answer')} late"
    return Law(
        name="S6",
        says="while some input is there, answers come within the bound",
        found=found,
        holds=bound_ms is None or most <= bound_ms,
    )
