"""What quarantine keeps of a record, and how a repaired one is handed in again."""

from __future__ import annotations

import json
import resource
import signal
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from medusa_core.commits import QuarantinedRecord
from medusa_core.names import StreamName
from pipelines.homes.home import open_home
from pipelines.participant import repairs, repairs_export
from pipelines.participant.repairs import CLOSED, LANDED_BEFORE, LEFT
from pipelines.sources.recorded.reader import read_recorded_file
from tests.catalog import building as a
from tests.cli.watched import Watched
from tests.hostile.cases.shapes import CONNECTIONS, ESCAPES, MARKUP
from tests.hostile.conftest import Ended
from tests.hostile.judging import a_sentence
from tests.sweeps import long_but

Run = Callable[..., Ended]
Edit = Callable[[list[dict[str, Any]]], Sequence[Mapping[str, Any]]]


def kept_of(record: bytes | str, *, is_whole: bool = True) -> QuarantinedRecord:
    return QuarantinedRecord.of(
        record,
        stream=StreamName("s"),
        origin="f",
        position=1,
        field="",
        reason="",
        is_whole=is_whole,
    )


@pytest.mark.parametrize(
    ("record", "content"),
    [
        (b"a,b", "a,b"),
        (b"a" * 5_000, "a" * 1_024),
        ("ä".encode() * 5_000, "ä" * 512),
        (b"a" + "ä".encode() * 5_000, "a" + "ä" * 511),
        (b"\xff\x00a", "\ufffd\ufffda"),
        (b"", ""),
    ],
    ids=["short", "long", "two bytes each", "cut inside a character", "no text", "nothing"],
)
def test_the_first_1024_bytes_are_kept_with_length_and_hash_of_the_whole(
    record: bytes, content: str
) -> None:
    kept = kept_of(record)
    assert kept.content == content
    assert (kept.size_bytes, kept.sha256) == (len(record), sha256(record).hexdigest())
    assert kept.is_complete == (content.encode() == record)


def test_of_what_was_never_whole_there_is_neither_length_nor_hash() -> None:
    kept = kept_of(b"a" * 5_000, is_whole=False)
    assert (kept.size_bytes, kept.sha256, len(kept.content)) == (None, None, 1_024)
    assert not kept.is_complete


def test_length_and_hash_are_those_of_the_line_in_the_file(tmp_path: Path) -> None:
    bad = b'1700000000000000,"' + b"long " * 1_000 + b'",x,1\r\n'
    file = tmp_path / "input"
    file.write_bytes(b"ts_us,host,port,size\r\n" + bad)
    (chunk,) = read_recorded_file(CONNECTIONS, file)
    (kept,) = chunk.quarantined
    line = bad.rstrip()
    assert (kept.size_bytes, kept.sha256) == (len(line), sha256(line).hexdigest())
    assert kept.content.encode() == line[:1_024]


@pytest.fixture
def repaired(on: Run, tmp_path: Path) -> Callable[[Edit], Path]:
    """The quarantine of `src`, exported and edited."""

    def edit(change: Edit) -> Path:
        file = tmp_path / f"repaired-{len(list(tmp_path.iterdir()))}.json"
        assert on("quarantine", "export", "src", str(file)).code == 0
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        file.write_text("".join(json.dumps(line) + "\n" for line in change(lines)))
        return file

    return edit


def handed_in(on: Run, file: Path, *more: str) -> tuple[list[int], dict[int, str]]:
    """The numbers that landed, and why the others did not."""
    ended = on("quarantine", "retry", "src", str(file), "--json", *more)
    assert ended.code == 0, ended
    told = json.loads(ended.output)
    return told["landed"], {one["number"]: one["reason"] for one in told["stayed"]}


