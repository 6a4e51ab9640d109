"""Folders of Parquet and CSV files: the stable prefix, once, and nothing that is not ours."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from medusa_core.errors import Conflict, Refused, Unavailable
from medusa_core.segments import Stability
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.sinks.folder_target import LOCK, RECORD
from tests.sinks.building import (
    COPIES,
    READINGS,
    WIDTH_US,
    SinkHome,
    a_row,
    a_sink_home,
    csv_rows,
    names,
    parquet_rows,
    record_of,
)
from tests.sweeps import long_but


@pytest.fixture
def lake(home: SinkHome, tmp_path: Path) -> Path:
    """A folder of Parquet files to which `readings` is delivered."""
    home.declare(READINGS, kind="parquet", path=str(tmp_path / "lake"))
    return tmp_path / "lake"


def some_rows(first: int, last: int) -> list[dict[str, object]]:
    """Two rows in each bucket, but none in those that three divides."""
    return [
        a_row(2 * bucket + at, bucket)
        for bucket in range(first, last)
        if bucket % 3
        for at in (0, 1)
    ]


def test_the_stable_prefix_is_delivered_and_continued(home: SinkHome, lake: Path) -> None:
    home.write(READINGS, 0, 4, some_rows(0, 4))
    home.deliver()
    first = names(lake)
    assert parquet_rows(lake) == home.rows(READINGS)
    home.write(READINGS, 4, 8, some_rows(4, 8))
    home.deliver()
    assert parquet_rows(lake) == home.rows(READINGS)
    assert names(lake)[: len(first)] == first, "what was delivered is not touched"
    assert home.sink().through_us == 8 * WIDTH_US
    assert home.sink().rows == len(home.rows(READINGS))
    home.deliver()
    assert parquet_rows(lake) == home.rows(READINGS)


@pytest.mark.long
def test_files_are_named_by_what_is_in_them(home: SinkHome, lake: Path) -> None:
    home.write(READINGS, 0, 4, some_rows(0, 4))
    home.write(READINGS, 4, 5, some_rows(4, 5))
    home.deliver()
    (name,) = names(lake)
    assert name == "readings-19700101T000000Z-19700101T000050Z-v2.parquet"
    metadata = pq.read_schema(lake / name).metadata
    assert (metadata[b"medusa.stream"], metadata[b"medusa.to_us"]) == (b"readings", b"50000000")


def test_runs_are_cut_at_buckets_by_their_rows(home: SinkHome, tmp_path: Path) -> None:
    home.declare(READINGS, kind="parquet", path=str(tmp_path / "lake"), rows_max=3)
    home.write(READINGS, 0, 4, [a_row(i, 0) for i in range(5)] + [a_row(9, 1), a_row(8, 2)])
    home.deliver()
    assert [len(pq.read_table(tmp_path / "lake" / n)) for n in names(tmp_path / "lake")] == [5, 2]
    assert parquet_rows(tmp_path / "lake") == home.rows(READINGS)


@pytest.mark.long
def test_a_pace_cuts_files_at_its_multiples(home: SinkHome, tmp_path: Path) -> None:
    home.declare(READINGS, kind="parquet", path=str(tmp_path / "lake"), every="30s")
    home.write(READINGS, 0, 8, [a_row(i, i) for i in range(8)])
    home.deliver()
    assert home.sink().through_us == 6 * WIDTH_US
    assert len(names(tmp_path / "lake")) == 2
    home.write(READINGS, 8, 9, [a_row(8, 8)], ends=True)
    home.deliver()
    assert [len(pq.read_table(tmp_path / "lake" / n)) for n in names(tmp_path / "lake")] == [
        3,
        3,
        3,
    ]


def test_what_is_tentative_is_not_delivered_before_it_is_final(
    home: SinkHome, tmp_path: Path
) -> None:
    home.declare(COPIES, kind="parquet", path=str(tmp_path / "lake"))
    home.write(COPIES, 0, 2, [a_row(0, 0), a_row(1, 1)])
    home.write(COPIES, 2, 3, [a_row(2, 2)], stability=Stability.TENTATIVE)
    home.write(COPIES, 3, 4, [a_row(3, 3)])
    home.deliver()
    assert [row["id"] for row in parquet_rows(tmp_path / "lake")] == [0, 1]
    home.write(COPIES, 2, 3, [a_row(22, 2)])
    home.deliver()
    assert [row["id"] for row in parquet_rows(tmp_path / "lake")] == [0, 1, 22, 3]


@pytest.mark.long
def test_a_gap_is_skipped_and_reported(home: SinkHome, lake: Path) -> None:
    home.write(READINGS, 0, 1, [a_row(0, 0)])
    home.write(READINGS, 1, 3, stability=Stability.GAP)
    home.write(READINGS, 3, 4, [a_row(3, 3)])
    home.deliver()
    assert [row["id"] for row in parquet_rows(lake)] == [0, 3]
    assert home.sink().lost_us == 2 * WIDTH_US
    assert record_of(lake)["lost_us"] == 2 * WIDTH_US


@pytest.mark.long
def test_a_quiet_stream_makes_no_files(home: SinkHome, lake: Path) -> None:
    home.write(READINGS, 0, 100_000)
    home.deliver()
    assert names(lake) == []
    assert home.sink().through_us == 100_000 * WIDTH_US
    assert record_of(lake)["through_us"] == 100_000 * WIDTH_US


def test_a_stream_that_has_not_begun_is_waited_for(home: SinkHome, lake: Path) -> None:
    home.deliver()
    assert not lake.exists()


def test_rows_are_in_the_order_of_event_time(home: SinkHome, lake: Path) -> None:
    home.write(READINGS, 0, 2, [a_row(7, 1), a_row(3, 1), a_row(5, 0)])
    home.deliver()
    assert [row["id"] for row in parquet_rows(lake)] == [5, 3, 7]


# ------------------------------------------------------------ CSV


@pytest.mark.long
def test_csv_distinguishes_null_from_empty_text_and_quotes_only_where_required(
    home: SinkHome, tmp_path: Path
) -> None:
    home.declare(READINGS, kind="csv", path=str(tmp_path / "sheet"))
    rows = [
        a_row(1, 0, name=None, ok=None, level=None, share=None, raw=None, day=None, seen=None,
              price=None),
        a_row(2, 0, name="", raw=b"", share=float("nan"), price=Decimal("1.500")),
        a_row(3, 0, name='a "b",\r\nc', raw=b"\x00\xff", share=-0.0, day=date(1, 1, 1)),
        a_row(4, 0, name="=1+1", share=1e-5),
    ]  # fmt: skip
    home.write(READINGS, 0, 1, rows)
    home.deliver()
    (name,) = names(tmp_path / "sheet")
    lines = (tmp_path / "sheet" / name).read_bytes().decode().split("\n", 3)
    assert lines[0] == "stime,at,id,name,ok,level,share,raw,day,seen,price"
    assert lines[1] == "1970-01-01T00:00:00.000002Z,2,1,,,,,,,,"
    assert lines[2].startswith('1970-01-01T00:00:00.000003Z,3,2,"",true,2,nan,"",2026-01-03,')
    assert lines[2].endswith(",1970-01-01T00:00:02Z,1.500")
    third, fourth = csv_rows(tmp_path / "sheet")[2:]
    assert (third["name"], third["raw"], third["day"]) == ('a "b",\r\nc', "00ff", "0001-01-01")
    assert (fourth["name"], fourth["share"]) == ("=1+1", "1e-05")


def test_formulas_are_guarded_where_that_is_asked_for(home: SinkHome, tmp_path: Path) -> None:
    home.declare(READINGS, kind="csv", path=str(tmp_path / "sheet"), formulas="guard")
    texts = ["=1+1", "+1", "-1", "@a", "\ta", "plain", '=A1,"x"', "", None]
    home.write(READINGS, 0, 1, [a_row(i, 0, name=text) for i, text in enumerate(texts)])
    home.deliver()
    found = [row["name"] for row in csv_rows(tmp_path / "sheet")]
    assert found == ["'=1+1", "'+1", "'-1", "'@a", "'\ta", "plain", '\'=A1,"x"', "", ""]


# ------------------------------------------------------------ folders that are not ours


def test_a_folder_with_other_files_is_refused_and_left_alone(home: SinkHome, lake: Path) -> None:
    lake.mkdir()
    (lake / "diary.txt").write_text("mine")
    home.write(READINGS, 0, 1, [a_row(0, 0)])
    assert isinstance(problem := home.problem(), Refused)
    assert "diary.txt" in str(problem)
    assert names(lake) == ["diary.txt"]
    assert home.sink().problem == str(problem)
    (lake / "diary.txt").unlink()
    home.deliver()
    assert home.sink().problem is None


def test_hidden_files_of_others_are_no_matter(home: SinkHome, lake: Path) -> None:
    lake.mkdir()
    for name in (".DS_Store", "_SUCCESS", ".crc"):
        (lake / name).write_text("x")
    home.write(READINGS, 0, 1, [a_row(0, 0)])
    home.deliver()
    assert parquet_rows(lake) == home.rows(READINGS)
    assert (lake / "_SUCCESS").exists()


@pytest.mark.long
def test_a_folder_of_another_stream_is_refused(home: SinkHome, lake: Path) -> None:
    home.write(READINGS, 0, 1, [a_row(0, 0)])
    home.write(COPIES, 0, 1, [a_row(0, 0)])
    home.deliver()
    home.home.catalog.withdraw_sink(READINGS, "lake")
    home.declare(COPIES, kind="parquet", path=str(lake))
    assert isinstance(problem := home.problem(), Refused)
    assert "sink lake of readings" in str(problem)


def test_two_sinks_into_one_folder_are_refused(home: SinkHome, lake: Path) -> None:
    with pytest.raises(Refused, match=r"delivers into .* already"):
        home.declare(COPIES, "other", kind="parquet", path=str(lake))
    link = lake.with_name("link")
    lake.mkdir()
    link.symlink_to(lake)
    home.declare(READINGS, "other", kind="parquet", path=str(link))
    home.write(READINGS, 0, 1, [a_row(0, 0)])
    home.deliver("lake")
    assert isinstance(problem := home.problem("other"), Refused)
    assert "give each sink a target of its own" in str(problem)
    assert parquet_rows(lake) == home.rows(READINGS)


@pytest.mark.long
def test_a_folder_of_a_home_that_was_recreated_is_refused(
    home: SinkHome, lake: Path, postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    home.write(READINGS, 0, 1, [a_row(0, 0)])
    home.deliver()
    with a_sink_home(postgres_server, tmp_path / "again") as again:
        again.declare(READINGS, kind="parquet", path=str(lake))
        again.write(READINGS, 0, 1, [a_row(1, 0)])
        assert isinstance(problem := again.problem(), Refused)
    assert "another home" in str(problem)
    assert parquet_rows(lake) == home.rows(READINGS)


@pytest.mark.long
def test_parquet_does_not_go_into_a_folder_of_csv(home: SinkHome, lake: Path) -> None:
    home.write(READINGS, 0, 1, [a_row(0, 0)])
    home.deliver()
    home.declare(READINGS, kind="csv", path=str(lake))
    assert isinstance(problem := home.problem(), Refused)
    assert "holds parquet files" in str(problem)


@pytest.mark.parametrize(
    "what", long_but(1, ["taken away", "longer", "renamed", "one more", "no record"])
)
def test_a_folder_that_was_tampered_with_is_refused(home: SinkHome, lake: Path, what: str) -> None:
    for bucket in range(3):
        home.write(READINGS, bucket, bucket + 1, [a_row(bucket, bucket)])
        home.deliver()
    victim = lake / names(lake)[1]
    match what:
        case "taken away":
            victim.unlink()
        case "longer":
            victim.write_bytes(victim.read_bytes() + b"x")
        case "renamed":
            victim.rename(lake / victim.name.replace("-v2", "-v1"))
        case "one more":
            (lake / victim.name.replace("-v2", "-v7")).write_bytes(b"x")
        case "no record":
            (lake / RECORD).unlink()
    home.write(READINGS, 3, 4, [a_row(3, 3)])
    before = names(lake)
    assert isinstance(problem := home.problem(), Refused)
    assert str(lake) in str(problem)
    assert names(lake) == before


@pytest.mark.parametrize(
    "text", long_but(2, ["", "{", "[]", "null", '{"format": 1}', "9" * 9_999, "[" * 9_999])
)
def test_a_record_that_is_not_ours_is_refused(home: SinkHome, lake: Path, text: str) -> None:
    lake.mkdir()
    (lake / RECORD).write_text(text)
    home.write(READINGS, 0, 1, [a_row(0, 0)])
    assert isinstance(problem := home.problem(), Refused)
    assert "is not as Medusa wrote it" in str(problem)


def test_a_file_from_nowhere_behind_the_end_is_refused(home: SinkHome, lake: Path) -> None:
    home.write(READINGS, 0, 1, [a_row(0, 0)])
    home.deliver()
    planted = lake / "readings-20990101T000000Z-20990102T000000Z-v1.parquet"
    planted.write_bytes(b"x")
    home.write(READINGS, 1, 2, [a_row(1, 1)])
    assert isinstance(problem := home.problem(), Refused)
    assert "take that file away" in str(problem)


@pytest.mark.parametrize(
    "span", long_but(1, ["000020Z-19700101T000030Z", "000010Z-19700101T000025Z"])
)
def test_a_file_that_is_no_run_of_what_comes_next_is_not_gone_on_with(
    home: SinkHome, lake: Path, span: str
) -> None:
    home.write(READINGS, 0, 1, [a_row(0, 0)])
    home.deliver()
    home.write(READINGS, 1, 4, [a_row(bucket, bucket) for bucket in range(1, 4)])
    planted = lake / f"readings-19700101T{span}-v2.parquet"
    planted.write_bytes(b"x")
    assert isinstance(problem := home.problem(), Refused)
    assert "take that file away" in str(problem)
    planted.unlink()
    home.deliver()
    assert parquet_rows(lake) == home.rows(READINGS)
    assert home.sink().lost_us == 0


def test_a_folder_is_delivered_into_by_one_process_at_a_time(home: SinkHome, lake: Path) -> None:
    import fcntl

    home.write(READINGS, 0, 1, [a_row(0, 0)])
    home.deliver()
    home.write(READINGS, 1, 2, [a_row(1, 1)])
    with (lake / LOCK).open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert isinstance(home.problem(), Conflict)
    home.deliver()
    assert parquet_rows(lake) == home.rows(READINGS)


@pytest.mark.long
def test_a_folder_inside_the_home_is_refused(home: SinkHome) -> None:
    home.write(READINGS, 0, 1, [a_row(0, 0)])
    for path in (home.home.storage / "x", home.settings.directory, home.settings.directory.parent):
        home.declare(READINGS, kind="parquet", path=str(path))
        assert isinstance(problem := home.problem(), Refused)
        assert "keeps its own files" in str(problem)


@pytest.mark.long
def test_a_file_where_the_folder_should_be_is_refused(home: SinkHome, lake: Path) -> None:
    lake.write_text("a file")
    home.write(READINGS, 0, 1, [a_row(0, 0)])
    assert isinstance(home.problem(), Refused)


@pytest.mark.long
def test_a_file_of_the_stream_that_is_damaged_is_waited_for(home: SinkHome, lake: Path) -> None:
    home.write(READINGS, 0, 1, [a_row(0, 0)])
    (segment,) = home.segments(READINGS)
    path = home.home.storage / segment.files[0].path
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"x")
    assert isinstance(home.problem(), Unavailable)
    assert names(lake) == []
    path.write_bytes(whole)
    home.deliver()
    assert parquet_rows(lake) == home.rows(READINGS)


@pytest.mark.long
def test_the_record_names_no_more_than_it_must(home: SinkHome, lake: Path) -> None:
    home.write(READINGS, 0, 1, [a_row(0, 0)])
    home.deliver()
    text = (lake / RECORD).read_text()
    assert json.loads(text)["owner"]["participant"] == "alpha"
    assert str(home.settings.directory) not in text
