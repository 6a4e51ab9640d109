"""Records are the same whichever format they come in, and so is what is wrong with the others."""

from __future__ import annotations

import gzip
import os
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.errors import Refused
from medusa_core.network import Source
from pipelines.base.settings import Settings
from pipelines.sources.recorded.reader import read_recorded_file
from pipelines.sources.recorded.recorded_formats import Format, recognise_format
from pipelines.storage.arrow_digests import digests_by_bucket
from pipelines.storage.arrow_schema import STIME, columns_of
from tests.sources.test_recorded_values import assert_same
from tests.sources.writing import (
    Row,
    csv_text,
    json_text,
    write_all,
    write_parquet_of_text,
    zeek_text,
)
from tests.sweeps import examples

ZEEK = Settings.from_environment(os.environ).test_data / "netmon-zeek-server"
needs_data = pytest.mark.skipif(not ZEEK.is_dir(), reason=f"test data is not in {ZEEK}")

TYPES = {
    "t_us": "bigint",
    "i": "int",
    "b": "bigint",
    "d": "double",
    "m": "decimal(12,4)",
    "s": "string",
    "o": "boolean",
    "y": "date",
    "z": "timestamp",
    "x": "binary",
}
SOURCE = Source(name="all_types", columns=TYPES, time="t_us", time_zone="UTC")
BAD = ["soon", "1.0", "0x1F", "9" * 40, "1e400", "nan", "Infinity", "1e999999999", "-", "T", "1"]
GOOD: dict[str, st.SearchStrategy[str]] = {
    "t_us": st.integers(-(10**16), 10**16).map(str),
    "i": st.integers(-(2**31), 2**31 - 1).map(str),
    "b": st.integers(-(2**63), 2**63 - 1).map(str),
    "d": st.floats(allow_nan=False, allow_infinity=False).map(repr),
    "m": st.decimals(-99_999_999, 99_999_999, places=4).map(str),
    "s": st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"])),
    "o": st.booleans().map(lambda value: str(value).lower()),
    "y": st.dates().map(str),
    "z": st.datetimes().map(lambda value: value.isoformat()),
    "x": st.binary().map(lambda value: value.hex()),
}
ROWS = st.lists(
    st.fixed_dictionaries({k: st.none() | v | st.sampled_from(BAD) for k, v in GOOD.items()}),
    min_size=1,
    max_size=8,
)


def test_times_of_the_type_int96_keep_their_years(tmp_path: Path) -> None:
    years = [datetime(year, 1, 1, 0, 0, 0, 123_456) for year in (1, 1500, 2024, 3000, 9999)]  # noqa: DTZ001
    table = pa.table(
        {"t_us": range(1_000_000, 1_000_005), "z": pa.array(years, pa.timestamp("us"))}
    )
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    columns = {"t_us": "bigint", "z": "timestamp"}
    source = Source(name="s", columns=columns, time="t_us", time_zone="UTC")
    records, unusable = read(tmp_path / "a.parquet", source)
    assert unusable == []
    assert [z.replace(tzinfo=None) for z in records["z"].to_pylist()] == years


def read(file: Path, source: Source) -> tuple[pa.Table, list[tuple[str, str]]]:
    """The records of a file, and column and reason of each that is none."""
    chunks = list(read_recorded_file(source, file))
    bad = [(q.field, q.reason) for chunk in chunks for q in chunk.quarantined]
    return pa.concat_tables([chunk.records for chunk in chunks]), bad


def digests(table: pa.Table, source: Source) -> object:
    columns = columns_of("source", source.columns)
    starts = table[STIME].to_numpy() // 60_000_000 * 60_000_000
    return digests_by_bucket(table, columns, np.asarray(starts, np.int64))


