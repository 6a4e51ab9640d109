"""Running the parts of a run, one after the other or in several processes at once.

A part depends on its words alone, so the figures are the same however the run was shared out.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from typing import Any

from medusa_core.errors import Unavailable
from pipelines.simulation.market.kept import Kept
from pipelines.simulation.market.parts import Part, run_part


def run_parts(
    parts: Sequence[Part], kept: Kept, jobs: int, told: Callable[[int], None] = lambda done: None
) -> None:
    """Do what is not done yet. `told` is called after each part with how many are done."""
    todo = [part for part in parts if part.key not in kept.done]
    for key, given in _each(todo, jobs):
        kept.add(key, given)
        told(len(kept.done))


def _each(todo: Sequence[Part], jobs: int) -> Iterator[tuple[str, dict[str, Any]]]:
    if min(jobs, len(todo)) <= 1:
        for part in todo:
            yield part.key, run_part(part)
        return
    # Started anew, not forked: whoever runs the simulator may have threads.
    ignore_interrupts = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    with ProcessPoolExecutor(
        min(jobs, len(todo)), get_context("spawn"), initializer=ignore_interrupts
    ) as pool:
        made = {pool.submit(run_part, part): part.key for part in todo}
        try:
            for done in as_completed(made):
                yield made.pop(done), done.result()
        except BrokenProcessPool as error:
            raise Unavailable(
                "a process of the simulator was killed, perhaps for want of memory: run again "
                "with fewer --jobs"
            ) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
