"""`spark.read.format("medusa")` over homes of a test's own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from medusa_core.segments import Stability
from pipelines.base.time_text import iso
from pipelines.storage.compaction import compact_run, runs_to_compact
from tests.datasource.building import Medusa, Replayed, read_by_medusa
from tests.sweeps import IS_LONG, long_but
from tests.trimming.building import SRC, SUMS, WIDTH_US, Store

pytestmark = pytest.mark.usefixtures("interpreted")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module", autouse=True)
def utc(spark: Any) -> None:
    """Times come back as they were written, whatever the zone of this machine."""
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def micros(at: datetime) -> int:
    return (at.astimezone(UTC) - EPOCH) // timedelta(microseconds=1)


def refusal(caught: pytest.ExceptionInfo[BaseException]) -> str:
    """What the user reads: one sentence, without a trace."""
    text = str(caught.value)
    assert "Traceback" not in text
    assert "/pipelines/" not in text
    return text


def test_the_rows_are_those_of_medusa_read(store: Store, medusa: Medusa) -> None:
    store.write(SRC, 0, 3)
    given = [(micros(row[0]), *row[1:]) for row in medusa.rows("src")]
    assert given
    assert sorted(given) == sorted(read_by_medusa(store.home, store.status(SRC)))


@pytest.mark.long
def test_the_rows_of_a_replay_are_those_of_medusa_read(
    replayed: Replayed, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDUSA_DIR", str(replayed.directory))
    monkeypatch.delenv("MEDUSA_CATALOG_URL", raising=False)
    with Medusa(spark).seeing({"MEDUSA_DIR": str(replayed.directory)}) as medusa:
        found = {name: medusa.read(name).collect() for name in ("connections", "busy_sources")}
        schema = medusa.read("connections").schema.simpleString()
    assert schema == "struct<stime:timestamp,ts_us:bigint,orig_h:string,resp_p:int>"
    for name, rows in found.items():
        given = [(micros(row[0]), *row[1:]) for row in rows]
        assert sorted(given) == sorted(replayed.rows[name])
        assert given


@pytest.mark.long
def test_stable_rows_stop_where_tentative_ones_begin_and_all_of_them_say_what_they_are(
    store: Store, medusa: Medusa
) -> None:
    store.write(SUMS, 0, 2)
    store.write(SUMS, 2, 3, stability=Stability.TENTATIVE)
    store.write(SUMS, 3, 5)
    assert len(medusa.rows("sums")) == 2 * 3, "not what is stable behind a tentative bucket"
    everything = medusa.read("sums", stability="all").collect()
    marks = {(micros(r.stime) // WIDTH_US, r._stability, tuple(r._missing)) for r in everything}
    assert len(everything) == 5 * 3
    assert marks == {
        (0, "stable", ()), (1, "stable", ()), (2, "tentative", ("src",)), (3, "stable", ()),
        (4, "stable", ()),
    }  # fmt: skip


@pytest.mark.sweep
def test_as_of_gives_the_stream_as_it_was(store: Store, medusa: Medusa) -> None:
    store.write(SUMS, 0, 1)
    store.write(SUMS, 1, 2, rows=2, stability=Stability.TENTATIVE)
    store.write(SUMS, 1, 2, rows=5)
    assert len(medusa.rows("sums", as_of=1)) == 3
    assert len(medusa.rows("sums", as_of=2, stability="all")) == 3 + 2
    if IS_LONG:
        assert len(medusa.rows("sums", as_of=2)) == 3
        assert medusa.rows("sums", as_of=3) == medusa.rows("sums")
        assert medusa.rows("sums", as_of=0) == []
        assert medusa.rows("sums", as_of="1971-01-01T00:00:00Z") == []
    with pytest.raises(Exception, match="newest version of sums is 3") as caught:
        medusa.rows("sums", as_of=4)
    refusal(caught)
    now = iso(1_000 * store.home.catalog.read_clock_ms())
    assert len(medusa.rows("sums", as_of=now)) == 8


def test_from_and_to_cut_event_time_anywhere(store: Store, medusa: Medusa) -> None:
    store.write(SRC, 0, 4, rows=4)  # at 1 to 4 us of each bucket of 10 s
    whole = medusa.rows("src")
    assert medusa.rows("src", **{"from": "10.000003", "to": "20.000002"}) == [
        row for row in whole if 10_000_003 <= micros(row[0]) < 20_000_002
    ]
    assert medusa.rows("src", **{"from": "1970-01-01T00:00:30Z"}) == [
        row for row in whole if micros(row[0]) >= 30_000_000
    ]
    assert medusa.rows("src", **{"from": "4e9"}) == []


@pytest.mark.long
def test_a_schema_chooses_columns_and_types_are_the_streams_own(
    store: Store, medusa: Medusa
) -> None:
    store.write(SRC, 0, 2)
    chosen = medusa.read("src", "key string, stime timestamp")
    assert chosen.columns == ["key", "stime"]
    assert {row.key for row in chosen.collect()} == {row[2] for row in medusa.rows("src")}
    with pytest.raises(Exception, match="column at of stream src is bigint, not int") as caught:
        medusa.rows("src", "at int")
    refusal(caught)
    with pytest.raises(Exception, match="no column 'kex': did you mean 'key'") as caught:
        medusa.rows("src", "kex string")
    refusal(caught)


@pytest.mark.long
def test_a_file_that_is_not_what_was_committed_gives_no_row(store: Store, medusa: Medusa) -> None:
    store.write(SRC, 0, 1)
    file = store.write(SRC, 1, 2)
    path = store.root / file.path
    good = path.read_bytes()
    path.write_bytes(good[:-9] + bytes([good[-9] ^ 1]) + good[-8:])
    with pytest.raises(Exception, match="is damaged") as caught:
        medusa.rows("src")
    refusal(caught)
    path.unlink()
    with pytest.raises(Exception, match="is gone: if its stream was trimmed") as caught:
        medusa.rows("src")
    refusal(caught)
    path.write_bytes(good)
    assert len(medusa.rows("src")) == 6


@pytest.mark.long
def test_files_that_serve_many_segments_and_what_is_trimmed(store: Store, medusa: Medusa) -> None:
    for at in range(9):
        store.write(SUMS, at, at + 1)
    whole = medusa.rows("sums")
    (run,) = runs_to_compact(store.segments(SUMS))
    compact_run(store.home.catalog, store.root, store.status(SUMS), run)
    assert len({f.path for s in store.segments(SUMS) for f in s.files}) == 1
    assert medusa.rows("sums") == whole
    store.trim(SUMS, 2)
    kept = [row for row in whole if micros(row[0]) >= 2 * WIDTH_US]
    assert medusa.rows("sums") == kept
    assert medusa.rows("sums", **{"from": "20"}) == kept
    for asked in ({"from": "0"}, {"to": "15"}):
        with pytest.raises(
            Exception, match="sums is trimmed before 1970-01-01T00:00:20Z"
        ) as caught:
            medusa.rows("sums", **asked)
        assert "Expired" in refusal(caught)


def test_a_stream_that_has_not_begun_has_columns_and_no_rows(medusa: Medusa) -> None:
    assert medusa.read("big").columns == ["stime", "window_start", "n"]
    assert medusa.rows("big") == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    long_but(
        1,
        [
            ({"stream": "sms"}, "did you mean 'sums'"),
            ({"stream": "sums'; DROP TABLE medusa.segment; --"}, "is not the name of a stream"),
            ({"stream": "sums", "url": "postgres://u:hunter22@h/d"}, "has no option 'url'"),
            ({"stream": "sums", "maxRecordsPerTrigger": "5"}, "for spark.readStream"),
            ({"stream": "sums", "participant": "beta"}, "no home of beta in .*: it has alpha"),
        ],
    ),
)
def test_a_refusal_is_one_sentence_without_the_internals(
    medusa: Medusa, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(Exception, match=sentence) as caught:
        medusa.spark.read.format("medusa").options(**options).load().collect()
    assert "hunter22" not in refusal(caught)
