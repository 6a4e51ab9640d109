"""The originals' cells on the simulator: their buckets, bounds and failures, our measured steps.

NOT_SIMULATED lists the cells that the simulator cannot show: its steps take no longer for more
records, it never runs full, and it has no replicas.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

from bench.dpc.simulated_chain import SimulatedCell, simulate
from medusa_core.bounds import Bound, Policy
from medusa_core.errors import MedusaError, Unavailable
from pipelines.simulation.faults.events import Violation

FIRST, SECOND = "first", "second"
D4_FAILURES_S = (5, 10, 15, 30, 60)
D6_FAILURES_S = (2, 3, 4, 6, 8, 10, 12, 14, 15, 30, 45, 60)
D7_FAILURES_S = (0.5, 1, 2, 2.4, 2.7, 3, 5, 10, 30, 60, 120, 300)
D8_BOUNDS_S = (0.5, 1, 2, 3, 4, 5, 6)
BUCKET_MS = 500
"""Theirs, but for the chains of D2 to D4 (100 ms): landing looks more seldom than that."""

D4_BOUNDS_S = {1: 2, 2: 2, 3: 4, 4: 4}
"""Theirs was 2 s at every depth; what is below twice the cost of its path is refused here."""

D11_BOUNDS_S = {1: 2, 2: 4, 4: 4}
"""Theirs was one node and 2 s."""

SUSPEND_SHARE = 0.9

NOT_SIMULATED = {
    "D9": "how corrections grow with state and records: `python -m bench panes` and `backlog`",
    "D10": "what it costs without failures: `python -m bench`",
    "D12": "a replica killed: on real processes, `python -m bench dpc --only replicas`",
    "D13": "buffers that run full: no hold runs out in the simulator",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A cell with the experiment that it is of and a name of its own."""

    id: str
    name: str
    cell: SimulatedCell

    @property
    def key(self) -> str:
        """By which its figures are kept."""
        return f"simulated/{self.id}/{self.name}"


def asked() -> Iterator[Asked]:
    """All cells, in the order of the experiments."""
    yield _one("D1", "F=6s", 1, 2, "process", 6)
    yield _one("D2", "F=10s", 2, 2, "process", 10)
    yield _one("D3", "F=10s", 2, 2, "delay", 10)
    for depth, bound_s in D4_BOUNDS_S.items():
        for policy in ("process", "delay"):
            for failure_s in D4_FAILURES_S:
                name = f"n={depth} {policy} F={failure_s}s"
                yield _one("D4", name, depth, bound_s, policy, failure_s)
    for failure_s in D4_FAILURES_S:
        yield _one("D5", f"F={failure_s}s", 4, 8, "process", failure_s)
    for during in ("process", "delay"):
        for after in ("process", "delay", "suspend"):
            for failure_s in D6_FAILURES_S:
                name = f"{during}&{after} F={failure_s}s"
                yield _one("D6", name, 1, 3, during, failure_s, stabilization=after)
    for failure_s in D7_FAILURES_S:
        yield _one("D7", f"F={failure_s:g}s", 1, 3, "process", failure_s)
    for policy in ("process", "delay"):
        for bound_s in D8_BOUNDS_S:
            yield _one("D8", f"{policy} D={bound_s:g}s", 1, bound_s, policy, 5)
    for depth, bound_s in D11_BOUNDS_S.items():
        for name, again in (("overlapping", (8, 16)), ("during correction", (12.3, 16))):
            cell = SimulatedCell(
                depth=depth,
                bucket_ms=BUCKET_MS,
                bound=_bound(bound_s, "process", "process"),
                lost=((FIRST, 6, 12), (SECOND, *again)),
            )
            yield Asked(id="D11", name=f"n={depth} {name}", cell=cell)


def _one(
    id_: str, name: str, depth: int, bound_s: float, policy: str, failure_s: float,
    *, stabilization: str | None = None,
) -> Asked:  # fmt: skip
    return Asked(
        id=id_,
        name=name,
        cell=SimulatedCell(
            depth=depth,
            bucket_ms=BUCKET_MS,
            bound=_bound(bound_s, policy, stabilization or policy),
            lost=((FIRST, 0, failure_s),),
        ),
    )


def _bound(bound_s: float, during: str, after: str) -> Bound:
    """Suspending needs the longest failure declared; D6 asks what a longer one does."""
    bound_ms = round(bound_s * 1_000)
    return Bound(
        bound_ms=bound_ms,
        during_failure=Policy(during),
        during_stabilization=Policy(after),
        failure_ms_max=int(bound_ms * SUSPEND_SHARE) if after == "suspend" else None,
    )


def run_all(
    todo: Sequence[Asked], steps_ms: Sequence[float], jobs: int
) -> Iterator[tuple[Asked, dict[str, Any]]]:
    """Each cell's figures as it is done, so many at once; Unavailable if a process was killed."""
    ignore_interrupts = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    # Started anew, not forked: whoever measured before has threads.
    with ProcessPoolExecutor(
        max(jobs, 1), get_context("spawn"), initializer=ignore_interrupts
    ) as pool:
        made = {pool.submit(run_asked, one, steps_ms): one for one in todo}
        try:
            for done in as_completed(made):
                yield made[done], done.result()
        except BrokenProcessPool as error:
            raise Unavailable(
                "a process of the simulator was killed, perhaps for want of memory: run again"
            ) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def run_asked(one: Asked, steps_ms: Sequence[float]) -> dict[str, Any]:
    """A cell's figures as JSON values; a law that was broken is a failed cell, in words."""
    try:
        found = simulate(one.cell, steps_ms)
    except (Violation, AssertionError, MedusaError) as error:
        return {"failed": f"{type(error).__name__}: {error}"}
    end = found.figures.end
    return {
        "id": one.id,
        "bound_s": one.cell.bound.bound_ms / 1_000,
        "depth": one.cell.depth,
        "failure_s": found.figures.failure_s,
        "is_whole": found.is_whole,
        "end": asdict(end),
        "first_correction_s": found.figures.hops[0].first_correction_s,
        "proc_new_s": [hop.proc_new_s for hop in found.figures.hops],
    }
