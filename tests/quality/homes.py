"""Homes for the checks: small replays, and a network that needs both engines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from medusa_core.certificates import Certificate, Suite
from medusa_core.knowledge import Limits
from medusa_core.network import Aggregate, Filter, Map, Network, Output, Source, Union
from pipelines.homes.home import Home
from pipelines.quality.check_run import Found, Outcome, run_checks
from pipelines.quality.windows import WindowRequest
from tests.generated_code import without_generated_code
from tests.replaying import Replayer, parquet_files, part_of
from tests.sweeps import IS_LONG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = {"ts_us": "bigint", "who": "string", "amount": "decimal(10,2)", "speed": "double",
          "n": "int"}  # fmt: skip
SECOND_US = 1_000_000

mixed = Network(
    name="mixed",
    sources=(
        Source(name="events", columns=EVENTS, time="ts_us"),
        Source(name="others", columns=EVENTS, time="ts_us"),
    ),
    boxes=(
        Union(name="all_events", inputs=("events", "others")),
        Filter(
            name="split", input="all_events", otherwise="rest",
            cases={"few": "n between 1 and 2", "odd": "100 / n > 20"},
        ),
        Map(name="tripled", input="split.rest",
            columns={"who": "who || '!'", "n": "n * 1000000", "amount": "amount + 1",
                     "speed": "-speed"}),
        Aggregate(
            name="slid", input="tripled", size="30s", advance="10s", group_by=("who",),
            columns={"records": "count(*)", "total": "sum(amount)", "n": "max(n)",
                     "first_speed": "first(speed)"},
        ),
        Map(name="shouted", input="slid", columns={"who": "upper(who)", "records": "records",
                                                   "total": "total", "n": "n + 1",
                                                   "first_speed": "first_speed"}),
        Aggregate(name="speeds", input="split.few", size="20s", group_by=("n",),
                  columns={"mean": "avg(speed)", "records": "count(*)"}),
        Map(name="rounded", input="speeds",
            columns={"n": "n", "mean": "round(mean, 2)", "records": "records"}),
        Map(name="kept", input="split.odd", columns={"who": "who", "speed": "speed"}),
    ),
    outputs=(
        Output(name="shouts", input="shouted"),
        Output(name="mean_speeds", input="rounded"),
        Output(name="odd_ones", input="kept"),
    ),
)  # fmt: skip
"""Sliding windows over a union, records that fail, what only Spark takes, values to be rounded."""


def events(seed: int, rows: int = 400) -> pa.Table:
    """Records around the epoch, with NULLs, -0.0, NaN, empty texts and numbers that overflow."""
    import random
    from decimal import Decimal

    chosen = random.Random(seed)
    values = [
        {
            "ts_us": chosen.randrange(-90, 90) * SECOND_US + chosen.randrange(SECOND_US),
            "who": chosen.choice(["a", "b", "", None, "ß", "long enough"]),
            "amount": chosen.choice([None, Decimal("0.00"), Decimal("-5.25"), Decimal("99999.99")]),
            "speed": chosen.choice([None, 0.0, -0.0, float("nan"), 1.25, -3.5]),
            "n": chosen.choice([None, 0, 1, 2, 3, 4, 5, 7, 2_000, 3_000]),
        }
        for _ in range(rows)
    ]
    schema = pa.schema([("ts_us", pa.int64()), ("who", pa.string()),
                        ("amount", pa.decimal128(10, 2)), ("speed", pa.float64()),
                        ("n", pa.int32())])  # fmt: skip
    return pa.Table.from_pylist(values, schema=schema)


@dataclass(frozen=True)
class Checked:
    """A home that stays open, and how it is checked."""

    home: Home
    spark: SparkSession

    def run(self, *, break_mode: str | None = None, **asked: object) -> Outcome:
        """Check what is asked for, in the run's one Spark session where one is needed."""
        return run_checks(
            self.home,
            WindowRequest(**asked),  # type: ignore[arg-type]
            break_mode=break_mode,
            session=lambda home: nullcontext(self.spark),
        )


def certificate(outcome: Outcome, stream: str, suite: Suite) -> Certificate:
    """The certificate of a stream and suite."""
    return found(outcome, stream, suite).certificate


def found(outcome: Outcome, stream: str, suite: Suite) -> Found:
    """What was found of a stream by a suite."""
    (one,) = (f for f in outcome.found
              if (f.certificate.stream, f.certificate.suite) == (stream, suite))  # fmt: skip
    return one


def converged(checked: Checked, every: Sequence[str], few: Sequence[str]) -> list[Certificate]:
    """Check streams; their certificates of L2, in this order. `make test` checks a few of them.

    The test is marked `sweep`: `make test-long` checks every stream of the home at once.
    """
    streams = every if IS_LONG else few
    outcomes = [checked.run()] * len(streams) if IS_LONG else [checked.run(stream=s) for s in few]
    for outcome in outcomes:
        assert outcome.passed, [found.broken for found in outcome.found]
    return [
        certificate(outcome, stream, Suite.CONVERGED)
        for outcome, stream in zip(outcomes, streams, strict=True)
    ]


@contextmanager
def checked_home(
    replayer: Replayer,
    network: Network,
    inputs: Mapping[str, Sequence[Path]],
    *,
    width_s: int,
    records_per_step_max: int = 300,
    few: Sequence[str] = (),
) -> Iterator[Checked]:
    """A replay in several steps, its home still open.

    In `make test` it takes one step: the networks that are drawn there cut each kind of box. Where
    `few` names outputs, these alone are computed there.
    """
    if few and not IS_LONG:
        network = part_of(network, *few)
    with replayer.home() as home:
        limits = Limits(records_per_step_max=records_per_step_max) if IS_LONG else Limits()
        with without_generated_code(replayer.spark):
            replayer.run(home, network, inputs, width_s=width_s, limits=limits)
        yield Checked(home, replayer.spark)


def mixed_inputs(folder: Path) -> Mapping[str, Sequence[Path]]:
    """Files for both sources of `mixed`."""
    return {name: parquet_files(folder / name, events(seed), [150])
            for seed, name in enumerate(("events", "others"))}  # fmt: skip