def with_records(*records: Mapping[str, Any] | None) -> Edit:
    """The first entries with these records, the others as they are."""

    def change(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for line, record in zip(lines, records, strict=False):
            line["record"] = record
        return lines

    return change


def landed_records(homes: Watched) -> int:
    """How many repaired records of `src` have landed."""
    with open_home(homes.settings, a.ALPHA) as home:
        queries = home.catalog.landed_queries(a.SRC)
        retried = [query for query in queries if query.startswith("retry-")]
        return sum(sum(home.catalog.landed_batches(a.SRC, q).values()) for q in retried)


def test_a_repaired_record_of_an_open_bucket_lands_once_and_what_is_not_stays(
    homes: Watched, on: Run, repaired: Callable[[Edit], Path]
) -> None:
    open_us = homes.origin_us + 5 * a.WIDTH_US + 1
    closed_us = homes.origin_us + a.WIDTH_US
    file = repaired(
        with_records(
            {"at": open_us, "key": "mended"}, {"at": closed_us, "key": "a"}, {"at": "soon"}
        )
    )
    first, second, third, fourth = (
        json.loads(x)["quarantine"] for x in file.read_text().split("\n")[:4]
    )
    stay = {second: CLOSED, third: "at is no whole number", fourth: LEFT}
    assert handed_in(on, file, "--explain") == ([first], stay)
    assert landed_records(homes) == 0, "to explain lands nothing"
    assert handed_in(on, file) == ([first], stay)
    assert landed_records(homes) == 1
    assert handed_in(on, file) == ([], {**stay, first: LANDED_BEFORE})
    assert landed_records(homes) == 1
    shown = json.loads(on("read", "src", "--quarantine", "--json").output)["records"]
    marks = {one["number"]: one["landed_as"] is not None for one in shown}
    assert marks == {first: True, second: False, third: False, fourth: False}


def test_what_has_landed_is_not_exported_again(
    homes: Watched, on: Run, repaired: Callable[[Edit], Path], tmp_path: Path
) -> None:
    open_us = homes.origin_us + 6 * a.WIDTH_US
    file = repaired(with_records({"at": open_us, "key": None}))
    before = {json.loads(line)["quarantine"] for line in file.read_text().splitlines()}
    landed, _ = handed_in(on, file)
    again = tmp_path / "again.json"
    assert on("quarantine", "export", "src", str(again)).code == 0
    left = {json.loads(line)["quarantine"] for line in again.read_text().splitlines()}
    assert len(landed) == 1
    assert left == before - set(landed)


@pytest.mark.parametrize(
    ("change", "says"),
    long_but(
        3,
        [
            (lambda lines: [{**lines[0], "quarantine": 10**9}], "has no record 1000000000"),
            (lambda lines: [{**lines[0], "quarantine": "1; DROP TABLE x"}], "no number"),
            (lambda lines: [{**lines[0], "quarantine": "9" * 5_000}], "no number"),
            (lambda lines: [lines[0], lines[0]], "already"),
            (lambda lines: [{**lines[0], "record": [1]}], "no object"),
            (lambda lines: [{**lines[0], "record": {"kye": "a"}}], "key"),
            (lambda lines: [{**lines[0], "record": {ESCAPES: "a"}}], "no column"),
            (lambda lines: [{**lines[0], "record": {MARKUP: "a"}}], "no column"),
            (lambda lines: [{}], "no number"),
        ],
    ),
    ids=["nobody", "SQL", "digits", "twice", "a list", "near", "escapes", "markup", "empty"],
)
def test_a_file_that_was_not_exported_is_refused_and_lands_nothing(
    change: Edit, says: str, on: Run, repaired: Callable[[Edit], Path], homes: Watched
) -> None:
    before = landed_records(homes)
    ended = on("quarantine", "retry", "src", str(repaired(change)))
    assert ended.code == 2, ended
    a_sentence(ended.errors, says)
    assert landed_records(homes) == before


@pytest.mark.parametrize(
    ("words", "says"),
    long_but(
        2,
        [
            (("export", "sums", "{at}/new"), "is computed"),
            (("export", "scr", "{at}/new"), "'src'"),
            (("export", ESCAPES, "{at}/new"), "no stream"),
            (("export", "src", "{at}"), "there already"),
            (("retry", "src", "{at}/none"), "no file"),
            (("retry", "src", "{at}"), "no file"),
            (("export", "src", "{at}/new", "--explain"), "leave --explain out"),
        ],
    ),
    ids=["computed", "near", "escapes", "is there", "is not there", "a folder", "explain"],
)
def test_a_wrong_stream_or_file_is_refused(
    words: Sequence[str], says: str, on: Run, tmp_path: Path
) -> None:
    ended = on("quarantine", *(word.replace("{at}", str(tmp_path)) for word in words))
    assert ended.code == 2, ended
    a_sentence(ended.errors, says)


def test_a_stream_that_is_not_here_is_told_with_the_nearest_and_counts_are_of_the_one_asked_for(
    on: Run,
) -> None:
    ended = on("read", "scr", "--quarantine")
    assert ended.code == 2, ended
    a_sentence(ended.errors, "did you mean 'src'?")
    every = json.loads(on("read", "--quarantine", "--json").output)
    ours = json.loads(on("read", "src", "--quarantine", "--json").output)
    none = json.loads(on("read", "sums", "--quarantine", "--json").output)
    assert every["count"] >= ours["count"] == len(ours["records"]) > 0
    assert (none["count"], none["records"]) == (0, [])


@pytest.mark.long
def test_more_records_than_a_page_are_exported_and_handed_in(
    on: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, paged = tmp_path / "whole.json", tmp_path / "paged.json"
    assert on("quarantine", "export", "src", str(whole)).code == 0
    monkeypatch.setattr(repairs_export, "PAGE", 1)
    monkeypatch.setattr(repairs, "PAGE", 1)
    assert on("quarantine", "export", "src", str(paged)).code == 0
    assert paged.read_bytes() == whole.read_bytes()
    lines = whole.read_text().splitlines()
    assert len(lines) > 1
    landed, stayed = handed_in(on, paged, "--explain")
    assert len(landed) + len(stayed) == len(lines)


def test_a_disk_that_fills_up_while_records_are_exported_leaves_no_half_file(
    on: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "full"
    folder.mkdir()
    file = folder / "out.json"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        ended = on("quarantine", "export", "src", str(file))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert ended.code == 4, ended
    a_sentence(ended.errors, "cannot be written")
    assert list(folder.iterdir()) == []
    assert on("quarantine", "export", "src", str(file)).code == 0
    assert list(folder.iterdir()) == [file]


def test_records_are_shown_escaped_in_a_terminal_and_as_they_are_in_json(on: Run) -> None:
    shown = on("read", "--quarantine")
    assert "\\x1b[31mred\\u202e" in shown.output
    found = json.loads(on("read", "--quarantine", "--json").output)["records"]
    assert found[0]["reason"] == "no number: \x1b[31mred\u202e"
