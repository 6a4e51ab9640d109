"""Bad input: each kind goes to quarantine with its line and reason, or is refused in a sentence."""

import gzip
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from medusa_core.errors import Refused
from medusa_core.network import Source
from pipelines.sources.recorded.reader import Chunk, read_recorded, read_recorded_file
from tests.sweeps import long_but

COLUMNS = {"ts_us": "bigint", "host": "string", "port": "int", "size": "double"}
SOURCE = Source(name="connections", columns=COLUMNS, time="ts_us")
HEADER = b"ts_us,host,port,size\n"
GOOD = b"1700000000000000,a,1,1.5\n"
GOOD_ROW = {"ts_us": 1_700_000_000_000_000, "host": "a", "port": 1, "size": 1.5}


def a_file(tmp_path: Path, content: bytes, name: str = "input.csv") -> Path:
    file = tmp_path / name
    file.write_bytes(content)
    return file


def read(file: Path, source: Source = SOURCE, **options: int) -> list[Chunk]:
    return list(read_recorded_file(source, file, **options))


def rows(chunks: list[Chunk]) -> list[dict[str, object]]:
    return [row for chunk in chunks for row in chunk.records.drop(["_stime"]).to_pylist()]


def as_shown(record: bytes) -> str:
    """The beginning of a record as quarantine shows it: no NUL, which Postgres could not store."""
    return record.decode(errors="replace").rstrip("\r\n")[:1_024].replace("\0", "\ufffd")


BAD_RECORDS = [
    (b"oops\n", "", "1 field where the header has 4"),
    (b"1700000000000000,a,1,1.5,extra\n", "", "5 fields where the header has 4"),
    (b'1700000000000000,"a,b",1\n', "", "3 fields where the header has 4"),
    (b"1700000000000000,a,x,1.5\n", "port", "is no whole number"),
    (b"1700000000000000,a,12.5,1.5\n", "port", "is no whole number"),
    (b"1700000000000000,a,0x1F,1.5\n", "port", "is no whole number"),
    (b"1700000000000000,a,2147483648,1.5\n", "port", "is out of range of int"),
    (b"9999999999999999999,a,1,1.5\n", "ts_us", "is out of range of bigint"),
    (b"1700000000000000,a,1,1e999\n", "size", "is out of range of double"),
    (b"1700000000000000,a,1,1.5.5\n", "size", "is no number"),
    (b",a,1,1.5\n", "ts_us", "has no time"),
    (b"soon,a,1,1.5\n", "ts_us", "is no whole number"),
    (b"9000000000000000000,a,1,1.5\n", "ts_us", "time is outside the years 1 to 9999"),
    (b"-9000000000000000000,a,1,1.5\n", "ts_us", "time is outside the years 1 to 9999"),
    (b"1700000000000000,\xff\xfe,1,1.5\n", "host", "is not valid UTF-8"),
    (b"1700000000000000,a\0b,1,1.5\n", "host", "holds a NUL byte"),
    (b"1700000000000000,a,\x001,1.5\n", "port", "is no whole number"),
    (b'1700000000000000,"a"b,1,1.5\n', "", "quotes are broken"),
    (b'1700000000000000,"a,1,1.5\n', "", "quotes are broken"),
    (b"1700000000000000,a,1\r,1.5\n", "", "carriage return without a line feed"),
    (b"1700000000000000," + b"a" * 2_000_000 + b",1,1.5\n", "", "record is longer than 1 MiB"),
    (b'1700000000000000,"' + b"a" * 2_000_000 + b'",1,1.5\n', "", "record is longer than 1 MiB"),
]


@pytest.mark.parametrize(
    ("bad", "field", "reason"), long_but(8, BAD_RECORDS), ids=lambda v: str(v)[:40]
)
def test_a_bad_record_is_quarantined_with_its_line_and_all_others_are_read(
    tmp_path: Path, bad: bytes, field: str, reason: str
) -> None:
    file = a_file(tmp_path, HEADER + GOOD + bad + GOOD + bad + GOOD)
    chunks = read(file)
    assert rows(chunks) == [GOOD_ROW] * 3
    found = [q for chunk in chunks for q in chunk.quarantined]
    assert [(q.position, q.field, q.reason) for q in found] == [
        (3, field, reason),
        (5, field, reason),
    ]
    for record in found:
        assert record.stream == "connections"
        assert record.origin == str(file)
        assert record.content == as_shown(bad)


def test_a_bad_record_is_found_in_the_last_line_without_a_line_end(tmp_path: Path) -> None:
    (chunk,) = read(a_file(tmp_path, HEADER + GOOD + b"1700000000000000,a,x,1"))
    assert len(chunk.records) == 1
    assert [q.position for q in chunk.quarantined] == [3]


