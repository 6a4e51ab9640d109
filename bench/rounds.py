"""Steps of all contenders in turn: a, b, c, then b, c, a, … so that a slow minute hits them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.contender import Milliseconds
from bench.processes import ContenderFailed, Worker, started
from bench.workload import CLOSING_WINDOWS, QUERIES, Workload, judged_rows, rows_of

CONTENDERS = ("bare", "streaming", "medusa")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The counted steps of each contender, and how many result rows all agreed on."""

    workload: Workload
    steps: Mapping[str, tuple[Milliseconds, ...]]
    rows: Mapping[str, int]


def measure(
    workload: Workload, folder: Path, say: Say, contenders: Sequence[str] = CONTENDERS
) -> Measured:
    """Run a workload; Medusa is always in it, for it makes the input.

    Raises ContenderFailed if any result differs from the judge's.
    """
    with started(contenders, workload, folder) as workers:
        files = workers["medusa"].prepare([])
        steps = steps_in_turn(workers, workload, files, say)
        rows = check_results(
            workload, files, {name: worker.finish() for name, worker in workers.items()}
        )
    return Measured(workload=workload, steps=steps, rows=rows)


def steps_in_turn(
    workers: Mapping[str, Worker], workload: Workload, files: list[Path], say: Say
) -> Mapping[str, tuple[Milliseconds, ...]]:
    """The counted windows of each contender over the files that Medusa has made."""
    names = list(workers)
    steps: dict[str, list[Milliseconds]] = {name: [] for name in names}
    for name in names:
        if name != "medusa":
            workers[name].prepare(files)
    for window in range(workload.warm_up + workload.steps):
        first = window % len(names)
        for name in (*names[first:], *names[:first]):
            ms = workers[name].step(window)
            if window >= workload.warm_up:
                steps[name].append(ms)
        say(f"  window {window + 1} of {workload.warm_up + workload.steps}")
    return {name: tuple(ms) for name, ms in steps.items()}


def check_results(
    workload: Workload, files: list[Path], outputs: Mapping[str, Mapping[str, list[Path]]]
) -> dict[str, int]:
    """Compare every contender's rows with another engine's over the same files; count them."""
    query = QUERIES[workload.query]
    requested = judged_rows(query, files[: len(files) - CLOSING_WINDOWS])
    for name, found in outputs.items():
        rows = rows_of(query, found)
        for output, expected in requested.items():
            if rows[output] != expected:
                differing = set(rows[output]) ^ set(expected)
                example = min(differing, default=None)
                raise ContenderFailed(
                    f"{name} computed another {output}: {len(rows[output])} rows, not "
                    f"{len(expected)}; {len(differing)} differ, the first is {example}"
                )
    return {output: len(rows) for output, rows in requested.items()}
