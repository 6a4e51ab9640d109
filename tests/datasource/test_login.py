"""Who reads a home for a user's program: its analyst, who may read and nothing else."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructType
from sqlalchemy import text

from medusa_core.errors import Refused
from pipelines.catalog.postgres.home_database import catalog_url
from pipelines.datasource import MedusaSource
from pipelines.datasource.home_access import OpenHome
from pipelines.homes.home import known_homes, role_url
from tests.catalog import building as a
from tests.trimming.building import SUMS, Store


def rows_read() -> int:
    """How many rows of `sums` a batch, and a stream, of this environment give; both the same."""
    source = MedusaSource({"stream": "sums", "participant": "alpha"})
    schema = StructType().add("n", LongType())
    batch, stream = source.reader(schema), source.streamReader(schema)
    start = stream.initialOffset()
    parts = stream.partitions(start, stream.latestOffset(start, ReadAllAvailable()))
    stream.stop()
    counts = {
        sum(b.num_rows for part in parts for b in reader.read(part))
        for reader, parts in ((stream, parts), (batch, batch.partitions()))
    }
    (count,) = counts
    return count


def analyst_url(store: Store) -> str:
    settings = store.settings
    return role_url(settings.directory, str(settings.catalog_url), a.ALPHA, "analyst")


def who() -> str:
    """The login with which the home is read now."""
    home = OpenHome(a.ALPHA)
    try:
        with home.snapshot() as seen:
            return str(seen._catalog.held.execute(text("SELECT session_user")).scalar_one())
    finally:
        home.close()


def test_with_any_url_of_the_server_the_analyst_of_the_home_reads(store: Store) -> None:
    store.write(SUMS, 0, 3)
    assert rows_read() == 9
    assert who() == f"{known_homes(store.settings.directory)[a.ALPHA]}_analyst"


@pytest.mark.parametrize("database", ["as it is", "another", "none"])
def test_the_analysts_own_url_is_enough_for_any_database(
    store: Store, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    url = catalog_url(analyst_url(store))
    named = {"as it is": url.database, "another": "postgres", "none": ""}[database]
    given = url.set(database=named).render_as_string(hide_password=False)
    monkeypatch.setenv("MEDUSA_CATALOG_URL", given)
    store.write(SUMS, 0, 3)
    assert rows_read() == 9
    assert who() == url.username


def test_without_the_folders_note_of_its_database_the_url_is_the_homes_own(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(SUMS, 0, 2)
    home = store.settings.directory / "home.json"
    note = home.read_text()
    monkeypatch.setenv("MEDUSA_CATALOG_URL", analyst_url(store))
    home.unlink()
    try:
        assert rows_read() == 6
    finally:
        home.write_text(note)


def test_an_unknown_stream_is_refused_to_an_analyst_too(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    monkeypatch.setenv("MEDUSA_CATALOG_URL", analyst_url(store))
    with pytest.raises(Refused, match="did you mean 'sums'"):
        MedusaSource({"stream": "sumz"}).schema()
