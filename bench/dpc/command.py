"""`python -m bench dpc`: all cells, resumable; a failed cell is reported, the rest continues.

Exit code 0 also where a promise is missed (a busy machine is not a fault; the table shows it), 1
where a cell failed, or where final rows differ from the oracle's.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from bench.dpc import live, replicas, simulated
from bench.dpc.keeping import FAILED, Kept, opened
from bench.dpc.metrics import figures_of
from bench.dpc.plots import write_plots
from bench.dpc.scenario import (
    BUDGET_MIN,
    Planned,
    ReplicaSet,
    federations,
    planned_min,
)
from bench.dpc.table import (
    every_simulated_line,
    growth_lines,
    live_lines,
    missed_of,
    replica_lines,
    simulated_lines,
)
from bench.dpc.targets import NEVER_WRONG
from bench.machine import describe_machine
from bench.processes import INTERRUPTED, ContenderFailed
from medusa_core.errors import MedusaError
from pipelines.base.settings import Settings

SIMULATED = "simulated"
SIMULATED_S = 420.0
"""What the simulator's cells take on two quiet cores, with room to spare."""

GUESSED_STEPS_MS = (60.0, 80.0, 100.0, 150.0)
"""Where the simulator is run alone and nothing has been measured; the table says so."""


def main(arguments: Sequence[str]) -> int:
    """Parse, run what is left, print and write the tables and plots."""
    parser = argparse.ArgumentParser(prog="bench dpc", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME",
                        help="such as depth-1-process, replicas, simulated; repeat it")  # fmt: skip
    parser.add_argument("--delay-ms", type=float, default=0.0, metavar="MS",
                        help="on every link, each way: every participant is then on a machine of "
                        "its own, a network namespace (root)")  # fmt: skip
    parser.add_argument("--json", type=Path, help="where the figures are kept")
    parser.add_argument(
        "--again", action="store_true", help="forget what was measured (of --only: those)"
    )
    parser.add_argument("--explain", action="store_true", help="the plan of minutes, nothing else")
    options = parser.parse_args(arguments)
    delay_ms = options.delay_ms
    known = [*(one.name for one in federations(delay_ms)), SIMULATED]
    for name in options.only or ():
        if name not in known:
            print(f"there is no {name!r} to run: name {', '.join(known)}", file=sys.stderr)
            return 2
    # Told to end, it must not leave participants behind.
    signal.signal(signal.SIGTERM, _interrupt)
    folder = Settings.from_environment(os.environ).directory / "dpc"
    file = options.json or folder / "dpc.json"
    try:
        kept = opened(file, describe_machine(), again=options.again and not options.only)
        if options.again:
            kept.forget(options.only or ())
        todo = todo_of(kept, options.only, delay_ms)
        wants_simulated = SIMULATED in (options.only or ([] if delay_ms else [SIMULATED]))
        for line in plan_lines(todo, simulated=wants_simulated):
            say(line)
        if options.explain:
            return 0
        for one in todo:
            run_federation(one, kept)
        if wants_simulated:
            run_simulated(kept)
    except MedusaError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted: the same command goes on with what is left", file=sys.stderr)
        return INTERRUPTED
    return _finish(kept, folder, delay_ms)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def todo_of(kept: Kept, only: Sequence[str] | None, delay_ms: float = 0.0) -> list[Planned]:
    """The federations of which something is left, each with the cells that are."""
    left = []
    for one in federations(delay_ms):
        cells = tuple(c for c in one.cells if not kept.is_done(f"{one.name}/{c.name}"))
        if cells and (only is None or one.name in only):
            left.append(replace(one, cells=cells))
    return left


def plan_lines(todo: Sequence[Planned], *, simulated: bool) -> Iterator[str]:
    """How many minutes each federation is planned for, and all together."""
    for one in todo:
        yield f"plan: {one.name}, {len(one.cells)} cells, {one.planned_s / 60:.1f} min"
    whole = planned_min(todo, SIMULATED_S if simulated else 0.0)
    yield f"plan: {whole:.0f} min in all, of {BUDGET_MIN:g}"


def run_federation(one: Planned, kept: Kept) -> None:
    """All cells that are left of a federation, on real processes that are gone at the end."""
    began_s = time.monotonic()

    def told(line: str) -> None:
        say(f"{one.name} {time.monotonic() - began_s:5.0f} s: {line}")

    try:
        if isinstance(one, ReplicaSet):
            with replicas.running(one, told) as federation:
                run_cells(
                    one,
                    kept,
                    told,
                    run=lambda cell: replicas.run_cell(federation, cell, told),
                    check=federation.check_all_run,
                )
        else:
            with live.running(one, told) as federation:
                run_cells(
                    one,
                    kept,
                    told,
                    run=lambda cell: live.run_cell(federation, one, cell, told),
                    check=federation.check_all_run,
                )
    except (ContenderFailed, MedusaError, OSError) as error:
        told(f"ended: {error}")
        for cell in one.cells:
            name = f"{one.name}/{cell.name}"
            if not kept.is_done(name):
                kept.add(name, {FAILED: f"the federation ended: {error}"})


def run_cells(
    one: Planned,
    kept: Kept,
    told: Callable[[str], None],
    *,
    run: Callable[[Any], Mapping[str, object]],
    check: Callable[[], None],
) -> None:
    """One cell after the other; one that fails does not keep the others, a dead participant does.

    `check` raises ContenderFailed for that.
    """
    for cell in one.cells:
        told(f"{cell.name} begins")
        name = f"{one.name}/{cell.name}"
        try:
            kept.add(name, run(cell))
        except (ContenderFailed, AssertionError) as error:
            kept.add(name, {FAILED: str(error)})
            told(f"{cell.name} FAILED: {error}")
            check()


def run_simulated(kept: Kept) -> None:
    """The simulator's cells, with the steps that were measured in the live ones."""
    steps_ms = measured_steps(kept) or GUESSED_STEPS_MS
    origin = "measured" if measured_steps(kept) else "guessed"
    say(f"simulated cells, {origin} steps of {min(steps_ms):.0f} to {max(steps_ms):.0f} ms")
    todo = [one for one in simulated.asked() if not kept.is_done(one.key)]
    jobs = len(os.sched_getaffinity(0))
    for one, document in simulated.run_all(todo, steps_ms, jobs) if todo else ():
        kept.add(one.key, {**document, "steps": origin})


def measured_steps(kept: Kept) -> Sequence[float]:
    """What undisturbed steps took in all live cells, in ms."""
    return [
        ms
        for cell in kept.cells.values()
        if "figures" in cell
        for ms in figures_of(cell["figures"]).steps_ms
    ]


def _finish(kept: Kept, folder: Path, delay_ms: float) -> int:
    lines = [*live_lines(kept.cells, delay_ms=delay_ms), "",
             *replica_lines(kept.cells, delay_ms=delay_ms), "",
             *simulated_lines(kept.cells), "", *growth_lines(kept.cells)]  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    whole = [*lines, "", *every_simulated_line(kept.cells)]
    (folder / "dpc.md").write_text("\n".join(whole) + "\n")
    for line in lines:
        print(line)
    missed = missed_of(kept.cells)
    for name, verdict in missed:
        print(f"{name}: {verdict.told}")
    for file in (kept.path, folder / "dpc.md", *write_plots(kept.cells, folder)):
        print(file)
    has_failed = any(FAILED in cell for cell in kept.cells.values())
    is_wrong = any(v.what in NEVER_WRONG for _, v in missed)
    return 1 if has_failed or is_wrong else 0


def say(line: str) -> None:
    """As it goes on, beside the table."""
    print(line, file=sys.stderr, flush=True)
