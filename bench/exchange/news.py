"""How soon the news of a commit is at the reader."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.exchange.asking import AskedReader, Line
from bench.exchange.homes import Producing, names_of

MS = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """Milliseconds from a commit's return to its news at the reader."""

    ms: Sequence[float]

    def part(self, percent: int) -> float:
        """What so many of a hundred are not above."""
        ordered = sorted(self.ms)
        return ordered[max(-(-len(ordered) * percent // 100) - 1, 0)]


def measure_news(
    alpha: Producing, reader: AskedReader, *, streams: int, commits: int, rate: float, seed: int
) -> Delays:
    """So many commits of random streams at random times, `rate` a second on average.

    A commit may come at any time, also while the news of another one is on its way.
    """
    chance = random.Random(seed)
    names = names_of(streams)
    returned: dict[Line, int] = {}
    due_s = time.monotonic()
    for _ in range(commits):
        stream = chance.choice(names)
        segment = alpha.segment(stream)
        due_s = max(due_s + chance.expovariate(rate), time.monotonic())
        time.sleep(max(due_s - time.monotonic(), 0))
        version = alpha.commit(stream, segment)
        returned[stream, version] = time.monotonic_ns()
    return Delays(ms=[(reader.wait_for(line) - at) / MS for line, at in returned.items()])


def warm_up(alpha: Producing, reader: AskedReader, streams: int) -> None:
    """One commit of every stream, so that everything has run once."""
    lines = [(name, alpha.commit(name, alpha.segment(name))) for name in names_of(streams)]
    # Each: over a busy machine some wait while later ones are here.
    for line in lines:
        reader.wait_for(line)
    reader.ask("settle")
