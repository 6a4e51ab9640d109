"""Running many schedules, one after the other or in several processes at once.

A schedule depends on its seed alone, so the figures are the same however a run was shared out.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from functools import partial

from pipelines.simulation.faults.run_figures import RunFigures
from pipelines.simulation.faults.schedule import ScheduleFigures, run_schedule
from pipelines.simulation.faults.schedule_shapes import WHOLE, Shape, shape_of
from pipelines.simulation.faults.world import Observe
from pipelines.simulation.parallel_parts import side_by_side
from pipelines.simulation.progress import Progress, code_fingerprint
from pipelines.simulation.rounds.market_schedule import run_market_schedule

SCHEDULES_PER_PART = 20
Part = tuple[int, int]
"""The first seed of a part of a run, and how many schedules it has."""


def schedule_of(seed: int, shape: Shape, observe: Observe | None = None) -> ScheduleFigures:
    """Run the schedule of a seed in a run of a shape."""
    one = shape_of(seed, shape)
    return run_market_schedule(seed, observe) if one.market else run_schedule(seed, observe, one)


def run_schedules(
    schedules: int,
    seed: int,
    *,
    shape: Shape = WHOLE,
    observe: Observe | None = None,
    begun: Callable[[int], None] = lambda seed: None,
    violations_max: int = 1_000_000,
) -> RunFigures:
    """Run the schedules of the seeds from `seed` on; stop at so many violations."""
    figures = RunFigures(first_seed=seed, shape=shape)
    for number in range(seed, seed + schedules):
        begun(number)
        figures.add(schedule_of(number, shape, observe))
        if len(figures.violations) >= violations_max:
            break
    figures.close()
    return figures


def run_shared(schedules: int, seed: int, jobs: int, shape: Shape = WHOLE) -> RunFigures:
    """The same in so many processes; raises Unavailable if one of them was killed."""
    figures = RunFigures(first_seed=seed, shape=shape)
    parts = _parts(range(seed, seed + schedules))
    for _, given in side_by_side(partial(run_part, shape=shape), parts, jobs, _begin):
        figures.merge(given)
    figures.close()
    return figures


def run_on(
    progress: Progress,
    schedules: int,
    jobs: int,
    on_progress: Callable[[int], None] = lambda done: None,
) -> RunFigures:
    """Go on with a run until the schedules of all its seeds are done; figures of all of it.

    `on_progress` is called after each part with how many are done.
    """
    first, code = progress.figures.first_seed, code_fingerprint()
    todo = [seed for seed in range(first, first + schedules) if not progress.is_done(seed)]
    run = partial(run_part, shape=progress.figures.shape)
    for (first_of_part, _), given in side_by_side(run, _parts(todo), jobs, _begin):
        progress.add(first_of_part, given, code)
        on_progress(progress.figures.schedules)
    figures = RunFigures(first_seed=first, shape=progress.figures.shape)
    figures.merge(progress.figures)
    figures.close()
    return figures


def _parts(seeds: Sequence[int]) -> list[Part]:
    """Runs of seeds that follow on each other, of SCHEDULES_PER_PART at most."""
    parts: list[Part] = []
    for seed in seeds:
        first, schedules = parts[-1] if parts else (seed, 0)
        if parts and first + schedules == seed and schedules < SCHEDULES_PER_PART:
            parts[-1] = first, schedules + 1
        else:
            parts.append((seed, 1))
    return parts


def _begin() -> None:
    """What a process of a run begins with."""
    # A world is one large cycle and makes hardly any other: it is enough to look after each part.
    gc.freeze()
    gc.disable()


def run_part(part: Part, shape: Shape) -> RunFigures:
    """The schedules of some seeds of a run; whether everything occurred is for the whole to see."""
    first, schedules = part
    figures = RunFigures(first_seed=first, shape=shape)
    for number in range(first, first + schedules):
        figures.add(schedule_of(number, shape))
    gc.collect()
    return figures
