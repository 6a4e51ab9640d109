"""Windows that have rows without records, replayed: certificates, and cuts into steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from medusa_core.grid import Range
from medusa_core.names import StreamName
from medusa_core.network import Aggregate, Filter, Network, Output, Source
from pipelines.homes.home import Home
from pipelines.quality.recompute import DUCKDB
from pipelines.quality.sample_check import check_sample
from pipelines.quality.stored_rows import final_rows
from pipelines.spark import emitted_rows
from pipelines.storage.segment_rows import columns_of, stream_record
from tests.quality.homes import SECOND_US, Checked, checked_home, converged
from tests.replaying import Replayer, digests, parquet_files
from tests.sweeps import long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = pytest.mark.usefixtures("interpreted")
OUTPUTS = ("per_state", "in_all", "worst", "speeds", "rates", "rare", "per_day")


def an_aggregate(name: str, **given: Any) -> Aggregate:
    parts = {"input": "events", "size": "20s", "columns": {"n": "count(*)"}, "empty": "emit"}
    return Aggregate(name=name, **(parts | given))


def a_network(fragment: str = "main") -> Network:
    """Events of two states in windows that are mostly empty, and what is computed of them."""
    keys: dict[str, Any] = {"state": ("on", "off", None)}
    return Network(
        name="states",
        bucket="10s",
        sources=(
            Source(name="events", columns={"at_us": "bigint", "state": "string", "x": "double"},
                   time="at_us"),
        ),
        boxes=(
            an_aggregate("by_state", group_by=("state",), keys=keys, columns={
                "n": "count(*)", "top": "max(x)", "label": "state || ':' || count(*)",
                "firsts": "coalesce(first(state), 'none')",
            }),
            an_aggregate("all_events", advance="10s"),
            Aggregate(name="fewest", input="by_state", size="60s", fragment=fragment,
                      columns={"n": "min(n)", "rows": "count(*)"}),
            an_aggregate("speed", group_by=("state",), keys=keys, columns={
                "mean": "round(avg(x), 2)", "listed": "array_join(collect_list(state), '|')",
            }),
            an_aggregate("rate", columns={"each": "100 div count(*)"}),
            Filter(name="never", input="events", cases={"yes": "state = 'never'"}),
            an_aggregate("rarely", input="never", fragment=fragment),
            an_aggregate("daily", size=None, every="day", zone="Europe/Berlin",
                         zone_offsets="3600"),
        ),
        outputs=tuple(
            Output(name=name, input=box)
            for name, box in zip(
                OUTPUTS,
                ("by_state", "all_events", "fewest", "speed", "rate", "rarely", "daily"),
                strict=True,
            )
        ),
    )  # fmt: skip


def write_files(folder: Path) -> dict[str, list[Path]]:
    """Events in three short bursts, minutes apart, around 1970."""
    at_s = [*range(-95, -80, 4), 3, 3, 14, *range(250, 262, 3)]
    states = ["on", "odd", None, "on"]
    table = pa.table({
        "at_us": pa.array([s * SECOND_US for s in at_s], pa.int64()),
        "state": pa.array([states[n % 4] for n in range(len(at_s))], pa.string()),
        "x": pa.array([n / 4 for n in range(len(at_s))], pa.float64()),
    })  # fmt: skip
    return {"events": parquet_files(folder, table)}


@pytest.fixture(scope="module")
def inputs(folder: Path) -> dict[str, list[Path]]:
    return write_files(folder / "empty_windows_input")


@pytest.fixture(scope="module")
def replayed(
    postgres_server: EmbeddedServer,
    spark: SparkSession,
    folder: Path,
    inputs: dict[str, list[Path]],
    interpreted: None,
) -> Iterator[Checked]:
    replayer = Replayer(postgres_server, spark, folder / "empty_windows")
    with checked_home(replayer, a_network(), inputs, width_s=10, records_per_step_max=8) as checked:
        yield checked


def rows_of(home: Home, stream: str) -> list[dict[str, Any]]:
    """The final rows of a stream, with their event time in seconds."""
    name = StreamName(stream)
    columns = columns_of(stream_record(home.catalog, name))
    everything = Range(-(2**62), 2**62)
    rows = final_rows(home.storage, home.catalog.segments(name), columns, everything).rows
    found = [row | {"at_s": (row["_stime"] + 1) // SECOND_US} for row in rows.to_pylist()]
    return sorted(found, key=lambda row: (row["at_s"], str(row)))


@pytest.mark.long
def test_every_window_of_the_stream_has_a_row_that_later_boxes_read(replayed: Checked) -> None:
    rows = rows_of(replayed.home, "in_all")
    # The first bucket begins at -100 s, and the last one ends at 260 s.
    assert [row["at_s"] for row in rows] == list(range(-90, 280, 10))
    assert [row["n"] for row in rows[3:6]] == [0, 0, 0]
    of_state = rows_of(replayed.home, "per_state")
    declared = {"on", "off", None}
    ends = sorted({row["at_s"] for row in of_state})
    assert ends == list(range(-80, 280, 20))
    for end in ends:
        found = {row["state"]: row for row in of_state if row["at_s"] == end}
        assert declared <= set(found) <= declared | {"odd"}
        assert found["off"]["n"] == 0
        assert (found["off"]["top"], found["off"]["label"], found["off"]["firsts"]) == (
            None, "off:0", "none",
        )  # fmt: skip
    assert {row["state"] for row in of_state} == declared | {"odd"}
    assert all(row["n"] > 0 for row in of_state if row["state"] == "odd")
    # Boxes behind read the rows.
    assert {row["n"] for row in rows_of(replayed.home, "worst")} == {0}
    assert {row["rows"] for row in rows_of(replayed.home, "worst")[1:-1]} == {9, 10}
    rare = rows_of(replayed.home, "rare")
    assert len(rare) == 18
    assert {row["n"] for row in rare} == {0}
    # What an expression fails on without a record is in quarantine.
    rows = rows_of(replayed.home, "rates")
    assert 0 < len(rows) < 10
    assert all(row["each"] > 0 for row in rows)
    failed = [q for q in replayed.home.catalog.quarantined() if q.origin == "box rate"]
    assert len(failed) == 18 - len(rows)
    assert all("division by zero" in q.reason for q in failed)


@pytest.mark.long
def test_empty_windows_are_computed_again_by_both_engines(replayed: Checked) -> None:
    for made in converged(replayed, OUTPUTS, ("worst", "speeds")):
        assert made.figures["final_rows"] == made.figures["recomputed_rows"] > 0
        assert (set(made.engines.values()) == {DUCKDB}) == (made.stream != "speeds")
    # And so is a sample of the buckets, without Spark.
    (plan,) = {s.plan for s in replayed.home.catalog.segments(StreamName("in_all"))}
    checked = check_sample(replayed.home, a_network(), plan)
    assert checked.mismatches == ()
    assert set(checked.not_checked) == {"box speed"}


@pytest.mark.long
def test_a_window_that_is_left_out_is_found_by_the_certificate(
    replayer: Replayer, inputs: dict[str, list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = emitted_rows.emitted_windows

    def without_the_last(*given: Any) -> dict[str, Any]:
        return {box: windows[:-1] for box, windows in right(*given).items()}

    monkeypatch.setattr(emitted_rows, "emitted_windows", without_the_last)
    with checked_home(replayer, a_network(), inputs, width_s=10) as checked:
        assert not checked.run().passed


@pytest.mark.parametrize("records_per_step_max", long_but(0, [250_000, 4, 1]))
def test_i1_i2_empty_windows_are_the_same_however_steps_are_cut(
    replayer: Replayer,
    replayed: Checked,
    inputs: dict[str, list[Path]],
    records_per_step_max: int,
) -> None:
    with checked_home(
        replayer, a_network(), inputs, width_s=10, records_per_step_max=records_per_step_max
    ) as other:
        assert digests(other.home, a_network()) == digests(replayed.home, a_network())


@pytest.mark.long
def test_a_stream_between_fragments_has_a_life_of_its_own(
    replayer: Replayer, replayed: Checked, inputs: dict[str, list[Path]]
) -> None:
    """It ends with the last output of the fragment that writes it: the day that ends at 23:00."""
    network = a_network("later")
    with checked_home(replayer, network, inputs, width_s=10) as other:
        assert other.run(stream="rare").passed
        rare, before = rows_of(other.home, "rare"), rows_of(replayed.home, "rare")
        found, expected = digests(other.home, network), digests(replayed.home, a_network())
    assert rare[: len(before)] == before
    assert {row["n"] for row in rare} == {0}
    assert rare[-1]["at_s"] == 23 * 3_600
    for output in set(OUTPUTS) - {"rare"}:
        assert found[output] == expected[output]
