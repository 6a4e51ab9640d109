"""The verdict on samples over time: whether a quantity that must stay flat has grown.

The first quarter of the counted time is compared with the last, median against median, so that a
single odd sample has no effect. The slope is the median of the slopes between all pairs of
samples (Theil and Sen), for the reader; the bound is on the medians.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

Series = dict[str, dict[str, list[tuple[float, float]]]]
"""Participant or server -> quantity -> (seconds since the start, value), in order of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """How much a quantity may grow from the first quarter to the last: a share, and a rest."""

    share: float
    more: float


FLAT: Mapping[str, Bound] = {
    "python RSS MiB": Bound(share=0.05, more=8),
    "JVM RSS MiB": Bound(share=0.10, more=32),
    "JVM metaspace MiB": Bound(share=0.02, more=3),
    "JVM classes": Bound(share=0.02, more=300),
    "JVM open files": Bound(share=0, more=8),
    "JVM threads": Bound(share=0, more=8),
    "open files": Bound(share=0, more=4),
    "threads": Bound(share=0, more=4),
    "server processes": Bound(share=0, more=6),
    "server PSS MiB": Bound(share=0.15, more=32),
    # Each backend keeps up to 1,000 files of tables open for later; there are more with each GiB.
    "server open files": Bound(share=0.25, more=100),
    "behind s": Bound(share=0.25, more=10),
}
"""What must stay flat; the shares leave room for caches that are still filling."""

ENDS = {"JVM heap after GC MiB": Bound(share=0.10, more=16)}
"""What is compared at the two moments at which everything was collected: first and last sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """One quantity of one process: where it stood, where it stands, and how it went.

    `bound` is the most that `last` may be (None: it may grow).
    """

    of: str
    quantity: str
    first: float
    last: float
    slope_per_h: float
    bound: float | None

    @property
    def is_kept(self) -> bool:
        """Whether it stayed within its bound."""
        return self.bound is None or self.last <= self.bound


def trends_of(series: Series, warm_up_s: float) -> list[Trend]:
    """The trend of every quantity that was sampled often enough after the warm-up."""
    return [
        trend_of(of, quantity, counted)
        for of, quantities in series.items()
        for quantity, samples in quantities.items()
        if len(counted := [(at_s, v) for at_s, v in samples if at_s >= warm_up_s]) >= 4
    ]


def trend_of(of: str, quantity: str, samples: Sequence[tuple[float, float]]) -> Trend:
    """One trend; at least four samples, in order of time."""
    values = [value for _, value in samples]
    if quantity in ENDS:
        first, last, bound = values[0], values[-1], ENDS[quantity]
    else:
        quarter = len(values) // 4
        first, last = median(values[:quarter]), median(values[-quarter:])
        bound = FLAT.get(quantity)
    return Trend(
        of=of,
        quantity=quantity,
        first=first,
        last=last,
        slope_per_h=slope_per_h(samples),
        bound=None if bound is None else first * (1 + bound.share) + bound.more,
    )


def slope_per_h(samples: Sequence[tuple[float, float]]) -> float:
    """The median of the slopes between all pairs of samples, per hour."""
    return 3_600 * median(
        (later - earlier) / (later_s - earlier_s)
        for (earlier_s, earlier), (later_s, later) in combinations(samples, 2)
        if later_s > earlier_s
    )


def lines_of(trends: Sequence[Trend]) -> Iterator[str]:
    """The table: what must stay flat first, then what grows by nature."""
    yield f"{'':12}{'must stay flat':26}{'first':>10}{'last':>10}{'per hour':>10}{'bound':>10}"
    yield from (_line(t) for t in trends if t.bound is not None)
    yield ""
    yield f"{'':12}{'is told apart':26}{'first':>10}{'last':>10}{'per hour':>10}"
    yield from (_line(t) for t in trends if t.bound is None)


def _line(trend: Trend) -> str:
    line = f"{trend.of:12}{trend.quantity:26}{trend.first:>10,.1f}{trend.last:>10,.1f}"
    line += f"{trend.slope_per_h:>+10,.1f}"
    if trend.bound is None:
        return line
    return f"{line}{trend.bound:>10,.1f}  {'kept' if trend.is_kept else 'GREW'}"
