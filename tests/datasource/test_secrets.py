"""The password is in the environment and nowhere else."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from medusa_core.errors import MedusaError, Refused, Unavailable
from pipelines.catalog.postgres.home_database import catalog_url
from pipelines.catalog.server.home_databases import ROLES
from pipelines.datasource import MedusaSource, register
from pipelines.datasource.user_errors import in_one_sentence
from pipelines.homes.home_logins import read_password
from tests.catalog import building as a
from tests.datasource.building import Medusa, Sink
from tests.trimming.building import SUMS, Store


def passwords_of(store: Store) -> list[str]:
    """Those of the administrator and of all roles of the home."""
    found = [read_password(store.settings.directory, a.ALPHA, role) for role in ROLES]
    found.append(str(catalog_url(str(store.settings.catalog_url)).password))
    assert min(map(len, found)) > 20
    return found


@pytest.mark.long
def test_no_plan_query_checkpoint_or_pickle_holds_a_password(
    store: Store, medusa: Medusa, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for at in range(3):
        store.write(SUMS, at, at + 1)
    frame = medusa.read("sums", stability="all")
    for mode in ("extended", "formatted", "cost", "codegen"):
        frame.explain(mode)
    told = [capsys.readouterr().out, str(frame.schema.json()), repr(frame)]
    assert "BatchScan medusa" in told[0]
    frame.collect()
    told.append(frame._jdf.queryExecution().toString())

    sink = Sink()
    stream = medusa.spark.readStream.format("medusa").option("stream", "sums").load()
    query = (
        stream.writeStream.foreachBatch(sink.take)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sink.rows
    told += [str(query.name), str(query.recentProgress), str(query.status)]
    query.explain(True)
    told.append(capsys.readouterr().out)
    written = [p.read_bytes() for p in (tmp_path / "checkpoint").rglob("*") if p.is_file()]
    assert any(b"through_us" in content for content in written)

    source = MedusaSource({"stream": "sums"})
    schema = source.schema()
    reader, stream_reader = source.reader(schema), source.streamReader(schema)
    offset = stream_reader.initialOffset()
    stream_reader.prepareForTriggerAvailableNow()
    end = stream_reader.latestOffset(offset, stream_reader.getDefaultReadLimit())
    parts = [*reader.partitions(), *stream_reader.partitions(offset, end)]
    pickled = [pickle.dumps(value) for value in (source, reader, stream_reader, parts)]
    stream_reader.stop()
    rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    assert len(rows) == 2 * 9, "the pickled parts are those with the rows"

    for password in passwords_of(store):
        for text in told:
            assert password not in text
        for content in (*written, *pickled):
            assert password.encode() not in content


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("postgresql://nobody:hunter22hunter22@127.0.0.1:1/medusa", Unavailable),
        ("postgresql://nobody:hunter22hunter22@[::1/medusa", MedusaError),
        ("postgresql://nobody:hunter22hunter22@127.0.0.1:port/medusa", Refused),
        ("mysql://nobody:hunter22hunter22@127.0.0.1/medusa", Refused),
        ("hunter22hunter22", Refused),
    ],
)
def test_an_unreachable_catalog_is_reported_without_the_password(
    url: str, error: type[MedusaError], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path))
    monkeypatch.setenv("MEDUSA_CATALOG_URL", url)
    with pytest.raises(error) as caught:
        MedusaSource({"stream": "sums", "participant": "alpha"}).schema()
    assert "hunter22" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_an_internal_error_is_reported_with_its_kind_and_a_log_without_the_password(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(MedusaError) as caught, in_one_sentence():
        raise ZeroDivisionError("postgresql://me:hunter22hunter22@here/medusa")
    assert str(caught.value).startswith("a fault of Medusa's own (ZeroDivisionError)")
    assert "hunter22" not in str(caught.value)
    (log,) = tmp_path.glob("medusa-*.log")
    assert "ZeroDivisionError" in log.read_text()
    assert "hunter22" not in log.read_text()


def test_an_environment_that_spark_does_not_see_is_refused_when_registering(
    medusa: Medusa, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path))
    with pytest.raises(Refused, match="MEDUSA_DIR was set or changed after the Spark session"):
        register(medusa.spark)
    monkeypatch.setenv("MEDUSA_DIR", medusa.spark.sparkContext.environment["MEDUSA_DIR"])
    monkeypatch.setenv("MEDUSA_CATALOG_URL", "postgresql://me:hunter22hunter22@here/medusa")
    with pytest.raises(Refused, match="MEDUSA_CATALOG_URL was") as caught:
        register(medusa.spark)
    assert "hunter22" not in str(caught.value)


def test_the_folder_of_a_home_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path / "nothing"))
    monkeypatch.delenv("MEDUSA_CATALOG_URL", raising=False)
    with pytest.raises(Refused, match=r"there is no home in .*nothing: set MEDUSA_DIR"):
        MedusaSource({"stream": "sums"}).reader(StructType()).partitions()
