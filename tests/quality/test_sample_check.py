"""A replay's result is checked on a sample of buckets, by DuckDB and from the landed records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from medusa_core.grid import Range
from medusa_core.knowledge import Limits
from medusa_core.names import PlanId, StreamName
from medusa_core.network import Aggregate, Box, Filter, Function, Map, Network, Output, Source
from pipelines.homes.home import Home
from pipelines.quality import sample_check, stored_rows
from pipelines.quality.sample_check import SampleCheck, check_sample
from pipelines.spark import prepared
from pipelines.spark.job_verification import Records, Verification
from tests.replaying import Replayer, parquet_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = pytest.mark.usefixtures("interpreted")

SECOND_US = 1_000_000
MINUTES = 60


def negated(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("-value AS value", "stime")


def a_network(*more: Box, **outputs: str) -> Network:
    return Network(
        name="sampled",
        sources=(
            Source(name="s", columns={"at_us": "bigint", "key": "string", "value": "bigint"},
                   time="at_us"),
        ),
        boxes=(
            Filter(name="given", input="s", cases={"yes": "value is not null"}),
            Aggregate(name="sums", input="given", size="60s", advance="20s", group_by=("key",),
                      columns={"n": "count(*)", "total": "sum(value)"}),
            *more,
        ),
        outputs=tuple(
            Output(name=n, input=i) for n, i in {"totals": "sums", **outputs}.items()
        ),
    )  # fmt: skip


def records() -> pa.Table:
    random = np.random.default_rng(3)
    rows = 20 * MINUTES
    return pa.table(
        {
            "at_us": pa.array(np.sort(random.integers(0, MINUTES * 60, rows)) * SECOND_US),
            "key": pa.array([["a", "b", None][i] for i in random.integers(0, 3, rows)]),
            "value": pa.array([None if v == 0 else int(v) for v in random.integers(0, 9, rows)]),
        }
    )


class Replayed:
    """A home after a replay, and the plan."""

    def __init__(self, replayer: Replayer, home: Home, network: Network, **how: Any) -> None:
        self.home, self.network = home, network
        files = parquet_files(replayer.folder / "in", records())
        self.result = replayer.run(home, network, {"s": files}, chunk_records=40, **how)

    def check(self) -> SampleCheck:
        return check_sample(self.home, self.network, PlanId(self.result.plan))


@pytest.fixture(scope="module")
def replayed(
    postgres_server: EmbeddedServer,
    spark: SparkSession,
    folder: Path,
    interpreted: None,
) -> Iterator[Replayed]:
    """One replay for the tests that only read its result."""
    replayer = Replayer(postgres_server, spark, folder / "sampled")
    with replayer.home() as home:
        yield Replayed(replayer, home, a_network())


def starts(replayed: Replayed) -> list[int]:
    segments = replayed.home.catalog.segments(StreamName("totals"))
    return sorted(at for s in segments for at in s.buckets)


@pytest.mark.long
def test_the_sample_holds_the_first_and_the_last_bucket_and_is_always_the_same(
    replayed: Replayed, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = []
    compared = sample_check._compared

    def noted(home: Any, name: Any, segments: Any, parts: Any, *rest: Any) -> str:
        chosen.append(list(parts))
        return compared(home, name, segments, parts, *rest)

    monkeypatch.setattr(sample_check, "_compared", noted)
    checked = replayed.check()
    assert checked.mismatches == ()
    assert checked.buckets == sample_check.BUCKETS_MAX
    found = starts(replayed)
    assert checked.buckets_in_all >= len(found)
    assert chosen[0][0].from_us <= found[0]
    assert chosen[0][-1].to_us > found[-1]
    assert checked.sentence == (
        f"checked: 8 of {checked.buckets_in_all} buckets of 1 output equal an independent "
        "recomputation by DuckDB"
    )
    replayed.check()
    assert chosen[1] == chosen[0]


@pytest.mark.long
def test_fewer_buckets_than_a_sample_holds_are_each_checked_once(
    replayed: Replayed, monkeypatch: pytest.MonkeyPatch
) -> None:
    buckets = replayed.check().buckets_in_all
    monkeypatch.setattr(sample_check, "BUCKETS_MAX", 3 * buckets)
    checked = replayed.check()
    assert (checked.buckets, checked.buckets_in_all) == (buckets, buckets)


def test_only_landed_files_that_the_sample_needs_are_read(
    replayed: Replayed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_check, "BUCKETS_MAX", 1)
    read, checked = [], stored_rows._checked

    def noted(root: Path, file: Any) -> Path:
        read.append(file.path)
        return checked(root, file)

    monkeypatch.setattr(stored_rows, "_checked", noted)
    assert replayed.check().buckets == 2
    landed = len(replayed.home.catalog.landed_files(StreamName("s"), Range(0, 2**62)))
    assert landed == 20 * MINUTES // 40
    # A window reaches back a minute: some twenty records, in one or two files of forty.
    assert len({path for path in read if not path.startswith("totals/")}) <= 4


@pytest.mark.long
def test_a_result_that_is_wrong_is_named_with_stream_and_bucket(
    replayer: Replayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unverified(_: Verification, job: Any, *others: Any, **how: Any) -> tuple[Any, bool, None]:
        return job(Records.ALL), False, None

    put, filled = prepared._Slot.put, set()

    def once(slot: Any, given: Any) -> None:
        if slot not in filled:
            put(slot, given)
            if not isinstance(given, pa.Table) or given.num_rows:
                filled.add(slot)

    monkeypatch.setattr(Verification, "run", unverified)
    monkeypatch.setattr(prepared._Slot, "put", once)
    with replayer.home() as home:
        limits = Limits(records_per_step_max=200)
        checked = Replayed(replayer, home, a_network(), limits=limits).check()
    (mismatch,) = checked.mismatches
    assert mismatch.stream == "totals"
    assert mismatch.sentence.startswith(
        "stream totals does not equal its recomputation by DuckDB: the bucket at 1970-01-01T00:"
    )


@pytest.mark.long
def test_a_box_that_duckdb_does_not_compute_is_named_and_other_outputs_are_checked(
    replayer: Replayer,
) -> None:
    box = Function(name="turned", input="given", function=negated, columns={"value": "bigint"})
    behind = Map(name="behind", input="turned", columns={"value": "value + 1"})
    with replayer.home() as home:
        checked = Replayed(replayer, home, a_network(box, behind, negative="behind")).check()
    assert checked.streams == ("totals",)
    assert checked.mismatches == ()
    assert checked.not_checked == {"box turned": "a Function"}
    assert checked.sentence.endswith("; box turned not checked (a Function)")


def test_rows_that_are_lost_are_missed_though_their_buckets_are_empty(
    replayed: Replayed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a job that gave the rows of its first step again and again."""
    catalog, first = replayed.home.catalog, starts(replayed)[0]
    segments = catalog.segments

    def lost(stream: StreamName, *of: Any, **how: Any) -> Any:
        found = segments(stream, *of, **how)
        if stream != "totals":
            return found
        kept = [{at: d for at, d in s.buckets.items() if at == first} for s in found]
        return tuple(replace(s, buckets=b) for s, b in zip(found, kept, strict=True))

    monkeypatch.setattr(catalog, "segments", lost)
    (mismatch,) = replayed.check().mismatches
    assert "has 0 rows, and" in mismatch.found


@pytest.mark.long
def test_an_output_without_rows_has_nothing_to_check(replayer: Replayer) -> None:
    with replayer.home() as home:
        none = Filter(name="none", input="sums", cases={"yes": "n < 0"})
        checked = Replayed(replayer, home, a_network(none, empty="none")).check()
    assert set(checked.streams) == {"totals", "empty"}
    assert checked.mismatches == ()


def test_an_output_whose_buckets_need_too_many_records_is_left_out(
    replayed: Replayed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_check, "RECORDS_MAX", 3)
    checked = replayed.check()
    assert checked.streams == ()
    assert "output totals not checked (its first and last buckets are" in checked.sentence
