"""The headroom of a bound: what X leaves after everything that an answer may cost here.

Without headroom the bound may not be kept if an input fails now. That is known before it fails,
so it is reported before. Decisions follow from the wait (`bounds.wait_ms`), not from this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medusa_core.bounds import wait_ms
from medusa_core.knowledge import FragmentKnowledge
from medusa_core.names import StreamName
from medusa_core.paths import rests_ms
from medusa_core.step_costs import Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """What the bound of a fragment's outputs leaves, in ms.

    `rest_ms` is what the path behind the fragment costs. `wait_ms` is how long it would wait for an
    input that is missing.
    """

    fragment: str
    streams: tuple[StreamName, ...]
    bound_ms: int
    cost: Cost
    rest_ms: int
    wait_ms: int

    @property
    def needed_ms(self) -> int:
        """What an answer without an input may take, once its other inputs are there."""
        return self.cost.gather_ms + self.cost.answer_ms + self.rest_ms

    @property
    def left_ms(self) -> int:
        """What the bound leaves beyond that; below 0 an answer may come later than the bound."""
        return self.bound_ms - self.needed_ms

    @property
    def is_kept(self) -> bool:
        """Whether the bound leaves enough."""
        return self.left_ms >= 0


def headrooms(fragments: Sequence[FragmentKnowledge]) -> tuple[Headroom, ...]:
    """The headroom of each fragment with a bound.

    `fragments` are those of one home, each after those it reads.
    """
    rests = rests_ms(fragments)
    return tuple(
        Headroom(
            fragment=known.fragment.id,
            streams=tuple(n for n, o in known.outputs.items() if o.bound is not None),
            bound_ms=known.bound.bound_ms,
            cost=known.cost,
            rest_ms=rests[known.fragment.id],
            wait_ms=wait_ms(known.bound, known.cost, rests[known.fragment.id]),
        )
        for known in fragments
        if known.bound is not None
    )
