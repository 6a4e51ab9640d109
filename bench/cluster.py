"""`python -m bench cluster`: what a second worker gives a step of millions of records.

One step of `--records` records (connections per source and window of 60 s, with distinct ports) is
computed in the driver's own Java process on one core, and on a Spark cluster with one worker and
with two, of one core each. Workers, driver, master and object store are network namespaces (root)
and share no file: workers read the inputs as objects. The first step of each is not counted; in
later ones workers have copies of most objects, so that computing is measured and not the store. The
rows of all are compared by their digests.

The model estimates a step with more workers, each on a machine of its own. With n workers it takes
f + t / n: t is the time of all tasks with one worker, f the rest of that step. The estimate for two
workers is compared with the measured step. More than two are not measured, since the workers share
two cores with the driver and the store.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from bench.answering import SECOND_US, Answering
from bench.machine import describe_machine
from bench.processes import INTERRUPTED, ContenderFailed
from bench.soak import own_folder
from medusa_core.commits import Cause
from medusa_core.grid import Range
from medusa_core.names import StreamName
from medusa_core.network import Aggregate, Network, Output, Source
from pipelines.base.settings import SparkSettings
from pipelines.storage.object_settings import ObjectSettings
from pipelines.storage.segment_files import keep_files
from tests.cluster.spark_machines import spark_machines
from tests.networks.namespaces import why_not
from tests.storage.object_server import BUCKET

RECORDS_OF_FILE = 250_000
WORKERS = ("one", "two")
LOCAL = "local[1]"
GIVEN = StreamName("given")
MODELLED = (1, 2, 4, 8, 16)

NETWORK = Network(
    name="clustered",
    sources=(
        Source(
            name="given",
            columns={"ts_us": "bigint", "orig_h": "string", "resp_p": "int"},
            time="ts_us",
        ),
    ),
    boxes=(
        Aggregate(
            name="per_source", input="given", size="60s", group_by=("orig_h",),
            columns={"n": "count(*)", "ports": "count(distinct resp_p)"},
        ),
    ),
    outputs=(Output(name="counted", input="per_source"),),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """What was measured in one place: the seconds of each counted step, the median of the seconds
    that its tasks took in all, how many rows came out, and their digest."""

    name: str
    steps_s: Sequence[float]
    task_s: float
    rows: int
    digest: str

    @property
    def step_s(self) -> float:
        """The median step."""
        return median(self.steps_s)

    @property
    def apart_s(self) -> float:
        """What the step takes besides its tasks, where these run one after the other."""
        return self.step_s - self.task_s

    def with_workers(self, count: int) -> float:
        """The seconds of a step with so many workers, by the model."""
        return self.apart_s + self.task_s / count


def measured(records: int, steps: int) -> Generator[Case]:
    """The step in its own process, then with one worker, then with two."""
    if reason := why_not():
        raise ContenderFailed(reason)
    yield _local(records, steps)
    for count in (1, 2):
        with own_folder() as folder:
            homes = folder / "homes"
            with spark_machines(folder, WORKERS[:count], homes) as machines:
                settings = ObjectSettings(
                    address=f"s3://{BUCKET}/bench", endpoint=machines.store,
                    ca_file=str(machines.ca_file),
                )  # fmt: skip
                given = json.dumps(
                    {"master": machines.master, "folder": str(homes), "records": records,
                     "steps": steps, "workers": count, "objects": asdict(settings)}
                )  # fmt: skip
                printed = folder / "case.txt"
                (folder / "case.json").write_text(given)
                process = machines.driver.start(
                    f"cd {Path.cwd()}\n{sys.executable} -m bench.cluster {folder}/case.json",
                    printed,
                )
                if process.wait() != 0:
                    raise ContenderFailed(f"the driver has ended: {printed.read_text()[-2_000:]}")
                yield Case(**json.loads(printed.read_text().splitlines()[-1]))


def _local(records: int, steps: int) -> Case:
    """The step in a process of its own, whose session is its own, too."""
    with own_folder() as folder:
        given = {"master": LOCAL, "folder": str(folder / "homes"), "records": records,
                 "steps": steps, "workers": 0, "objects": None}  # fmt: skip
        (folder / "case.json").write_text(json.dumps(given))
        command = [sys.executable, "-m", "bench.cluster", str(folder / "case.json")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ContenderFailed(f"the driver has ended: {done.stderr[-2_000:]}")
        return Case(**json.loads(done.stdout.splitlines()[-1]))


def case_of(
    *, master: str, folder: str, records: int, steps: int, workers: int,
    objects: dict[str, Any] | None,
) -> Case:  # fmt: skip
    """Compute the step some times in this process's session."""
    from pipelines.spark.session import close_session, open_session

    root = Path(folder) / "storage"
    root.mkdir(parents=True)
    if objects is not None:
        ObjectSettings(**objects).write(root)
    with ExitStack() as stack:
        settings = SparkSettings(master=master)
        session = open_session(Path(folder) / "spark", cores=max(workers, 1), settings=settings)
        stack.callback(close_session, session)
        world = Answering(session, root, NETWORK)
        for part, table in _pieces(records):
            world.comes("given", table, part)
        keep_files(root, [f for s in world.came[GIVEN] for f in s.files])
        whole = Range(0, world.came[GIVEN][-1].range.to_us)
        steps_s, tasks_s = [], []
        for _ in range(steps + 1):
            before_s, start_s = _task_s(session), time.perf_counter()
            result = world.engine.compute(world.step(whole, Cause.NORMAL))
            steps_s.append(time.perf_counter() - start_s)
            tasks_s.append(_task_s(session) - before_s)
        (written,) = result.written
        digests = sorted((at, d.rows, d.sum_a, d.sum_b) for at, d in written.buckets.items())
    name = f"{workers} workers" if workers > 1 else "1 worker" if workers else "own process"
    return Case(
        name=name, steps_s=steps_s[1:], task_s=median(tasks_s[1:]),
        rows=sum(d.rows for d in written.buckets.values()),
        digest=sha256(repr(digests).encode()).hexdigest(),
    )  # fmt: skip


