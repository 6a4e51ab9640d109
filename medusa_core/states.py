"""The states of the protocol, derived from the catalog: STABLE, UP_FAILURE, STABILIZATION.

No decision depends on a state; it is shown to people, and its transitions are recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from medusa_core.knowledge import FragmentKnowledge
from medusa_core.segments import Producer


class State(Enum):
    """How a fragment's outputs stand; papers.md 2.4, derived per fragment."""

    STABLE = "STABLE"
    UP_FAILURE = "UP_FAILURE"
    STABILIZATION = "STABILIZATION"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A fragment came into another state; `changed_at_ms` is the home's clock (None: not noted)."""

    fragment: str
    partition: int
    producer: Producer
    state: State
    because: str
    changed_at_ms: int | None = None


def state_of(fragment: FragmentKnowledge) -> tuple[State, str]:
    """The state of a fragment and why.

    UP_FAILURE: its newest bucket is tentative. STABILIZATION: some older one still is.
    """
    outputs = fragment.outputs.values()
    if all(o.tentative_us is None for o in outputs):
        return State.STABLE, "nothing is tentative"
    without = "final inputs"
    if any(read.drop_rate for t in fragment.tentative for read in t.reads):
        without = "what was dropped"
    lacks = {name for o in outputs if o.lacks is not None for name in o.lacks}
    if any(o.lacks is not None for o in outputs):
        return State.UP_FAILURE, f"without {', '.join(sorted(lacks)) or without}"
    return State.STABILIZATION, "new buckets are final, corrections are owed"
