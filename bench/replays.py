"""`python -m bench replays`: recordings of some millions of records, replayed to their end.

Medusa (`medusa replay netmon`), bare Spark, Structured Streaming and DuckDB compute the same three
outputs over the same generated files of 250,000 connections, each in processes of its own, in
turn: a b c d, then b c d a, and so on. Time is that of the whole command, from its start to its
end, and CPU time that of all processes that it starts. The rows of every run are compared with
those of another engine; where they differ there is no table.

Two sizes give the cost at the margin, without the start. A third run, of few records, shows the
start. With `--only medusa --rounds 1` it is a check that a long recording is replayed in the
memory of a short one.

Exit code 1 if results differ, if a replay fails, or if the memory of Medusa grows with the records
(MEMORY_RATIO_MAX). Other promises that are missed are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.command_costs import CommandCosts, run_command
from bench.machine import describe_machine
from bench.processes import ContenderFailed
from bench.replay_contenders import OTHERS
from bench.replay_figures import (
    MILLION,
    NAMES,
    NOT_MEASURED,
    RATES,
    Replays,
    lines_of,
    margin_of,
    memory_ratios,
    wanted_of,
)
from bench.replay_rows import Judge, judge_of, medusa_answer, parquet_answer
from bench.soak import own_folder
from pipelines.sources.generated_files import write_generated

RECORDS_PER_FILE = 250_000
FRESH = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is measured: contenders, formats, sizes, and how often."""

    contenders: Sequence[str]
    sizes: Sequence[int]
    fresh: int | None
    rounds: int
    seed: int

    @property
    def all_sizes(self) -> list[int]:
        """Every number of records, smallest first."""
        return sorted({*self.sizes, *([] if self.fresh is None else [self.fresh])})


def measure(order: Order, format_: str, folder: Path) -> Replays:
    """Replay the recordings of one format; raises ContenderFailed where results differ."""
    runs: dict[int, dict[str, list[CommandCosts]]] = {}
    rows: dict[int, dict[str, int]] = {}
    for records in order.all_sizes:
        runs[records] = {name: [] for name in order.contenders}
        recording = _recording(order.seed, records, format_, folder / "input")
        with recording as files, judge_of(files) as judge:
            for number in range(order.rounds):
                for name in _turn(order.contenders, number):
                    costs, rows[records] = _run(name, files, folder / "run", judge)
                    runs[records][name].append(costs)
                    _show_run(name, records, costs)
    return Replays(format=format_, runs=runs, rows=rows, fresh=order.fresh)


def _turn(contenders: Sequence[str], number: int) -> list[str]:
    first = number % len(contenders)
    return [*contenders[first:], *contenders[:first]]


@contextmanager
def _recording(seed: int, records: int, format_: str, folder: Path) -> Iterator[list[Path]]:
    try:
        yield write_generated(
            folder,
            seed=seed,
            records=records,
            files=-(-records // RECORDS_PER_FILE),
            format=format_.partition(".")[0],
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(
    name: str, files: Sequence[Path], folder: Path, judge: Judge
) -> tuple[CommandCosts, dict[str, int]]:
    """One run of a contender; what it cost, and the number of rows of each output."""
    result, environment = folder / "result", {**os.environ, "MEDUSA_CATALOG_URL": ""}
    names = [*map(str, files)]
    if name == "medusa":
        command = ["pipelines.cli.main", "replay", "netmon", "--json", "--keep", str(result)]
        command += ["--input", *names]
    else:
        command = ["bench.replay_contenders", name, str(result), *names]
    try:
        costs, _ = run_command([sys.executable, "-m", *command], folder, environment)
        is_medusa = name == "medusa"
        answer = medusa_answer(result, folder / "rows") if is_medusa else parquet_answer(result)
        return costs, judge.check(NAMES[name], answer)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def document_of(replays: Replays) -> dict[str, Any]:
    """Every run, and what they come to, as JSON values."""
    margins = {name: margin_of(replays, name) for name in replays.contenders}
    has_medusa = "medusa" in replays.contenders
    return {
        "format": replays.format,
        "rows": replays.rows,
        "runs": {
            records: {name: [asdict(costs) for costs in found] for name, found in by_name.items()}
            for records, by_name in replays.runs.items()
        },
        "margins": {
            name: {"million/s": margin.millions_per_s, "CPU us": margin.cpu_us}
            for name, margin in margins.items()
            if margin is not None
        },
        "promises": [
            {**asdict(wanted), "verdict": wanted.verdict}
            for wanted in (wanted_of(replays) if has_medusa else ())
        ],
    }


def _show_run(name: str, records: int, costs: CommandCosts) -> None:
    print(
        f"{records:>12,} records  {NAMES[name]:28}{costs.seconds:>8.1f} s"
        f"{costs.cpu_s:>8.1f} s of CPU{costs.memory_mib:>8,.0f} MiB",
        flush=True,
    )


def main(arguments: Sequence[str]) -> int:
    """Generate, replay in turn, compare."""
    parser = argparse.ArgumentParser(prog="bench replays", description=__doc__)
    parser.add_argument("--millions", type=float, nargs="*", default=[2, 20])
    fresh = "records of the run that shows the start; 0: none"
    parser.add_argument("--fresh", type=int, default=FRESH, help=fresh)
    parser.add_argument("--rounds", type=int, default=3, help="how often each is run")
    parser.add_argument("--format", choices=RATES, nargs="+", default=["parquet"])
    parser.add_argument("--only", choices=NAMES, nargs="+", default=list(NAMES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="where all runs go")
    options = parser.parse_args(arguments)
    order = Order(
        contenders=[name for name in NAMES if name in options.only],
        sizes=[int(millions * MILLION) for millions in options.millions],
        fresh=options.fresh or None,
        rounds=options.rounds,
        seed=options.seed,
    )
    document: dict[str, Any] = {"machine": describe_machine(), "measured": []}
    has_grown = False
    print(NOT_MEASURED)
    try:
        with own_folder() as folder:
            for format_ in options.format:
                replays = measure(order, format_, folder)
                print("\n".join(lines_of(replays)), flush=True)
                document["measured"].append(document_of(replays))
                if "medusa" in order.contenders:
                    has_grown |= any(w.verdict == "MISSED" for w in memory_ratios(replays))
    except ContenderFailed as error:
        print(error, file=sys.stderr)
        return 1
    document["load_after"] = list(os.getloadavg())
    if options.json is not None:
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    return int(has_grown)


assert set(OTHERS) | {"medusa"} == set(NAMES)
