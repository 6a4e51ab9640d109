"""Decisions as log lines: which fields a line has, in their order; see docs/watching.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, assert_never

from medusa_core.decide import (
    Adopt,
    CloseBuckets,
    ComputeStep,
    Decision,
    DecisionReason,
    DropBuckets,
    Promote,
    Wait,
)
from medusa_core.fragments import landing_fragment
from medusa_core.grid import Range
from medusa_core.segments import Stability, drop_rate_of

if TYPE_CHECKING:
    from pipelines.participant.driver import Applied

Fields = dict[str, Any]


def fragment_of(decision: Decision) -> str:
    """The fragment that a decision is about; a source's landing is one."""
    match decision:
        case ComputeStep() | Promote() | Adopt() | DropBuckets():
            return decision.fragment.fragment.id
        case CloseBuckets():
            return landing_fragment(decision.landing.stream)
        case Wait():
            return decision.of
        case _:
            assert_never(decision)


def decision_fields(decision: Decision) -> Fields:
    """What is known before it is carried out."""
    fields: Fields = {"fragment": fragment_of(decision)}
    match decision:
        case ComputeStep():
            fields |= {
                "event": "compute",
                "streams": list(decision.outputs),
                **range_fields(decision.range),
                "stability": decision.stability.value,
                "cause": decision.cause.value,
                "missing": list(decision.missing),
                "drop_rate": drop_rate_of(decision.reads),
            }
        case Promote():
            fields |= {
                "event": "promote",
                "streams": [t.segment.stream for t in decision.tentative],
                **range_fields(decision.range),
                "stability": Stability.STABLE.value,
                "cause": "correction",
            }
        case CloseBuckets():
            fields |= {
                "event": "close",
                "streams": [decision.landing.stream],
                **range_fields(decision.range),
                "stability": Stability.STABLE.value,
                "cause": "landing",
            }
        case Adopt():
            fields |= {
                "event": "adopt",
                "streams": list(decision.segments),
                **range_fields(decision.range),
                "stability": (Stability.GAP if decision.is_lost else Stability.STABLE).value,
                "cause": decision.cause.value,
                "provider": str(decision.provider),
            }
        case DropBuckets():
            fields |= {
                "event": "drop",
                "streams": list(decision.outputs),
                **range_fields(decision.range),
                "stability": decision.stability.value,
                "cause": decision.cause.value,
            }
        case Wait():
            fields |= {"event": "wait"}
        case _:
            assert_never(decision)
    return fields | {"because": because_fields(decision.because)}


def applied_fields(applied: Applied) -> Fields:
    """A decision that was carried out: what it made, and at what cost."""
    metrics = applied.commit.metrics
    return {
        **decision_fields(applied.decision),
        "commit_key": applied.commit_key,
        "versions": dict(applied.committed.versions),
        "committed_at_ms": applied.committed.committed_at_ms,
        "again": applied.committed.again,
        "records_in": metrics.records_in,
        "records_out": metrics.records_out,
        "quarantined": len(applied.commit.quarantine),
        "phases_ms": {name: round(ms, 1) for name, ms in metrics.phases_ms.items()},
    }


def because_fields(because: DecisionReason) -> Fields:
    """The reason and the numbers that it was decided by."""
    return {"reason": because.reason, **because.numbers}


def range_fields(part: Range) -> Mapping[str, int]:
    """A range of event time."""
    return {"from_us": part.from_us, "to_us": part.to_us}
