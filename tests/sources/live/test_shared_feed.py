"""One query feeds several streams, told apart by a column: read once, judged apart, logged once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.commits import Lease, LeaseKey
from medusa_core.errors import Conflict, Refused
from medusa_core.fragments import landing_fragment
from medusa_core.grid import Range
from medusa_core.names import Epoch, NetworkName, PlanId, StreamName
from medusa_core.network import Source
from medusa_core.segments import Producer
from pipelines.base.failpoints import visited_by
from pipelines.catalog.interface import Catalog
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import ManualClock
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.records import Assignment, Deployment, StreamRecord
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.sources.landing import read_landed
from pipelines.sources.live.anchors import read_anchors
from pipelines.sources.live.live_source import LiveSource, Polled
from pipelines.sources.live.shared_feeds import DIRECTORY, SPARK
from pipelines.sources.live.source_declaration import parse_declaration
from pipelines.sources.live.source_factory import Declared, Place, open_sources
from pipelines.storage.arrow_schema import columns_of
from tests.home_pool import lent_homes
from tests.sources.live.building import NOW_MS, SOLO, WIDTH_US, S
from tests.sweeps import long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NORTH, SOUTH, WEST = (StreamName(f"in_{name}") for name in ("north", "south", "west"))
COLUMNS = {"ts_us": "bigint", "region": "string", "size": "int"}
Row = tuple[int, str, int]


class Home:
    """A home in which the streams of three regions can be landed."""

    def __init__(self, folder: Path, spark: SparkSession, catalog: Catalog | None = None) -> None:
        self.folder, self.spark = folder, spark
        self.catalog = catalog or MemoryCatalog(SOLO, ManualClock(1_000))
        self.inbox = folder / "inbox"
        self.inbox.mkdir(parents=True)
        self.leases: dict[StreamName, Lease] = {}
        self._deploy((NORTH, SOUTH, WEST))

    def _deploy(self, streams: Sequence[StreamName]) -> None:
        producer, plan = Producer(self.catalog.participant), PlanId("plan")
        self.catalog.deploy(
            Deployment(
                network=NetworkName("regions"),
                document="{}",
                plan=plan,
                plan_document="{}",
                streams=tuple(
                    StreamRecord(name=s, kind="source", width_us=WIDTH_US, columns=COLUMNS)
                    for s in streams
                ),
                fragments={landing_fragment(s): ((), (s,)) for s in streams},
                assignments=tuple(
                    Assignment(
                        fragment=landing_fragment(s), producer=producer, epoch=Epoch(1), plan=plan
                    )
                    for s in streams
                ),
            )
        )
        for stream in streams:
            key = LeaseKey(fragment=landing_fragment(stream), producer=producer)
            self.leases[stream] = self.catalog.acquire_lease(key, Epoch(1), "test", 10**9)

    def open(
        self,
        *streams: StreamName,
        values: Mapping[StreamName, object] = {},
        apart: Mapping[StreamName, Mapping[str, object]] = {},
        **more: Any,
    ) -> dict[StreamName, LiveSource]:
        declared = {
            stream: Declared(
                declaration=parse_declaration(
                    stream,
                    {
                        "kind": "directory",
                        "path": str(self.inbox),
                        "where": {"region": values.get(stream, stream.removeprefix("in_"))},
                        **more,
                        **apart.get(stream, {}),
                    },
                ),
                source=Source(name=stream, columns=COLUMNS, time="ts_us"),
                width_us=WIDTH_US,
                lease=lambda stream=stream: self.leases[stream],
            )
            for stream in streams or (NORTH, SOUTH, WEST)
        }
        place = Place(
            catalog=self.catalog,
            root=self.folder / "storage",
            checkpoints=self.folder / "checkpoints",
            session=lambda: self.spark,
        )
        return open_sources(declared, place)

    def feed(self, *streams: StreamName, **more: Any) -> LiveSource:
        (source,) = self.open(*streams, **more).values()
        return source

    def write(self, name: str, rows: Sequence[tuple[object, ...]]) -> Path:
        lines = ["ts_us,region,size", *(",".join(map(str, row)) for row in rows)]
        unfinished = self.inbox / f".{name}"
        unfinished.write_text("\n".join(lines) + "\n")
        return unfinished.rename(self.inbox / name)

    def landed(self, stream: StreamName) -> dict[int, int]:
        return dict(self.catalog.landed_batches(stream, DIRECTORY))

    def rows(self, stream: StreamName) -> list[Row]:
        """What has landed of a stream, as closing reads it."""
        columns, everything = columns_of("source", COLUMNS), Range(0, 10**18)
        return [
            (row["ts_us"], row["region"], row["size"])
            for file in self.catalog.landed_files(stream, everything)
            for row in read_landed(
                self.folder / "storage", file, columns, stream, everything
            ).to_pylist()
        ]

    def promised_us(self, stream: StreamName) -> int | None:
        (line,) = [s for s in self.catalog.lines() if s.stream.name == stream]
        return line.promised_us

    def state(self, stream: StreamName) -> dict[str, Any]:
        found = self.catalog.landed_state(stream, DIRECTORY)
        assert found is not None
        assert found[1] is not None
        state: dict[str, Any] = json.loads(found[1])
        return state

    def begun_again(self, feed: StreamName = NORTH) -> None:
        """As if killed between landing and checkpoint."""
        (generation,) = (self.folder / "checkpoints" / feed / DIRECTORY / "handed").iterdir()
        commits = generation / "spark" / "commits"
        last = max(int(name) for name in os.listdir(commits) if name.isdecimal())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)


@pytest.fixture
def home(tmp_path: Path, spark: SparkSession) -> Home:
    return Home(tmp_path, spark)


def test_each_stream_gets_the_records_with_its_value_from_one_file(home: Home) -> None:
    source = home.feed()
    home.write("a.csv", [(100 * S, "north", 1), (101 * S, "south", 2), (99 * S, "south", 3),
                         (103 * S, "north", 4)])  # fmt: skip
    polled = source.poll(NOW_MS)
    assert (polled.landed, polled.late, polled.batches) == (3, 1, 1)
    assert home.rows(NORTH) == [(100 * S, "north", 1), (103 * S, "north", 4)]
    assert home.rows(SOUTH) == [(101 * S, "south", 2)]
    assert home.rows(WEST) == []
    files = list((home.folder / "storage").rglob("*.parquet"))
    assert len(files) == 1
    assert pq.read_metadata(files[0]).num_rows == 3


@pytest.mark.long
def test_lateness_is_judged_in_the_sequence_of_each_stream(home: Home) -> None:
    source = home.feed(disorder="5s")
    home.write("a.csv", [(200 * S, "north", 1), (100 * S, "south", 1), (150 * S, "north", 2),
                         (96 * S, "south", 2), (90 * S, "south", 3)])  # fmt: skip
    polled = source.poll(NOW_MS)
    assert polled.members[NORTH].late == 1
    assert polled.members[SOUTH].late == 1
    assert {(q.stream, q.position) for q in home.catalog.quarantined()} == {(NORTH, 4), (SOUTH, 6)}
    assert home.promised_us(NORTH) == 190 * S
    assert home.promised_us(SOUTH) == 90 * S
    assert home.promised_us(WEST) is None


def test_a_record_that_no_stream_claims_is_counted(home: Home) -> None:
    source = home.feed(NORTH, SOUTH)
    home.write("a.csv", [(100 * S, "north", 1), (101 * S, "east", 2), (102 * S, "", 3)])
    polled = source.poll(NOW_MS)
    assert (polled.landed, polled.unclaimed) == (1, 2)
    home.write("b.csv", [(103 * S, "east", 1)])
    assert source.poll(NOW_MS).unclaimed == 1
    assert home.state(NORTH)["at"]["unclaimed"] == 3


@pytest.mark.long
def test_an_unreadable_line_is_quarantined_under_the_first_stream(home: Home) -> None:
    source = home.feed(SOUTH, WEST)
    home.write("a.csv", [("soon", "west", 1), (100 * S, "west", 2)])
    assert source.poll(NOW_MS).quarantined == 1
    ((record,),) = [home.catalog.quarantined()]
    assert (record.stream, record.position, record.field) == (SOUTH, 2, "ts_us")
    assert home.landed(SOUTH) == {0: 0}


@pytest.mark.long
def test_only_the_anchor_has_a_row_for_a_batch_in_which_it_has_no_record(home: Home) -> None:
    source = home.feed()
    home.write("a.csv", [(100 * S, "south", 1)])
    source.poll(NOW_MS)
    home.write("b.csv", [(101 * S, "west", 1)])
    source.poll(NOW_MS)
    assert home.landed(NORTH) == {0: 0, 1: 0}
    assert home.landed(SOUTH) == {0: 1}
    assert home.landed(WEST) == {1: 1}


@pytest.mark.long
def test_killed_between_landing_and_checkpoint_nothing_lands_twice(home: Home) -> None:
    home.write("a.csv", [(100 * S, "north", 1), (101 * S, "south", 2)])
    home.feed().poll(NOW_MS)
    home.begun_again()
    home.write("b.csv", [(102 * S, "south", 3)])
    assert home.feed().poll(NOW_MS).landed == 1
    assert home.landed(NORTH) == {0: 1, 1: 0}
    assert home.landed(SOUTH) == {0: 1, 1: 1}
    assert len(home.rows(SOUTH)) == 2


@pytest.mark.parametrize("point", long_but(1, ["land.written", "land.logged"]))
def test_dead_at_any_point_of_landing_the_feed_lands_the_same(
    tmp_path: Path, spark: SparkSession, point: str
) -> None:
    def land(home: Home, number: int) -> None:
        regions = ("north", "south", "east")
        home.write(f"{number}.csv", [("x", "west", 0)] * 2 + [
            (100 * S + number * 10 * S + at * S, region, at)
            for at in range(4) for region in regions
        ])  # fmt: skip
        home.feed().poll(NOW_MS)

    undisturbed, crashed = (Home(tmp_path / name, spark) for name in ("undisturbed", "crashed"))
    for home in (undisturbed, crashed):
        land(home, 0)
    with visited_by(_dies_at(point)), pytest.raises(Died):
        land(crashed, 1)
    crashed.feed().poll(NOW_MS)
    land(undisturbed, 1)
    for home in (undisturbed, crashed):
        land(home, 2)
    seen = [
        (
            [(home.landed(s), home.rows(s), home.promised_us(s)) for s in home.leases],
            [(q.stream, q.position, Path(q.origin).name) for q in home.catalog.quarantined()],
            home.state(NORTH)["at"]["unclaimed"],
        )
        for home in (undisturbed, crashed)
    ]
    assert seen[0] == seen[1]
    assert seen[0][2] == 12


class Died(Exception):
    """In place of a kill: nothing of Medusa catches it."""


def _dies_at(point: str) -> Callable[[str], None]:
    def visitor(reached: str) -> None:
        if reached == point:
            raise Died

    return visitor


@pytest.mark.long
def test_a_feed_of_sparks_is_shared_as_well(home: Home) -> None:
    declared = {
        "kind": "spark", "format": "csv", "schema": "ts_us bigint, region string, size int",
        "options": {"header": "true"}, "columns": {"region": "lower(region)"},
    }  # fmt: skip
    source = home.feed(NORTH, SOUTH, **declared)
    home.write("a.csv", [(100 * S, "North", 1), (101 * S, "SOUTH", 2), (102 * S, "east", 3)])
    polled = source.poll(NOW_MS)
    assert (polled.landed, polled.unclaimed) == (2, 1)
    assert home.catalog.landed_batches(NORTH, SPARK) == {0: 1}
    assert home.catalog.landed_batches(SOUTH, SPARK) == {0: 1}
    home.write("b.csv", [(103 * S, "south", 4)])
    assert home.feed(NORTH, SOUTH, **declared).poll(NOW_MS).landed == 1
    assert home.catalog.landed_batches(NORTH, SPARK) == {0: 1, 1: 0}


@pytest.mark.long
def test_a_catalog_without_the_feeds_batches_is_refused(home: Home, tmp_path: Path) -> None:
    home.write("a.csv", [(100 * S, "south", 1)])
    home.feed().poll(NOW_MS)
    home.catalog = MemoryCatalog(SOLO, ManualClock(1_000))
    home._deploy((NORTH, SOUTH, WEST))
    with pytest.raises(Refused, match="nobody knows which files are new"):
        home.feed().poll(NOW_MS)


def test_a_checkpoint_that_is_gone_is_refused(home: Home) -> None:
    home.write("a.csv", [(100 * S, "south", 1)])
    home.feed().poll(NOW_MS)
    (home.folder / "checkpoints" / NORTH / DIRECTORY).rename(home.folder / "elsewhere")
    with pytest.raises(Refused, match="nobody knows which files are new"):
        home.feed().poll(NOW_MS)


def test_a_stream_may_join_and_gets_what_comes_from_then_on(home: Home) -> None:
    home.write("a.csv", [(100 * S, "north", 1), (100 * S, "west", 1)])
    assert home.feed(NORTH, SOUTH).poll(NOW_MS).unclaimed == 1
    home.write("b.csv", [(101 * S, "west", 2)])
    polled = home.feed().poll(NOW_MS)
    assert (polled.landed, polled.unclaimed) == (1, 0)
    assert home.rows(WEST) == [(101 * S, "west", 2)]


@pytest.mark.long
def test_the_anchor_may_leave_and_another_stream_takes_over(home: Home) -> None:
    home.write("a.csv", [(100 * S, "north", 1), (100 * S, "west", 1)])
    home.feed().poll(NOW_MS)
    home.write("b.csv", [(101 * S, "north", 2)])
    home.feed().poll(NOW_MS)
    home.write("c.csv", [(102 * S, "west", 2)])
    polled = home.feed(SOUTH, WEST).poll(NOW_MS)
    assert (polled.landed, polled.unclaimed) == (1, 0)
    assert home.landed(SOUTH) == {2: 0}
    assert home.landed(WEST) == {0: 1, 2: 1}
    assert read_anchors(home.folder / "checkpoints" / NORTH / DIRECTORY) == (NORTH, SOUTH)
    # And once more: what the first anchor knew is not needed again.
    home.write("d.csv", [(103 * S, "west", 3)])
    assert home.feed(SOUTH, WEST).poll(NOW_MS).landed == 1


def test_streams_fed_together_and_declared_apart_now_are_refused(home: Home) -> None:
    home.write("a.csv", [(100 * S, "north", 1), (100 * S, "west", 1)])
    home.feed(NORTH, WEST).poll(NOW_MS)
    other = home.folder / "other"
    other.mkdir()
    with pytest.raises(Refused, match="are fed together so far, but are not declared alike"):
        home.open(NORTH, WEST, apart={WEST: {"path": str(other)}})


@pytest.mark.long
def test_streams_fed_apart_and_declared_alike_now_are_refused(home: Home) -> None:
    home.write("a.csv", [(100 * S, "north", 1), (100 * S, "west", 1)])
    for source in home.open(NORTH, WEST, apart={WEST: {"disorder": "9s"}}).values():
        source.poll(NOW_MS)
    assert home.rows(WEST) == [(100 * S, "west", 1)]
    with pytest.raises(Refused, match="were fed by two queries so far"):
        home.open(NORTH, WEST)


@pytest.mark.long
def test_a_lost_lease_of_one_stream_lands_nothing_of_any(home: Home) -> None:
    source = home.feed()
    home.write("a.csv", [(100 * S, "north", 1), (101 * S, "south", 2)])
    home.catalog.renew_lease(home.leases[SOUTH], 0)
    with pytest.raises(Conflict, match="expired"):
        source.poll(NOW_MS)
    assert home.landed(NORTH) == {}
    assert home.landed(SOUTH) == {}
    home._deploy((SOUTH,))
    assert source.poll(NOW_MS).landed == 2


@pytest.mark.long
def test_a_record_far_ahead_waits_for_the_next_one_of_its_stream(home: Home) -> None:
    source = home.feed(max_jump="60s")
    home.write("a.csv", [(100 * S, "north", 1), (900 * S, "north", 2), (101 * S, "south", 1)])
    assert source.poll(NOW_MS).landed == 2
    home.write("b.csv", [(102 * S, "south", 2)])
    assert source.poll(NOW_MS).landed == 1
    home.write("c.csv", [(901 * S, "north", 3)])
    assert source.poll(NOW_MS).landed == 2
    assert [row[2] for row in home.rows(NORTH)] == [1, 2, 3]


@pytest.mark.long
def test_two_streams_may_take_the_same_value(home: Home) -> None:
    source = home.feed(NORTH, SOUTH, values={SOUTH: "north"})
    home.write("a.csv", [(100 * S, "north", 1), (101 * S, "south", 2)])
    polled = source.poll(NOW_MS)
    assert (polled.landed, polled.unclaimed) == (2, 1)
    assert home.rows(NORTH) == home.rows(SOUTH) == [(100 * S, "north", 1)]


def test_a_number_distinguishes_streams_too(home: Home) -> None:
    source = home.feed(NORTH, SOUTH, where={"size": 2})
    home.write("a.csv", [(100 * S, "north", 1), (101 * S, "south", 2)])
    assert source.poll(NOW_MS).unclaimed == 1


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"regoin": "north"}, "no such column: did you mean 'region'"),
        ({"size": "many"}, "is no int"),
        ({"size": 2**31}, "is no int"),
        ({"region": True}, "is no string"),
    ],
)
def test_indistinguishable_streams_are_refused(
    home: Home, where: dict[str, object], said: str
) -> None:
    with pytest.raises(Refused, match=said):
        home.open(NORTH, where=where)


@pytest.mark.parametrize(
    "where", ["region", [], {}, {"region": ""}, {"a": 1, "b": 2}, {"region": None}, {1: 2}]
)
def test_an_invalid_where_is_refused(where: object) -> None:
    with pytest.raises(Refused, match="one column and its value"):
        parse_declaration(NORTH, {"kind": "directory", "path": "x", "where": where})


@pytest.mark.long
def test_a_feed_lands_in_postgres_as_it_does_in_memory(
    tmp_path: Path, spark: SparkSession, postgres_server: EmbeddedServer
) -> None:
    with (
        lent_homes(postgres_server, SOLO) as homes,
        closing(PostgresCatalog(homes[SOLO].job, SOLO)) as catalog,
    ):
        found = []
        for home in (
            Home(tmp_path / "memory", spark),
            Home(tmp_path / "postgres", spark, catalog),
        ):
            source = home.feed(disorder="1s")
            output: list[Polled] = []
            for number in range(3):
                rows = [
                    (100 * S + number * 10 * S + at * S // 3, region, at)
                    for at in range(30)
                    for region in ("south", "north", "east")
                ]
                home.write(f"{number}.csv", [("x", "north", 0), *rows, (1, "south", 9)])
                output.append(source.poll(NOW_MS))
            home.begun_again()
            home.feed(disorder="1s").poll(NOW_MS)
            found.append(
                (
                    [(p.landed, p.late, p.unclaimed, p.boundary_us) for p in output],
                    [(home.landed(s), home.rows(s), home.promised_us(s)) for s in home.leases],
                    [(q.stream, q.position, q.reason) for q in home.catalog.quarantined()],
                )
            )
        assert found[0] == found[1]
        assert found[0][0][0][0] > 0


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_dealing_out_loses_no_record_and_keeps_each_streams_order(data: st.DataObject) -> None:
    import numpy as np
    import pyarrow as pa

    from pipelines.sources.live.claims import Claims

    regions = data.draw(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=50))
    values = data.draw(st.lists(st.sampled_from(["a", "b", "x"]), min_size=1, max_size=4))
    split = Claims("region", values).split(pa.table({"region": pa.array(regions, pa.string())}))
    for member, value in enumerate(values):
        mine = split.rows[split.bounds[member] : split.bounds[member + 1]]
        assert mine.tolist() == [at for at, region in enumerate(regions) if region == value]
        assert np.all(split.members[split.bounds[member] : split.bounds[member + 1]] == member)
    assert split.unclaimed == sum(region not in values for region in regions)
