"""What the samples of live participants come to: lags, their slopes, and the CPU of a record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from bench.home_samples import slope
from bench.live_made import LANDER
from bench.process_tree import Sample
from bench.wanted import Wanted

SERVER = "postgres"
SLOPE_MAX = 1.0
"""Seconds of lag a minute: above it the lag grows."""

LANDED_MIN = 0.98
"""Of the rate: a source that lands less falls behind the recording."""

SUSTAINED = (200_000, 500_000)
CHAINED = 100_000
PARTS_SHOWN = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRun:
    """Participants at one rate of records.

    `samples`: of each participant, and of the server, by name, in order of time. `parts`: CPU
    seconds per second by activity. `phases`: milliseconds of a step.
    """

    rate: int
    samples: Sequence[Mapping[str, Sample]]
    parts: Mapping[str, Mapping[str, float]]
    phases: Mapping[str, Mapping[str, float]]

    @property
    def homes(self) -> list[str]:
        """The participants, in the order of the chain."""
        return [name for name in self.samples[0] if name != SERVER]

    @property
    def landed_per_s(self) -> float:
        """Records a second that the first participant lands."""
        return self._grown(LANDER, "landed") / self._grown(LANDER, "at_s")

    def lag_s(self, home: str) -> float:
        """The median lag of a home."""
        return median(sample[home]["lag_s"] for sample in self.samples)

    def slope(self, home: str) -> float:
        """Seconds that the lag of a home grows by in a minute."""
        return 60 * slope([(s[home]["at_s"], s[home]["lag_s"]) for s in self.samples])

    def cpu_us(self, name: str, *figures: str) -> float:
        """Microseconds of CPU for each landed record."""
        spent_s = sum(self._grown(name, figure) for figure in figures)
        return 1e6 * spent_s / max(self._grown(LANDER, "landed"), 1)

    @property
    def is_sustained(self) -> bool:
        """Whether all that is played lands, and no lag grows."""
        is_flat = all(self.slope(home) <= SLOPE_MAX for home in self.homes)
        return is_flat and self.landed_per_s >= LANDED_MIN * self.rate

    def _grown(self, name: str, figure: str) -> float:
        return self.samples[-1][name][figure] - self.samples[0][name][figure]

    def document(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {**asdict(self), "landed_per_s": self.landed_per_s, "sustained": self.is_sustained}


PYTHON, JVM = "python CPU s", "JVM CPU s"


def lines_of(run: LiveRun) -> Iterator[str]:
    """A table of one rate, a line for each home."""
    verdict = "the lag is flat" if run.is_sustained else "the lag GROWS"
    yield ""
    yield f"{run.rate:,} records/s played, {run.landed_per_s:,.0f} landed: {verdict}"
    yield (
        f"{'':12}{'lag s':>8}{'s/min':>8}{'CPU µs a record':>18}{'Python':>9}{'JVM':>7}"
        f"{'commits/s':>11}"
    )
    span_s = run.samples[-1][SERVER]["at_s"] - run.samples[0][SERVER]["at_s"]
    total = server = run.cpu_us(SERVER, "server CPU s")
    for home in run.homes:
        spent = run.cpu_us(home, PYTHON, JVM)
        total += spent
        commits = (run.samples[-1][home]["commits"] - run.samples[0][home]["commits"]) / span_s
        yield (
            f"{home:12}{run.lag_s(home):>8.1f}{run.slope(home):>8.2f}{spent:>18.2f}"
            f"{run.cpu_us(home, PYTHON):>9.2f}{run.cpu_us(home, JVM):>7.2f}{commits:>11.1f}"
        )
    yield f"{SERVER:12}{'':16}{server:>18.2f}"
    yield f"{'all':12}{'':16}{total:>18.2f}   {total * run.landed_per_s / 1e6:.2f} cores"
    for home in run.homes:
        yield from _part_lines(run, home)


def _part_lines(run: LiveRun, home: str) -> Iterator[str]:
    parts = sorted(run.parts[home].items(), key=lambda part: -part[1])[:PARTS_SHOWN]
    if parts:
        cells = (f"{name} {1e6 * cores / run.landed_per_s:.2f}" for name, cores in parts)
        yield f"  {home}, metered, µs a record: {', '.join(cells)}"
    if phases := run.phases[home]:
        cells = (f"{name} {ms:.0f}" for name, ms in list(phases.items())[:PARTS_SHOWN])
        yield f"  {home}, ms of a step: {', '.join(cells)}"


def wanted_of(runs: Sequence[LiveRun]) -> list[Wanted]:
    """The largest rate with flat lag, and what is promised."""
    most = max((run.rate for run in runs if run.is_sustained), default=0)
    if len(runs[0].homes) == 1:
        name, (promised, goal) = "records/s with flat lag, one participant", SUSTAINED
        return [Wanted(name=name, measured=most, promised=promised, goal=goal, is_least=True)]
    name = f"records/s with flat lag, chain of {len(runs[0].homes)}"
    return [Wanted(name=name, measured=most, promised=CHAINED, is_least=True)]
