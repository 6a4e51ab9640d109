"""Running the parts of a run, one after the other or in several processes at once.

A part depends on its words alone, so the figures are the same however the run was shared out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipelines.simulation.parallel_parts import side_by_side
from pipelines.simulation.schemes.parts import Part, run_part
from pipelines.simulation.schemes.run_file import FinishedParts


def run_parts(
    parts: Sequence[Part],
    kept: FinishedParts,
    jobs: int,
    on_progress: Callable[[int], None] = lambda done: None,
) -> None:
    """Do what is not done yet. `on_progress` is called after each part with how many are done."""
    todo = [part for part in parts if part.key not in kept.done]
    for part, given in side_by_side(run_part, todo, jobs):
        kept.add(part.key, given)
        on_progress(len(kept.done))
