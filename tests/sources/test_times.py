"""Event time: exact microseconds from any unit and type, recognised or declared."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.errors import Refused
from medusa_core.grid import TIME_US_MAX, TIME_US_MIN
from medusa_core.network import Source
from pipelines.sources.recorded.event_times import event_times
from pipelines.sources.recorded.reader import read_recorded_file

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
ZEEK = 1_713_484_795_943_239


def read_times(
    tmp_path: Path,
    texts: list[str],
    type_: str,
    name: str = "ts",
    unit: str | None = None,
    zone: str | None = None,
) -> list[int]:
    file = tmp_path / "times.csv"
    file.write_text("\n".join([f"{name},other", *(f'"{text}",x' for text in texts)]))
    source = Source(
        name="s",
        columns={name: type_, "other": "string"},
        time=name,
        time_unit=unit,
        time_zone=zone,
    )
    (chunk,) = read_recorded_file(source, file)
    assert not chunk.quarantined
    return chunk.records["_stime"].to_pylist()


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("1713484795.943239", "double"),
        ("1713484795.943239", "decimal(20,6)"),
        ("1713484795.943239", "string"),
        ("1713484795943.239", "double"),
        ("1713484795943239", "bigint"),
        ("1713484795943239999", "bigint"),
        ("1713484795.943239999", "string"),
        ("2024-04-18T23:59:55.943239Z", "string"),
        ("2024-04-18 23:59:55.943239Z", "timestamp"),
        ("2024-04-19T01:59:55.943239999+02:00", "timestamp"),
    ],
)
def test_the_unit_is_recognised_from_type_and_size(tmp_path: Path, text: str, type_: str) -> None:
    assert read_times(tmp_path, [text, text], type_) == [ZEEK, ZEEK]


@pytest.mark.parametrize(
    ("name", "unit", "expected"),
    [
        ("at_s", None, 12_000_000),
        ("at_ms", None, 12_000),
        ("at_us", None, 12),
        ("at_ns", None, 0),
        ("at_ms", "s", 12_000_000),
        ("at", "ms", 12_000),
    ],
)
def test_a_declared_unit_goes_before_the_name_and_the_name_before_the_size(
    tmp_path: Path, name: str, unit: str | None, expected: int
) -> None:
    assert read_times(tmp_path, ["12"], "bigint", name, unit) == [expected]
    assert read_times(tmp_path, ["12"], "string", name, unit) == [expected]


@pytest.mark.parametrize("texts", [["12"], ["1713484795", "1713484795943"], ["0", "-1"]])
def test_sizes_that_do_not_tell_are_refused_with_a_word_on_what_to_declare(
    tmp_path: Path, texts: list[str]
) -> None:
    with pytest.raises(Refused, match=r"declare time_unit .s, ms, us or ns. for source 's'"):
        read_times(tmp_path, texts, "bigint")


@given(st.integers(-(2**31) * 10**6, 2**32 * 10**6))
def test_seconds_with_six_digits_are_exact_as_double_and_as_decimal(time_us: int) -> None:
    text = str(Decimal(time_us).scaleb(-6))
    doubles, _ = event_times(pa.array([float(text)]), "s")
    decimals, _ = event_times(pa.array([Decimal(text)], pa.decimal128(20, 6)), "s")
    texts, _ = event_times(pa.array([text]), "s")
    assert doubles.tolist() == decimals.tolist() == texts.tolist() == [time_us]


def exact_double(seconds: float, unit: str) -> Fraction:
    """Microseconds of a double, to the last bit."""
    return Fraction(seconds) * 10**6 / PER_SECOND[unit]


@given(
    st.floats(TIME_US_MIN / 10**6, TIME_US_MAX / 10**6 - 1) | st.floats(0, 4e9),
    st.sampled_from(["s", "ms", "us", "ns"]),
)
def test_a_double_is_its_microsecond_or_is_cut_downwards(seconds: float, unit: str) -> None:
    value = seconds * PER_SECOND[unit]
    (time_us,), failures = event_times(pa.array([value]), unit)
    assert not failures
    exact = exact_double(value, unit)
    half_step = exact_double(math.ulp(value), unit) / 2
    if abs(time_us) < 2**53:
        assert -half_step <= exact - time_us < 1
    else:
        assert abs(exact - time_us) <= 2 * half_step


def test_a_double_below_the_next_minute_stays_in_its_own() -> None:
    values = [1713484799.9999998, 1713484799.9999995, 1713484800.0, 1713484799.999999]
    times, _ = event_times(pa.array(values), "s")
    minute = 1_713_484_800_000_000
    assert times.tolist() == [minute - 1, minute - 1, minute, minute - 1]
    times, _ = event_times(pa.array([1_713_484_795_943_239_000.0]), "ns")
    assert times.tolist() == [ZEEK]


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from(["s", "ms", "us", "ns"]))
def test_whole_numbers_of_any_unit_are_cut_downwards_or_found_absurd(value: int, unit: str) -> None:
    exact = value * 10**6 // {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    is_time = TIME_US_MIN <= exact <= TIME_US_MAX
    for values in (
        pa.array([value]),
        pa.array([value], pa.timestamp(unit, "UTC")),
        pa.array([str(value)]),
    ):
        times, failures = event_times(values, unit)
        assert list(failures) == ([] if is_time else [0])
        assert not is_time or times.tolist() == [exact]


def test_invalid_times_are_reported_by_row() -> None:
    values = pa.array([1.5, None, float("nan"), float("inf"), 1e300, -1e13, 253_402_300_799.5])
    times, failures = event_times(values, "s")
    assert list(failures) == [2, 3, 4, 5, 1]
    assert failures[1] == "has no time"
    assert times[[0, 6]].tolist() == [1_500_000, 253_402_300_799_500_000]
    mixed = pa.array(["12", "2018-01-02T00:00:00Z", None, "soon", "1e999999999999999999999"])
    times, failures = event_times(mixed, "s")
    assert times[:2].tolist() == [12_000_000, 1_514_851_200_000_000]
    assert sorted(failures) == [2, 3, 4]
    days, failures = event_times(pa.array([date(1, 1, 1), date(9999, 12, 31)]), "us", "UTC")
    assert days.tolist() == [TIME_US_MIN, TIME_US_MAX + 1 - 86_400_000_000]


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_parquet_timestamps_tell_their_unit_and_zone(
    tmp_path: Path, unit: str, zone: str | None
) -> None:
    instant = datetime(2018, 1, 2, 10, 1, 21, tzinfo=UTC)
    stamps = pa.array([instant], pa.timestamp(unit, zone or "UTC")).cast(pa.timestamp(unit, zone))
    file = tmp_path / "times.parquet"
    pyarrow.parquet.write_table(pa.table({"at": stamps}), file)
    is_zoneless = zone is None
    source = Source(
        name="s", columns={"at": "timestamp"}, time="at", time_zone="UTC" if is_zoneless else None
    )
    (chunk,) = read_recorded_file(source, file)
    assert chunk.records.to_pylist() == [{"at": instant, "_stime": 1_514_887_281_000_000}]


HOUR = 3_600_000_000
TEN = 1_769_940_000_000_000
"""2026-02-01T10:00:00Z"""


@pytest.mark.parametrize("type_", ["timestamp", "string"])
def test_a_time_without_a_zone_is_refused_until_the_source_declares_one(
    tmp_path: Path, type_: str
) -> None:
    texts = ["2026-02-01 10:00:00", "2026-02-01T10:00"]
    with pytest.raises(Refused, match=r"column 'ts' have no time zone; declare time_zone .*'s'"):
        read_times(tmp_path, texts, type_)
    assert read_times(tmp_path, texts, type_, zone="UTC") == [TEN, TEN]
    assert read_times(tmp_path, texts, type_, zone="Europe/Berlin") == [TEN - HOUR] * 2
    assert read_times(tmp_path, texts, type_, zone="-05:30") == [TEN + 11 * HOUR // 2] * 2
    zoned = ["2026-02-01T10:00Z", "2026-02-01T12:00+02:00"]
    assert read_times(tmp_path, zoned, type_) == [TEN, TEN]
    assert read_times(tmp_path, zoned, type_, zone="Europe/Berlin") == [TEN, TEN]


def test_a_day_as_event_time_needs_a_zone_too(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="declare time_zone"):
        read_times(tmp_path, ["2026-02-01"], "date")
    assert read_times(tmp_path, ["2026-02-01"], "date", zone="Asia/Tokyo") == [TEN - 19 * HOUR]


@pytest.mark.parametrize("column", ["at", "ts_us"])
def test_parquet_without_a_zone_is_refused_until_the_source_declares_one(
    tmp_path: Path, column: str
) -> None:
    file = tmp_path / "times.parquet"
    stamps = pa.array([TEN // 1_000], pa.timestamp("ms"))
    pyarrow.parquet.write_table(pa.table({column.removesuffix("_us"): stamps}), file)
    columns = {column: "timestamp" if column == "at" else "bigint"}
    with pytest.raises(Refused, match=f"column '{column}' have no time zone; declare time_zone"):
        list(read_recorded_file(Source(name="s", columns=columns, time=column), file))
    source = Source(name="s", columns=columns, time=column, time_zone="Europe/Berlin")
    (chunk,) = read_recorded_file(source, file)
    assert chunk.records["_stime"].to_pylist() == [TEN - HOUR]


def test_one_time_without_a_zone_among_others_goes_to_quarantine(tmp_path: Path) -> None:
    file = tmp_path / "times.csv"
    file.write_text(
        "at,seen\n2026-02-01T10:00Z,\n2026-02-01T10:00,\n"
        "2026-02-01T10:00Z,2026-02-01T09:00\n2026-02-01T10:00Z,2026-02-01T09:00Z\n"
    )
    source = Source(name="s", columns={"at": "timestamp", "seen": "timestamp"}, time="at")
    (chunk,) = read_recorded_file(source, file)
    why = "has no time zone, and the source declares no time_zone"
    assert [(q.position, q.field, q.reason) for q in chunk.quarantined] == [
        (3, "at", why), (4, "seen", why),
    ]  # fmt: skip
    assert chunk.positions.tolist() == [2, 5]


def test_an_hour_that_the_clocks_skip_or_repeat_is_not_guessed(tmp_path: Path) -> None:
    file = tmp_path / "times.csv"
    file.write_text(
        "at\n2026-03-29 01:59:59\n2026-03-29 02:30\n2026-03-29 03:00\n"
        "2026-10-25 02:30\n2026-10-25 02:30+02:00\n2026-10-25 03:00\n"
    )
    source = Source(name="s", columns={"at": "timestamp"}, time="at", time_zone="Europe/Berlin")
    (chunk,) = read_recorded_file(source, file)
    assert [(q.position, q.reason) for q in chunk.quarantined] == [
        (3, "does not exist in zone Europe/Berlin: the clocks skip it"),
        (5, "occurs twice in zone Europe/Berlin: write its offset"),
    ]
    assert [str(at) for at in chunk.records["at"].to_pylist()] == [
        "2026-03-29 00:59:59+00:00", "2026-03-29 01:00:00+00:00",
        "2026-10-25 00:30:00+00:00", "2026-10-25 02:00:00+00:00",
    ]  # fmt: skip