def test_an_unclosed_quote_costs_one_record_and_not_the_rest_of_the_file(tmp_path: Path) -> None:
    bad = b'1700000000000000,"a,1,1.5\n'
    chunks = read(a_file(tmp_path, HEADER + GOOD + bad + GOOD * 60_000))
    assert len(rows(chunks)) == 60_001
    assert [q.position for c in chunks for q in c.quarantined] == [3]


def test_a_stray_quote_inside_a_field_is_text(tmp_path: Path) -> None:
    (chunk,) = read(a_file(tmp_path, HEADER + b'1700000000000000,5" disk,1,1.5\n' + GOOD))
    assert chunk.records["host"].to_pylist() == ['5" disk', "a"]


def test_lines_are_counted_through_quoted_newlines_crlf_blank_lines_and_a_byte_order_mark(
    tmp_path: Path,
) -> None:
    text = (
        b"\xef\xbb\xbfts_us,host,port,size\r\n"
        b'1700000000000000,"two\r\nlines",1,1\r\n'
        b"\r\n"
        b'1700000000000000,"three\n\nlines ""quoted""",x,1\r\n'
        b"oops\r\n"
        b'1700000000000000,"a\rb",3,1\r\n'
    )
    (chunk,) = read(a_file(tmp_path, text))
    assert chunk.records["host"].to_pylist() == ["two\r\nlines", "a\rb"]
    assert [(q.position, q.field) for q in chunk.quarantined] == [(5, "port"), (8, "")]


@pytest.mark.parametrize("delimiter", [b",", b"\t", b";"])
def test_the_header_tells_the_delimiter_and_the_order_of_the_columns(
    tmp_path: Path, delimiter: bytes
) -> None:
    text = b"size,more,port,host,ts_us\n1.5,x,1,a,1700000000000000\n".replace(b",", delimiter)
    chunks = read(a_file(tmp_path, text))
    assert rows(chunks) == [GOOD_ROW]
    assert chunks[0].records.schema.names == ["ts_us", "host", "port", "size", "_stime"]


def test_empty_text_is_null_in_every_column_but_time(tmp_path: Path) -> None:
    (chunk,) = read(a_file(tmp_path, HEADER + b'1700000000000000,,"",\n'))
    assert rows([chunk]) == [{**GOOD_ROW, "host": None, "port": None, "size": None}]
    assert not chunk.quarantined


@pytest.mark.parametrize("content", [HEADER, HEADER[:-1], b"\r\n" + HEADER, HEADER + b"\n\n"])
def test_a_file_with_nothing_but_a_header_has_no_records(tmp_path: Path, content: bytes) -> None:
    chunks = read(a_file(tmp_path, content))
    assert rows(chunks) == []
    assert not [q for chunk in chunks for q in chunk.quarantined]


PACKED = gzip.compress(HEADER + GOOD * 9, mtime=0)


def test_gzip_of_several_members_is_one_text(tmp_path: Path) -> None:
    packed = gzip.compress(HEADER + GOOD[:5]) + gzip.compress(GOOD[5:]) + gzip.compress(b"")
    assert rows(read(a_file(tmp_path, packed + b"\0" * 100))) == [GOOD_ROW]


REFUSED_FILES = [
    (b"", "is empty, 0 bytes"),
    (gzip.compress(b"", mtime=0), "holds an empty text"),
    (b"1700000000000000,a,1,1.5\n", "has no header that names a column of source 'connections'"),
    (b"ts_us,host,prot,size\n" + GOOD, "no column 'port'; did you mean 'prot'\\? It has ts_us, ho"),
    (b"ts_us,host,port,size,port\n", "has 2 columns 'port': rename all but one"),
    (bytes(range(256)) * 100, "is neither Parquet, gzip nor CSV text with a header"),
    (b"PK\x03\x04 and so on", "is a zip file: unpack it"),
    ("ts_us,host\n".encode("utf-16"), "is UTF-16 text: write it as UTF-8"),
    (b"ts_us,host,port,size\r1,a,1,1\r", "ends its lines with a lone carriage return"),
    (b"PAR1 is how a Parquet begins, but this is none", "damaged or breaks off"),
    (
        gzip.compress(HEADER + GOOD * 9, mtime=0)[:-9],
        "breaks off after 0 bytes of text|truncated gzip",
    ),
    (PACKED + b"garbage", "is damaged after 246 bytes of text"),
    (HEADER + b"5,a,1,1.5\n", "do not tell their unit; declare time_unit"),
]