@pytest.mark.sweep
@settings(max_examples=examples(5, 60), deadline=None)
@given(ROWS)
def test_every_format_gives_the_same_records_and_the_same_reasons(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row]
) -> None:
    whole: Row = {**dict.fromkeys(TYPES), "t_us": "0"}
    files = write_all(tmp_path_factory.getbasetemp(), list(TYPES), [whole, *rows])
    (expected, reasons), *others = (read(file, SOURCE) for file in files)
    for table, bad in others:
        assert table.schema == expected.schema
        assert_same(table, expected)
        assert digests(table, SOURCE) == digests(expected, SOURCE)
        assert bad == reasons


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"t_us,i\n1,2\n", Format.CSV),
        (b"\xef\xbb\xbf\r\n\n#separator \\x09\n", Format.ZEEK),
        (b"#fields\tt_us\ti\n", Format.ZEEK),
        (b"#t_us,i\n1,2\n", Format.CSV),
        (b'\xef\xbb\xbf\n {"t_us": 1}\n', Format.JSON),
        (b"[\n {", Format.JSON),
        (b"[t_us],i\n", Format.CSV),
    ],
)
def test_the_content_tells_the_format_packed_or_not_whatever_the_name(
    tmp_path: Path, content: bytes, expected: Format
) -> None:
    for name in ("conn.00:00:00-01:00:00.log.gz", "x.csv", "x.parquet"):
        for bytes_ in (content, gzip.compress(content[:3]) + gzip.compress(content[3:])):
            (tmp_path / name).write_bytes(bytes_)
            assert recognise_format(tmp_path / name) is expected
    pq.write_table(pa.table({"t_us": [1]}), tmp_path / "x.csv")
    assert recognise_format(tmp_path / "x.csv") is Format.PARQUET


# which column fills which

NAMED = Source(
    name="named", columns={"ts_us": "bigint", "orig_h": "string", "state": "string"}, time="ts_us"
)
ROW: Row = {"ts": "1700000000.000001", "id.orig_h": "a", "conn_state": "SF", "h": "no"}


def texts_of(names: list[str], row: Row) -> list[bytes]:
    return [csv_text(names, [row]), json_text(names, [row]), zeek_text(names, [row])]


def test_a_column_is_filled_by_the_one_whose_last_part_it_is_in_every_format(
    tmp_path: Path,
) -> None:
    file = tmp_path / "file"
    expected = [
        {"ts_us": 1_700_000_000_000_001, "orig_h": "a", "state": "SF",
         "_stime": 1_700_000_000_000_001}
    ]  # fmt: skip
    for text in texts_of(list(ROW), ROW):
        file.write_bytes(text)
        assert read(file, NAMED)[0].to_pylist() == expected
    write_parquet_of_text(file, list(ROW), [ROW])
    assert read(file, NAMED)[0].to_pylist() == expected
    stamps = pa.array([1_700_000_000_000_001], pa.timestamp("us", "UTC"))
    columns = {"ts": stamps, "id_orig_h": ["a"],
               "state": ["SF"], "conn_state": ["not this"]}  # fmt: skip
    pq.write_table(pa.table(columns), file)
    assert read(file, NAMED)[0].to_pylist() == expected


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"x.orig_h": "b"}, r"several columns that may be 'orig_h' \(id\.orig_h, x\.orig_h\)"),
        ({"start_ts": "1", "end_ts": "2", "ts": None}, "no column 'ts_us'|several columns"),
    ],
)
def test_a_column_that_several_could_fill_is_refused_in_every_format(
    tmp_path: Path, more: dict[str, str | None], words: str
) -> None:
    row = {name: text for name, text in {**ROW, **more}.items() if text is not None}
    for text in texts_of(list(row), row):
        (tmp_path / "file").write_bytes(text)
        with pytest.raises(Refused, match=words):
            read(tmp_path / "file", NAMED)
    write_parquet_of_text(tmp_path / "file", list(row), [row])
    with pytest.raises(Refused, match=words):
        read(tmp_path / "file", NAMED)


@pytest.mark.parametrize("exact_first", [True, False])
def test_a_column_of_the_exact_name_precedes_all_others(tmp_path: Path, exact_first: bool) -> None:
    row = {**ROW, "x.orig_h": "b", "orig_h": "exact"}
    names = sorted(row, key=lambda name: (name == "orig_h") != exact_first)
    for text in texts_of(names, row):
        (tmp_path / "file").write_bytes(text)
        assert read(tmp_path / "file", NAMED)[0]["orig_h"].to_pylist() == ["exact"]


