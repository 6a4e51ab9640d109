"""I1, I2, I3: the same digests whatever the cut into files, steps, partitions and widths.

The network is the hardest that we have boxes for: a Filter with several ports, a Map that can fail,
a Union, sliding windows, a window over windows, a Function, and two fragments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from medusa_core.commits import QuarantinedRecord
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
from pipelines.spark.execution_mode import ExecutionMode
from tests.replaying import Digests, Replayer, coarser, digests, parquet_files
from tests.sweeps import IS_LONG, examples, long_but

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer
    from pipelines.homes.home import Home

pytestmark = pytest.mark.usefixtures("interpreted")
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


@dataclass(frozen=True)
class Replayed:
    """The result of one replay."""

    digests: Digests
    quarantined: Sequence[QuarantinedRecord]


class Case:
    """One way to cut the same work."""

    def __init__(self, replayer: Replayer) -> None:
        self.replayer = replayer
        self.runs = 0

    def digests(self, table: pa.Table, **how: Any) -> Digests:
        return self.replayed(table, **how).digests

    def replayed(
        self,
        table: pa.Table,
        *,
        network: Network | None = None,
        cuts: tuple[int, ...] = (),
        **how: Any,
    ) -> Replayed:
        self.runs += 1
        network = network or a_network()
        files = parquet_files(self.replayer.folder / f"in{self.runs}", table, cuts)
        with self.replayer.home(f"home{self.runs}") as home:
            self.replayer.run(home, network, {"events": files}, **how)
            return Replayed(digests(home, network), home.catalog.quarantined())


@pytest.fixture
def case(replayer: Replayer) -> Case:
    return Case(replayer)


@pytest.fixture
def table() -> pa.Table:
    return events()


@pytest.fixture(scope="module")
def whole(
    postgres_server: EmbeddedServer, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Digests:
    """What one replay of one file gives, which every other must give."""
    replayer = Replayer(postgres_server, spark, tmp_path_factory.mktemp("whole"))
    return Case(replayer).digests(events())


@pytest.fixture(scope="module")
def cut(
    postgres_server: EmbeddedServer, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Replayed:
    """What a replay of the same rows gives in another order, cut into files, chunks and steps.

    With a Function in `make test-long`, whose steps are planned one by one.
    """
    replayer = Replayer(postgres_server, spark, tmp_path_factory.mktemp("cut"))
    limits, cuts = Limits(records_per_step_max=2_100), (1, 700, 701, 2_500)
    network = a_network(function=shout if IS_LONG else None)
    return Case(replayer).replayed(
        shuffled(events()), network=network, cuts=cuts, chunk_records=333, limits=limits
    )


@pytest.fixture(scope="module")
def prepared(
    postgres_server: EmbeddedServer, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Digests:
    """What steps give whose plan was prepared, as no Function is in it; one step in `make test`."""
    replayer = Replayer(postgres_server, spark, tmp_path_factory.mktemp("prepared"))
    limits = Limits(records_per_step_max=examples(250_000, 1_100))
    return Case(replayer).digests(events(), network=a_network(function=None), limits=limits)


def shuffled(table: pa.Table, seed: int = 3) -> pa.Table:
    return table.take(np.random.default_rng(seed).permutation(table.num_rows))


@pytest.mark.sweep
def test_i1_any_cut_into_files_and_steps_and_any_order_of_rows_gives_the_same_digests(
    prepared: Digests, cut: Replayed
) -> None:
    assert all(prepared[name] for name in ("loud_events", "windows", "minutes"))
    assert cut.digests == prepared


@pytest.mark.parametrize("records_per_step_max", long_but(0, [1_100, 300]))
def test_i1_records_that_are_read_where_they_landed_give_the_same(
    replayer: Replayer,
    table: pa.Table,
    prepared: Digests,
    monkeypatch: pytest.MonkeyPatch,
    records_per_step_max: int,
) -> None:
    for module in ("landing", "closing"):
        monkeypatch.setattr(f"pipelines.sources.{module}.NAMED_ROWS_MIN", 1)
    monkeypatch.setattr("pipelines.storage.segment_files.ROWS_PER_GROUP", 100)
    monkeypatch.setattr("pipelines.spark.job.HANDED_OVER_RECORDS_MAX", 0)
    monkeypatch.setattr("pipelines.spark.job.read_table", pytest.fail)
    network, limits = (
        a_network(function=None),
        Limits(records_per_step_max=records_per_step_max),
    )
    files = parquet_files(replayer.folder / "in", shuffled(table), (1, 700, 701, 2_500))
    with replayer.home() as home:
        replayer.run(home, network, {"events": files}, limits=limits, chunk_records=1_000)
        named = {f.path for s in home.catalog.segments(StreamName("events")) for f in s.files}
        assert len(named) == 7
        assert all(path.startswith("events/landed/") for path in named)
        assert digests(home, network) == prepared


@pytest.mark.long
def test_a_function_gives_what_a_map_gives_that_says_the_same(
    whole: Digests, prepared: Digests
) -> None:
    assert prepared == whole


@pytest.mark.long
@pytest.mark.parametrize(
    "limits", long_but(1, [Limits(records_per_step_max=61), Limits(buckets_per_step_max=29)])
)
def test_i2_a_bucket_has_the_same_digest_computed_alone_or_in_any_range(
    case: Case, table: pa.Table, limits: Limits
) -> None:
    few, network = table.slice(0, 250), a_network(function=None)
    whole = case.digests(few, network=network)
    assert case.digests(few, network=network, limits=limits) == whole


@pytest.mark.parametrize("width_s", long_but(1, [60, 5]))
@pytest.mark.long
def test_i1_widths_of_which_one_is_a_multiple_of_the_other_agree_where_both_have_a_bucket(
    case: Case, table: pa.Table, prepared: Digests, width_s: int
) -> None:
    found = case.digests(table, network=a_network(function=None), width_s=width_s)
    fine, coarse = (prepared, found) if width_s > 10 else (found, prepared)
    assert coarser(fine, max(width_s, 10) * SECOND_US) == coarse


@pytest.mark.long
def test_i1_boxes_in_two_fragments_give_the_same_as_boxes_in_one(
    case: Case, table: pa.Table, whole: Digests
) -> None:
    assert case.digests(table, network=a_network(second_fragment="later")) == whole


@pytest.mark.long
def test_i3_files_written_by_spark_tasks_hold_the_same_as_one_written_by_the_driver(
    case: Case, table: pa.Table, whole: Digests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.spark.job.RESULT_ROWS_IN_DRIVER_MAX", -1)
    assert case.digests(table) == whole


@pytest.mark.parametrize(
    ("way", "records_per_step_max"),
    long_but(
        1,
        [
            # Bounds in the plan: files hold more than a step needs.
            (ExecutionMode.SCANNED, 2_100),
            (ExecutionMode.SCANNED, 250_000),
            (ExecutionMode.HANDED_OVER, 250_000),
        ],
    ),
)
@pytest.mark.long
def test_i3_every_way_of_running_a_step_gives_the_same(
    case: Case,
    table: pa.Table,
    prepared: Digests,
    monkeypatch: pytest.MonkeyPatch,
    way: ExecutionMode,
    records_per_step_max: int,
) -> None:
    network, limits = a_network(function=None), Limits(records_per_step_max=records_per_step_max)
    monkeypatch.setattr("pipelines.spark.step.mode_of", lambda *_, **__: way)
    assert case.digests(table, network=network, limits=limits) == prepared


@pytest.mark.parametrize("records_per_step_max", long_but(1, [100, 7, 250_000]))
def test_a_record_that_fails_is_in_quarantine_once_however_steps_cut_its_window(
    replayer: Replayer, records_per_step_max: int
) -> None:
    network = Network(
        name="shares",
        sources=(Source(name="events", columns={"at_us": "bigint", "bytes": "bigint"},
                        time="at_us"),),
        boxes=(
            Map(name="share", input="events", columns={"part": "100 / (bytes % 5)"}),
            Aggregate(name="sum", input="share", size="60s", columns={"records": "count(*)"}),
        ),
        outputs=(Output(name="sums", input="sum"),),
    )  # fmt: skip
    few = events(rows=150, span_s=400)
    bad = [row["at_us"] for row in few.to_pylist() if row["bytes"] % 5 == 0]
    with replayer.home() as home:
        files = parquet_files(replayer.folder / "in", few)
        limits = Limits(records_per_step_max=records_per_step_max)
        replayer.run(home, network, {"events": files}, width_s=5, limits=limits)
        assert sorted(q.position or 0 for q in home.catalog.quarantined()) == sorted(bad)


def rows_of(home: Home, network: Network) -> dict[str, int]:
    """How many rows each output has."""
    return {
        o.name: sum(s.digest.rows for s in home.catalog.segments(StreamName(o.name)))
        for o in network.outputs
    }


@pytest.mark.long
def test_ports_may_have_any_name_and_still_mean_themselves(replayer: Replayer) -> None:
    network = Network(
        name="ports",
        sources=(Source(name="events", columns={"at_us": "bigint", "bytes": "bigint"},
                        time="at_us"),),
        boxes=(
            Filter(name="a", input="events", otherwise="failed",
                   cases={"case": "10 / bytes > 1", "b__": "bytes > 500"}),
            Filter(name="a__b", input="a.b__", cases={"window": "bytes > 900"}),
        ),
        outputs=(
            Output(name="tens", input="a.case"),
            Output(name="large", input="a__b"),
            Output(name="others", input="a.failed"),
        ),
    )  # fmt: skip
    few = pa.table({"at_us": pa.array([1, 2, 3, 4, 5]), "bytes": pa.array([0, 5, 600, 950, 20])})
    with replayer.home() as home:
        replayer.run(home, network, {"events": parquet_files(replayer.folder / "in", few)})
        assert rows_of(home, network) == {"tens": 1, "large": 1, "others": 1}
        assert [q.position for q in home.catalog.quarantined()] == [1]


@pytest.mark.parametrize(
    ("type_", "predicate", "values"),
    long_but(
        2,
        [
            # Spark takes the WHERE behind a name for an alias if a name in parentheses follows.
            ("boolean", "value", (True, False, None)),
            # Statistics of a Parquet file leave out NaN, which is the largest number of Spark.
            ("double", "value > 0.5D", (-1.0, math.nan, 0.0)),
            # Its dictionary distinguishes -0.0 from 0.0.
            ("double", "value = 0.0D", (-1.0, -0.0, 5.0)),
            ("boolean", "(value)", (True, False, None)),
        ],
    ),
)
def test_a_filter_keeps_the_record_that_fulfils_its_predicate(
    replayer: Replayer, type_: str, predicate: str, values: tuple[object, ...]
) -> None:
    network = Network(
        name="filtered",
        sources=(Source(name="events", columns={"at_us": "bigint", "value": type_},
                        time="at_us"),),
        boxes=(
            Filter(name="taken", input="events", cases={"yes": predicate}),
            Filter(name="again", input="taken", cases={"yes": predicate}),
            Aggregate(name="counted", input="again", size="10s", columns={"n": "count(*)"}),
        ),
        outputs=(Output(name="seen", input="taken"), Output(name="counts", input="counted")),
    )  # fmt: skip
    few = pa.table({"at_us": pa.array([1, 2, 3]), "value": pa.array(values)})
    with replayer.home() as home:
        replayer.run(home, network, {"events": parquet_files(replayer.folder / "in", few)})
        assert rows_of(home, network) == {"seen": 1, "counts": 1}


@pytest.mark.long
def test_a_window_of_more_buckets_than_a_step_may_take_does_not_advance_bucket_by_bucket(
    replayer: Replayer,
) -> None:
    network = Network(
        name="hours",
        sources=(Source(name="events", columns={"at_us": "bigint"}, time="at_us"),),
        boxes=(Aggregate(name="hour", input="events", size="1h", columns={"n": "count(*)"}),),
        outputs=(Output(name="hours", input="hour"),),
    )
    seconds = pa.table({"at_us": pa.array([at * SECOND_US for at in range(7_200)])})
    with replayer.home() as home:
        files = parquet_files(replayer.folder / "in", seconds)
        result = replayer.run(home, network, {"events": files}, width_s=1)
        assert result.steps <= 8
        segments = home.catalog.segments(StreamName("hours"))
        assert sum(s.digest.rows for s in segments) == 2


def test_a_step_runs_in_another_thread_than_the_one_that_started_spark(
    replayer: Replayer, table: pa.Table
) -> None:
    network = Network(
        name="counts",
        sources=(Source(name="events", columns={"at_us": "bigint"}, time="at_us"),),
        boxes=(Aggregate(name="counts", input="events", size="60s", columns={"n": "count(*)"}),),
        outputs=(Output(name="counted", input="counts"),),
    )
    with replayer.home() as home, ThreadPoolExecutor(1) as threads:
        files = parquet_files(replayer.folder / "in", table.slice(0, 100))
        threads.submit(replayer.run, home, network, {"events": files}).result()
        assert home.catalog.segments(StreamName("counted"))


def test_records_on_which_a_box_fails_go_to_quarantine_once_and_the_others_on(
    table: pa.Table, cut: Replayed
) -> None:
    bad = [
        row for row in table.to_pylist()
        if row["bytes"] == 7 and row["name"] is None
    ]  # fmt: skip
    assert bad
    found = cut.quarantined
    assert sorted(q.position or 0 for q in found) == sorted(r["at_us"] for r in bad)
    assert {(q.origin, q.field) for q in found} == {
        ("box rest", "cast(1000 / (bytes - 7) as bigint)")
    }
    loud = cut.digests["loud_events"].values()
    assert sum(digest.rows for digest in loud) == table.num_rows - len(bad)
