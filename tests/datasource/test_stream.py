"""`spark.readStream.format("medusa")`: each row once, whatever ends the query."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructType
from sqlalchemy import Connection, text

from medusa_core.errors import Expired, Refused
from medusa_core.grid import FOREVER_US
from medusa_core.segments import Stability
from pipelines.catalog.postgres.home_database import catalog_engine, catalog_url
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.datasource import MedusaSource
from pipelines.datasource.offsets import Offset, offset_of
from pipelines.datasource.stream_reader import StreamReader
from pipelines.homes.home import known_homes
from tests.catalog import building as a
from tests.datasource.building import Medusa, Sink
from tests.sweeps import IS_LONG, long_but
from tests.trimming.building import SRC, SUMS, WIDTH_US, Store

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.mark.sweep
def test_a_stream_that_grows_is_read_on_where_the_checkpoint_is(
    store: Store, medusa: Medusa, tmp_path: Path
) -> None:
    for at in range(3):
        store.write(SUMS, at, at + 1)
    sink = medusa.drain("sums", tmp_path / "checkpoint", maxRecordsPerTrigger=7)
    assert [len(rows) for _, rows in sink.seen] == [6, 3], "whole buckets, at most 7 records"
    store.write(SUMS, 3, 4, stability=Stability.TENTATIVE)
    store.write(SUMS, 4, 6)
    if IS_LONG:
        before = medusa.drain("sums", tmp_path / "checkpoint", Sink(dict(sink.batches)))
        assert before.rows == sink.rows, "nothing behind a tentative bucket"
    store.write(SUMS, 3, 4, rows=1)
    sink = medusa.drain("sums", tmp_path / "checkpoint", sink, maxBucketsPerTrigger=2)
    assert [len(rows) for _, rows in sink.seen[2:]] == [1 + 3, 3]
    assert sink.rows == medusa.rows("sums")


@pytest.mark.long
def test_a_stream_that_has_not_begun_is_read_once_it_has(
    store: Store, medusa: Medusa, tmp_path: Path
) -> None:
    first = medusa.drain("sums", tmp_path / "checkpoint")
    assert first.rows == []
    for at in range(5):
        store.write(SUMS, at, at + 1)
    store.write(SUMS, 5, 9)
    sink = medusa.drain("sums", tmp_path / "checkpoint", maxRecordsPerTrigger=7)
    assert [len(rows) for _, rows in sink.seen] == [6, 6, 6, 6, 3]
    assert sink.rows == medusa.rows("sums")
    again = medusa.drain("sums", tmp_path / "checkpoint", sink)
    assert len(again.seen) == 5, "nothing is new"


@pytest.mark.parametrize("breaks_at", long_but(1, [1, 0]))
@pytest.mark.long
def test_a_retried_batch_has_the_same_rows_although_data_arrived_meanwhile(
    store: Store, medusa: Medusa, tmp_path: Path, breaks_at: int
) -> None:
    for at in range(4):
        store.write(SUMS, at, at + 1)
    sink = Sink(breaks_at=breaks_at)
    with pytest.raises(Exception, match="went away"):
        medusa.drain("sums", tmp_path / "checkpoint", sink, maxBucketsPerTrigger=2)
    sink.breaks_at = None
    store.write(SUMS, 4, 6)
    medusa.drain("sums", tmp_path / "checkpoint", sink, maxBucketsPerTrigger=3)
    assert [number for number, _ in sink.seen] == sorted([0, 1, 2, breaks_at])
    assert sink.seen[breaks_at] == sink.seen[breaks_at + 1]
    assert sink.rows == medusa.rows("sums")


@pytest.mark.long
def test_from_and_to_bound_a_query_too(store: Store, medusa: Medusa, tmp_path: Path) -> None:
    store.write(SRC, 0, 6, rows=4)
    bounds = {"from": "10.000003", "to": "40.000003"}
    sink = medusa.drain("src", tmp_path / "checkpoint", **bounds, maxRecordsPerTrigger=4)
    assert sink.rows == medusa.rows("src", **bounds)
    assert [len(rows) for _, rows in sink.seen] == [2, 4, 4, 2]


@pytest.mark.long
def test_what_is_trimmed_before_it_was_read_ends_the_query_and_is_no_silent_gap(
    store: Store, medusa: Medusa, tmp_path: Path
) -> None:
    store.write(SUMS, 0, 2)
    sink = medusa.drain("sums", tmp_path / "checkpoint")
    for at in range(2, 8):
        store.write(SUMS, at, at + 1)
    store.trim(SUMS, 4)
    expected = r"Expired: sums is trimmed before 1970-01-01T00:00:40Z, but comes next at .*:20Z"
    with pytest.raises(Exception, match=expected) as caught:
        medusa.drain("sums", tmp_path / "checkpoint", sink)
    assert "Traceback" not in str(caught.value).partition("JVM stacktrace")[0]
    assert len(sink.rows) == 2 * 3
    anew = medusa.drain("sums", tmp_path / "anew")
    assert anew.rows == medusa.rows("sums"), "a new query begins with what is kept"


@pytest.mark.long
def test_a_first_batch_that_was_not_committed_is_not_shortened_by_a_trim(
    store: Store, medusa: Medusa, tmp_path: Path
) -> None:
    for at in range(4):
        store.write(SUMS, at, at + 1)
    sink = Sink(breaks_at=0)
    with pytest.raises(Exception, match="went away"):
        medusa.drain("sums", tmp_path / "checkpoint", sink)
    store.trim(SUMS, 2)
    with pytest.raises(Exception, match="Expired"):
        medusa.drain("sums", tmp_path / "checkpoint")


@pytest.mark.long
def test_a_checkpoint_is_of_one_stream_in_one_incarnation_of_a_home(
    store: Store, medusa: Medusa, tmp_path: Path
) -> None:
    store.write(SUMS, 0, 1)
    store.write(SRC, 0, 1)
    medusa.drain("sums", tmp_path / "checkpoint")
    with pytest.raises(Exception, match="of stream sums in the home of alpha, not of src"):
        medusa.drain("src", tmp_path / "checkpoint")
    with administrator(store) as connection:  # as a backup is told that it was restored
        connection.execute(text("UPDATE medusa.home SET incarnation = gen_random_uuid()"))
    with pytest.raises(Exception, match="Expired: the catalog of alpha was restored"):
        medusa.drain("sums", tmp_path / "checkpoint")


def test_an_offset_is_of_rows_that_are_kept_of_one_stream_in_one_incarnation_of_a_home(
    store: Store,
) -> None:
    """Without Spark, which gives the reader of a new query the offset of its checkpoint."""
    store.write(SUMS, 0, 2)
    store.write(SRC, 0, 1)
    with a_reader("sums") as reader:
        start = reader.initialOffset()
        read = reader.latestOffset(start, ReadAllAvailable())
    for at in range(2, 8):
        store.write(SUMS, at, at + 1)
    with a_reader("sums") as reader:
        end = reader.latestOffset(read, ReadAllAvailable())
        assert reader.partitions(read, end)
    store.trim(SUMS, 4)
    trimmed = r"sums is trimmed before 1970-01-01T00:00:40Z, but comes next at .*:20Z"
    with a_reader("sums") as reader:
        with pytest.raises(Expired, match=trimmed):
            reader.latestOffset(read, ReadAllAvailable())
        with pytest.raises(Expired, match=trimmed):
            reader.partitions(read, end)
        assert reader.initialOffset()["from_us"] == 40_000_000, "a new query begins there"
    with (
        a_reader("src") as reader,
        pytest.raises(Refused, match="of stream sums in the home of alpha, not of src"),
    ):
        reader.latestOffset(end, ReadAllAvailable())
    with administrator(store) as connection:  # as a backup is told that it was restored
        connection.execute(text("UPDATE medusa.home SET incarnation = gen_random_uuid()"))
    with (
        a_reader("sums") as reader,
        pytest.raises(Expired, match="the catalog of alpha was restored"),
    ):
        reader.latestOffset(end, ReadAllAvailable())


@contextmanager
def a_reader(stream: str) -> Iterator[StreamReader]:
    """The reader of a query that begins or begins again."""
    source = MedusaSource({"stream": stream})
    reader = source.streamReader(source.schema())
    yield reader
    reader.stop()


def test_a_running_query_notices_a_home_that_was_set_back_to_an_older_state(
    store_of_its_own: Store, postgres_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.datasource.stream_reader.LOOK_AGAIN_S", 0.0)
    store = store_of_its_own
    database = known_homes(store.settings.directory)[a.ALPHA]
    engine = catalog_engine(postgres_server.superuser_url())
    with engine.connect() as server:

        def copy(source: str, target: str) -> None:
            store.home.catalog.close()
            server.execute(text(f"DROP DATABASE IF EXISTS {target} WITH (FORCE)"))
            server.execute(text(f"CREATE DATABASE {target} TEMPLATE {source}"))

        store.write(SUMS, 0, 2)
        copy(database, f"{database}_backup")
        store.write(SUMS, 2, 4)
        reader = MedusaSource({"stream": "sums"}).streamReader(StructType().add("n", LongType()))
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        assert end["through_us"] == 4 * WIDTH_US
        copy(f"{database}_backup", database)
        told = "Z, and the home of alpha has final rows up to .*:20Z only, so it was set back"
        with pytest.raises(Expired, match=told):
            reader.latestOffset(end, ReadAllAvailable())
        with pytest.raises(Expired, match="set back"):
            reader.partitions(start, end)
        reader.stop()
        server.execute(text(f"DROP DATABASE {database}_backup WITH (FORCE)"))
    engine.dispose()


def offsets_of(store: Store, **options: str) -> Generator[int, None, None]:
    """Up to when a query has read at each look, in seconds."""
    schema = StructType().add("n", LongType())
    reader = MedusaSource({"stream": "sums", **options}).streamReader(schema)
    offset = reader.initialOffset()
    try:
        while True:
            reader.prepareForTriggerAvailableNow()
            offset = reader.latestOffset(offset, ReadAllAvailable())
            yield offset["through_us"] // 1_000_000
    finally:
        reader.stop()


def test_a_query_that_has_read_to_the_end_of_a_stream_is_not_told_that_it_was_set_back(
    store: Store,
) -> None:
    store.write(SUMS, 0, 2, ends=True)
    offsets = offsets_of(store)
    assert [next(offsets), next(offsets)] == [20, 20]
    offsets.close()


def test_a_query_that_begins_later_than_what_is_there_waits_for_it(store: Store) -> None:
    store.write(SUMS, 0, 1)
    offsets = offsets_of(store, **{"from": "20"})
    assert next(offsets) == 20
    store.write(SUMS, 1, 4)
    assert next(offsets) == 40
    offsets.close()


def test_a_query_outlives_a_connection_that_breaks(store: Store) -> None:
    with administrator(store) as connection:
        others = set(connection.execute(PIDS).scalars())
        reader = MedusaSource({"stream": "sums"}).streamReader(StructType().add("n", LongType()))
        start = reader.initialOffset()
        mine = set(connection.execute(PIDS).scalars()) - others
        assert mine
        for at in range(2):
            store.write(SUMS, at, at + 1)
            for pid in mine:
                connection.execute(text("SELECT pg_terminate_backend(:pid, 60000)"), {"pid": pid})
            reader.prepareForTriggerAvailableNow()
            end = reader.latestOffset(start, ReadAllAvailable())
            assert end["through_us"] == (at + 1) * WIDTH_US
            (partition,) = reader.partitions(start, end)
            assert sum(batch.num_rows for batch in reader.read(partition)) == 3
            start, mine = end, set(connection.execute(PIDS).scalars()) - others
        reader.stop()


PIDS = text("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")


@contextmanager
def administrator(store: Store) -> Iterator[Connection]:
    """A connection to the store's database that may do anything."""
    url = catalog_url(str(store.settings.catalog_url))
    url = url.set(database=known_homes(store.settings.directory)[a.ALPHA])
    engine = catalog_engine(url.render_as_string(hide_password=False))
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "sentence"),
    long_but(
        1,
        [
            ({"stability": "all"}, "cannot take a tentative row back"),
            ({"as_of": "1"}, "as_of is for"),
            ({"from": "5"}, "Expired: sums is trimmed before 1970-01-01T00:00:20Z"),
        ],
    ),
)
def test_an_unsupported_query_is_refused_in_one_sentence(
    store: Store, medusa: Medusa, tmp_path: Path, options: dict[str, str], sentence: str
) -> None:
    for at in range(3):
        store.write(SUMS, at, at + 1)
    store.trim(SUMS, 2)
    with pytest.raises(Exception, match=sentence) as caught:
        medusa.drain("sums", tmp_path / "checkpoint", **options)
    assert "pipelines/datasource" not in str(caught.value)


def test_a_malformed_offset_is_refused() -> None:
    good = Offset(home="h", incarnation="i", stream="s", from_us=0, through_us=FOREVER_US)
    assert offset_of(good.document()) == good
    bad = [{}, {**good.document(), "more": 1}, {**good.document(), "from_us": "0"},
           {**good.document(), "from_us": True}, {**good.document(), "through_us": -WIDTH_US},
           {**good.document(), "through_us": 2**70}]  # fmt: skip
    for document in bad:
        with pytest.raises(Refused, match="no offset of format medusa"):
            offset_of(document)
