"""Running many schedules, one after the other or in several processes at once.

A schedule depends on its seed alone, so the figures of a run are the same however it was shared
out. Processes are started anew, not forked: whoever runs the simulator may have threads.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context

from medusa_core.errors import Unavailable
from pipelines.simulation.runs import RunFigures
from pipelines.simulation.schedule import run_schedule
from pipelines.simulation.shapes import WHOLE, Shape
from pipelines.simulation.world import Tell

SCHEDULES_PER_PART = 20


def run_schedules(
    schedules: int,
    seed: int,
    *,
    shape: Shape = WHOLE,
    tell: Tell | None = None,
    begun: Callable[[int], None] = lambda seed: None,
    violations_max: int = 1_000_000,
) -> RunFigures:
    """Run the schedules of the seeds from `seed` on; stop at so many violations."""
    figures = RunFigures(first_seed=seed, shape=shape)
    for number in range(seed, seed + schedules):
        begun(number)
        figures.add(run_schedule(number, tell, shape))
        if len(figures.violations) >= violations_max:
            break
    figures.close()
    return figures


def run_shared(schedules: int, seed: int, jobs: int, shape: Shape = WHOLE) -> RunFigures:
    """The same in so many processes; raises Unavailable if one of them was killed."""
    parts = range(seed, seed + schedules, SCHEDULES_PER_PART)
    if min(jobs, len(parts)) == 1:
        return run_schedules(schedules, seed, shape=shape)
    figures = RunFigures(first_seed=seed, shape=shape)
    ignore_interrupts = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    with ProcessPoolExecutor(
        min(jobs, len(parts)), get_context("spawn"), initializer=ignore_interrupts
    ) as pool:
        made = [
            pool.submit(run_part, first, min(SCHEDULES_PER_PART, seed + schedules - first), shape)
            for first in parts
        ]
        try:
            for part in as_completed(made):
                figures.merge(part.result())
        except BrokenProcessPool as error:
            raise Unavailable(
                "a process of the simulator was killed, perhaps for want of memory: run again "
                "with fewer --jobs"
            ) from error
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    figures.close()
    return figures


def run_part(first: int, schedules: int, shape: Shape) -> RunFigures:
    """The schedules of some seeds of a run; whether everything occurred is for the whole to see."""
    figures = RunFigures(first_seed=first, shape=shape)
    for number in range(first, first + schedules):
        figures.add(run_schedule(number, shape=shape))
    return figures
