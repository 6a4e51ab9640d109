"""`medusa simulate faults`: schedules of faults against the product's decisions and catalogs."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from medusa_core.errors import Refused
from pipelines.simulation.faults.events import Event
from pipelines.simulation.faults.run_figures import RunFigures
from pipelines.simulation.faults.schedule_runs import run_on, run_schedules, run_shared
from pipelines.simulation.faults.schedule_shapes import MARKETS, MIXED, REPLICAS, TRIMS, Shape
from pipelines.simulation.progress import progress_in

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
TOLD_EVERY = 1_000


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
    shape = TRIMS if trims else REPLICAS if replicas else MARKETS if markets else MIXED
    if resume is not None:
        if explain:
            raise Refused("a run that is explained is not kept: leave --explain or --resume out")
        figures = _go_on(resume, schedules, seed, jobs or os.cpu_count() or 1, shape)
    elif explain:
        figures = run_schedules(schedules, seed, shape=shape, tell=_tell, begun=_begun)
    else:
        figures = run_shared(schedules, seed, jobs or os.cpu_count() or 1, shape)
    if as_json:
        print(json.dumps(figures.document(), indent=1))
    else:
        _print(figures)
    return 1 if figures.has_failed else 0


def _go_on(resume: Path, schedules: int, seed: int, jobs: int, shape: Shape) -> RunFigures:
    with progress_in(resume, seed, shape) as progress:
        told = progress.figures.schedules
        if told:
            print(f"goes on: {told} schedules were done before", file=sys.stderr, flush=True)

        def tell(done: int) -> None:
            nonlocal told
            if done - told >= TOLD_EVERY:
                told = done
                found = len(progress.figures.violations)
                print(
                    f"{done} of {schedules} done, {found} violations", file=sys.stderr, flush=True
                )

        figures = run_on(progress, schedules, jobs, tell)
        if len(progress.codes) > 1:
            by = ", ".join(f"{code} {n}" for code, n in progress.codes.items())
            print(f"the code changed on the way (schedules by its hash): {by}", file=sys.stderr)
    return figures


def _begun(seed: int) -> None:
    print(f"schedule {seed}")


def _tell(event: Event) -> None:
    print(event)


def _print(figures: RunFigures) -> None:
    options = {TRIMS: " --trims", REPLICAS: " --replicas", MARKETS: " --markets"}
    short = options.get(figures.shape, "")
    for seed, violation in figures.violations[:VIOLATIONS_SHOWN_MAX]:
        print(f"schedule {seed}: {violation}")
        print(f"  see it: medusa simulate faults{short} --schedules 1 --seed {seed} --explain")
    for shortfall in figures.shortfalls[:VIOLATIONS_SHOWN_MAX]:
        print(f"too little: {shortfall}")
    print(figures.line())
