"""`python -m bench market`: the cost of rounds of the market, in CPU seconds of one process.

One round of 1,000 participants with 10 contracts and 100 fragments each: the first one, in which
all decide (later ones ask only those with new knowledge). With --large two markets are played
until they rest: 100,000 participants at 0.8 of all thresholds, 10,000 at 0.95. Decisions are
those of production; only the messages and the records are the simulator's.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench.machine import describe_machine
from pipelines.simulation.schemes.bounded_price import BoundedPrice
from pipelines.simulation.schemes.drawn_worlds import Load, Sizes, make_world
from pipelines.simulation.schemes.measures import figures_of
from pipelines.simulation.schemes.scheme_names import ROUNDS_MAX

ROUND = Sizes(participants=1_000, contracts=10, levels=2, utilisation=0.95, fragments=100)
ROUND_CPU_S_MAX = 1.0
REST = (
    Sizes(participants=100_000, contracts=3, levels=2, utilisation=0.8, fragments=20),
    Sizes(participants=10_000, contracts=3, levels=2, utilisation=0.95),
)
REST_S_MAX = 120.0
TRIES = 5


def main(arguments: Sequence[str]) -> int:
    """Measure and print; 1 if a market broke a law or did not come to rest."""
    parser = argparse.ArgumentParser(prog="bench market", description=__doc__)
    parser.add_argument("--large", action="store_true", help="also the large markets, to rest")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="where everything is written as JSON")
    options = parser.parse_args(arguments)
    document: dict[str, Any] = {"machine": describe_machine(), "rounds": []}
    failures: list[str] = []
    for load in Load:
        measured = measure_round(load, options.seed)
        document["rounds"].append(measured)
        print(
            f"a round of 1,000 participants, 10 contracts, 100 fragments, {load.value}: "
            f"{measured['cpu_s']:.2f} s of CPU ({ROUND_CPU_S_MAX:g} s at most is the target), "
            f"{measured['offers']} offers, {measured['moves']} moves",
            flush=True,
        )
    if options.large:
        document["rest"] = []
        for measured in measure_rest(options.seed):
            document["rest"].append(measured)
            failures += measured["failures"]
            print(
                f"{measured['participants']:,} participants, {measured['utilisation']:g} of all "
                f"thresholds: {measured['rounds']} rounds, {measured['elapsed_s']:.0f} s, "
                f"{measured['cpu_s']:.0f} s of CPU ({REST_S_MAX:g} s is the target of the first), "
                f"{measured['residual_percent']:.3f} % residual",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


def measure_round(load: Load, seed: int) -> dict[str, Any]:
    """The first round: the median of a few, without what it takes to set everybody up."""
    world = make_world(
        Sizes(
            participants=ROUND.participants,
            contracts=ROUND.contracts,
            levels=ROUND.levels,
            utilisation=ROUND.utilisation,
            fragments=ROUND.fragments,
            load=load,
        ),
        seed,
    )
    taken = []
    for _ in range(TRIES):
        set_up = BoundedPrice().run(world, 0)
        outcome = BoundedPrice().run(world, 1)
        taken.append(max(outcome.cpu_s - set_up.cpu_s, 0.0))
    return {
        "load": load.value,
        "cpu_s": median(taken),
        "cpu_s_each": taken,
        "offers": outcome.rounds[1].offers,
        "moves": outcome.rounds[1].moves,
    }


def measure_rest(seed: int) -> Iterator[dict[str, Any]]:
    """Each large market once; the world is made before the time counts."""
    for sizes in REST:
        world = make_world(sizes, seed)
        started_s = time.perf_counter()
        outcome = BoundedPrice().run(world, ROUNDS_MAX)
        elapsed_s = time.perf_counter() - started_s
        figures = figures_of(world, outcome, sizes.levels)
        failures = [] if figures.is_at_rest else ["it did not come to rest"]
        yield {
            "participants": sizes.participants,
            "utilisation": sizes.utilisation,
            "elapsed_s": elapsed_s,
            "cpu_s": outcome.cpu_s,
            "rounds": figures.rounds,
            "residual_percent": figures.residual_percent,
            "failures": [*failures, *figures.violations],
        }
