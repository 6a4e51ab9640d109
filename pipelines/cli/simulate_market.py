"""`medusa simulate market`: schemes of placing load, on the same random markets."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from medusa_core.errors import Refused
from pipelines.base import clock

if TYPE_CHECKING:
    from pipelines.operations.market_simulation import MarketRequest, MarketResult

PROGRESS_EVERY_S = 10.0


def run_market(options: argparse.Namespace) -> int:
    """Run the parts and print their figures; 1 if a target was missed or a law did not hold."""
    from pipelines.operations.market_simulation import simulate_market

    result = simulate_market(_request(options), _Progress())
    if options.json:
        figures = {part.key: result.figures[part.key] for part in result.parts}
        print(json.dumps({"parts": figures, "missed": list(result.missed)}, indent=1))
    else:
        print(render(result))
    return 1 if result.missed else 0


def _request(options: argparse.Namespace) -> MarketRequest:
    from pipelines.operations.market_simulation import MarketRequest

    for name in ("schedules", "trims", "replicas", "markets", "explain"):
        if getattr(options, name):
            raise Refused(f"--{name} is of `medusa simulate faults`: leave it out")
    return MarketRequest(
        participants=options.participants,
        contracts=options.contracts,
        levels=options.levels,
        utilisation=options.utilisation,
        load=options.load,
        fragments=options.fragments,
        schemes=tuple(options.scheme or ()),
        seed=options.seed,
        seeds=options.seeds,
        jobs=options.jobs,
        resume=options.resume,
    )


class _Progress:
    """Prints how many parts are done, every ten seconds at most."""

    def __init__(self) -> None:
        self._last_s: float | None = None

    def __call__(self, done: int, parts: int) -> None:
        now_s = clock.monotonic_s()
        if self._last_s is None:
            self._last_s = now_s
            if done:
                print(f"continues: {done} of {parts} parts were done", file=sys.stderr)
        elif now_s - self._last_s > PROGRESS_EVERY_S:
            self._last_s = now_s
            print(f"{done} of {parts} parts done", file=sys.stderr, flush=True)


def render(result: MarketResult) -> str:
    """The result for a terminal."""
    from pipelines.simulation.schemes.run_text import lines_of, verdict_lines

    parts = list(result.parts)
    lines = (*lines_of(parts, result.figures), *verdict_lines(parts, list(result.missed)))
    return "\n".join(lines)
