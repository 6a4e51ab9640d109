"""`medusa simulate faults`: schedules of faults against the product's decisions and catalogs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from medusa_core.errors import Refused
from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_json, positive

if TYPE_CHECKING:
    from pipelines.operations.fault_simulation import FaultsResult
    from pipelines.simulation.faults.events import Event

HELP = "run seeded faults, or markets, and check the laws"
MARKET_OPTIONS = (
    "participants",
    "contracts",
    "levels",
    "utilisation",
    "load",
    "fragments",
    "scheme",
    "seeds",
)
MIXED, KINDS = "mixed", ("trims", "replicas", "revisions", "moves", "markets", "overloads")
"""The kinds of schedules: all of them by default, or those of one option."""
VIOLATIONS_SHOWN_MAX = 10
SHOWN_EVERY = 1_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa simulate`."""
    parser.add_argument("what", choices=("faults", "market"), metavar="faults|market")
    parser.add_argument("--schedules", type=positive, metavar="N", help="of faults (default: 100)")
    first = "the first schedule's or world's (default: 1)"
    parser.add_argument("--seed", type=int, default=1, help=first)
    short = "short schedules in which trims, reads and kills come between each other"
    of_kind = parser.add_mutually_exclusive_group()
    of_kind.add_argument("--trims", action="store_true", help=short)
    several = "those alone in which fragments have several owners (default: one of four)"
    of_kind.add_argument("--replicas", action="store_true", help=several)
    revised = "those alone in which final records are revised (default: one of five)"
    of_kind.add_argument("--revisions", action="store_true", help=revised)
    moved = "those alone in which fragments move between participants (default: one of 27)"
    of_kind.add_argument("--moves", action="store_true", help=moved)
    traded = "those alone in which load is traded (default: three of twenty)"
    of_kind.add_argument("--markets", action="store_true", help=traded)
    overloaded = "those alone in which participants are overloaded and drop records by QoS"
    of_kind.add_argument("--overloads", action="store_true", help=overloaded)
    jobs = "in how many processes at once (default: one for each CPU)"
    parser.add_argument("--jobs", type=positive, metavar="N", help=jobs)
    kept = "store finished parts there; the same call continues with them"
    parser.add_argument("--resume", type=Path, metavar="FILE", help=kept)
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--explain", action="store_true", help="print a line for each event")
    add_json(shown)
    market = parser.add_argument_group("a market (default: the matrix of all that are compared)")
    market.add_argument("--participants", type=int, metavar="N", help="how many (default: 995)")
    market.add_argument("--contracts", type=int, metavar="N", help="each has so many at least")
    levels = "price levels above the lowest; each is worth one fragment"
    market.add_argument("--levels", type=int, metavar="N", help=levels)
    share = "the total load as a share of all thresholds"
    market.add_argument("--utilisation", type=float, metavar="SHARE", help=share)
    market.add_argument("--load", metavar="uniform|pareto", help="how it is spread at first")
    units = "fragments that make up a threshold (default: 80)"
    market.add_argument("--fragments", type=int, metavar="N", help=units)
    scheme = "only this one, such as bounded or plain; may be repeated"
    market.add_argument("--scheme", action="append", metavar="NAME", help=scheme)
    market.add_argument("--seeds", type=int, metavar="N", help="how many worlds of each kind")


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Simulate schedules of faults, or a market."""
    if options.what == "market":
        from pipelines.cli.simulate_market import run_market

        return run_market(options)
    refuse_market_options(options)
    return _run_faults(options)


def refuse_market_options(options: argparse.Namespace) -> None:
    """Refuse what says nothing about schedules of faults."""
    for name in MARKET_OPTIONS:
        if getattr(options, name) is not None:
            raise Refused(f"--{name} is of `medusa simulate market`: leave it out")


def _run_faults(options: argparse.Namespace) -> int:
    """Run the schedules and print their figures; 1 if a law was broken or too little happened."""
    from pipelines.operations.fault_simulation import FaultsRequest, simulate_faults

    request = FaultsRequest(
        schedules=options.schedules or 100,
        seed=options.seed,
        kind=next((kind for kind in KINDS if getattr(options, kind)), MIXED),
        observes_events=options.explain,
        jobs=options.jobs,
        resume=options.resume,
    )
    result = simulate_faults(request, _Observer(request.schedules))
    if len(result.codes) > 1:
        by = ", ".join(f"{code} {n}" for code, n in result.codes.items())
        print(f"the code changed on the way (schedules by its hash): {by}", file=sys.stderr)
    if options.json:
        print(json.dumps(result.figures, indent=1))
    else:
        print("\n".join(_lines_of(result, request.kind)))
    return 1 if result.has_failed else 0


class _Observer:
    """Prints progress to stderr, every so many schedules, and events to stdout."""

    def __init__(self, schedules: int) -> None:
        self._schedules = schedules
        self._shown = 0

    def resumed(self, done: int) -> None:
        self._shown = done
        if done:
            print(f"continues: {done} schedules were done before", file=sys.stderr, flush=True)

    def progressed(self, done: int, violations: int) -> None:
        if done - self._shown >= SHOWN_EVERY:
            self._shown = done
            print(
                f"{done} of {self._schedules} done, {violations} violations",
                file=sys.stderr,
                flush=True,
            )

    def began(self, seed: int) -> None:
        print(f"schedule {seed}")

    def happened(self, event: Event) -> None:
        print(event)


def _lines_of(result: FaultsResult, kind: str) -> Iterator[str]:
    """The result for a terminal."""
    option = "" if kind == MIXED else f" --{kind}"
    for seed, violation in result.violations[:VIOLATIONS_SHOWN_MAX]:
        yield f"schedule {seed}: {violation}"
        yield f"  see it: medusa simulate faults{option} --schedules 1 --seed {seed} --explain"
    for shortfall in result.shortfalls[:VIOLATIONS_SHOWN_MAX]:
        yield f"too little: {shortfall}"
    yield result.summary
