"""`medusa simulate faults`: schedules of faults against the product's decisions and catalogs."""

from __future__ import annotations

import json
import os

from pipelines.simulation.events import Event
from pipelines.simulation.running import run_schedules, run_shared
from pipelines.simulation.runs import RunFigures
from pipelines.simulation.shapes import TRIMS, WHOLE

VIOLATIONS_SHOWN_MAX = 10


def simulate_faults(
    *,
    schedules: int,
    seed: int,
    explain: bool,
    as_json: bool,
    jobs: int | None = None,
    trims: bool = False,
) -> int:
    """Run the schedules and print their figures; 1 if a law was broken or too little happened.

    `jobs`: in so many processes at once (default: one for each CPU); an explained run has one.
    `trims`: short schedules in which trims, reads and kills come between each other.
    """
    shape = TRIMS if trims else WHOLE
    if explain:
        figures = run_schedules(schedules, seed, shape=shape, tell=_tell, begun=_begun)
    else:
        figures = run_shared(schedules, seed, jobs or os.cpu_count() or 1, shape)
    if as_json:
        print(json.dumps(figures.document(), indent=1))
    else:
        _print(figures)
    return 1 if figures.has_failed else 0


def _begun(seed: int) -> None:
    print(f"schedule {seed}")


def _tell(event: Event) -> None:
    print(event)


def _print(figures: RunFigures) -> None:
    short = " --trims" if figures.shape == TRIMS else ""
    for seed, violation in figures.violations[:VIOLATIONS_SHOWN_MAX]:
        print(f"schedule {seed}: {violation}")
        print(f"  see it: medusa simulate faults{short} --schedules 1 --seed {seed} --explain")
    for shortfall in figures.shortfalls[:VIOLATIONS_SHOWN_MAX]:
        print(f"too little: {shortfall}")
    print(figures.line())
