"""Zeek's own logs: headers, separators, unset and empty fields, escapes, types, joined logs."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from medusa_core.errors import Refused
from medusa_core.network import Source
from pipelines.sources.recorded.reader import Chunk, read_recorded_file
from tests.sources.writing import Row, zeek_header, zeek_text
from tests.sweeps import long_but

CONN = Source(
    name="conn",
    columns={
        "ts": "double", "orig_h": "string", "orig_p": "int", "service": "string",
        "duration": "double", "state": "string", "local_orig": "boolean",
        "tunnel_parents": "string",
    },
    time="ts",
)  # fmt: skip
FIELDS = {
    "ts": "time", "uid": "string", "id.orig_h": "addr", "id.orig_p": "port", "service": "string",
    "duration": "interval", "conn_state": "string", "local_orig": "bool",
    "tunnel_parents": "set[string]",
}  # fmt: skip
LOG = (
    "#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n#path\tconn\n"
    "#open\t2014-05-23-18-02-04\n"
    f"#fields\t{chr(9).join(FIELDS)}\n#types\t{chr(9).join(FIELDS.values())}\n"
    "1258531221.486539\tC1\t192.168.1.102\t68\t-\t0.163820\tSF\tT\t(empty)\n"
    "1258531680.237254\tC2\tfe80::1\t137\tdns\t-\tS0\tF\tCa,Cb\n"
    "#close\t2014-05-23-18-02-35\n"
).encode()
FIRST = {
    "ts": 1258531221.486539, "orig_h": "192.168.1.102", "orig_p": 68, "service": None,
    "duration": 0.16382, "state": "SF", "local_orig": True, "tunnel_parents": None,
}  # fmt: skip
SECOND = {
    "ts": 1258531680.237254, "orig_h": "fe80::1", "orig_p": 137, "service": "dns",
    "duration": None, "state": "S0", "local_orig": False, "tunnel_parents": "Ca,Cb",
}  # fmt: skip
SHORT = Source(name="short", columns={"ts_us": "bigint", "note": "string"}, time="ts_us")


def read(folder: Path, content: bytes, source: Source = CONN, **options: int) -> list[Chunk]:
    (folder / "conn.00:00:00-01:00:00.log.gz").write_bytes(content)
    return list(read_recorded_file(source, folder / "conn.00:00:00-01:00:00.log.gz", **options))


def rows(chunks: list[Chunk]) -> list[dict[str, object]]:
    return [row for chunk in chunks for row in chunk.records.drop(["_stime"]).to_pylist()]


def problems(chunks: list[Chunk]) -> list[tuple[int | None, str, str]]:
    return [(q.position, q.field, q.reason) for chunk in chunks for q in chunk.quarantined]


def short_log(*lines: str) -> bytes:
    return (zeek_header(["ts", "note"], ["time", "string"]) + "".join(lines)).encode()


def test_a_log_is_read_by_its_own_header(tmp_path: Path) -> None:
    chunks = read(tmp_path, LOG)
    assert rows(chunks) == [FIRST, SECOND]
    assert not problems(chunks)
    assert chunks[0].records["_stime"].to_pylist() == [1_258_531_221_486_539, 1_258_531_680_237_254]
    assert chunks[0].positions.tolist() == [9, 10]


def test_packed_in_any_number_of_gzip_members_it_is_the_same(tmp_path: Path) -> None:
    cuts = [LOG[:100], LOG[100:333], LOG[333:]]
    packed = b"".join(gzip.compress(part) for part in cuts)
    assert rows(read(tmp_path, packed)) == [FIRST, SECOND]


def test_lines_that_end_as_on_windows_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    text = b"\xef\xbb\xbf" + LOG.replace(b"\n", b"\r\n")
    assert rows(read(tmp_path, text)) == [FIRST, SECOND]


@pytest.mark.parametrize("separator", [" ", ",", "|", ";", "::", " || ", "§"])
def test_the_separator_may_be_any(tmp_path: Path, separator: str) -> None:
    fields = {name: type_ for name, type_ in FIELDS.items() if name != "tunnel_parents"}
    values: Row = dict(
        zip(fields, ["1258531221.486539", "C1", "a b,c|d;e::f || g§h", "68", None, "0.163820",
                     "SF", "T"], strict=True)
    )  # fmt: skip
    columns = {name: type_ for name, type_ in CONN.columns.items() if name != "tunnel_parents"}
    source = Source(name="conn", columns=columns, time="ts")
    text = zeek_text(list(fields), [values] * 2, list(fields.values()), separator=separator)
    expected = {name: value for name, value in FIRST.items() if name in columns}
    expected["orig_h"] = "a b,c|d;e::f || g§h"
    assert rows(read(tmp_path, text, source)) == [expected] * 2


def test_unset_and_empty_fields_may_be_written_in_other_words(tmp_path: Path) -> None:
    text = LOG.replace(b"#unset_field\t-", b"#unset_field\tNONE").replace(b"\t-\t", b"\tNONE\t")
    text = text.replace(b"(empty)", b"[]")
    assert rows(read(tmp_path, text)) == [FIRST, SECOND]


def test_what_only_looks_unset_is_text(tmp_path: Path) -> None:
    text = short_log(
        "1.5\t\\x2d\n", "2.5\t\\x28empty)\n", "3.5\ta\\x09b\\x5c\\\\\n", "4.5\t\\xc3\\xa9é\n"
    )
    chunks = read(tmp_path, text, SHORT)
    assert [row["note"] for row in rows(chunks)] == ["-", "(empty)", "a\tb\\\\", "éé"]
    chunks = read(tmp_path, short_log("1.5\t\\xff\n", "2.5\ta\\x00b\n", "3.5\t\\xzz\n"), SHORT)
    assert [row["note"] for row in rows(chunks)] == ["\\xzz"]
    assert problems(chunks) == [
        (9, "note", "is not valid UTF-8"),
        (10, "note", "holds a NUL byte"),
    ]


def test_quotes_mean_nothing(tmp_path: Path) -> None:
    chunks = read(tmp_path, short_log('1.5\t"a\n', '2.5\t"b" "\n'), SHORT)
    assert [row["note"] for row in rows(chunks)] == ['"a', '"b" "']


def test_a_header_that_comes_again_rules_what_is_behind_it(tmp_path: Path) -> None:
    turned = dict(reversed({**FIELDS, "vlan": "int"}.items()))
    other: Row = {
        "ts": "1258531680.237254", "uid": "C2", "id.orig_h": "fe80::1", "id.orig_p": "137",
        "service": "dns", "duration": None, "conn_state": "S0", "local_orig": "F",
        "tunnel_parents": "Ca", "vlan": "7",
    }  # fmt: skip
    second = zeek_text(list(turned), [other] * 2, list(turned.values()), separator="|")
    text = LOG + second + LOG
    expected = {**SECOND, "tunnel_parents": "Ca"}
    chunks = read(tmp_path, text)
    assert rows(chunks) == [FIRST, SECOND, expected, expected, FIRST, SECOND]
    assert not problems(chunks)


@pytest.mark.parametrize("records", long_but(1, [1, 2, 3, 5, 100]))
def test_a_chunk_is_the_same_when_those_before_are_passed_over(
    tmp_path: Path, records: int
) -> None:
    turned = zeek_header(["note", "ts"], ["string", "time"])
    text = short_log("1.5\ta\n", "bad\n", "2.5\tb\n") + (turned + "c\t3.5\nd\t4.5\n").encode()
    whole = read(tmp_path, text, SHORT, chunk_records=records)
    assert [row["note"] for row in rows(whole)] == ["a", "b", "c", "d"]
    assert problems(whole) == [(10, "", "1 field where the header has 2")]
    for skip in range(len(whole)):
        rest = read(tmp_path, text, SHORT, chunk_records=records, skip=skip)
        assert [chunk.index for chunk in rest] == list(range(skip, len(whole)))
        for one, other in zip(rest, whole[skip:], strict=True):
            assert one.records.equals(other.records)
            assert one.quarantined == other.quarantined


@pytest.mark.parametrize(
    ("type_", "column", "text", "expected"),
    [
        ("time", {"at": "timestamp"}, "1258531221.486539", "2009-11-18T08:00:21.486539+00:00"),
        ("time", {"at": "decimal(20,6)"}, "1258531221.486539", "1258531221.486539"),
        ("time", {"at": "string"}, "1258531221.486539", "1258531221.486539"),
        ("time", {"at_ms": "bigint"}, "1258531221.486539", "1258531221486"),
        ("time", {"at_ns": "bigint"}, "1258531221.486539", "1258531221486539000"),
        ("time", {"at_s": "int"}, "1258531221.986539", "1258531221"),
        ("interval", {"at_us": "bigint"}, "0.000064", "64"),
        ("interval", {"at_us": "bigint"}, "-0.000064", "-64"),
        ("interval", {"at_us": "int"}, "1e3", "1000000000"),
        ("interval", {"at_ms": "double"}, "0.0015", "1.5"),
        ("interval", {"at_ms": "decimal(9,3)"}, "0.0015", "1.500"),
        ("interval", {"at": "double"}, "0.0015", "0.0015"),
        ("count", {"at": "bigint"}, "18446744073709551615", "is out of range of bigint"),
        ("interval", {"at_us": "int"}, "3000", "is out of range of int"),
        ("interval", {"at_us": "bigint"}, "1e400", "is out of range of bigint"),
        ("interval", {"at_us": "bigint"}, "soon", "is no number"),
        ("time", {"at": "bigint"}, "1258531221.486539", "is no whole number"),
        ("time", {"at": "timestamp"}, "soon", "is no ISO-8601 time"),
        ("time", {"at_us": "bigint"}, "1e30", "time is outside the years 1 to 9999"),
        ("bool", {"at": "boolean"}, "X", "is neither true nor false"),
    ],
)
def test_zeek_types_become_the_declared_ones(
    tmp_path: Path, type_: str, column: dict[str, str], text: str, expected: str
) -> None:
    (name,) = column
    source = Source(name="s", columns={"ts": "double", **column}, time="ts")
    log = zeek_header(["ts", "at"], ["time", type_]) + f"1.5\t{text}\n1.5\t-\n"
    chunks = read(tmp_path, log.encode(), source)
    if " " in expected:
        assert problems(chunks) == [(9, name, expected)]
        return
    assert not problems(chunks)
    (first, second) = chunks[0].records[name].to_pylist()
    assert second is None
    shown = first.isoformat() if hasattr(first, "isoformat") else str(first)
    assert shown == expected


def test_times_of_a_log_are_in_seconds_however_small(tmp_path: Path) -> None:
    (chunk,) = read(tmp_path, LOG.replace(b"1258531", b""))
    assert chunk.records["_stime"].to_pylist() == [221_486_539, 680_237_254]


def test_bad_lines_are_quarantined_and_the_others_are_read(tmp_path: Path) -> None:
    text = short_log("1.5\ta\n", "2.5\tb\tc\n", "\n", "3.5\td\re\n", f"4.5\t{'x' * 2_000_000}\n",
                     "-\tf\n", "#an unknown line\n", "5.5\tg\n", "6.5")  # fmt: skip
    chunks = read(tmp_path, text, SHORT)
    assert [row["note"] for row in rows(chunks)] == ["a", "g"]
    assert problems(chunks) == [
        (10, "", "3 fields where the header has 2"),
        (12, "", "carriage return without a line feed"),
        (13, "", "record is longer than 1 MiB"),
        (14, "ts_us", "has no time"),
        (15, "", "1 field where the header has 2"),
        (17, "", "1 field where the header has 2"),
    ]


def test_a_record_that_begins_like_a_header_is_read_or_counted(tmp_path: Path) -> None:
    source = Source(name="short", columns={"note": "string", "ts_us": "bigint"}, time="ts_us")
    log = (
        b"#separator \\x09\n#fields\tnote\tts_us\n#types\tstring\tcount\n"
        b"#1 of them\t1000001\nplain\t2000001\n# a remark\n#closed\t3000001\n#close\tnow\n"
    )
    chunks = read(tmp_path, log, source)
    assert [row["note"] for row in rows(chunks)] == ["#1 of them", "plain", "#closed"]
    assert [position for position, _, _ in problems(chunks)] == [6]


def test_a_log_of_nothing_but_its_header_has_no_records(tmp_path: Path) -> None:
    assert rows(read(tmp_path, short_log(), SHORT)) == []
    assert rows(read(tmp_path, b"#separator \\x09\n", SHORT)) == []


@pytest.mark.long
def test_ten_thousand_joined_logs_of_one_header_are_read_at_once(tmp_path: Path) -> None:
    chunks = read(tmp_path, short_log("1.5\ta\n", "#close\tnow\n") * 10_001, SHORT)
    assert [row["note"] for row in rows(chunks)] == ["a"] * 10_001
    assert not problems(chunks)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"#separator \\x09\n1.5\ta\n", "has records above any line of #fields"),
        (b"#separator \\x0a\n#fields\n1.5\ta\n", "says #separator"),
        (b"#separator\n1.5\ta\n", "above any line of #fields"),
        (b"#separator \\xff\n#fields\xffts\xffnote\n1.5\xffa\n", "write one of ASCII"),
        (
            short_log("1\ta\n") + b"#fields\tts\tnotes\n2\tb\n",
            "no column 'note'; did you mean 'notes'",
        ),
        (
            b"".join(b"#fields\tts\tnote\t%d\n1700000000\ta\tb\n" % n for n in range(10_001)),
            "changes its header more than 10,000 times",
        ),
        (b"#fields\tts\tnote\n12\ta\n", "do not tell their unit; declare time_unit"),
    ],
)
def test_logs_that_cannot_be_read_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(Refused, match=words):
        read(tmp_path, content, SHORT)
