"""`python -m bench`: a table on standard output, and all figures as JSON.

    python -m bench [--quick] [--only steps|growth] [--json FILE]
    python -m bench soak|recovery|backlog|replays|live|sliding|streams|quality|panes|dpc|metering
                    |market|headroom|exchange|boxes|nexmark|cluster|moves|availability
                    |settlement|links|revisions|state|language|page|drops|partitions
                    [--help]

Exit code 0 also where a promise is missed: a busy machine is not a fault. 1 where results differ.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from bench import figures, report
from bench.figures import LARGE_RECORDS, SMALL_RECORDS, Target
from bench.growth import measure_growth
from bench.machine import describe_machine
from bench.processes import INTERRUPTED, ContenderFailed
from bench.rounds import measure
from bench.settings_used import settings_used
from bench.workload import QUERIES, Workload
from medusa_core.errors import MedusaError
from pipelines.base.settings import Settings

SIZES, SIZES_QUICK = (100, 10_000, 1_000_000), (100, 1_000, 10_000)
TICKS, TICKS_QUICK, TICKS_WARM_UP = 60, 20, 15


def workloads(*, quick: bool) -> list[Workload]:
    """Both queries at both sizes: (counted steps, steps to warm up)."""
    counts = {SMALL_RECORDS: (60, 200), LARGE_RECORDS: (30, 50)}
    if quick:
        counts = {SMALL_RECORDS: (10, 15), LARGE_RECORDS: (5, 4)}
    return [
        Workload(query=query, records=records, steps=steps, warm_up=warm_up)
        for query in QUERIES
        for records, (steps, warm_up) in counts.items()
    ]


def run(*, quick: bool, only: str | None, folder: Path) -> dict[str, Any]:
    """Measure, print, and return everything as JSON values."""
    document: dict[str, Any] = {"machine": describe_machine(), "settings": settings_used()}
    targets: list[Target] = []
    if only in (None, "steps"):
        document["steps"] = []
        for workload in workloads(quick=quick):
            name = f"{workload.query}-{workload.records}"
            measured = measure(workload, folder / name, progress)
            document["steps"].append(figures.document_of(measured))
            targets += figures.targets_of(measured)
            show(report.lines_of(measured))
    if only in (None, "growth"):
        sizes, ticks = (SIZES_QUICK, TICKS_QUICK) if quick else (SIZES, TICKS)
        growth = measure_growth(sizes, ticks, TICKS_WARM_UP, folder / "growth", progress)
        document["growth"] = figures.growth_document_of(growth)
        targets += figures.growth_targets_of(growth)
        show(report.growth_lines_of(growth))
    document["targets"] = [{**asdict(t), "is_met": t.is_met} for t in targets]
    show(report.target_lines_of(targets))
    return document


def progress(line: str) -> None:
    """Say on a terminal, on one line, what goes on."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


def show(lines: Iterator[str]) -> None:
    """Print a part of the table."""
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    for line in lines:
        print(line, flush=True)


@contextmanager
def work_folder(base: Path) -> Iterator[Path]:
    """A folder for all files of a run, removed at its end; one disk for every contender."""
    base.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=base))
    folder.chmod(0o711)  # as root, Postgres runs as another user who has to pass
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


MEASUREMENTS = (
    "soak",
    "recovery",
    "backlog",
    "replays",
    "live",
    "sliding",
    "cluster",
    "streams",
    "quality",
    "panes",
    "dpc",
    "market",
    "moves",
    "settlement",
    "availability",
    "metering",
    "headroom",
    "exchange",
    "boxes",
    "nexmark",
    "links",
    "revisions",
    "state",
    "language",
    "page",
    "drops",
    "partitions",
)
"""What is measured apart from the comparisons, each by a module of its own."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Hand over to a measurement that is named, else compare."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if given and given[0] in MEASUREMENTS:
            module = import_module(f"bench.{given[0].replace('-', '_')}")
            code: int = module.main(given[1:])
            return code
        return compare(given)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def compare(arguments: Sequence[str]) -> int:
    """Parse, run, write the document."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer steps, smaller catalogs")
    parser.add_argument("--only", choices=("steps", "growth"), help="one part alone")
    parser.add_argument("--json", type=Path, help="where the document goes")
    options = parser.parse_args(arguments)
    directory = Settings.from_environment(os.environ).directory
    try:
        with work_folder(directory) as folder:
            document = run(quick=options.quick, only=options.only, folder=folder)
    except ContenderFailed as error:
        print(error, file=sys.stderr)
        return 1
    except MedusaError as error:
        print(error, file=sys.stderr)
        return 4
    file = options.json or directory / "bench.json"
    file.write_text(json.dumps(document, indent=1) + "\n")
    print(f"\neverything as JSON: {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
