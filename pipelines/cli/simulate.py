"""`medusa simulate faults`: schedules of faults against the product's decisions and catalogs."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from medusa_core.errors import Refused
from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_json, positive

if TYPE_CHECKING:
    from pipelines.simulation.faults.events import Event
    from pipelines.simulation.faults.run_figures import RunFigures
    from pipelines.simulation.faults.schedule_shapes import Shape

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
    traded = "those alone in which load is traded (default: three of twenty)"
    of_kind.add_argument("--markets", action="store_true", help=traded)
    jobs = "in how many processes at once (default: one for each CPU)"
    parser.add_argument("--jobs", type=positive, metavar="N", help=jobs)
    kept = "keep what is done there; the same call goes on with it"
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
    return simulate_faults(
        schedules=options.schedules or 100,
        seed=options.seed,
        explain=options.explain,
        as_json=options.json,
        jobs=options.jobs,
        trims=options.trims,
        replicas=options.replicas,
        markets=options.markets,
        resume=options.resume,
    )


def refuse_market_options(options: argparse.Namespace) -> None:
    """Refuse what says nothing about schedules of faults."""
    for name in MARKET_OPTIONS:
        if getattr(options, name) is not None:
            raise Refused(f"--{name} is of `medusa simulate market`: leave it out")


def simulate_faults(
    *,
    schedules: int,
    seed: int,
    explain: bool,
    as_json: bool,
    jobs: int | None = None,
    trims: bool = False,
    replicas: bool = False,
    markets: bool = False,
    resume: Path | None = None,
) -> int:
    """Run the schedules and print their figures; 1 if a law was broken or too little happened.

    `jobs`: in so many processes at once (default: one for each CPU); an explained run has one.
    `trims`: short schedules in which trims, reads and kills come between each other. `replicas`:
    those alone in which fragments have several owners; `markets`: those alone in which load is
    traded. `resume`: the file that keeps what is done; a run that was stopped goes on from there.
    """
    from pipelines.simulation.faults.schedule_runs import run_schedules, run_shared
    from pipelines.simulation.faults.schedule_shapes import MARKETS, MIXED, REPLICAS, TRIMS

    shape = TRIMS if trims else REPLICAS if replicas else MARKETS if markets else MIXED
    if resume is not None:
        if explain:
            raise Refused("a run that is explained is not kept: leave --explain or --resume out")
        figures = _go_on(resume, schedules, seed, jobs or os.cpu_count() or 1, shape)
    elif explain:
        figures = run_schedules(schedules, seed, shape=shape, observe=_print_event, begun=_begun)
    else:
        figures = run_shared(schedules, seed, jobs or os.cpu_count() or 1, shape)
    if as_json:
        print(json.dumps(figures.document(), indent=1))
    else:
        _print(figures)
    return 1 if figures.has_failed else 0


def _go_on(resume: Path, schedules: int, seed: int, jobs: int, shape: Shape) -> RunFigures:
    from pipelines.simulation.faults.schedule_runs import run_on
    from pipelines.simulation.progress import progress_in

    with progress_in(resume, seed, shape) as progress:
        count = progress.figures.schedules
        if count:
            print(f"goes on: {count} schedules were done before", file=sys.stderr, flush=True)

        def report(done: int) -> None:
            nonlocal count
            if done - count >= SHOWN_EVERY:
                count = done
                found = len(progress.figures.violations)
                print(
                    f"{done} of {schedules} done, {found} violations", file=sys.stderr, flush=True
                )

        figures = run_on(progress, schedules, jobs, report)
        if len(progress.codes) > 1:
            by = ", ".join(f"{code} {n}" for code, n in progress.codes.items())
            print(f"the code changed on the way (schedules by its hash): {by}", file=sys.stderr)
    return figures


def _begun(seed: int) -> None:
    print(f"schedule {seed}")


def _print_event(event: Event) -> None:
    print(event)


def _print(figures: RunFigures) -> None:
    from pipelines.simulation.faults.schedule_shapes import MARKETS, REPLICAS, TRIMS

    options = {TRIMS: " --trims", REPLICAS: " --replicas", MARKETS: " --markets"}
    short = options.get(figures.shape, "")
    for seed, violation in figures.violations[:VIOLATIONS_SHOWN_MAX]:
        print(f"schedule {seed}: {violation}")
        print(f"  see it: medusa simulate faults{short} --schedules 1 --seed {seed} --explain")
    for shortfall in figures.shortfalls[:VIOLATIONS_SHOWN_MAX]:
        print(f"too little: {shortfall}")
    print(figures.line())
