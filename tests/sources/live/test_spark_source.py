"""Spark's own sources through the one adapter: landed exactly once, strictly, without secrets."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medusa_core.errors import Conflict, Refused, Unavailable
from medusa_core.network import Source
from pipelines.sources.live.live_source import LiveSource
from pipelines.sources.live.source_declaration import parse_declaration
from pipelines.sources.live.source_factory import SPARK, open_source
from tests.sources.live.building import NOW_MS, STREAM, Landing, S, poll_until_idle
from tests.sweeps import long_but
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("interpreted")

RATE: dict[str, Any] = {
    "kind": "spark",
    "format": "rate",
    "options": {"rowsPerSecond": 50, "numPartitions": 2},
    "columns": {
        "ts_us": "unix_micros(timestamp)",
        "orig_h": "concat('192.0.2.', cast(value % 250 as string))",
        "resp_p": "cast(value % 1024 as int)",
    },
    "every": "1s",
}
SCHEMA = "ts_us bigint, orig_h string, resp_p int"


def files_of(landing: Landing, **declared: Any) -> LiveSource:
    whole = {"kind": "spark", "format": "json", "schema": SCHEMA, "path": str(landing.inbox)}
    return landing.open(**{**whole, **declared})


def write_json(path: Path, *lines: object) -> Path:
    """Lines of JSON, moved to their place when they are whole."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_text("\n".join(texts) + "\n")
    return unfinished.rename(path)


def conn(second: float, **more: object) -> dict[str, object]:
    return {"ts_us": int(second * S), "orig_h": "a", "resp_p": 443, **more}


def batches(landing: Landing) -> dict[int, int]:
    return dict(landing.catalog.landed_batches(STREAM, SPARK))


