"""The load equation of a network, and what is left of it when records are dropped.

A box costs a time for each record that it reads, and gives so many rows for each (its selectivity).
The load of a network is the sum over its sources of rate times path cost, and equally the sum over
its boxes of the records that reach each, times its cost. It is in seconds of work per second.

Drops are described by the share that is kept of each output. A box is needed for as much as the
outputs behind it keep at most, so that a share is dropped as early as possible: at the inputs, and
where streams part to outputs that keep different shares. Elsewhere a drop would save nothing more.

Source: the load coefficients and the drop locations of Aurora; appendix A13 of our reading notes
has the figures of the test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from medusa_core.errors import Refused
from medusa_core.frozen import freeze

SHARE_MIN = 1e-9
"""Below this no share is told from another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedBox:
    """A box: what it reads (boxes or sources), what a record costs it, how many rows that gives.

    `fixed` is what it takes besides, in seconds per second; it falls with the share, too: what is
    not computed at all costs no step.
    """

    name: str
    inputs: tuple[str, ...]
    record_us: float
    selectivity: float = 1.0
    fixed: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedNetwork:
    """Boxes, each after those that it reads, the records per second of sources, and outputs.

    `outputs` maps an output to the box that gives it. `overlaps` says of a box and an output behind
    it how much more of the box a kept unit needs than its own time, in units: for the windows that
    begin before it.
    """

    boxes: tuple[LoadedBox, ...]
    rates: Mapping[str, float]
    outputs: Mapping[str, str]
    overlaps: Mapping[tuple[str, str], float] = field(default_factory=dict)
    behind: Mapping[str, frozenset[str]] = field(init=False, compare=False, repr=False)
    """Source or box -> the outputs that are computed from it."""
    loads: Mapping[str, float] = field(init=False, compare=False, repr=False)
    """Box -> its load while nothing is dropped."""
    _needs: tuple[tuple[float, tuple[tuple[str, float], ...]], ...] = field(
        init=False, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        freeze(self, "rates", "outputs", "overlaps")
        known = {*self.rates}
        for box in self.boxes:
            if lacking := [name for name in box.inputs if name not in known]:
                raise Refused(f"box {box.name} reads {lacking[0]}, which no box before it gives")
            known.add(box.name)
        behind = {name: {o for o, box in self.outputs.items() if box == name} for name in known}
        for box in reversed(self.boxes):
            for name in box.inputs:
                behind[name] |= behind[box.name]
        object.__setattr__(self, "behind", {n: frozenset(found) for n, found in behind.items()})
        read = self._records_read()
        loads = {box.name: read[box.name] * box.record_us / 1e6 + box.fixed for box in self.boxes}
        object.__setattr__(self, "loads", loads)
        needs = (
            (load, tuple((o, self.overlaps.get((box, o), 0.0)) for o in sorted(self.behind[box])))
            for box, load in loads.items()
            if load
        )
        object.__setattr__(self, "_needs", tuple(needs))

    def _records_read(self) -> dict[str, float]:
        """Box -> records per second that it reads."""
        gives, read = dict(self.rates), {}
        for box in self.boxes:
            read[box.name] = sum(gives[name] for name in box.inputs)
            gives[box.name] = read[box.name] * box.selectivity
        return read

    @property
    def load(self) -> float:
        """Of the whole network while nothing is dropped."""
        return sum(self.loads.values())

    def share_of(self, name: str, shares: Mapping[str, float]) -> float:
        """How much is needed of a box or source when outputs keep these shares (others: all).

        What no output is computed from is nobody's to drop.
        """
        needed = (
            needed_share(shares.get(output, 1.0), self.overlaps.get((name, output), 0.0))
            for output in self.behind[name]
        )
        return max(needed, default=1.0)

    def load_with(self, shares: Mapping[str, float]) -> float:
        """The load when outputs keep these shares."""
        total = 0.0
        for load, needs in self._needs:
            needed = 0.0 if needs else 1.0
            for output, overlap in needs:
                share = shares.get(output, 1.0)
                needed = max(needed, needed_share(share, overlap) if overlap else share)
            total += load * needed
        return total


def needed_share(share: float, overlap: float) -> float:
    """How much is needed so that a share of the units is complete, if units are spread evenly.

    Few units that are kept need their overlap each; few that are dropped lose it to the next one.
    """
    return min(share * (1 + overlap), 1 - (1 - share) * (1 - min(overlap, 1.0)), 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropLocation:
    """Where records are dropped: before `box` on the arc from `source`, or for all of its readers.

    `rate` is the share of the records that arrive there.
    """

    source: str
    box: str | None
    rate: float

    def __str__(self) -> str:
        where = self.source if self.box is None else f"{self.source} -> {self.box}"
        return f"{where} {self.rate:.0%}"


def drop_locations(
    network: LoadedNetwork, shares: Mapping[str, float]
) -> Iterator[DropLocation]:  # fmt: skip
    """Where to drop so that outputs keep these shares: at inputs, and behind a split."""
    for source in network.rates:
        share = network.share_of(source, shares)
        if share < 1 - SHARE_MIN:
            yield DropLocation(source=source, box=None, rate=1 - share)
    for box in network.boxes:
        share = network.share_of(box.name, shares)
        for name in dict.fromkeys(box.inputs):
            arriving = network.share_of(name, shares)
            if share < arriving - SHARE_MIN:
                yield DropLocation(source=name, box=box.name, rate=1 - share / arriving)
