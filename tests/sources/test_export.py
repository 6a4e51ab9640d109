"""Export: equal rows give equal bytes, and the bytes are those of the recorded answers."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.columns import Column
from medusa_core.errors import Refused
from pipelines.storage.arrow_schema import arrow_type
from pipelines.storage.csv_export import export_csv


def exported(path: Path, types: dict[str, str], rows: list[tuple[object, ...]]) -> str:
    columns = [Column(name, type_) for name, type_ in types.items()]
    arrays = [pa.array([row[i] for row in rows], arrow_type(c.type)) for i, c in enumerate(columns)]
    table = pa.table(arrays, names=list(types))
    assert export_csv(path, columns, [table.slice(1), table.slice(0, 1)]) == len(rows)
    return path.read_bytes().decode()


def test_rows_are_sorted_by_all_columns_numbers_as_numbers_null_first_nan_last(
    tmp_path: Path,
) -> None:
    rows = [
        (10, "b", 1.0), (9, "é", 2.0), (9, "z", 1.0), (9, "Z", 1.0), (None, "x", 1.0),
        (9, "z", float("nan")), (9, "z", None), (9, "z", float("-inf")), (9, None, 0.0),
    ]  # fmt: skip
    assert exported(tmp_path / "a.csv", {"n": "int", "s": "string", "d": "double"}, rows) == (
        "n,s,d\n,x,1.0\n9,,0.0\n9,Z,1.0\n9,z,\n9,z,-inf\n9,z,1.0\n9,z,nan\n9,é,2.0\n10,b,1.0\n"
    )


def test_every_type_has_one_spelling(tmp_path: Path) -> None:
    types = {
        "d": "double", "m": "decimal(20,8)", "o": "boolean", "y": "date", "z": "timestamp",
        "x": "binary", "s": "string",
    }  # fmt: skip
    rows: list[tuple[object, ...]] = [
        (-0.0, Decimal("1E-8"), True, date(1, 1, 1), datetime(2018, 1, 2, tzinfo=UTC), b"\0a", ""),
        (157.8, Decimal(5), False, None, datetime(1, 1, 1, 0, 0, 0, 20, UTC), b"", 'say "a"'),
        (1e16, None, None, None, None, None, "a,b\r\n"),
    ]
    assert exported(tmp_path / "a.csv", types, rows) == (
        "d,m,o,y,z,x,s\n"
        '0.0,0.00000001,true,0001-01-01,2018-01-02T00:00:00Z,0061,""\n'
        '157.8,5.00000000,false,,0001-01-01T00:00:00.000020Z,"","say ""a"""\n'
        '1e+16,,,,,,"a,b\r\n"\n'
    )
    assert exported(tmp_path / "b.csv", {"n": "int"}, [(None,), (1,)]) == 'n\n""\n1\n'
    assert exported(tmp_path / "c.csv", {"n": "int"}, []) == "n\n"


@pytest.mark.long
@given(st.floats())
def test_doubles_are_written_as_duckdb_writes_them(
    tmp_path_factory: pytest.TempPathFactory, value: float
) -> None:
    text = exported(tmp_path_factory.getbasetemp() / "d.csv", {"d": "double"}, [(value,)])
    (theirs,) = duckdb.execute("SELECT (?::DOUBLE + 0.0)::VARCHAR", [value]).fetchone() or ()
    assert text == f"d\n{theirs.lstrip('-') if value != value else theirs}\n"


def test_a_failed_export_leaves_what_was_there_and_nothing_half_done(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("before")

    def tables() -> object:
        yield pa.table({"n": pa.array([1], pa.int32())})
        raise InterruptedError

    with pytest.raises(InterruptedError):
        export_csv(path, [Column("n", "int")], tables())
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]
    with pytest.raises(Refused, match="its folder is not there"):
        export_csv(tmp_path / "none" / "a.csv", [Column("n", "int")], [])
    with pytest.raises(Refused, match="cannot be written"):
        export_csv(tmp_path, [Column("n", "int")], [])
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]


@pytest.mark.parametrize(
    ("type_", "values", "sentence"),
    [
        ("date", pa.array([2**31 - 1], pa.int32()), "a date outside the years 1 to 9999"),
        ("date", pa.array([-719_163, None, 0], pa.int32()), "a date outside the years 1 to 9999"),
        ("timestamp", pa.array([2**63 - 1]), "a timestamp outside the years 1 to 9999"),
        ("timestamp", pa.array([-62_135_596_800_000_001]), "a timestamp outside the years"),
        ("string", pa.array([b"a", b"\0\xff"]), "a text that is no UTF-8"),
    ],
)
def test_a_value_without_a_spelling_is_refused_and_not_exported_wrongly(
    tmp_path: Path, type_: str, values: pa.Array, sentence: str
) -> None:
    expected = arrow_type(type_)
    if type_ == "string":
        values = pa.Array.from_buffers(expected, len(values), values.buffers())
    else:
        values = values.cast(expected)
    with pytest.raises(Refused, match=f"is not written: column 'x' has {sentence}"):
        export_csv(tmp_path / "a.csv", [Column("x", type_)], [pa.table({"x": values})])
    assert not list(tmp_path.iterdir())


def test_the_first_and_the_last_time_are_exported(tmp_path: Path) -> None:
    rows = [
        (date(1, 1, 1), datetime(1, 1, 1, tzinfo=UTC)),
        (date(9999, 12, 31), datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)),
    ]
    assert exported(tmp_path / "a.csv", {"d": "date", "t": "timestamp"}, rows) == (
        "d,t\n0001-01-01,0001-01-01T00:00:00Z\n9999-12-31,9999-12-31T23:59:59.999999Z\n"
    )
