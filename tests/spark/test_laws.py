"""I1, I2, I3: the same digests whatever the cut into files, steps, partitions and widths.

The network is the hardest that we have boxes for: a Filter with several ports, a Map that can fail,
a Union, sliding windows, a window over windows, a Function, and two fragments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from medusa_core.knowledge import Limits
from medusa_core.names import StreamName
from medusa_core.network import (
    Aggregate,
    Box,
    Filter,
    Function,
    Map,
    Network,
    Output,
    Source,
    Union,
)
from pipelines.spark.ways import Way
from tests.replaying import Digests, Replayer, coarser, digests, parquet_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SECOND_US = 1_000_000


def shout(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions

    return frame.withColumn("name", functions.upper("name")).select("name", "bytes", "stime")


def a_network(second_fragment: str = "main", function: Any = shout) -> Network:
    """The network; without its function (which is never prepared) if that is None."""
    loud: Box = Map(name="loud", input="all", columns={"name": "upper(name)", "bytes": "bytes"})
    if function is not None:
        loud = Function(
            name="loud",
            input="all",
            function=function,
            columns={"name": "string", "bytes": "bigint"},
        )
    return Network(
        name="laws",
        sources=(
            Source(
                name="events",
                columns={"at_us": "bigint", "name": "string", "bytes": "bigint", "d": "double"},
                time="at_us",
            ),
        ),
        boxes=(
            Filter(
                name="split",
                input="events",
                cases={"big": "bytes > 500", "named": "name is not null"},
                otherwise="rest",
            ),
            Map(name="big", input="split.big", columns={"name": "name", "bytes": "bytes * 2"}),
            Map(
                name="rest",
                input="split.rest",
                columns={"name": "'nobody'", "bytes": "cast(1000 / (bytes - 7) as bigint)"},
            ),
            Map(name="named", input="split.named", columns={"name": "name", "bytes": "bytes"}),
            Union(name="all", inputs=("big", "rest", "named")),
            loud,
            Aggregate(
                name="sliding",
                input="loud",
                size="60s",
                advance="20s",
                group_by=("name",),
                columns={
                    "records": "count(*)",
                    "total": "sum(bytes)",
                    "kinds": "count(distinct bytes)",
                    "first_bytes": "first(bytes)",
                },
            ),
            Filter(
                name="many",
                input="sliding",
                cases={"yes": "records > 3"},
                fragment=second_fragment,
            ),
            Aggregate(
                name="per_minute",
                input="many",
                size="60s",
                columns={"names": "count(*)", "most": "max(records)"},
                fragment=second_fragment,
            ),
        ),
        outputs=(
            Output(name="loud_events", input="loud"),
            Output(name="windows", input="sliding"),
            Output(name="minutes", input="per_minute"),
        ),
    )


def events(rows: int = 4_000, seed: int = 7, span_s: int = 1_800) -> pa.Table:
    """Events with NULLs, repeated rows, gaps of time and records on which the Map fails."""
    random = np.random.default_rng(seed)
    at = random.integers(0, span_s * 10, rows) * (SECOND_US // 10) + 1_700_000_000 * SECOND_US
    at = np.where(random.random(rows) < 0.2, at + 7_200 * SECOND_US, at)
    names = np.array(["a", "b", "c", "dd", "é", None], dtype=object)
    return pa.table(
        {
            "at_us": pa.array(at),
            "name": pa.array(names[random.integers(0, 6, rows)].tolist(), pa.string()),
            "bytes": pa.array(random.integers(0, 1_000, rows)),
            "d": pa.array(random.random(rows)),
        }
    )


class Case:
    """One way to cut the same work."""

    def __init__(self, replayer: Replayer) -> None:
        self.replayer = replayer
        self.runs = 0

    def digests(
        self,
        table: pa.Table,
        *,
        network: Network | None = None,
        cuts: tuple[int, ...] = (),
        **how: Any,
    ) -> Digests:
        self.runs += 1
        network = network or a_network()
        files = parquet_files(self.replayer.folder / f"in{self.runs}", table, cuts)
        with self.replayer.home(f"home{self.runs}") as home:
            self.replayer.run(home, network, {"events": files}, **how)
            return digests(home, network)


@pytest.fixture
def case(replayer: Replayer) -> Case:
    return Case(replayer)


@pytest.fixture
def table() -> pa.Table:
    return events()


def shuffled(table: pa.Table, seed: int = 3) -> pa.Table:
    return table.take(np.random.default_rng(seed).permutation(table.num_rows))


def test_i1_any_cut_into_files_and_any_order_of_rows_gives_the_same_digests(
    case: Case, table: pa.Table
) -> None:
    whole = case.digests(table)
    assert all(whole[name] for name in ("loud_events", "windows", "minutes"))
    assert case.digests(shuffled(table), cuts=(1, 700, 701, 2_500), chunk_records=333) == whole


def test_i2_a_bucket_has_the_same_digest_computed_alone_or_in_any_range(
    case: Case, table: pa.Table
) -> None:
    few = table.slice(0, 250)
    whole = case.digests(few)
    assert case.digests(few, limits=Limits(buckets_per_step_max=29)) == whole
    assert case.digests(few, limits=Limits(records_per_step_max=61)) == whole


def test_i1_widths_of_which_one_is_a_multiple_of_the_other_agree_where_both_have_a_bucket(
    case: Case, table: pa.Table
) -> None:
    fine = case.digests(table, width_s=5)
    assert coarser(fine, 60 * SECOND_US) == case.digests(table, width_s=60)


def test_i1_boxes_in_two_fragments_give_the_same_as_boxes_in_one(
    case: Case, table: pa.Table
) -> None:
    apart = case.digests(table, network=a_network(second_fragment="later"))
    assert apart == case.digests(table)


def test_i3_files_written_by_spark_tasks_hold_the_same_as_one_written_by_the_driver(
    case: Case, table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_driver = case.digests(table)
    monkeypatch.setattr("pipelines.spark.job.RESULT_ROWS_IN_DRIVER_MAX", -1)
    assert case.digests(table) == by_driver


@pytest.mark.parametrize("way", [Way.HANDED_OVER, Way.SCANNED])
def test_i3_every_way_of_running_a_step_gives_the_same(
    case: Case, table: pa.Table, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    network = a_network(function=None)
    prepared = case.digests(table, network=network, limits=Limits(records_per_step_max=1_100))
    monkeypatch.setattr("pipelines.spark.step.way_of", lambda *_, **__: way)
    assert case.digests(table, network=network) == prepared
    if way is Way.SCANNED:
        # Bounds in the plan: files hold more than a step needs.
        narrow = Limits(records_per_step_max=1_100)
        assert case.digests(table, network=network, limits=narrow) == prepared


def test_records_on_which_a_box_fails_go_to_quarantine_once_and_the_others_on(
    replayer: Replayer, table: pa.Table
) -> None:
    network = a_network()
    bad = [
        row for row in table.to_pylist()
        if row["bytes"] == 7 and row["name"] is None
    ]  # fmt: skip
    assert bad
    with replayer.home() as home:
        files = parquet_files(replayer.folder / "in", table)
        replayer.run(home, network, {"events": files}, limits=Limits(records_per_step_max=900))
        found = home.catalog.quarantined()
        assert sorted(q.position or 0 for q in found) == sorted(r["at_us"] for r in bad)
        assert {(q.origin, q.field) for q in found} == {
            ("box rest", "cast(1000 / (bytes - 7) as bigint)")
        }
        loud = home.catalog.segments(StreamName("loud_events"))
        assert sum(s.digest.rows for s in loud) == table.num_rows - len(bad)
