"""Importing: each file is looked at once, and what is wrong with one line holds up no other."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medusa_core.commits import LeaseKey
from medusa_core.errors import Conflict
from medusa_core.exchange import READER_LIMIT_MS, LineNews, import_fragment
from medusa_core.names import Participant, StreamName
from medusa_core.segments import Producer, SegmentFile
from pipelines.exchange import importer, news_files
from pipelines.exchange.acknowledgements import ANSWERS_S
from pipelines.exchange.importer import SEGMENTS_MIN
from pipelines.homes.lease_renewer import LeaseRenewer
from tests.exchange.building import (
    ALPHA,
    BETA,
    DELTA,
    EPOCH,
    HOUR_MS,
    ONE,
    THREE,
    TWO,
    WIDTH_US,
    Reader,
    Told,
    Writer,
    a_home,
)
from tests.sweeps import long_but
from tests.waiting import until


@pytest.fixture
def alpha(tmp_path: Path) -> Writer:
    return Writer(ALPHA, tmp_path / "alpha")


@pytest.fixture
def beta(tmp_path: Path) -> Writer:
    return Writer(BETA, tmp_path / "beta")


@pytest.fixture
def exchange(alpha: Writer, beta: Writer) -> Told:
    return Told((alpha, beta))


@pytest.fixture
def reader(tmp_path: Path, exchange: Told) -> Reader:
    return Reader(tmp_path / "delta", exchange)


def test_a_file_that_a_thousand_segments_name_is_read_once(
    alpha: Writer, exchange: Told, reader: Reader
) -> None:
    file = alpha.file("one/all.parquet", b"rows")
    alpha.commit(ONE, [file] * 1_000)
    (told,) = reader.poll()
    assert (told.segments, told.problem) == (1_000, None)
    assert exchange.fetched == ["one/all.parquet"]
    assert reader.copies.looks == 1
    assert len(set(reader.files(ONE))) == 1

    alpha.commit(ONE, [file] * 10)
    reader.poll()
    assert exchange.fetched == ["one/all.parquet"]
    assert reader.copies.looks == 2


def test_an_own_lease_that_has_run_out_is_not_taken_for_a_partners_problem(
    alpha: Writer, exchange: Told, reader: Reader
) -> None:
    alpha.commit(ONE, [alpha.file("one/a.parquet", b"first")])
    reader.clock.advance(2 * HOUR_MS)
    with pytest.raises(Conflict, match="lease"):
        reader.poll()
    reader.take_leases()
    assert [told.problem for told in reader.poll()] == [None]


def test_imported_files_are_acknowledged_and_complete(
    alpha: Writer, exchange: Told, reader: Reader
) -> None:
    alpha.commit(ONE, [alpha.file("one/a.parquet", b"first"), alpha.file("one/b.parquet", b"next")])
    reader.poll()
    contents = [(reader.root / file.path).read_bytes() for file in reader.files(ONE)]
    assert contents == [b"first", b"next"]
    assert exchange.acknowledged == {ONE: 2 * WIDTH_US}


def test_the_own_home_is_read_once_a_second_while_partners_say_that_nothing_happens(
    alpha: Writer, beta: Writer, exchange: Told, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    real = reader.catalog.imports
    monkeypatch.setattr(reader.catalog, "imports", lambda: reads.append(reader.now_s) or real())
    reader.marks = {(stream, 0): "0" for stream in (ONE, TWO, THREE)}
    for _ in range(3):
        reader.poll()
    before = len(reads)
    for reader.now_s in (0.3, 0.6, 0.9):
        reader.poll()
    assert len(reads) == before
    reader.now_s = 1.0
    reader.poll()
    assert len(reads) == before + 1

    alpha.commit(ONE, [alpha.file("one/a.parquet", b"a")])
    reader.marks = {**reader.marks, (ONE, 0): "1"}
    assert [one.stream for one in reader.poll()] == [ONE]
    assert len(reads) == before + 1, "news is requested at once"
    assert ONE not in exchange.acknowledged
    reader.poll()
    assert len(reads) == before + 2
    assert exchange.acknowledged[ONE] == WIDTH_US


def test_news_that_continues_a_line_costs_no_look_at_the_own_home(
    alpha: Writer, exchange: Told, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    alpha.commit(ONE, [alpha.file("one/1.parquet", b"first")])
    reader.marks = {(ONE, 0): "1", (TWO, 0): "0", (THREE, 0): "0"}
    while reader.poll():
        pass
    reads = []
    real = reader.catalog.imports
    monkeypatch.setattr(reader.catalog, "imports", lambda: reads.append(reader.now_s) or real())
    for number, reader.now_s in ((2, 0.3), (3, 0.6)):
        alpha.commit(ONE, [alpha.file(f"one/{number}.parquet", b"next")])
        reader.marks = {**reader.marks, (ONE, 0): str(number)}
        assert [(one.stream, one.segments) for one in reader.poll()] == [(ONE, 1)]
        assert not reader.poll()
    assert reads == []
    assert exchange.acknowledged[ONE] == WIDTH_US
    reader.now_s = 1.0
    assert not reader.poll()
    assert reads == [1.0]
    assert exchange.acknowledged[ONE] == 3 * WIDTH_US

    for number, reader.now_s in ((4, 2.9), (5, 3.0)):
        alpha.commit(ONE, [alpha.file(f"one/{number}.parquet", b"next")])
        reader.marks = {**reader.marks, (ONE, 0): str(number)}
        assert [(one.stream, one.segments) for one in reader.poll()] == [(ONE, 1)]
    assert reads == [1.0, 3.0], "not even news delays it for long"
    assert exchange.acknowledged[ONE] == 4 * WIDTH_US


def test_news_goes_before_acknowledgements_of_which_each_poll_sends_one(
    alpha: Writer, exchange: Told, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stream in (ONE, TWO):
        alpha.commit(stream, [alpha.file(f"{stream}/1.parquet", b"first")])
    marks = {(ONE, 0): "1", (TWO, 0): "1", (THREE, 0): "0"}
    reader.marks = marks
    reader.poll()
    real = exchange.acknowledge

    def acknowledge(*args: Any, **line: Any) -> None:
        real(*args, **line)
        reader.marks = dict(reader.marks or {})  # the partner says that something has happened

    monkeypatch.setattr(exchange, "acknowledge", acknowledge)
    reader.poll()
    assert len(exchange.acknowledged) == 1
    reader.poll()
    assert exchange.acknowledged == {ONE: WIDTH_US, TWO: WIDTH_US}


def test_only_lines_whose_marks_have_changed_are_requested(
    alpha: Writer, exchange: Told, reader: Reader
) -> None:
    reader.marks = {(stream, 0): "0" for stream in (ONE, TWO, THREE)}
    reader.poll()
    exchange.asked.clear()
    reader.poll()
    assert exchange.asked == []
    alpha.commit(ONE, [alpha.file("one/a.parquet", b"first")])
    reader.poll()
    assert exchange.asked == [], "its partner has not said so yet"
    reader.marks = {**reader.marks, (ONE, 0): "1"}
    assert [(imported.stream, imported.segments) for imported in reader.poll()] == [(ONE, 1)]
    assert exchange.asked == [ONE]
    reader.poll()
    assert exchange.asked == [ONE]
    reader.marks = None
    reader.poll()
    assert sorted(exchange.asked[1:]) == [ONE, THREE, TWO]


def test_a_slow_partner_with_many_lines_holds_up_nobody_and_its_lines_take_turns(
    exchange: Told, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, "REQUESTS_AT_ONCE", 1)
    real = exchange.line_news

    def line_news(stream: StreamName, producer: Producer, *args: Any, **limit: Any) -> LineNews:
        if producer.participant == ALPHA:
            reader.now_s += ANSWERS_S
        return real(stream, producer, *args, **limit)

    monkeypatch.setattr(exchange, "line_news", line_news)
    for first in (ONE, TWO, ONE):
        exchange.asked.clear()
        reader.poll()
        assert exchange.asked == [first, THREE], "one line of alpha in a poll, each in its turn"


def test_what_failed_is_requested_again_though_its_mark_is_the_same(
    alpha: Writer, exchange: Told, reader: Reader
) -> None:
    reader.marks = {(stream, 0): "0" for stream in (ONE, TWO, THREE)}
    reader.poll()
    file = alpha.file("one/a.parquet", b"first")
    alpha.commit(ONE, [file])
    (alpha.storage / file.path).write_bytes(b"torn!")
    reader.marks = {**reader.marks, (ONE, 0): "1"}
    assert reader.poll()[0].problem is not None
    (alpha.storage / file.path).write_bytes(b"first")
    exchange.asked.clear()
    assert [imported.problem for imported in reader.poll()] == [None]
    assert exchange.asked == [ONE]


def test_a_page_that_is_full_is_followed_by_the_next_one(
    alpha: Writer, exchange: Told, reader: Reader
) -> None:
    reader.marks = {(stream, 0): "0" for stream in (ONE, TWO, THREE)}
    for number in range(40):
        alpha.commit(ONE, [alpha.file(f"one/{number}.parquet", b"%d" % number)])
    reader.importer.set_headroom(0)
    while reader.poll():
        pass
    assert len(reader.files(ONE)) == 40


def test_files_that_arrive_slowly_are_imported_in_several_polls(
    alpha: Writer, exchange: Told, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch = exchange.fetch

    def slow(partner: Participant, file: SegmentFile, target: Path) -> None:
        reader.now_s += 0.7
        fetch(partner, file, target)

    monkeypatch.setattr(exchange, "fetch", slow)
    monkeypatch.setattr(news_files, "FILES_AT_ONCE", 1)
    alpha.commit(ONE, [alpha.file(f"one/{n}.parquet", b"rows %d" % n) for n in range(5)])
    fetched = []
    while not (told := reader.poll()):
        fetched.append(len(exchange.fetched))
    assert fetched == [2, 4]
    assert [one.problem for one in told] == [None]
    assert len(reader.files(ONE)) == 5


def test_a_reader_of_an_idle_stream_says_again_in_time_that_it_is_there(
    alpha: Writer, exchange: Told, reader: Reader
) -> None:
    alpha.commit(ONE, [alpha.file("one/a.parquet", b"first")])
    reader.poll()
    exchange.acknowledged.clear()
    reader.now_s = READER_LIMIT_MS / 10_000
    reader.poll()
    assert exchange.acknowledged == {}
    reader.now_s = READER_LIMIT_MS / 2_000
    reader.poll()
    assert exchange.acknowledged == {ONE: WIDTH_US}


def test_a_copy_that_was_damaged_is_fetched_again_when_news_names_it(
    alpha: Writer, reader: Reader
) -> None:
    file = alpha.file("one/a.parquet", b"rows")
    alpha.commit(ONE, [file])
    reader.poll()
    (copy,) = reader.files(ONE)
    (reader.root / copy.path).write_bytes(b"torn")
    alpha.commit(ONE, [file])
    reader.poll()
    assert (reader.root / copy.path).read_bytes() == b"rows"


@pytest.mark.long(quick=True)
def test_news_of_a_long_absence_comes_in_pieces_that_leave_room_for_answers(
    alpha: Writer, reader: Reader
) -> None:
    for number in range(100):
        alpha.commit(ONE, [alpha.file(f"one/{number}.parquet", b"rows")])
    reader.importer.set_headroom(400)
    (first,) = reader.poll()
    assert first.segments == 40, "half of the room, at five milliseconds each"
    reader.now_s += 1.0
    (late,) = reader.poll()
    assert late.segments == SEGMENTS_MIN, "no room is left, and it catches up all the same"
    reader.importer.set_headroom(None)
    (rest,) = reader.poll()
    assert rest.segments == 60 - SEGMENTS_MIN


Spoil = Callable[[Writer, SegmentFile], SegmentFile]


def gone(alpha: Writer, file: SegmentFile) -> SegmentFile:
    (alpha.storage / file.path).unlink()
    return file


def longer(alpha: Writer, file: SegmentFile) -> SegmentFile:
    (alpha.storage / file.path).write_bytes(b"rows and more")
    return file


def flipped(alpha: Writer, file: SegmentFile) -> SegmentFile:
    (alpha.storage / file.path).write_bytes(b"rowS")
    return file


def a_folder(alpha: Writer, file: SegmentFile) -> SegmentFile:
    (alpha.storage / file.path).unlink()
    (alpha.storage / file.path).mkdir()
    return file


def a_fifo(alpha: Writer, file: SegmentFile) -> SegmentFile:
    (alpha.storage / file.path).unlink()
    os.mkfifo(alpha.storage / file.path)
    return file


def named(path: str) -> Spoil:
    return lambda alpha, file: replace(file, path=path)


SPOILT: dict[str, Spoil] = {
    "a file that is gone": gone,
    "a file of another size": longer,
    "a file with another hash": flipped,
    "a folder": a_folder,
    "a FIFO": a_fifo,
    "a negative size": lambda alpha, file: replace(file, size_bytes=-1),
    "a name that leads out": named("../../etc/passwd.parquet"),
    "an absolute name": named("/etc/passwd.parquet"),
    "a name of another kind": named("one/rows.exe"),
    "a name without end": named(f"one/{'x' * 5_000}.parquet"),
    "a name with a control character": named("one/a\n.parquet"),
    "a name that no disk can hold": named("one/\udc80.parquet"),
    "a hash that is none": lambda alpha, file: replace(file, sha256="../../a"),
}


@pytest.mark.parametrize("spoil", long_but(6, SPOILT.values(), quick=True), ids=SPOILT)
def test_what_is_wrong_with_a_file_is_told_once_and_other_lines_go_on(
    alpha: Writer, beta: Writer, reader: Reader, spoil: Spoil
) -> None:
    alpha.commit(ONE, [spoil(alpha, alpha.file("one/a.parquet", b"rows"))])
    alpha.commit(TWO, [alpha.file("two/a.parquet", b"rows")])
    beta.commit(THREE, [beta.file("three/a.parquet", b"rows")])
    told = {imported.stream: imported.problem for imported in reader.poll()}
    assert set(told) == {ONE, TWO, THREE}
    assert told[TWO] is told[THREE] is None
    problem = told[ONE]
    assert problem is not None
    assert len(problem) < 500
    assert problem.isprintable()
    assert reader.files(ONE) == []
    copies = [p for p in (reader.root / "imported" / ALPHA).rglob("*") if p.is_file()]
    assert [p.parent.name for p in copies] == ["two"]


def test_an_unavailable_partner_is_called_once_in_a_poll_and_the_others_continue(
    alpha: Writer, beta: Writer, exchange: Told, reader: Reader
) -> None:
    alpha.commit(ONE, [alpha.file("one/a.parquet", b"rows")])
    beta.commit(THREE, [beta.file("three/a.parquet", b"rows")])
    exchange.away.add(ALPHA)
    told = {imported.stream: imported.problem for imported in reader.poll()}
    assert exchange.asked == [ONE, THREE]
    assert told == {ONE: "alpha does not answer", THREE: None}
    exchange.away.clear()
    assert [imported.stream for imported in reader.poll()] == [ONE]


def test_an_answer_about_another_line_is_reported_and_imports_nothing(
    alpha: Writer, exchange: Told, reader: Reader
) -> None:
    alpha.commit(ONE, [alpha.file("one/a.parquet", b"rows")])
    alpha.commit(TWO, [alpha.file("two/a.parquet", b"rows")])
    exchange.confused[ONE] = TWO
    told = {imported.stream: imported.problem for imported in reader.poll()}
    assert told[ONE] is not None
    assert "received a request for one and sent news of 'two'" in told[ONE]
    assert told[TWO] is None
    assert (len(reader.files(ONE)), len(reader.files(TWO))) == (0, 1)


def test_other_content_under_a_known_name_leaves_the_copy_that_is_read_alone(
    alpha: Writer, reader: Reader
) -> None:
    alpha.commit(ONE, [alpha.file("one/a.parquet", b"rows")])
    reader.poll()
    (copy,) = reader.files(ONE)
    other = alpha.file("one/a.parquet", b"other rows")
    # A home refuses it to its own drivers; this partner's catalog lies.
    told = replace(other, path="one/./a.parquet")
    alpha.commit(ONE, [told])
    reader.poll()
    assert (reader.root / copy.path).read_bytes() == b"rows"


def test_a_home_that_cannot_write_says_so_and_has_nothing_half_written(
    alpha: Writer, reader: Reader
) -> None:
    reader.root.mkdir()
    (reader.root / "imported").write_bytes(b"a file where a folder should be")
    alpha.commit(ONE, [alpha.file("one/a.parquet", b"rows")])
    (told,) = reader.poll()
    assert told.problem is not None
    assert "could not be written" in told.problem
    assert os.listdir(reader.root) == ["imported"]
    (reader.root / "imported").unlink()
    assert [imported.problem for imported in reader.poll()] == [None]


@pytest.mark.long(quick=True)
def test_a_large_file_is_copied_and_looked_at_in_little_memory(
    alpha: Writer, reader: Reader
) -> None:
    alpha.commit(ONE, [alpha.file("one/large.parquet", bytes(64 << 20))])
    tracemalloc.start()
    try:
        reader.poll()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(reader.files(ONE)) == 1
    assert peak < 8 << 20


@pytest.mark.long(quick=True)
def test_a_partner_that_names_thousands_of_files_costs_a_value_for_each(
    alpha: Writer, reader: Reader
) -> None:
    real = alpha.file("one/a.parquet", b"rows")
    files = tuple(replace(real, path=f"one/{at}.parquet") for at in range(5_000))
    alpha.commit_buckets(ONE, [files])
    alpha.commit(TWO, [alpha.file("two/a.parquet", b"rows")])
    tracemalloc.start()
    try:
        told = {imported.stream: imported.problem for imported in reader.poll()}
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert told[ONE] is not None
    assert told[TWO] is None
    assert peak < 32 << 20


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_renews_no_more_ends_the_driver(tmp_path: Path) -> None:
    catalog = a_home(DELTA)

    def breaks(leases: object, ttl_ms: int) -> tuple[object, ...]:
        raise RuntimeError("a bug")

    catalog.renew_leases = breaks  # type: ignore[method-assign, assignment]
    with LeaseRenewer(catalog, "reader", lease_ms=30) as leases:
        leases.take([(LeaseKey(fragment=import_fragment(ONE), producer=Producer(DELTA)), EPOCH)])
        until(lambda: not leases.is_renewing, "the thread has ended")
        with pytest.raises(AssertionError, match="thread that renews the leases has ended"):
            leases.check()
