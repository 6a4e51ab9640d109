"""Parts of a run in several processes at once; an interrupt ends them where they are."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context
from typing import TypeVar

from medusa_core.errors import Unavailable

Part = TypeVar("Part")
Given = TypeVar("Given")


def side_by_side(
    run: Callable[[Part], Given],
    parts: Sequence[Part],
    jobs: int,
    begin: Callable[[], None] | None = None,
) -> Iterator[tuple[Part, Given]]:
    """Each part and what came of it, as it is done; with one job here, in order.

    `begin` is called in each process that is made. Raises Unavailable if a process was killed.
    """
    jobs = min(jobs, len(parts))
    if jobs <= 1:
        for part in parts:
            yield part, run(part)
        return
    # Started anew, not forked: whoever runs the simulator may have threads.
    context, others = get_context("spawn"), set(active_children())
    with ProcessPoolExecutor(jobs, context, _begin, (begin,)) as pool:
        made = {pool.submit(run, part): part for part in parts}
        try:
            for done in as_completed(made):
                yield made.pop(done), done.result()
        except BrokenProcessPool as error:
            raise Unavailable(
                "a process of the simulator was killed, perhaps for want of memory: run again "
                "with fewer --jobs"
            ) from error
        except BaseException:
            # Nobody will ask for what they are at, nor for the parts that wait.
            for process in set(active_children()) - others:
                process.terminate()
            raise


def _begin(begin: Callable[[], None] | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if begin is not None:
        begin()