def test_a_name_that_could_fill_two_columns_fills_the_longer_one(tmp_path: Path) -> None:
    source = Source(
        name="s", columns={"t_us": "bigint", "h": "string", "orig_h": "string"}, time="t_us"
    )
    row: Row = {"t_us": "1", "id.orig_h": "a", "id.resp_h": "b"}
    for text in texts_of(list(row), row):
        (tmp_path / "file").write_bytes(text)
        (record,) = read(tmp_path / "file", source)[0].to_pylist()
        assert (record["h"], record["orig_h"]) == ("b", "a")


def test_only_event_time_is_taken_for_a_time_where_the_format_does_not_say_so(
    tmp_path: Path,
) -> None:
    source = Source(name="s", columns={"ts_us": "bigint", "duration_us": "bigint"}, time="ts_us")
    (tmp_path / "file").write_bytes(csv_text(["ts", "duration"], [{"ts": "1", "duration": "2"}]))
    with pytest.raises(Refused, match="no column 'duration_us'; did you mean 'duration'"):
        read(tmp_path / "file", source)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1713484795.943239", 1_713_484_795_943_239),
        ("1713484795943.239", 1_713_484_795_943_239),
        ("2024-04-18T23:59:55.943239Z", 1_713_484_795_943_239),
    ],
)
def test_event_time_of_another_unit_is_converted_to_the_declared_one(
    tmp_path: Path, text: str, expected: int
) -> None:
    for declared, per in (("ts_us", 1), ("ts_ms", 1_000), ("ts_s", 10**6), ("ts_ns", None)):
        source = Source(name="s", columns={declared: "bigint", "host": "string"}, time=declared)
        for content in texts_of(["ts", "host"], {"ts": text, "host": "a"}):
            if text.startswith("1713484795943") and content.startswith(b"#"):
                continue
            (tmp_path / "file").write_bytes(content)
            (record,) = read(tmp_path / "file", source)[0].to_pylist()
            assert record[declared] == (expected * 1_000 if per is None else expected // per)


# real data


@pytest.mark.long
@needs_data
def test_the_zeek_server_reads_the_same_from_every_format(tmp_path: Path) -> None:
    columns = {
        "ts_us": "bigint", "orig_h": "string", "orig_p": "int", "resp_h": "string",
        "resp_p": "int", "proto": "string", "state": "string", "duration_us": "bigint",
        "orig_bytes": "bigint", "resp_bytes": "bigint",
    }  # fmt: skip
    source = Source(name="connections", columns=columns, time="ts_us")
    table = pq.read_table(ZEEK / "connections.parquet").slice(0, 8_000)
    pq.write_table(table, tmp_path / "rows.parquet")
    expected, _ = read(tmp_path / "rows.parquet", source)
    fields = {"ts": "time", "uid": "string", "id.orig_h": "addr", "id.orig_p": "port",
              "id.resp_h": "addr", "id.resp_p": "port", "proto": "enum", "conn_state": "string",
              "duration": "interval", "orig_bytes": "count", "resp_bytes": "count"}  # fmt: skip
    rows = [
        {
            "ts": seconds(row["ts_us"]),
            "uid": f"C{row['seq']}",
            **{f"id.{n}": str(row[n]) for n in ("orig_h", "orig_p", "resp_h", "resp_p")},
            "proto": row["proto"],
            "conn_state": row["state"],
            "duration": seconds(row["duration_us"]),
            **{n: None if row[n] is None else str(row[n]) for n in ("orig_bytes", "resp_bytes")},
        }
        for row in table.to_pylist()
    ]
    half = len(rows) // 2
    turned = dict(reversed(fields.items()))
    logs = zeek_text(list(fields), rows[:half], list(fields.values())) + zeek_text(
        list(turned), rows[half:], list(turned.values())
    )
    for text in (logs, gzip.compress(logs), json_text(list(fields), rows, leaves_out=True)):
        (tmp_path / "log").write_bytes(text)
        found, bad = read(tmp_path / "log", source)
        assert not bad
        assert found.equals(expected)


def seconds(time_us: int | None) -> str | None:
    return None if time_us is None else f"{time_us // 10**6}.{time_us % 10**6:06d}"
