"""The cost of a lost replica for its reader: which replica each bucket was read from, and when.

* **Switch**: from the loss of the replica that was read until a bucket is read from another.
* **Taken**: the same, but from the time at which that bucket would have been read without the loss,
  if that is later: its end and the usual time from the end of a bucket until it is read (median of
  the last buckets before the loss).
* **Read again**, where all were lost: from the heal until a bucket is read from any of them.
* **Silence**: the longest time in the cell in which no bucket was chosen.
* **Chosen twice**: buckets with more than one final row that was read. None are allowed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from bench.dpc.history import TENTATIVE

RECENT = 10
"""Of whom so many of the last choices were made for the most part, is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A range of the stream, and of whom it was read from `committed_ms` on."""

    committed_ms: float
    from_us: int
    to_us: int
    stability: str
    producers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """One cell, in seconds; None where there was nothing to measure. `whole_s` is from the heal, or
    the new start, until everybody has everything, the one that was lost included."""

    lost: tuple[str, ...]
    switch_s: float | None
    taken_s: float | None
    again_s: float | None
    silence_s: float
    whole_s: float
    chosen_twice: int
    divergences: int

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def switch_of(document: Mapping[str, Any]) -> Switch:
    """Back from JSON."""
    return Switch(**{**document, "lost": tuple(document["lost"])})


def read_of(choices: Sequence[Choice], replicas: Sequence[str]) -> str:
    """Of whom is read now, by the last choices; the first of `replicas` where nobody is ahead."""
    counted = Counter(name for choice in choices[-RECENT:] for name in choice.producers)
    return max(replicas, key=lambda name: counted[name])


def measure_switch(
    choices: Sequence[Choice],
    *,
    lost: Sequence[str],
    replicas: Sequence[str],
    from_ms: float,
    to_ms: float,
    settled_ms: float,
    divergences: int,
) -> Switch:
    """The figures of one cell: `lost` were gone from `from_ms` to `to_ms`."""
    others = set(replicas) - set(lost)
    during = [c for c in choices if from_ms <= c.committed_ms <= settled_ms]
    switched = [c for c in during if set(c.producers) & others]
    first = min(switched, key=lambda c: c.committed_ms, default=None)
    again = [c.committed_ms for c in during if c.committed_ms >= to_ms]
    before = [c.committed_ms for c in choices if c.committed_ms < from_ms]
    times = sorted({*before[-1:], *(c.committed_ms for c in during), settled_ms})
    return Switch(
        lost=tuple(lost),
        switch_s=None if first is None else (first.committed_ms - from_ms) / 1e3,
        taken_s=None if first is None else _taken_s(first, from_ms, choices),
        again_s=None if others else _seconds(to_ms, again),
        silence_s=max((b - a for a, b in pairwise(times)), default=0.0) / 1e3,
        whole_s=(settled_ms - to_ms) / 1e3,
        chosen_twice=_chosen_twice(choices),
        divergences=divergences,
    )


def _taken_s(first: Choice, from_ms: float, choices: Sequence[Choice]) -> float:
    before = [c for c in choices if c.committed_ms < from_ms][-RECENT:]
    usual_ms = median(c.committed_ms - c.to_us / 1e3 for c in before) if before else 0.0
    return max(0.0, first.committed_ms - max(from_ms, first.to_us / 1e3 + usual_ms)) / 1e3


def _seconds(from_ms: float, times: Sequence[float]) -> float | None:
    return (min(times) - from_ms) / 1e3 if times else None


def _chosen_twice(choices: Iterable[Choice]) -> int:
    """How many final choices overlap the one before them."""
    final = sorted((c.from_us, c.to_us) for c in choices if c.stability != TENTATIVE)
    return sum(one[1] > other[0] for one, other in pairwise(final))