def _pieces(records: int) -> Iterator[tuple[Range, pa.Table]]:
    """Files of records in time, from 20,000 sources to 1,000 ports, a minute each."""
    chance = np.random.default_rng(1)
    for number in range(max(records // RECORDS_OF_FILE, 1)):
        count = min(RECORDS_OF_FILE, records)
        from_us = number * 60 * SECOND_US
        times = np.sort(chance.integers(from_us, from_us + 60 * SECOND_US, count))
        sources = pa.array([f"host{n}" for n in range(20_000)])
        table = pa.table(
            {
                "ts_us": pa.array(times, pa.int64()),
                "orig_h": sources.take(pa.array(chance.integers(0, 20_000, count))),
                "resp_p": pa.array(chance.integers(0, 1_000, count), pa.int32()),
            }
        )
        yield Range(from_us, from_us + 60 * SECOND_US), table


def _task_s(session: Any) -> float:
    """The seconds that all tasks of workers took so far; of the driver Spark says how long it is
    up."""
    context = session.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    executors = context.statusStore().executorList(False)
    each = [executors.apply(at) for at in range(executors.size())]
    return float(sum(one.totalDuration() for one in each if one.id() != "driver")) / 1_000


def lines_of(cases: Sequence[Case]) -> Iterator[str]:
    """A table, and what the model says."""
    yield "                 step s   least   tasks s   rows"
    for case in cases:
        yield (
            f"{case.name:<14} {case.step_s:8.2f}{min(case.steps_s):8.2f}{case.task_s:10.2f}"
            f"{case.rows:7,}"
        )
    if len(cases) < 3:
        return
    own, one, two = cases
    yield (
        f"one worker / own process {one.step_s / own.step_s:.2f}, "
        f"two workers / one {two.step_s / one.step_s:.2f}"
    )
    by_model = one.with_workers(2)
    yield f"two workers by the model {by_model:.2f} s, measured / model {two.step_s / by_model:.2f}"
    for count in MODELLED:
        yield f"{count:>2} workers by the model {one.with_workers(count):6.2f} s"


def main(arguments: Sequence[str]) -> int:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(prog="bench cluster", description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write everything measured here, too")
    options = parser.parse_args(arguments)
    cases: list[Case] = []
    try:
        with closing(measured(options.records, options.steps)) as found:
            for case in found:
                cases.append(case)
                print(case.name, *(f"{s:.2f}" for s in case.steps_s), flush=True)
    except ContenderFailed as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        print("\n".join(lines_of(cases)))
    if len({case.digest for case in cases}) != 1:
        print("the rows differ", file=sys.stderr)
        return 1
    if options.json is not None:
        found_ = {"machine": describe_machine(), "cases": [asdict(case) for case in cases]}
        options.json.write_text(json.dumps(found_, indent=1))
    print(json.dumps(describe_machine()))
    return 0


if __name__ == "__main__":
    print(json.dumps(asdict(case_of(**json.loads(Path(sys.argv[1]).read_text())))))
