"""The wait budget of a stream's readers here, used when choosing among its producers.

A row that is not verified yet is waited for like a missing input, by the same rule of the bound
as in the fragment that reads it, so that both together never wait longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from medusa_core.bounds import Policy, most_eager, wait_ms
from medusa_core.knowledge import FragmentKnowledge
from medusa_core.names import StreamName
from medusa_core.paths import rests_ms


@dataclass(frozen=True, slots=True)
class WaitBudget:
    """The least wait of those that read a stream, age that was carried to it included, and the most
    eager of their policies during a failure."""

    wait_ms: int
    during_failure: Policy = Policy.PROCESS

    def least(self, other: WaitBudget) -> WaitBudget:
        """That of both."""
        policy = most_eager((self.during_failure, other.during_failure))
        return WaitBudget(min(self.wait_ms, other.wait_ms), policy)


def wait_budget_of(fragments: Sequence[FragmentKnowledge]) -> Mapping[StreamName, WaitBudget]:
    """Input stream -> how long it may be waited for; none of what nothing is promised behind.

    `fragments` are those of one home, each after those it reads.
    """
    rests = rests_ms(fragments)
    return together(
        dict.fromkeys(
            known.inputs,
            WaitBudget(
                wait_ms(known.bound, known.cost, rests[known.fragment.id]),
                known.bound.during_failure,
            ),
        )
        for known in fragments
        if known.bound is not None
    )


def together(found: Iterable[Mapping[StreamName, WaitBudget]]) -> dict[StreamName, WaitBudget]:
    """Of each stream the smallest wait budget."""
    whole: dict[StreamName, WaitBudget] = {}
    for one in found:
        for stream, wait_budget in one.items():
            whole[stream] = wait_budget.least(whole[stream]) if stream in whole else wait_budget
    return whole