def landed(landing: Landing) -> list[dict[str, Any]]:
    """All records that have landed, by event time."""
    files = sorted((landing.folder / "storage").rglob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return sorted(rows, key=lambda row: (row["_stime"], str(row)))


def begun_again(landing: Landing) -> None:
    """As if killed between landing and checkpoint: the last batch was begun, but not ended."""
    commits = landing.folder / "checkpoints" / STREAM / SPARK / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


@pytest.mark.long
def test_the_rate_source_lands_each_of_its_numbers_once_across_restarts(
    watching: Landing,
) -> None:
    declared = {**RATE, "disorder": "1s", "max_skew": "366d"}
    now_ms = NOW_MS

    def has_landed() -> bool:
        nonlocal now_ms
        now_ms += 1_000
        source = watching.open(**declared)
        source.poll(now_ms)
        source.close()
        return watching.records >= 60

    until(has_landed, "60 records of the rate source land", seconds_max=240)
    begun_again(watching)
    before = watching.records
    watching.open(**declared).poll(now_ms + 1_000)
    rows = landed(watching)
    assert watching.records >= before
    assert len(rows) == watching.records
    assert watching.catalog.quarantine_count() == 0
    hosts = [int(row["orig_h"].rpartition(".")[2]) for row in rows]
    assert hosts == [number % 250 for number in range(len(rows))]
    assert watching.status.promised_us is not None


def test_files_land_once_in_the_order_in_which_they_came(watching: Landing) -> None:
    write_json(watching.inbox / "b.json", conn(100), conn(101))
    source = files_of(watching)
    assert source.poll(NOW_MS).landed == 2
    write_json(watching.inbox / "a.json", conn(103), conn(102))
    polled = source.poll(NOW_MS + 10_000)
    assert (polled.landed, polled.late) == (1, 1)
    assert source.poll(NOW_MS + 20_000).batches == 0
    source.close()
    write_json(watching.inbox / "c.json", conn(104))
    assert files_of(watching).poll(NOW_MS + 30_000).landed == 1
    assert batches(watching) == {0: 2, 1: 1, 2: 1}
    (late,) = watching.catalog.quarantined()
    assert (late.origin, late.position, late.field) == (str(watching.inbox / "a.json"), 2, "ts_us")


def test_killed_between_landing_and_checkpoint_a_batch_lands_once(watching: Landing) -> None:
    write_json(watching.inbox / "a.json", conn(100))
    files_of(watching).poll(NOW_MS)
    begun_again(watching)
    write_json(watching.inbox / "b.json", conn(105))
    polled = files_of(watching).poll(NOW_MS)
    assert (polled.landed, polled.batches) == (1, 1)
    assert batches(watching) == {0: 1, 1: 1}


@pytest.mark.long
def test_killed_before_landing_a_batch_lands_when_the_source_is_back(watching: Landing) -> None:
    write_json(watching.inbox / "a.json", conn(100))
    source = files_of(watching)
    good, watching.lease = watching.lease, replace(watching.lease, holder="somebody else")
    with pytest.raises(Conflict):
        source.poll(NOW_MS)
    watching.lease = good
    assert source.poll(NOW_MS).landed == 1
    assert batches(watching) == {0: 1}


def test_a_lost_checkpoint_is_refused_and_so_is_another_folder(watching: Landing) -> None:
    write_json(watching.inbox / "a.json", conn(100))
    files_of(watching).poll(NOW_MS)
    (watching.folder / "other").mkdir()
    with pytest.raises(Refused, match="declare it as it was"):
        files_of(watching, path=str(watching.folder / "other")).poll(NOW_MS)
    shutil.rmtree(watching.folder / "checkpoints")
    with pytest.raises(Refused, match="nobody knows what is new"):
        files_of(watching).poll(NOW_MS)


@pytest.mark.long
def test_values_that_do_not_fit_are_quarantined_with_file_row_and_reason(watching: Landing) -> None:
    file = write_json(
        watching.inbox / "a b.json",
        conn(100),
        '{"ts_us": "soon", "orig_h": "a"}',
        "oops",
        {"orig_h": "a", "resp_p": 1},
        conn(101, resp_p=None),
        conn(102, orig_h="a\0b"),
        conn(103, resp_p=0),
    )
    source = files_of(watching, columns={"resp_p": "cast(443 / resp_p as int)"})
    polled = source.poll(NOW_MS)
    assert (polled.landed, polled.quarantined) == (2, 5)
    found = [(q.origin, q.position, q.field, q.reason) for q in watching.catalog.quarantined()]
    assert found == [
        (str(file), 2, "", "is no record of the declared schema"),
        (str(file), 3, "", "is no record of the declared schema"),
        (str(file), 4, "ts_us", "has no time"),
        (str(file), 6, "orig_h", "holds a NUL byte"),
        (str(file), 7, "resp_p", "the expression failed: division by zero"),
    ]
    assert watching.catalog.quarantined()[1].content == "oops"


def test_columns_are_filled_by_name_and_event_time_from_a_timestamp(watching: Landing) -> None:
    table = pa.table(
        {
            "ts": pa.array([100 * S + 7], pa.timestamp("us", tz="UTC")),
            "id_orig_h": ["a"],
            "resp_p": pa.array([443], pa.int16()),
        }
    )
    pq.write_table(table, watching.inbox / "a.parquet")
    schema = "ts timestamp, id_orig_h string, resp_p smallint"
    files_of(watching, format="parquet", schema=schema).poll(NOW_MS)
    assert landed(watching) == [
        {"ts_us": 100 * S + 7, "orig_h": "a", "resp_p": 443, "_stime": 100 * S + 7}
    ]


@pytest.mark.long
def test_limits_are_kept_and_the_waiting_records_are_reported(watching: Landing) -> None:
    for number in range(4):
        file = watching.inbox / f"{number}.json"
        write_json(file, conn(100 + number), conn(100 + number))
        os.utime(file, (1_700_000_000 + number,) * 2)  # Spark picks files by their times
    source = files_of(watching, files_per_poll=1, records_per_s=2, every="1ms")
    first = source.poll(NOW_MS)
    assert (first.landed, first.has_more, first.has_waiting) == (2, False, True)
    waiting = source.poll(NOW_MS + 500)
    assert (waiting.landed, waiting.because) == (0, "at most 2 records a second are landed")
    assert waiting.has_waiting
    polled = [source.poll(NOW_MS + second * 1_000) for second in range(1, 5)]
    assert [p.landed for p in polled] == [2, 2, 2, 0]
    assert not polled[-1].has_waiting


# what is refused


@pytest.mark.parametrize(
    ("more", "words"),
    long_but(
        3,
        [
            ({"format": "no.such.source"}, "cannot be opened"),
            ({"format": "kafka", "options": {"subscribe": "a"}}, "cannot be opened.*sources.md"),
            (
                {"columns": {**RATE["columns"], "colour": "'red'"}},
                "'colour', which the network does",
            ),
            ({"columns": {"ts_us": "unix_micros(timestamp)"}}, "no column 'orig_h'"),
            ({"columns": {**RATE["columns"], "ts_us": "value / 2"}}, "declared bigint: cast it"),
            ({"columns": {**RATE["columns"], "orig_h": "reflect('java.lang.Runtime')"}}, "reflect"),
            (
                {"columns": {**RATE["columns"], "orig_h": "(select 1)"}},
                "the source of connections, co",
            ),
            ({"columns": {**RATE["columns"], "resp_p": "nothing"}}, "nothing"),
            ({"order": ["rand()"]}, "order: .*rand"),
            ({"options": {"rowsPerSecond": "many"}}, "cannot be opened"),
        ],
    ),
)
def test_what_spark_or_the_network_does_not_know_is_refused(
    watching: Landing, more: dict[str, Any], words: str
) -> None:
    with pytest.raises(Refused, match=words) as refused:
        watching.open(**{**RATE, **more}).poll(NOW_MS)
    assert "\n" not in str(refused.value)


def test_a_folder_that_is_not_there_or_is_medusas_own_is_refused(watching: Landing) -> None:
    with pytest.raises(Refused, match="cannot be opened"):
        files_of(watching, path=str(watching.folder / "gone")).poll(NOW_MS)
    with pytest.raises(Refused, match="watch another folder"):
        files_of(watching, path=str(watching.folder))


def test_a_time_of_an_unknown_unit_is_refused(watching: Landing) -> None:
    source = Source(name=STREAM, columns={"at": "bigint", "orig_h": "string"}, time="at")
    feed = parse_declaration(
        STREAM, {**RATE, "columns": {"at": "value", "orig_h": "'a'"}}
    )  # fmt: skip
    opened = open_source(
        feed,
        source=source,
        width_us=10 * S,
        catalog=watching.catalog,
        root=watching.folder / "storage",
        lease=lambda: watching.lease,
        checkpoints=watching.folder / "checkpoints",
        session=watching.session,
    )
    with pytest.raises(Refused, match="declare time_unit"):
        opened.poll(NOW_MS)


# secrets


def test_variables_are_put_in_at_run_time_and_shown_nowhere(
    watching: Landing, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = "sEcReT-4711"
    declared = {**RATE, "options": {"rowsPerSecond": 50, "api.key": "${MEDUSA_SOURCE_KEY}"}}
    with pytest.raises(Refused, match=r"reads \$\{MEDUSA_SOURCE_KEY\}, which is not set"):
        watching.open(**declared)
    monkeypatch.setenv("MEDUSA_SOURCE_KEY", secret)
    monkeypatch.setenv("MEDUSA_SOURCE_ROWS", secret)
    source = watching.open(**declared)
    source.poll(NOW_MS)
    with pytest.raises((Refused, Unavailable)) as refused:
        watching.open(**{**declared, "options": {"rowsPerSecond": "${MEDUSA_SOURCE_ROWS}"}}).poll(
            NOW_MS
        )
    assert secret not in str(refused.value)
    written = [p for p in watching.folder.rglob("*") if p.is_file()]
    assert written
    assert not [p for p in written if secret.encode() in p.read_bytes()]
    assert secret not in "".join(capfd.readouterr())


@pytest.mark.long
def test_the_source_is_not_polled_more_often_than_declared(watching: Landing) -> None:
    write_json(watching.inbox / "a.json", conn(100))
    source = files_of(watching, every="10s")
    source.poll(NOW_MS)
    write_json(watching.inbox / "b.json", conn(101))
    assert source.poll(NOW_MS + 9_000).landed == 0
    assert poll_until_idle(source, NOW_MS + 10_000).boundary_us == 100 * S
    assert watching.records == 2


def test_a_spark_column_without_a_zone_is_refused_until_one_is_declared(watching: Landing) -> None:
    write_json(watching.inbox / "a.json", {"at": "2026-02-01T10:00:00"})
    source = Source(name=STREAM, columns={"at": "timestamp"}, time="at")
    declared = {
        "kind": "spark", "format": "json", "path": str(watching.inbox),
        "schema": "at timestamp_ntz", "disorder": "0s",
    }  # fmt: skip

    def opened(source: Source) -> LiveSource:
        return open_source(
            parse_declaration(STREAM, declared),
            source=source,
            width_us=10 * S,
            catalog=watching.catalog,
            root=watching.folder / "storage",
            lease=lambda: watching.lease,
            checkpoints=watching.folder / "checkpoints",
            session=watching.session,
        )

    with pytest.raises(Refused, match="'at' as timestamp_ntz, which has no time zone: declare"):
        opened(source).poll(NOW_MS)
    polled = opened(replace(source, time_zone="Europe/Berlin")).poll(NOW_MS)
    assert (polled.landed, polled.boundary_us) == (1, 1_769_936_400 * S)