@pytest.mark.parametrize(("content", "sentence"), REFUSED_FILES, ids=lambda v: str(v)[:40])
def test_a_file_that_cannot_be_used_is_refused_in_a_sentence_that_names_it(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    source = SOURCE if b"5,a,1" not in content else Source(
        name="connections", columns={"ts": "bigint", **COLUMNS}, time="ts"
    )  # fmt: skip
    if source is not SOURCE:
        content = b"ts," + content.replace(b"\n5", b"\n5,5")
    file = a_file(tmp_path, content)
    with pytest.raises(Refused, match=sentence) as refused:
        read(file, source)
    assert str(file) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_paths_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is not there"):
        read(tmp_path / "none.csv")
    with pytest.raises(Refused, match="is a folder"):
        read(tmp_path)
    file = a_file(tmp_path, HEADER + GOOD)
    with pytest.raises(Refused, match="is not there"):
        read(file / "below.csv")
    with pytest.raises(Refused, match="is given twice"):
        list(read_recorded(SOURCE, [file, tmp_path / "." / file.name]))
    if os.getuid():
        file.chmod(0)
        with pytest.raises(Refused, match="may not be read"):
            read(file)


def test_time_declared_as_a_type_that_is_no_time_is_refused(tmp_path: Path) -> None:
    source = Source(name="s", columns={"at": "boolean"}, time="at")
    with pytest.raises(Refused, match="declares its time 'at' as boolean"):
        read(a_file(tmp_path, b"at\ntrue\n"), source)


@pytest.mark.long
def test_records_of_nothing_but_quotes_are_read_in_good_time(tmp_path: Path) -> None:
    quotes = b'"' * 1_000_000
    bad = b'1700000000000000,"' + quotes + b",1,1.5\n"
    chunks = read(a_file(tmp_path, HEADER + bad.replace(b",1,", b'",1,') + bad + GOOD))
    assert chunks[0].records["host"].to_pylist() == ['"' * 500_000, "a"]
    assert [(q.position, q.reason) for q in chunks[0].quarantined] == [(3, "quotes are broken")]


@pytest.mark.long
def test_a_truncated_gzip_is_refused_after_the_chunks_before_the_break(tmp_path: Path) -> None:
    text = HEADER + b"".join(
        b"%d,a,%d,1.5\n" % (1_700_000_000_000_000 + i * 7, i % 999) for i in range(400_000)
    )
    file = a_file(tmp_path, gzip.compress(text, 1, mtime=0)[:-20])
    chunks = read_recorded_file(SOURCE, file, chunk_records=100_000)
    assert len(next(chunks).records) == 100_000
    with pytest.raises(Refused, match=r"a truncated gzip file.*not the whole"):
        list(chunks)


def a_parquet(tmp_path: Path, **columns: object) -> Path:
    file = tmp_path / "input.parquet"
    pa.parquet.write_table(pa.table(columns), file, row_group_size=3)
    return file


def test_bad_rows_of_parquet_are_quarantined_by_row_number(tmp_path: Path) -> None:
    time_us = 1_700_000_000_000_000
    file = a_parquet(
        tmp_path,
        size=pa.array([1.5, None, 2.5, 1, 1, 1]),
        ts_us=pa.array([time_us, None, time_us, time_us, 2**62, time_us]),
        port=pa.array([1, 2, 3_000_000_000, 4, 5, 6]),
        host=pa.array([b"a", b"b", b"c", b"\xff", b"e", b"f\0"]).view(pa.string()),
    )
    chunks = read(file, chunk_records=4)
    assert rows(chunks) == [GOOD_ROW]
    assert [(q.position, q.field, q.reason) for c in chunks for q in c.quarantined] == [
        (2, "ts_us", "has no time"),
        (3, "port", "is out of range of int"),
        (4, "host", "is not valid UTF-8"),
        (5, "ts_us", "time is outside the years 1 to 9999"),
        (6, "host", "holds a NUL byte"),
    ]
    assert chunks[0].quarantined[0].content == (
        '{"ts_us": null, "host": "b", "port": 2, "size": null}'
    )


def test_parquet_files_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    good = {"ts_us": [1_700_000_000_000_000], "host": ["a"], "port": [1], "size": [1.5]}
    file = a_parquet(tmp_path, **good)
    content = file.read_bytes()
    assert rows(read(file)) == [GOOD_ROW]
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(Refused, match=r"input\.parquet is a Parquet file that is damaged"):
        read(file)
    damaged = bytearray(content)
    damaged[4:200] = b"\xa5" * 196
    file.write_bytes(damaged)
    with pytest.raises(Refused, match=r"input\.parquet is a Parquet file that is damaged"):
        read(file)
    with pytest.raises(Refused, match="no column 'port'; did you mean 'ports'"):
        read(a_parquet(tmp_path, **{k if k != "port" else "ports": v for k, v in good.items()}))
    with pytest.raises(Refused, match=r"column 'port' as list<.*declared int"):
        read(a_parquet(tmp_path, **{**good, "port": [[1]]}))
    file = a_file(tmp_path, gzip.compress(content, mtime=0), "packed.gz")
    with pytest.raises(Refused, match="a Parquet file inside gzip"):
        read(file)
    assert read(a_parquet(tmp_path, **{k: pa.array(v).slice(1) for k, v in good.items()})) == []
