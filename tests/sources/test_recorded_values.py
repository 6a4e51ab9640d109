"""Values: CSV and Parquet of the same rows are the same records, of every type."""

import csv
import gzip
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.columns import Column
from medusa_core.network import Source
from pipelines.sources.recorded.reader import read_recorded_file
from pipelines.sources.recorded.recorded_text import convert_text
from pipelines.storage.arrow_schema import arrow_type
from pipelines.storage.csv_export import export_csv
from tests.sweeps import examples

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

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "t_us": st.integers(-(10**16), 10**16),
    "i": st.integers(-(2**31), 2**31 - 1),
    "b": st.integers(-(2**63), 2**63 - 1),
    "d": st.floats(),
    "m": st.decimals(-99_999_999, 99_999_999, places=4),
    "s": st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    "o": st.booleans(),
    "y": st.dates(),
    "z": st.datetimes(timezones=st.just(UTC)),
    "x": st.binary(),
}
ROWS = st.lists(
    st.fixed_dictionaries(
        {k: v if k == "t_us" else st.none() | v for k, v in VALUES.items()}
    ),
    max_size=12,
)  # fmt: skip


def as_text(value: Any) -> str:
    """A value as somebody else's program would write it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if isinstance(value, date) else str(value)


def write_both(folder: Path, rows: list[dict[str, Any]], types: dict[str, str]) -> list[Path]:
    schema = pa.schema([(name, arrow_type(type_)) for name, type_ in types.items()])
    table = pa.Table.from_pylist(rows, schema)
    files = [folder / "rows.csv.gz", folder / "rows.parquet"]
    with gzip.open(files[0], "wt", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(types)
        writer.writerows([as_text(row[name]) for name in types] for row in rows)
    pyarrow.parquet.write_table(table, files[1])
    return files


def records_in(file: Path, source: Source) -> pa.Table:
    chunks = list(read_recorded_file(source, file))
    assert not [q for c in chunks for q in c.quarantined]
    return pa.concat_tables([c.records for c in chunks]) if chunks else None


@pytest.mark.sweep
@settings(max_examples=examples(10, 100), deadline=None)
@given(ROWS)
def test_csv_and_parquet_of_the_same_rows_read_the_same(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    files = write_both(tmp_path_factory.getbasetemp(), rows, TYPES)
    from_csv, from_parquet = (records_in(file, SOURCE) for file in files)
    if not rows:
        assert from_csv is from_parquet is None
        return
    assert from_csv.schema == from_parquet.schema
    assert_same(from_csv, from_parquet)
    assert from_csv["_stime"].to_pylist() == [row["t_us"] for row in rows]
    expected = [
        {k: None if v in ("", b"") else v for k, v in row.items() if k != "d"} for row in rows
    ]
    assert from_csv.drop(["_stime", "d"]).to_pylist() == expected


def assert_same(one: pa.Table, other: pa.Table) -> None:
    for name in one.schema.names:
        left, right = one[name], other[name]
        if pa.types.is_floating(left.type):
            # NaN is not equal to itself, but reads the same.
            assert pc.is_nan(left).equals(pc.is_nan(right))
            left, right = (pc.if_else(pc.is_nan(v), None, v) for v in (left, right))
        assert left.equals(right), name


@pytest.mark.sweep
@settings(max_examples=examples(5, 50), deadline=None)
@given(ROWS)
def test_what_is_exported_reads_back_the_same(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    columns = [Column(name, type_) for name, type_ in TYPES.items()]
    schema = pa.schema([(name, arrow_type(type_)) for name, type_ in TYPES.items()])
    first, again, expected = (folder / f"{name}.csv" for name in ("first", "again", "expected"))
    assert export_csv(first, columns, [pa.Table.from_pylist(rows, schema)]) == len(rows)
    records = records_in(first, SOURCE)
    export_csv(again, columns, [] if records is None else [records])
    # Empty text is NULL once it has been read; nothing else changes.
    rows = [{k: None if v in ("", b"") else v for k, v in row.items()} for row in rows]
    export_csv(expected, columns, [pa.Table.from_pylist(rows, schema)])
    assert again.read_bytes() == expected.read_bytes()


NUMBERS_IN_TEXT = [
    ("int", "12", 12),
    ("int", " -7 ", -7),
    ("int", "007", 7),
    ("int", "-2147483648", -(2**31)),
    ("int", "2147483648", "is out of range of int"),
    ("bigint", "0000000000000000000000000012", 12),
    ("bigint", "9" * 40, "is out of range of bigint"),
    ("bigint", "12.0", 12),
    ("int", "-7.000", -7),
    ("int", "-0.0", 0),
    ("int", "2147483648.0", "is out of range of int"),
    ("bigint", "9223372036854775807.0", 2**63 - 1),
    ("bigint", "12.5", "is no whole number"),
    ("bigint", "12.", "is no whole number"),
    ("bigint", "1e3", "is no whole number"),
    ("bigint", "+1", "is no whole number"),
    ("bigint", "1_000", "is no whole number"),
    ("bigint", "\u0663", "is no whole number"),  # a digit, in Arabic
    ("double", "157.8", 157.8),
    ("double", "-inf", float("-inf")),
    ("double", "Infinity", float("inf")),
    ("double", "1e400", "is out of range of double"),
    ("double", "0x1p3", "is no number"),
    ("double", "1,5", "is no number"),
    ("decimal(6,2)", "157.8", Decimal("157.80")),
    ("decimal(6,2)", "1.5e2", Decimal("150.00")),
    ("decimal(6,2)", "0.10000", Decimal("0.10")),
    ("decimal(6,2)", "0.125", "does not fit decimal(6,2) exactly"),
    ("decimal(6,2)", "10000", "does not fit decimal(6,2) exactly"),
    ("decimal(6,2)", "1e999999999", "does not fit decimal(6,2) exactly"),
    ("decimal(6,2)", "nan", "is no number"),
    ("boolean", "TRUE", True),
    ("boolean", "f", False),
    ("boolean", "yes", "is neither true nor false"),
    ("date", "2018-01-02", date(2018, 1, 2)),
    ("date", "2018-02-30", "is no date of the years 1 to 9999"),
    ("date", "0000-01-01", "is no date of the years 1 to 9999"),
    ("date", "2018-1-2", "is no date"),
    ("timestamp", "2018-01-02", datetime(2018, 1, 2, tzinfo=UTC)),
    ("timestamp", "2018-01-02T10:01:21.479Z", datetime(2018, 1, 2, 10, 1, 21, 479_000, UTC)),
    ("timestamp", "2018-01-02 10:01+01:00", datetime(2018, 1, 2, 9, 1, tzinfo=UTC)),
    ("timestamp", "2018-01-02T10:01:21.4790009", datetime(2018, 1, 2, 10, 1, 21, 479_000, UTC)),
    ("timestamp", "2018-01-02T24:00:00", "is no ISO-8601 time"),
    ("timestamp", "2018-02-30T10:00:00", "is no time of the years 1 to 9999"),
    ("timestamp", "9999-12-31T23:59:59-05:00", "is no time of the years 1 to 9999"),
    ("timestamp", "0001-01-01T00:00:00+05:00", "is no time of the years 1 to 9999"),
    ("binary", "00ff", b"\0\xff"),
    ("binary", "0", "is not hexadecimal"),
    ("string", " as it stands ", " as it stands "),
]


@pytest.mark.parametrize(("type_", "text", "expected"), NUMBERS_IN_TEXT)
def test_text_is_read_by_one_grammar_whatever_its_neighbours(
    type_: str, text: str, expected: object
) -> None:
    others = [case[1] for case in NUMBERS_IN_TEXT if case[0] == type_] * 2
    for texts in ([text], [None, "", text], [*others, text]):
        values, failures = convert_text(pa.array(texts), type_, "UTC")
        last = len(texts) - 1
        assert values.type == arrow_type(type_)
        assert values[last].as_py() == (expected if last not in failures else None)
        assert failures.get(last) == (
            expected if isinstance(expected, str) and last in failures else None
        )
        assert (last in failures) == (isinstance(expected, str) and type_ != "string")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_whole_numbers_that_pandas_writes_beside_empty_ones_are_taken(
    tmp_path: Path, form: str
) -> None:
    frame = pd.DataFrame({"t_us": [1, 2, 3], "n": [1, None, 30_000_000]})
    file = tmp_path / f"values.{form}"
    if form == "csv":
        frame.to_csv(file, index=False)
        assert "30000000.0" in file.read_text()
    else:
        frame.to_parquet(file)
    source = Source(name="s", columns={"t_us": "bigint", "n": "int"}, time="t_us")
    (chunk,) = read_recorded_file(source, file)
    assert chunk.quarantined == ()
    assert chunk.records.column("n").to_pylist() == [1, None, 30_000_000]


def test_a_value_reads_the_same_in_a_good_file_and_in_a_bad_one(tmp_path: Path) -> None:
    lines = ['1,1,1,1.5,"a"', "2, 2 ,2,inf,", "3,3,-0,1e5,x", "4,007,4,nan,y", '5,"5",5,.5,z']
    types = {"t_us": "bigint", "i": "int", "b": "bigint", "d": "double", "s": "string"}
    source = Source(name="s", columns=types, time="t_us")
    tables = []
    for extra in ([], ["6,x,1,1,1"], ["6,0x1,1,1,1"], ["oops"], [""], ["6,1,1,1,\0"]):
        file = tmp_path / "some.csv"
        file.write_text("\n".join([",".join(types), *lines, *extra]))
        (chunk,) = read_recorded_file(source, file)
        tables.append(chunk.records)
    for table in tables:
        assert_same(table, tables[0])


@pytest.mark.parametrize(
    ("given", "declared", "values", "expected"),
    [
        (pa.int64(), "decimal(4,2)", [12, None, 100], [Decimal("12.00"), None, "quarantine"]),
        (pa.decimal128(38, 9), "decimal(4,2)", ["1.5", "1.501"], [Decimal("1.50"), "quarantine"]),
        (pa.float64(), "decimal(4,2)", [0.1, 0.125, 1e9], [Decimal("0.10"), *["quarantine"] * 2]),
        (pa.decimal128(12, 4), "double", ["156.57", "0.1"], [156.57, 0.1]),
        (pa.int64(), "double", [2**53 + 1, -1], [float(2**53), -1.0]),
        (pa.uint64(), "bigint", [2**63 - 1, 2**63], [2**63 - 1, "quarantine"]),
        (pa.float64(), "int", [1.0, None, -2.0], [1, None, -2]),
        (pa.float64(), "int", [1.0, 1.5, 2.0**31, float("nan")], [1, *["quarantine"] * 3]),
        (pa.float32(), "bigint", [2.0, -0.0, float("inf")], [2, 0, "quarantine"]),
        (pa.int64(), "int", [-(2**31), 2**31], [-(2**31), "quarantine"]),
        (pa.timestamp("ns"), "timestamp", [-1], [datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)]),
        (pa.timestamp("s"), "timestamp", [10**12, -(10**15)], ["quarantine"] * 2),
        (pa.date32(), "timestamp", [1, 10**7], [datetime(1970, 1, 2, tzinfo=UTC), "quarantine"]),
        (pa.date32(), "date", [0, -(10**6)], [date(1970, 1, 1), "quarantine"]),
    ],
    ids=str,
)  # fmt: skip
def test_parquet_values_fit_the_declared_type_or_go_to_quarantine(
    tmp_path: Path, given: pa.DataType, declared: str, values: list[Any], expected: list[Any]
) -> None:
    if pa.types.is_decimal(given):
        values = [Decimal(value) for value in values]
    file = tmp_path / "values.parquet"
    table = pa.table({"t_us": list(range(len(values))), "v": pa.array(values, given)})
    pyarrow.parquet.write_table(table, file)
    source = Source(
        name="s", columns={"t_us": "bigint", "v": declared}, time="t_us", time_zone="UTC"
    )
    (chunk,) = read_recorded_file(source, file)
    assert chunk.records["v"].to_pylist() == [v for v in expected if v != "quarantine"]
    bad = [i + 1 for i, v in enumerate(expected) if v == "quarantine"]
    assert [(q.position, q.field) for q in chunk.quarantined] == [(row, "v") for row in bad]


def test_parquet_columns_of_other_types_are_read_if_they_can_hold_the_values(
    tmp_path: Path,
) -> None:
    file = tmp_path / "other.parquet"
    table = pa.table(
        {
            "t_us": pa.array([1, 2], pa.uint32()),
            "i": pa.array([1, 300], pa.int64()),
            "b": pa.array([None, None], pa.null()),
            "d": pa.array([1.5, 2.5], pa.float32()),
            "m": pa.array([157.8, 0.1], pa.float64()),
            "s": pa.array(["a", ""]).dictionary_encode(),
            "o": pa.array(["true", "0"]),
            "y": pa.array([date(2018, 1, 2), None], pa.date64()),
            "z": pa.array([1_500_000_000_000, None], pa.timestamp("ms")),
            "x": pa.array([b"ab", b"cd"], pa.binary(2)),
        }
    )
    pyarrow.parquet.write_table(table, file)
    assert records_in(file, SOURCE).drop(["_stime"]).to_pylist() == [
        {"t_us": 1, "i": 1, "b": None, "d": 1.5, "m": Decimal("157.8000"), "s": "a", "o": True,
         "y": date(2018, 1, 2), "z": datetime(2017, 7, 14, 2, 40, tzinfo=UTC), "x": b"ab"},
        {"t_us": 2, "i": 300, "b": None, "d": 2.5, "m": Decimal("0.1000"), "s": None, "o": False,
         "y": None, "z": None, "x": b"cd"},
    ]  # fmt: skip
