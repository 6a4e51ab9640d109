"""`python -m bench panes`: the cost of corrections that continue from their answers' panes.

One of three inputs is missing. Each window is answered without it; then it arrives, and the
window is corrected twice, from the panes that the answer left and in full, in turn; digests are
compared. CPU is that of the process and all below it, the JVM included. Only a Filter, which lets
few rows through, follows the Aggregate.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.answering import SECOND_US, Answering, found, pane_files
from bench.process_tree import processes_of
from bench.sliding import scratch
from medusa_core.commits import Cause
from medusa_core.grid import Range, ceil_us, floor_us
from medusa_core.network import Aggregate, Filter, Network, Output, Source, Union
from pipelines.base.settings import Settings
from pipelines.language.shipped import netmon3
from pipelines.spark.results import StepResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INPUTS = ("left", "middle", "right")
COLUMNS = {"at_us": "bigint", "key": "string", "port": "int"}
VALUES = {
    "sums": {
        "records": "count(*)",
        "total": "sum(port)",
        "least": "min(port)",
        "most": "max(port)",
    },
    "distinct": {"records": "count(*)", "ports": "count(distinct port)"},
}
WINDOW = 250_000
SERVICES = 8
SHARE_MAX = 0.5
FEW, NOTHING = 30, "almost nothing"
TRACES = ("netmon-zeek-server", "netmon-wrccdc2018", "netmon-honeypot-p0f")
_TICKS = os.sysconf("SC_CLK_TCK")


def a_network(columns: dict[str, str], per_key: int) -> Network:
    """Three inputs, joined, and one Aggregate; keys with half as many records again come out."""
    return Network(
        name="joined",
        sources=tuple(Source(name=n, columns=COLUMNS, time="at_us") for n in INPUTS),
        boxes=(
            Union(name="gathered", inputs=INPUTS),
            Aggregate(name="per_key", input="gathered", size="60s", group_by=("key",),
                      columns=columns),
            Filter(name="busy", input="per_key", cases={"yes": f"records > {per_key * 3 // 2}"}),
        ),
        outputs=(Output(name="busy_keys", input="busy"),),
    )  # fmt: skip


def records_of(seed: int, records: int, per_key: int, start_us: int) -> pa.Table:
    """One input's records of a window of 60 s: keys alike, each with a few ports."""
    random = np.random.default_rng(seed)
    keys = random.integers(0, max(records * len(INPUTS) // per_key, 1), records)
    names = pa.array([f"10.{k >> 16}.{k >> 8 & 255}.{k & 255}" for k in range(int(keys.max()) + 1)])
    return pa.table(
        {
            "at_us": pa.array(start_us + np.sort(random.integers(0, 60 * SECOND_US, records))),
            "key": names.take(pa.array(keys)),
            "port": pa.array(random.integers(0, SERVICES, records).astype(np.int32)),
        }
    )


def cpu_s(pids: Iterable[int]) -> float:
    """Seconds of CPU that processes have used."""
    used = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        used += int(fields[11]) + int(fields[12])
    return used / _TICKS


@dataclass
class Costs:
    """CPU and wall milliseconds of some steps, and how many records they read."""

    cpu_ms: list[float] = field(default_factory=list)
    wall_ms: list[float] = field(default_factory=list)
    records: list[int] = field(default_factory=list)

    def of(self, step: Callable[[], StepResult]) -> StepResult:
        """Run a step and note what it cost."""
        pids = list(processes_of(os.getpid()))  # itself no small piece of work
        cpu, start = cpu_s(pids), time.perf_counter()
        made = step()
        self.wall_ms.append((time.perf_counter() - start) * 1000)
        self.cpu_ms.append((cpu_s(pids) - cpu) * 1000)
        self.records.append(made.metrics.records_in)
        return made

    @property
    def mean_cpu_ms(self) -> float:
        """The mean: a tick of the kernel's clock is too coarse for one step."""
        return sum(self.cpu_ms) / len(self.cpu_ms)


@dataclass
class Measured:
    """What steps of each kind cost, and how large the panes were."""

    kinds: dict[str, Costs] = field(default_factory=dict)
    pane_bytes: int = 0
    input_bytes: int = 0

    def cost(self, kind: str) -> Costs:
        """Where steps of a kind are noted."""
        return self.kinds.setdefault(kind, Costs())

    def ratio(self, kind: str, to: str) -> float:
        """CPU of one kind by that of another."""
        return self.kinds[kind].mean_cpu_ms / self.kinds[to].mean_cpu_ms


def correct(world: Answering, part: Range, come: Callable[[], None], noted: Measured,
            number: int) -> None:  # fmt: skip
    """Answer a range, let the rest come, correct it both ways; AssertionError if they differ."""
    world.tentative_us = part.from_us
    run = world.engine.compute
    answers = [("answer", Cause.NORMAL), ("answer that leaves panes", Cause.TENTATIVE)]
    for kind, cause in answers[:: 1 if number % 2 else -1]:
        step = world.step(part, cause)
        noted.cost(kind).of(lambda step=step: run(step))  # type: ignore[misc]
    noted.pane_bytes += sum(f.stat().st_size for f in pane_files(world.root))
    noted.input_bytes += sum(f.size_bytes for s in world.came.values() for g in s for f in g.files)
    come()
    made = {}
    corrections = [("in full", Cause.NORMAL), ("from panes", Cause.CORRECTION)]
    for kind, cause in corrections[:: 1 if number % 2 else -1]:
        step = world.step(part, cause)
        made[kind] = noted.cost(kind).of(lambda step=step: run(step))  # type: ignore[misc]
    assert found(made["in full"]) == found(made["from panes"]), "panes give other rows"


def almost_nothing(world: Answering, stream: str, records: pa.Table, part: Range, noted: Measured
                   ) -> None:  # fmt: skip
    """A step over a few records: what every step costs before it meets its first."""
    came, world.came, world.tentative_us = world.came, {}, None
    world.comes(stream, records.slice(0, FEW), part)
    step = world.step(part, Cause.NORMAL)
    noted.cost(NOTHING).of(lambda: world.engine.compute(step))
    world.came = came


def made_up(session: SparkSession, root: Path, values: str, records: int, per_key: int, *,
            steps: int, warm_up: int) -> Measured:  # fmt: skip
    """Windows of made-up records."""
    world = Answering(session, root, a_network(VALUES[values], per_key))
    world.engine.warm_up(world.fragment)
    noted = Measured()
    for number in range(warm_up + steps):
        part = Range(number * 60 * SECOND_US, (number + 1) * 60 * SECOND_US)
        if number == warm_up:
            noted = Measured()
        world.came.clear()
        tables = [
            records_of(number * 3 + at, records // 3, per_key, part.from_us) for at in range(3)
        ]
        for name, table in zip(INPUTS[:2], tables, strict=False):
            world.comes(name, table, part)
        last = tables[2]
        almost_nothing(world, INPUTS[2], last, part, noted)
        correct(world, part, lambda t=last, p=part: world.comes(INPUTS[2], t, p), noted, number)  # type: ignore[misc]
    return noted


def recorded(session: SparkSession, root: Path, file: Path, *, steps: int, warm_up: int
             ) -> Measured:  # fmt: skip
    """A recorded trace, dealt out to the three inputs of `netmon3`: all of it in one step."""
    whole = pq.read_table(file)
    table = whole.select(list(netmon3.sources[0].columns))
    at, minute_us = table["ts_us"].to_numpy(), 60 * SECOND_US
    part = Range(floor_us(int(at.min()), minute_us), ceil_us(int(at.max()) + 1, minute_us))
    world = Answering(session, root, netmon3.network)
    world.engine.warm_up(world.fragment)
    noted = Measured()
    dealt = np.arange(table.num_rows) % 3
    parts = [table.filter(pa.array(dealt == n)) for n in range(3)]
    for number in range(warm_up + steps):
        if number == warm_up:
            noted = Measured()
        world.came.clear()
        for name, records in zip(netmon3.PARTS[:2], parts, strict=False):
            world.comes(name, records, part)
        correct(world, part, lambda: world.comes(netmon3.PARTS[2], parts[2], part), noted, number)
        almost_nothing(world, netmon3.PARTS[2], parts[2], part, noted)
    return noted


def fewer(windows: int, records: int) -> int:
    """So many windows, and fewer where they hold more than WINDOW records: as many records then.

    The compiler of the JVM comes to rest by how much it has seen, not by how often.
    """
    return min(windows, max(round(windows * WINDOW / records), 1))


def lines_of(title: str, noted: Measured, warm_up: int) -> Iterator[str]:
    """A measurement as lines."""
    yield f"{title}; {len(noted.cost(NOTHING).cpu_ms)} windows counted after {warm_up}"
    for kind, cost in noted.kinds.items():
        yield (
            f"  {kind:<26} CPU ms {cost.mean_cpu_ms:8.1f}  wall ms p50 {median(cost.wall_ms):8.1f}"
            f"  records read {median(cost.records):>11,.0f}"
        )
    nothing = noted.cost(NOTHING).mean_cpu_ms
    panes, full = (noted.cost(kind).mean_cpu_ms for kind in ("from panes", "in full"))
    ratio = (panes - nothing) / (full - nothing)
    met = "met" if ratio <= SHARE_MAX else "MISSED"
    yield f"  from panes / in full: {panes / full:.2f} of a whole step's CPU"
    yield f"  less what each costs over almost nothing: {ratio:.2f}, promised <= {SHARE_MAX}: {met}"
    more = noted.ratio("answer that leaves panes", "answer") - 1
    share = noted.pane_bytes / max(noted.input_bytes, 1)
    yield f"  leaving them: {more:+.0%} of the answer's CPU, {share:.2f} of the inputs' bytes"


def main(arguments: Sequence[str]) -> int:
    """Measure and print; 0 also where the promise is missed, as for the other comparisons."""
    parser = argparse.ArgumentParser(prog="bench panes", description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=[WINDOW, 4 * WINDOW])
    parser.add_argument("--per-key", type=int, nargs="+", default=[20, 200])
    parser.add_argument("--values", nargs="+", choices=sorted(VALUES), default=list(VALUES))
    parser.add_argument(
        "--steps", type=int, default=60,
        help=f"windows that are counted; fewer of more than {WINDOW:,} records",
    )  # fmt: skip
    parser.add_argument("--warm-up", type=int, default=150, help="windows before them; the same")
    parser.add_argument("--only", choices=("made-up", "recorded"))
    options = parser.parse_args(arguments)
    from pipelines.spark.session import close_session, open_session

    given = Settings.from_environment(os.environ).test_data
    with scratch() as folder:
        session = open_session(folder / "spark")
        try:
            for records in options.records if options.only != "recorded" else ():
                steps, warm_up = fewer(options.steps, records), fewer(options.warm_up, records)
                for per_key in options.per_key:
                    for values in options.values:
                        root = folder / f"{values}-{records}-{per_key}"
                        noted = made_up(
                            session, root, values, records, per_key, steps=steps, warm_up=warm_up
                        )
                        title = f"{records:,} records a window, {per_key} per key, {values}"
                        print("\n".join(lines_of(title, noted, warm_up)), flush=True)
            for name in TRACES if options.only != "made-up" else ():
                file = given / name / "connections.parquet"
                if file.is_file():
                    rows = pq.read_metadata(file).num_rows
                    steps, warm_up = fewer(options.steps, rows), fewer(options.warm_up, rows)
                    noted = recorded(session, folder / name, file, steps=steps, warm_up=warm_up)
                    title = f"{name}, dealt out to three, {rows:,} records in one step, netmon3"
                    print("\n".join(lines_of(title, noted, warm_up)), flush=True)
        finally:
            close_session(session)
    return 0
