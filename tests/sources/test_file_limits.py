"""Bounds of recorded files: where each is, what an honest file asks for, and what may be raised."""

from __future__ import annotations

import gzip
import io
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.errors import Refused
from medusa_core.network import Source
from pipelines.sources.recorded import recorded_files
from pipelines.sources.recorded.reader import read_recorded_file
from pipelines.storage import file_limits, parquet_bounds
from pipelines.storage.file_limits import UNUSABLE_RECORDS_FREE, FileLimits
from pipelines.storage.parquet_bounds import look_at_pages
from pipelines.storage.parquet_pages import WrongPages
from tests.sweeps import examples

SOURCE = Source(name="s", columns={"ts_us": "bigint", "host": "string"}, time="ts_us")
HEADER = b"ts_us,host\n"
GOOD = b"1700000000000000,a\n"
FREE = 100_000
TIME_US = 1_700_000_000_000_000


def a_file(folder: Path, content: bytes) -> Path:
    file = folder / "input"
    file.write_bytes(content)
    return file


def landed(file: Path, limits: FileLimits | None = None) -> int:
    chunks = read_recorded_file(SOURCE, file, limits=limits or FileLimits())
    return sum(chunk.records.num_rows for chunk in chunks)


def equal_rows(rows: int) -> bytes:
    out = io.BytesIO()
    table = pa.table({"ts_us": pa.array(np.full(rows, TIME_US)), "host": pa.array(["a"] * rows)})
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()


@pytest.fixture
def little_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_limits, "UNPACKED_BYTES_FREE", FREE)


EQUAL = {"gzip": gzip.compress(HEADER + GOOD * 50_000), "Parquet": equal_rows(50_000)}


@pytest.mark.usefixtures("little_is_free")
@pytest.mark.parametrize("content", EQUAL.values(), ids=EQUAL)
def test_a_file_of_equal_rows_is_refused_unless_its_ratio_is_allowed(
    tmp_path: Path, content: bytes
) -> None:
    file = a_file(tmp_path, content)
    with pytest.raises(Refused, match=r"above 5 times as much .* set unpacked_ratio_max"):
        landed(file, FileLimits(unpacked_ratio_max=5))
    assert landed(file, FileLimits(unpacked_ratio_max=1_000)) == 50_000


@pytest.mark.parametrize("content", EQUAL.values(), ids=EQUAL)
def test_a_small_file_may_hold_as_many_equal_rows_as_is_free(
    tmp_path: Path, content: bytes
) -> None:
    assert landed(a_file(tmp_path, content), FileLimits(unpacked_ratio_max=1)) == 50_000


@pytest.mark.usefixtures("little_is_free")
@pytest.mark.long
def test_recorded_rows_are_far_from_the_bound(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    rows = 200_000
    times = TIME_US + np.cumsum(random.integers(0, 2_000, rows))
    hosts = pa.array(np.char.add("10.0.0.", random.integers(0, 9, rows).astype(str)))
    table = pa.table({"ts_us": pa.array(times), "host": hosts})
    for compression in ("zstd", "snappy", "none"):
        out = io.BytesIO()
        pq.write_table(table, out, compression=compression, row_group_size=50_000)
        assert landed(a_file(tmp_path, out.getvalue()), FileLimits(unpacked_ratio_max=20)) == rows
    text = b"".join(
        b"%d,%s\n" % (t, h.encode()) for t, h in zip(times, hosts.to_pylist(), strict=True)
    )
    file = a_file(tmp_path, gzip.compress(HEADER + text))
    assert landed(file, FileLimits(unpacked_ratio_max=20)) == rows


@pytest.mark.parametrize("cut", [1, 7, 1_000, 4_999])
def test_a_line_is_measured_however_it_arrives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    monkeypatch.setattr(recorded_files, "LINE_BYTES_MAX", 5_000)
    monkeypatch.setattr(recorded_files, "PIECE_BYTES", cut)
    long = b"1," + b"b" * 4_998 + b"\n"
    good = a_file(tmp_path, HEADER + GOOD + long + GOOD)
    assert landed(good) == 3
    bad = a_file(tmp_path, HEADER + GOOD + long.replace(b"\n", b"b\n") + GOOD)
    with pytest.raises(Refused, match=r"has a line of more than \d+ MiB, line 3"):
        landed(bad)


def test_lines_that_are_looked_at_at_once_are_the_same_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = HEADER + b"".join(b'%d,"a\nb"\n\n' % (TIME_US + n) for n in range(500))
    file = a_file(tmp_path, text)
    (whole,) = read_recorded_file(SOURCE, file)
    monkeypatch.setattr(recorded_files, "LINES_PER_PIECE_MAX", 7)
    (cut,) = read_recorded_file(SOURCE, file)
    assert cut.records.equals(whole.records)
    assert cut.positions.tolist() == whole.positions.tolist()
    assert whole.records.num_rows == 500


@pytest.mark.long
def test_a_file_of_which_hardly_anything_can_be_used_is_refused(tmp_path: Path) -> None:
    bad = b"soon,a\n" * (UNUSABLE_RECORDS_FREE + 1)
    with pytest.raises(Refused, match=r"100,001 records that cannot be used among its first"):
        landed(a_file(tmp_path, HEADER + GOOD + bad))


@pytest.mark.long
def test_a_file_of_which_a_tenth_can_be_used_is_read(tmp_path: Path) -> None:
    some = (b"soon,a\n" * 8 + GOOD * 2) * 12_600
    assert landed(a_file(tmp_path, HEADER + some)) == 25_200


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
TABLES = st.lists(st.tuples(st.integers(0, 2**40), st.none() | TEXTS), min_size=1, max_size=300)


@pytest.mark.sweep
@settings(max_examples=examples(8, 60))
@given(
    rows=TABLES,
    compression=st.sampled_from(["none", "snappy", "gzip", "zstd", "lz4", "brotli"]),
    pages=st.sampled_from(["1.0", "2.0"]),
    dictionary=st.booleans(),
    encoding=st.sampled_from(["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"]),
    page_bytes=st.sampled_from([64, 4_096, 1 << 20]),
    group_rows=st.sampled_from([10, 1_000]),
    checksums=st.booleans(),
)
def test_all_pages_are_found_and_add_up_to_what_the_footer_says(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int, str | None]],
    compression: str,
    pages: str,
    dictionary: bool,
    encoding: str,
    page_bytes: int,
    group_rows: int,
    checksums: bool,
) -> None:
    file = tmp_path_factory.mktemp("pages") / "input"
    table = pa.table(
        {"ts_us": pa.array([t for t, _ in rows], pa.int64()),
         "host": pa.array([h for _, h in rows], pa.string())}
    )  # fmt: skip
    encodings = None if dictionary else {"host": encoding}
    pq.write_table(
        table, file, compression=compression, data_page_version=pages, use_dictionary=dictionary,
        column_encoding=encodings, data_page_size=page_bytes, row_group_size=group_rows,
        write_page_checksum=checksums,
    )  # fmt: skip
    metadata = pq.ParquetFile(file).metadata
    with file.open("rb") as stream:
        found = list(parquet_bounds._pages(stream, metadata, {"ts_us", "host"}))
        seen = look_at_pages(file, stream, metadata, {"ts_us", "host"})
    chunks = [
        metadata.row_group(g).column(c) for g in range(metadata.num_row_groups) for c in (0, 1)
    ]
    # What the footer counts as unpacked has the headers in it.
    unpacked = sum(page.unpacked_bytes for _, page in found)
    told = sum(chunk.total_uncompressed_size for chunk in chunks)
    assert unpacked < told
    assert told - unpacked <= 200 * len(found)
    with_dictionary = {c.path_in_schema for c in chunks if c.has_dictionary_page}
    assert seen.with_dictionary == with_dictionary
    is_front_coded = any("DELTA_BYTE_ARRAY" in c.encodings for c in chunks)
    assert any(page.is_front_coded for _, page in found) == is_front_coded


