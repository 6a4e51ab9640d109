"""The command of `python -m bench language`: windows of all contenders in turn, then the rows."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import duckdb

from bench.answering import WIDTH_US
from bench.contender import Milliseconds
from bench.language.cases import CASES, Case
from bench.processes import ContenderFailed, started
from bench.rounds import steps_in_turn
from bench.sliding import scratch
from bench.workload import Workload

RECORDS = 250_000
MINUTES_PER_WINDOW = 0.035
"""About how long a window of all contenders takes, with what it takes to start them."""

PROMISES = {"bare": 0.9, "streaming": 2.0}
"""How many times the records a second of each contender are wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The counted windows of each contender, and how many rows all agree on."""

    case: Case
    steps: Mapping[str, tuple[Milliseconds, ...]]
    rows: int


def measure(case: Case, workload: Workload, folder: Path) -> Measured:
    """Each window by each contender in turn; ContenderFailed where their rows differ."""
    with started(case.contenders, workload, folder) as workers:
        files = workers["medusa"].prepare([])
        steps = steps_in_turn(workers, workload, files, lambda _: None)
        rows = {name: worker.finish()["rows"] for name, worker in workers.items()}
        end_us = (workload.warm_up + workload.steps) * WIDTH_US
        counted = compare(case, rows, end_us)
    return Measured(case=case, steps=steps, rows=counted)


def compare(case: Case, files: Mapping[str, Sequence[Path]], end_us: int) -> int:
    """How many rows Medusa has before a time; ContenderFailed if another has other ones."""

    def rows(name: str, columns: Sequence[str]) -> str:
        paths = [str(file) for file in files[name]]
        return (
            f"(SELECT {', '.join(columns)} FROM read_parquet({paths!r}) "
            f"WHERE {case.at_us} < {end_us})"
        )

    with duckdb.connect() as connection:
        for name in files:
            columns = (case.compared if name == "streaming" else ()) or case.columns
            one, other = rows("medusa", columns), rows(name, columns)
            ((differing,),) = connection.execute(
                f"SELECT count(*) FROM (({one} EXCEPT ALL {other}) "
                f"UNION ALL ({other} EXCEPT ALL {one}))"
            ).fetchall()
            if differing:
                raise ContenderFailed(f"{case.name}: {name} has {differing:,} other rows")
        ((count,),) = connection.execute(
            f"SELECT count(*) FROM {rows('medusa', ('1',))}"
        ).fetchall()
    return int(count)


def lines_of(measured: Measured) -> Iterator[str]:
    """A case's figures as lines of a table."""
    own = measured.steps["medusa"]
    yield f"{measured.case.name}: {len(own)} windows counted, {measured.rows:,} equal rows"
    for name, steps in measured.steps.items():
        total = [ms["total"] for ms in steps]
        cpu = sum(ms["cpu"] for ms in steps) / len(steps)
        yield f"  {name:<10} p50 {median(total):7.0f} ms  least {min(total):7.0f}  CPU {cpu:7.0f}"
    phases = {name for ms in own for name in ms} - {"total", "cpu"}
    times = {name: median(ms.get(name, 0.0) for ms in own) for name in sorted(phases)}
    yield "  a step of Medusa: " + ", ".join(f"{n} {ms:.0f}" for n, ms in times.items())
    for name, least in PROMISES.items():
        if name in measured.steps:
            pairs = zip(measured.steps[name], own, strict=True)
            paired = median(theirs["total"] / ours["total"] for theirs, ours in pairs)
            ratio = median(ms["total"] for ms in measured.steps[name])
            ratio /= median(ms["total"] for ms in own)
            met = "met" if ratio >= least else "MISSED"
            yield f"  {ratio:.2f} x {name} (paired {paired:.2f}), wanted >= {least}: {met}"


def main(arguments: Sequence[str]) -> int:
    """Measure and print; 1 where rows differ."""
    parser = argparse.ArgumentParser(prog="bench language", description=__doc__)
    parser.add_argument("--steps", type=int, default=15, help="windows that are counted")
    parser.add_argument("--warm-up", type=int, default=15)
    parser.add_argument("--records", type=int, default=RECORDS, help="of each stream, per window")
    parser.add_argument("--only", choices=CASES, action="append", metavar="CASE")
    options = parser.parse_args(arguments)
    cases = [CASES[name] for name in options.only or CASES]
    windows = options.steps + options.warm_up
    minutes = len(cases) * (1 + windows * MINUTES_PER_WINDOW)
    print(f"{len(cases)} cases: about {minutes:.0f} minutes on two cores", flush=True)
    try:
        for case in cases:
            workload = Workload(
                query=case.name, records=options.records, steps=options.steps,
                warm_up=options.warm_up, sources=max(case.keys * options.records // RECORDS, 1),
            )  # fmt: skip
            with scratch() as folder:
                measured = measure(case, workload, folder)
            for line in lines_of(measured):
                print(line, flush=True)
    except ContenderFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0
