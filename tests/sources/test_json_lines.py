"""JSON lines: keys, types, times as Zeek writes them, and what is no record."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from medusa_core.errors import Refused
from medusa_core.network import Source
from pipelines.sources.recorded.reader import Chunk, read_recorded_file
from tests.sweeps import long_but

TIME = 1_700_000_000_000_000
SOURCE = Source(
    name="s", columns={"ts_us": "bigint", "host": "string", "size": "double"}, time="ts_us"
)
GOOD = b'{"ts_us": 1700000000000000, "host": "a", "size": 1.5}\n'
GOOD_ROW = {"ts_us": TIME, "host": "a", "size": 1.5}


def read(folder: Path, content: bytes, source: Source = SOURCE, **options: int) -> list[Chunk]:
    (folder / "file").write_bytes(content)
    return list(read_recorded_file(source, folder / "file", **options))


def rows(chunks: list[Chunk]) -> list[dict[str, object]]:
    return [row for chunk in chunks for row in chunk.records.drop(["_stime"]).to_pylist()]


def problems(chunks: list[Chunk]) -> list[tuple[int | None, str, str]]:
    return [(q.position, q.field, q.reason) for chunk in chunks for q in chunk.quarantined]


def record(**fields: str) -> bytes:
    """A record whose fields are JSON as given."""
    whole = {"ts_us": "1700000000000000", "host": '"a"', "size": "1.5", **fields}
    return ("{" + ", ".join(f'"{name}": {text}' for name, text in whole.items()) + "}\n").encode()


BAD_LINES = [
    (b"oops\n", "", "is no JSON object"),
    (b"null\n", "", "is no JSON object"),
    (b"[1]\n", "", "is no JSON object"),
    (b'"text"\n', "", "is no JSON object"),
    (b"{}garbage\n", "", "is no JSON object"),
    (GOOD.strip() + GOOD, "", "is no JSON object"),
    (GOOD[:20] + b"\n", "", "is no JSON object"),
    (b"{'ts_us': 1}\n", "", "is no JSON object"),
    (b'{"ts_us": 01}\n', "", "is no JSON object"),
    (b'{"ts_us": 1,}\n', "", "is no JSON object"),
    (b'{"host": "a\tb"}\n', "", "is no JSON object"),
    (b"{" * 100_000 + b"\n", "", "JSON is nested deeper than 64"),
    (record(more="[" * 500_000 + "]" * 500_000), "", "JSON is nested deeper than 64"),
    (record(host='"' + "x" * 2_000_000 + '"'), "", "record is longer than 1 MiB"),
    (b"{}\n", "ts_us", "has no time"),
    (record(ts_us="null"), "ts_us", "has no time"),
    (record(ts_us="1.5"), "ts_us", "is no whole number"),
    (record(ts_us="1e15"), "ts_us", "is no whole number"),
    (record(ts_us="true"), "ts_us", "is no whole number"),
    (record(ts_us="{}"), "ts_us", "is no whole number"),
    (record(ts_us="NaN"), "ts_us", "is no whole number"),
    (record(ts_us="9" * 5_000), "ts_us", "is out of range of bigint"),
    (record(ts_us="9000000000000000000"), "ts_us", "time is outside the years 1 to 9999"),
    (record(size="1e400"), "size", "is out of range of double"),
    (record(size="-1e999999999"), "size", "is out of range of double"),
    (record(size='"big"'), "size", "is no number"),
    (record(size="[1]"), "size", "is no number"),
    (record(host='"a\\u0000b"'), "host", "holds a NUL byte"),
    (record(host='"\\ud800"'), "host", "is not valid UTF-8"),
    (record().replace(b'"a"', b'"\xff"'), "host", "is not valid UTF-8"),
    (record().replace(b'"a"', b'"\xed\xa0\x80"'), "host", "is not valid UTF-8"),
    (record(size='1, "size": 1'), "size", "is given twice"),
]


@pytest.mark.parametrize(
    ("bad", "field", "reason"), long_but(8, BAD_LINES), ids=lambda v: str(v)[:40]
)
def test_a_line_that_is_no_record_is_quarantined_and_all_others_are_read(
    tmp_path: Path, bad: bytes, field: str, reason: str
) -> None:
    chunks = read(tmp_path, GOOD + bad + b"\n" + GOOD + bad + GOOD)
    assert rows(chunks) == [GOOD_ROW] * 3
    assert problems(chunks) == [(2, field, reason), (5, field, reason)]
    shown = bad.decode(errors="replace").rstrip("\n")[:1_024].replace("\0", "\ufffd")
    assert chunks[0].quarantined[0].content == shown


GOOD_LINES = [
    (record(size="NaN").replace(b"NaN", b"-Infinity"), {"size": float("-inf")}),
    (record(size='"2.5"'), {"size": 2.5}),
    (record(size="-0"), {"size": -0.0}),
    (record(host="12.50"), {"host": "12.50"}),
    (record(host="true"), {"host": "true"}),
    (record(host='["a", 1.0, null, {"b": "\\u00e9"}]'), {"host": '["a",1.0,null,{"b":"é"}]'}),
    (record(host='""'), {"host": None}),
    (record(host='"\\ud83d\\ude00"'), {"host": "😀"}),
    (record(host='" \\n "'), {"host": " \n "}),
    (record(more='{"size": 7, "size": 8}'), {}),
    (record(more='1, "more": 2'), {}),
    (record(more='"\\ud800"'), {}),
    (record(more='1e400, "x": NaN'), {}),
    (record().replace(b'"a"', b'"a", "more": "\xff"'), {}),
    (b" \t" + record() + b"  \r\n\r\n", {}),
    (record().replace(b"ts_us", b"\\u0074s_us"), {}),
    (record(more="[" * 60 + "]" * 60), {}),
    (record(more='"' + "[{" * 100 + '"'), {}),
]


@pytest.mark.parametrize(("line", "expected"), GOOD_LINES, ids=lambda v: str(v)[:40])
def test_what_json_can_say_is_read_as_the_text_that_it_is(
    tmp_path: Path, line: bytes, expected: dict[str, object]
) -> None:
    chunks = read(tmp_path, GOOD + line)
    assert not problems(chunks)
    assert rows(chunks) == [GOOD_ROW, {**GOOD_ROW, **expected}]


def test_numbers_are_never_rounded_on_the_way(tmp_path: Path) -> None:
    source = Source(
        name="s", columns={"t_us": "bigint", "m": "decimal(38,18)", "b": "bigint"}, time="t_us"
    )
    line = b'{"t_us": 1, "m": 12345678901234567890.123456789012345678, "b": 9223372036854775807}\n'
    (row,) = rows(read(tmp_path, line, source))
    assert row["m"] == Decimal("12345678901234567890.123456789012345678")
    assert row["b"] == 2**63 - 1


@pytest.mark.long
def test_records_of_very_many_keys_are_read_in_good_time(tmp_path: Path) -> None:
    keys = ", ".join(f'"k{n}": {n}' for n in range(50_000))
    twice = record(more=f'1, {keys}, "k1": 2, "size": 3')
    chunks = read(tmp_path, GOOD + record(more=f"1, {keys}") + twice)
    assert rows(chunks) == [GOOD_ROW] * 2
    assert problems(chunks) == [(3, "size", "is given twice")]


def test_a_torn_last_line_is_no_record(tmp_path: Path) -> None:
    chunks = read(tmp_path, GOOD * 2 + GOOD[:30])
    assert len(rows(chunks)) == 2
    assert problems(chunks) == [(3, "", "is no JSON object")]


def test_a_record_may_leave_columns_out(tmp_path: Path) -> None:
    chunks = read(tmp_path, b'{"ts_us": 1700000000000000}\n' + GOOD)
    assert rows(chunks) == [{"ts_us": TIME, "host": None, "size": None}, GOOD_ROW]


def test_a_key_that_comes_late_fills_its_own_column_and_no_other(tmp_path: Path) -> None:
    first = b'{"ts_us": 1700000000000000}\n' * 1_000
    chunks = read(tmp_path, first + GOOD + b'{"ts_us": 1700000000000000, "id.host": "b"}\n')
    assert rows(chunks)[1_000:] == [GOOD_ROW]
    reason = "may be given by 'id.host', which was in none of the first 1,000 records"
    assert problems(chunks) == [(1_002, "host", reason)]


@pytest.mark.parametrize("records", [1, 3, 1_000])
def test_a_chunk_is_the_same_when_those_before_are_passed_over(
    tmp_path: Path, records: int
) -> None:
    lines = [f'{{"ts_us": {TIME + n}, "id.host": "h{n}", "size": {n}}}\n' for n in range(7)]
    text = "".join([*lines[:4], "oops\n", *lines[4:]]).encode()
    whole = read(tmp_path, text, chunk_records=records)
    assert [row["host"] for row in rows(whole)] == [f"h{n}" for n in range(7)]
    for skip in range(len(whole)):
        rest = read(tmp_path, text, chunk_records=records, skip=skip)
        assert [chunk.quarantined for chunk in rest] == [c.quarantined for c in whole[skip:]]
        assert rows(rest) == rows(whole[skip:])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{\n", "is JSON over several lines: write one object a line"),
        (b'[\n{"ts_us": 1}]\n', "is JSON over several lines"),
        (b'{"ts": \n', "holds no JSON object a line"),
        (b'{"host": "a"}\n', "has no column 'ts_us' in its first records, which have host"),
        (b'{"ts_us": null}\n', "do not tell their unit|has no"),
        (b'{"tss": 1700000000}\n', "no column 'ts_us'"),
    ],
)
def test_files_that_cannot_be_read_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    if b"null" in content:
        assert problems(read(tmp_path, content)) == [(1, "ts_us", "has no time")]
        return
    with pytest.raises(Refused, match=words):
        read(tmp_path, content)


# Zeek's JSON

CONN = {
    "ts_us": "bigint", "orig_h": "string", "resp_p": "int", "duration_us": "bigint",
    "local_orig": "boolean", "tunnel_parents": "string",
}  # fmt: skip


def conn(ts: object, **more: object) -> bytes:
    fields = {"ts": ts, "uid": "C1", "id.orig_h": "a", "id.resp_p": 443, **more}
    return (json.dumps(fields) + "\n").encode()


@pytest.mark.parametrize(
    "ts", [1713484795.943239, 1713484795943, "2024-04-18T23:59:55.943239Z", "1713484795.943239"]
)
def test_times_of_zeek_are_read_as_numbers_and_as_text(tmp_path: Path, ts: object) -> None:
    expected = 1_713_484_795_943_239 if not isinstance(ts, int) else 1_713_484_795_943_000
    columns = {"ts": "double"}, {"ts": "timestamp"}, {"ts": "decimal(20,6)"}, {"ts_us": "bigint"}
    for column in (*columns, {"ts": "string"}):
        (name,) = column
        source = Source(name="s", columns={**column, "orig_h": "string"}, time=name)
        (chunk,) = read(tmp_path, conn(ts) * 2, source)
        assert chunk.records["_stime"].to_pylist() == [expected] * 2
        if column == {"ts": "double"}:
            assert chunk.records["ts"].to_pylist() == [expected / 1e6] * 2


def test_lengths_of_zeek_are_the_nearest_microsecond_of_seconds(tmp_path: Path) -> None:
    source = Source(name="conn", columns=CONN, time="ts_us")
    more = {"local_orig": True, "tunnel_parents": ["Ca", "Cb"]}
    text = conn(1713484795.943239, duration=0.024254083633422852, **more) + conn(
        "2024-04-18T23:59:55.943239Z", duration=1.0000001
    )
    chunks = read(tmp_path, text, source)
    assert not problems(chunks)
    time = 1_713_484_795_943_239
    assert rows(chunks) == [
        {"ts_us": time, "orig_h": "a", "resp_p": 443, "duration_us": 24_254, "local_orig": True,
         "tunnel_parents": '["Ca","Cb"]'},
        {"ts_us": time, "orig_h": "a", "resp_p": 443, "duration_us": 1_000_000,
         "local_orig": None, "tunnel_parents": None},
    ]  # fmt: skip


def test_a_length_that_no_early_record_has_is_still_read(tmp_path: Path) -> None:
    source = Source(name="conn", columns=CONN, time="ts_us")
    chunks = read(tmp_path, conn(1713484795.9) * 1_001 + conn(1713484795.9, duration=2), source)
    assert not problems(chunks)
    assert rows(chunks)[-1]["duration_us"] == 2_000_000