def test_pages_that_take_more_memory_than_they_may_are_refused_before_they_are_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"ts_us": [TIME_US], "host": ["a" * 3_000_000]})
    file = tmp_path / "input"
    pq.write_table(table, file, use_dictionary=False, compression="zstd")
    monkeypatch.setattr(parquet_bounds, "PAGES_BYTES_MAX", 3_100_000)
    chunks = list(read_recorded_file(SOURCE, file))
    assert [record.reason for record in chunks[0].quarantined] == ["record is longer than 1 MiB"]
    monkeypatch.setattr(parquet_bounds, "PAGES_BYTES_MAX", 2_900_000)
    with pytest.raises(Refused, match=r"pages that unpack to 3,0\d\d,\d\d\d bytes at once"):
        list(read_recorded_file(SOURCE, file))


def test_a_false_page_header_takes_precedence_over_the_footer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"ts_us": [TIME_US], "host": ["a" * 3_000_000]})
    file = tmp_path / "input"
    pq.write_table(table, file, use_dictionary=False, compression="zstd")
    with file.open("rb") as stream:
        (page,) = (
            page
            for _, page in parquet_bounds._pages(stream, pq.ParquetFile(file).metadata, {"host"})
        )
    content = file.read_bytes()
    assert content.count(zigzag(page.unpacked_bytes)) == 1
    # The greatest size that is as long in the header.
    file.write_bytes(content.replace(zigzag(page.unpacked_bytes), zigzag(2**27 - 1)))
    monkeypatch.setattr(parquet_bounds, "PAGES_BYTES_MAX", 100_000_000)
    with pytest.raises(Refused, match=r"pages that unpack to 134,217,7\d\d bytes at once"):
        list(read_recorded_file(SOURCE, file))


def zigzag(number: int) -> bytes:
    """A number above zero as Thrift's compact form has it."""
    left, out = number << 1, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def test_texts_that_begin_alike_are_unpacked_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "input"
    hosts = ["a" * 10_000 + str(number) for number in range(300)]
    table = pa.table({"ts_us": [TIME_US + n for n in range(300)], "host": hosts})
    pq.write_table(table, file, use_dictionary=False, column_encoding={"host": "DELTA_BYTE_ARRAY"})
    monkeypatch.setattr(parquet_bounds, "PAGES_BYTES_MAX", 1_000_000)
    with file.open("rb") as stream:
        metadata = pq.ParquetFile(file).metadata
        (page,) = (p for _, p in parquet_bounds._pages(stream, metadata, {"host"}))
        found = look_at_pages(file, stream, metadata, {"ts_us", "host"})
    assert page.unpacked_bytes < 20_000
    assert found.batch_rows == 1_000_000 // page.unpacked_bytes < 100
    (chunk,) = read_recorded_file(SOURCE, file)
    assert chunk.records["host"].to_pylist() == hosts


@pytest.mark.parametrize("at", range(4, 60, 3))
def test_noise_in_place_of_a_page_is_no_fault_of_ours(tmp_path: Path, at: int) -> None:
    content = equal_rows(10)
    file = a_file(tmp_path, content[:at] + b"\xff" * 8 + content[at + 8 :])
    with suppress(Refused):
        assert landed(file) <= 10
    metadata = pq.ParquetFile(io.BytesIO(content)).metadata
    file = a_file(tmp_path, b"\xff" * len(content))
    with file.open("rb") as stream, pytest.raises(WrongPages):
        look_at_pages(file, stream, metadata, {"ts_us"})
