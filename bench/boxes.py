"""`python -m bench boxes`: what each kind of box costs, in CPU per record that it reads.

One network of each kind puts a box between a source and a Filter that lets nothing through. Its
steps take turns with those of the Filter alone; the difference of their CPU, by the records that
the box reads, is its coefficient in `medusa_core/box_costs.py`. CPU is that of the process and all
below it, the JVM included.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from bench.answering import SECOND_US, Answering
from bench.panes import Costs
from bench.sliding import scratch
from medusa_core.box_costs import COEFFICIENTS_US
from medusa_core.commits import Cause
from medusa_core.grid import Range
from medusa_core.network import (
    Aggregate,
    Box,
    Deduplicate,
    Every,
    Filter,
    Join,
    Lookup,
    Map,
    Network,
    Output,
    Rank,
    Resample,
    Running,
    Session,
    Source,
    Union,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = {"at_us": "bigint", "key": "string", "port": "int"}
SAME = {"at_us": "at_us", "key": "key", "port": "port"}
KEYS, PORTS = 2_000, 200
READ = "read"
FACTOR_MAX = 2.0
"""A coefficient that is off by more than this, either way, is called so."""

_COUNT, _TUMBLING = {"n": "count(*)", "total": "sum(port)"}, {"size": "10s", "group_by": ("key",)}
KINDS: Mapping[str, tuple[Box, ...]] = {
    READ: (),
    "filter": (Filter(name="box", input="left", cases={"yes": "port >= 0"}),),
    "map": (Map(name="box", input="left", columns={**SAME, "port": "port * 3 + 1"}),),
    "union": (Union(name="box", inputs=("left", "right")),),
    "aggregate": (Aggregate(name="box", input="left", columns=_COUNT, **_TUMBLING),),
    "distinct": (
        Aggregate(name="box", input="left", columns={"n": "count(distinct port)"}, **_TUMBLING),
    ),
    "sliding": (
        Aggregate(name="box", input="left", columns=_COUNT, advance="1s", **_TUMBLING),
    ),
    "session": (
        Session(name="box", input="left", by=("key",), gap="1s", length_max="10s", columns=_COUNT),
    ),
    "lookup": (
        Lookup(name="box", input="left", table="right", on=("key",), max_age="10s"),
    ),
    "resample": (
        Resample(name="box", input="left", by=("key",), step="1s", max_age="1s"),
    ),
    "rank": (
        Rank(name="box", input="left", size="10s", group_by=("key",), order=("port desc",), k=3),
    ),
    "deduplicate": (
        Deduplicate(name="box", input="left", by=("key", "port"), within="10s"),
    ),
    "running": (
        Running(name="box", input="left", by=("key",), within="10s", columns=_COUNT),
    ),
    "every": (
        # Of a full group it is known that count(*) < 0 is false, and nothing would be computed.
        Every(name="box", input="left", by=("key",), n=10, within="10s",
              columns={"n": "sum(port)"}),
    ),
    "join": (
        Join(name="box", left="left", right="right", on=("key",), within=("-100ms", "100ms")),
    ),
}  # fmt: skip


def network_of(boxes: tuple[Box, ...]) -> Network:
    """The boxes, if any, between two sources and a Filter that lets nothing through."""
    last = boxes[-1].name if boxes else "left"
    is_grouped = bool(boxes) and isinstance(boxes[-1], Aggregate | Session | Every)
    probe = "n < 0" if is_grouped else "port < 0"
    has_two = any(isinstance(box, Union | Join | Lookup) for box in boxes)
    return Network(
        name="cost",
        sources=tuple(
            Source(name=name, columns=COLUMNS, time="at_us")
            for name in ("left", "right")[: 1 + has_two]
        ),
        boxes=(*boxes, Filter(name="nothing", input=last, cases={"yes": probe})),
        outputs=(Output(name="none", input="nothing"),),
    )


def records_of(seed: int, records: int, part: Range) -> pa.Table:
    """Records of a range; a few of their keys are frequent."""
    random = np.random.default_rng(seed)
    keys = np.minimum(random.zipf(1.3, records), KEYS)
    names = pa.array([f"10.0.{k >> 8}.{k & 255}" for k in range(KEYS + 1)])
    return pa.table(
        {
            "at_us": pa.array(np.sort(random.integers(part.from_us, part.to_us, records))),
            "key": names.take(pa.array(keys)),
            "port": pa.array(random.integers(0, PORTS, records).astype(np.int32)),
        }
    )


def measure(
    session: SparkSession, folder: Path, records: int, *, steps: int, warm_up: int
) -> Mapping[str, float]:
    """Microseconds of CPU by kind: of a record that is read, and of a box, per record of it."""
    worlds = {
        kind: Answering(session, folder / kind, network_of(boxes)) for kind, boxes in KINDS.items()
    }
    costs: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for number in range(warm_up + steps):
        part = Range(number * 10 * SECOND_US, (number + 1) * 10 * SECOND_US)
        for kind, world in worlds.items():
            streams = world.fragment.input_streams
            for at, stream in enumerate(streams):
                share = records // len(streams)
                world.comes(stream, records_of(2 * number + at, share, part), part)
            noted, step = Costs(), world.step(part, Cause.NORMAL)
            noted.of(lambda world=world, step=step: world.engine.compute(step))  # type: ignore[misc]
            if number >= warm_up:
                costs[kind].append(noted.mean_cpu_ms * 1_000 / records)
    found = {kind: median(each) for kind, each in costs.items()}
    return {k: us if k == READ else us - found[READ] for k, us in found.items()}


def main(arguments: Sequence[str]) -> int:
    """Measure and print; 0 also where a coefficient is off, as for the other comparisons."""
    from pipelines.spark.session import close_session, open_session

    parser = argparse.ArgumentParser(prog="bench boxes", description=__doc__)
    parser.add_argument("--records", type=int, default=250_000, help="records per step")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=8)
    options = parser.parse_args(arguments)
    with scratch() as folder:
        session = open_session(folder / "spark")
        try:
            found = measure(
                session, folder, options.records, steps=options.steps, warm_up=options.warm_up
            )
        finally:
            close_session(session)
    print(f"{options.records:,} records per step, CPU per record by the median of {options.steps}")
    for kind, us in found.items():
        known_us = COEFFICIENTS_US[kind]
        is_off = not known_us / FACTOR_MAX <= us <= known_us * FACTOR_MAX
        print(f"  {kind:<10} {us:7.3f} us, coefficient {known_us:5.2f} us{', OFF' * is_off}")
    return 0
