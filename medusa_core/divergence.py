"""Divergence: producers of one stream that disagree over a bucket under one plan.

A plan gives equal rows for equal inputs, so one of the two has read something else, or does not
compute what the plan says. The home cannot know which one. From that bucket on nothing of the
stream becomes final in this home, final rows remain, and a person is called. Only an operator's
recall of a line settles a divergence; until then it remains, even if the producers agree again
over later buckets.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from medusa_core.digest import Digest
from medusa_core.names import PlanId, StreamName, Version
from medusa_core.segments import Producer


@dataclass(frozen=True, slots=True)
class Side:
    """What one producer has in the bucket: the digest of its rows, and at which version of it.

    Version 0: it has no row there, because the bucket is outside its line's life.
    """

    producer: Producer
    version: Version
    digest: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """Two producers differ in the bucket that begins at `bucket_us`, under one plan.

    `number` is the catalog's own; `noticed_at_ms` is the home's clock.
    """

    stream: StreamName
    bucket_us: int
    plan: PlanId
    one: Side
    other: Side
    number: int = field(default=0, compare=False)
    noticed_at_ms: int = field(default=0, compare=False)

    @property
    def producers(self) -> frozenset[Producer]:
        """Who disagrees."""
        return frozenset({self.one.producer, self.other.producer})
