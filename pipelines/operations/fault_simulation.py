"""Run seeded schedules of faults against the product's decisions and catalogs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from medusa_core.errors import Refused
from pipelines.simulation.faults.schedule_runs import run_on, run_schedules, run_shared
from pipelines.simulation.progress import SHAPES, progress_in

if TYPE_CHECKING:
    from pipelines.simulation.faults.events import Event
    from pipelines.simulation.faults.run_figures import RunFigures
    from pipelines.simulation.faults.schedule_shapes import Shape

MIXED = "mixed"
"""The kind of schedules that holds all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultsRequest:
    """Which schedules: so many, from the one of a seed on.

    `kind`: mixed; trims: short schedules in which trims, reads and kills come between each other;
    replicas: those in which fragments have several owners; revisions: those in which final records
    are revised; moves: those in which fragments move; markets: those in which load is traded;
    overloads: those in which participants drop records.
    `observes_events`: run one schedule after the other and report every event. `jobs`: number of
    processes, None for one per CPU. `resume`: file that keeps what is done; the same request
    continues with it.
    """

    schedules: int = 100
    seed: int = 1
    kind: str = MIXED
    observes_events: bool = False
    jobs: int | None = None
    resume: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultsResult:
    """What came of the schedules, those of earlier runs included.

    `violations`: seed and sentence of each broken law. `shortfalls`: what the schedules did not
    contain although they must. `figures`: sums and means as JSON values; `summary`: the same as a
    line. `codes`: schedules by the hash of the code that ran them, of a run with `resume`.
    """

    violations: tuple[tuple[int, str], ...]
    shortfalls: tuple[str, ...]
    figures: Mapping[str, Any]
    summary: str
    codes: Mapping[str, int] = field(default_factory=dict)

    @property
    def has_failed(self) -> bool:
        """Whether a law was broken, or too little happened."""
        return bool(self.violations or self.shortfalls)


class FaultsObserver(Protocol):
    """Observes a run: its progress if it can be resumed, its events if they are requested."""

    def resumed(self, done: int) -> None:
        """So many schedules are done by earlier runs."""

    def progressed(self, done: int, violations: int) -> None:
        """So many schedules are done, and so many laws were broken in them."""

    def began(self, seed: int) -> None:
        """The schedule of a seed begins."""

    def happened(self, event: Event) -> None:
        """An event of the schedule that began last."""


def simulate_faults(request: FaultsRequest, observer: FaultsObserver) -> FaultsResult:
    """Run the schedules; Refused for an invalid request, Unavailable if a process was killed."""
    if request.kind not in SHAPES:
        kinds = ", ".join(SHAPES)
        raise Refused(f"there is no kind of schedules {request.kind!r}: choose of {kinds}")
    shape, jobs = SHAPES[request.kind], request.jobs or os.cpu_count() or 1
    if request.resume is not None:
        if request.observes_events:
            raise Refused("a run that is explained is not kept: leave --explain or --resume out")
        return _resume(request.resume, request, shape, jobs, observer)
    if request.observes_events:
        figures = run_schedules(
            request.schedules,
            request.seed,
            shape=shape,
            observe=observer.happened,
            begun=observer.began,
        )
    else:
        figures = run_shared(request.schedules, request.seed, jobs, shape)
    return _result(figures)


def _resume(
    file: Path, request: FaultsRequest, shape: Shape, jobs: int, observer: FaultsObserver
) -> FaultsResult:
    with progress_in(file, request.seed, shape) as progress:
        observer.resumed(progress.figures.schedules)
        figures = run_on(
            progress,
            request.schedules,
            jobs,
            lambda done: observer.progressed(done, len(progress.figures.violations)),
        )
        return _result(figures, dict(progress.codes))


def _result(figures: RunFigures, codes: Mapping[str, int] | None = None) -> FaultsResult:
    return FaultsResult(
        violations=tuple(figures.violations),
        shortfalls=tuple(figures.shortfalls),
        figures=figures.document(),
        summary=figures.line(),
        codes=codes or {},
    )
