"""`medusa replay` checks a sample of its own result, and says so in its last line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from medusa_core.errors import Refused
from medusa_core.network import Network
from pipelines.cli import main
from pipelines.language import aggregates
from pipelines.participant.replay import StartingSession
from pipelines.participant.replay_order import with_landed_sources
from pipelines.quality import sample_check
from pipelines.spark import session
from tests.conftest import folder_on_memory
from tests.replaying import parquet_files, replay_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")

NETWORK = """
from medusa_core.network import Aggregate, Network, Output, Source

network = Network(
    name="small",
    sources=(Source(name="s", columns={"at_us": "bigint"}, time="at_us"),),
    boxes=(Aggregate(name="counts", input="s", size="10s", columns={"n": "count(*)"}),),
    outputs=(Output(name="counted", input="counts"),),
)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where temporary folders are made; the server's user may pass through it."""
    folder = folder_on_memory("medusa-replays-")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def arguments(
    folder: Path, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    replay_in(spark, monkeypatch)
    (tmp_path / "small.py").write_text(NETWORK)
    at = [at * 1_000_000 for at in range(100)]
    (file,) = parquet_files(tmp_path / "in", pa.table({"at_us": at}))
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path / "unused"))
    monkeypatch.delenv("MEDUSA_CATALOG_URL", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return ["replay", str(tmp_path / "small.py"), "--input", str(file)]


@pytest.mark.long
def test_the_last_line_says_what_was_checked(
    arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(arguments) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == (
        "checked: 8 of 10 buckets of 1 output equal an independent recomputation by DuckDB"
    )
    assert list(folder.iterdir()) == []


@pytest.mark.long
def test_a_check_may_be_left_out(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(sample_check, "check_sample")
    assert main.main([*arguments, "--no-check", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["checked"] is None
    assert document["differences"] == []


def test_a_result_that_is_wrong_ends_with_1_and_keeps_the_folder(
    arguments: list[str],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The compiler counts one record too many: every plan of Spark's does."""
    over = aggregates._Call.over
    monkeypatch.setattr(aggregates._Call, "over", lambda *a, **k: f"({over(*a, **k)} + 1)")
    assert main.main([*arguments, "--json"]) == 1
    out, errors = capsys.readouterr()
    (found,) = json.loads(out)["checked"]["mismatches"]
    assert found["stream"] == "counted"
    (kept,) = folder.glob("medusa-replay-*")
    assert str(kept) in errors
    assert (
        "stream counted does not equal its recomputation by DuckDB: the bucket at "
        "1970-01-01T00:00:00Z has 1 row, and 1 by DuckDB; 1 are only in the stream and 1 only "
        "recomputed" in errors
    )
    monkeypatch.setenv("MEDUSA_DIR", str(kept))
    assert main.main(["read", "counted"]) == 0
    assert "10 rows of counted" in capsys.readouterr().out


@pytest.mark.long
def test_a_replay_of_which_no_record_lands_ends_with_1_and_says_why(
    arguments: list[str], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.csv").write_text("at_us\nnever\nnor now\n")
    assert main.main([*arguments[:2], "--input", str(tmp_path / "bad.csv"), "--json"]) == 1
    (kept,) = folder.glob("medusa-replay-*")
    assert capsys.readouterr().err.splitlines()[-1] == (
        "medusa: all 2 records are in quarantine, most of them because: is no whole number; they "
        f"are kept in {kept}: correct the network's source, or the files"
    )


@pytest.mark.long
def test_a_replay_warns_of_many_records_in_quarantine(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "half.csv").write_text("at_us\n1000000\nnever\n")
    assert main.main([*arguments[:2], "--input", str(tmp_path / "half.csv")]) == 0
    assert "warning: 50% of the records are in quarantine" in capsys.readouterr().out


READS = """
from medusa_core.network import Aggregate, Network, Output, Source

network = Network(
    name="small",
    sources=(Source(name="s", columns={"at_us": "bigint"}, TIME stream="alpha/seen"),),
    boxes=(Aggregate(name="counts", input="s", size="10s", columns={"n": "count(*)"}),),
    outputs=(Output(name="counted", input="counts"),),
)
"""


def test_files_are_replayed_in_the_place_of_a_stream_that_the_network_reads() -> None:
    def made(time: str) -> Network:
        values: dict[str, Any] = {}
        exec(READS.replace("TIME", time), values)
        network: Network = values["network"]
        return network

    network = with_landed_sources(made('time="at_us",'))
    assert network.source("s").is_landed
    assert with_landed_sources(network) == network
    with pytest.raises(Refused, match="source s of network small reads stream alpha/seen: to rep"):
        with_landed_sources(made(""))


def test_spark_is_stopped_also_where_the_wait_for_its_start_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, goes_on, closed = Event(), Event(), list[str]()

    def open_session(directory: Path) -> str:
        started.set()
        goes_on.wait()
        return "the session"

    def interrupted(future: Future[Any], *timeout: Any) -> BaseException | None:
        if not goes_on.is_set():
            goes_on.set()
            raise KeyboardInterrupt
        return exception(future, *timeout)

    exception = Future.exception
    monkeypatch.setattr(session, "open_session", open_session)
    monkeypatch.setattr(session, "close_session", closed.append)
    monkeypatch.setattr(Future, "exception", interrupted)
    starting = StartingSession()
    starting.start(tmp_path)
    started.wait()
    with pytest.raises(KeyboardInterrupt):
        starting.close()
    assert closed == ["the session"]
