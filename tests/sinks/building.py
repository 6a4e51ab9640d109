"""A home with real files and sinks, but no Spark; and what lies in the targets, as others read it.

`readings` is a source with a column of every type; `copies` is derived from it, so that its rows
may be tentative.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg2
import pyarrow as pa
import pyarrow.parquet as pq
from psycopg2.sql import SQL, Identifier
from sqlalchemy import make_url

from medusa_core.commits import Cause, Commit, Lease, LeaseKey, OutputSegment
from medusa_core.errors import MedusaError
from medusa_core.fragments import landing_fragment
from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import FIRST_EPOCH, StreamName
from medusa_core.network import Filter, Network, Output, Source
from medusa_core.revisions import RevisedSegment, RevisionRequest
from medusa_core.segments import Producer, Segment, Stability
from medusa_core.sinks import SinkRecord
from medusa_core.trims import TrimResult
from pipelines.base.settings import Settings
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import ManualClock
from pipelines.catalog.records import LineStatus
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import Home, open_home
from pipelines.language.check import check_network, fragments_for
from pipelines.sinks.delivery import DeliveryResult
from pipelines.sinks.delivery_workers import deliver_once
from pipelines.sinks.marks import MARKS
from pipelines.sinks.registration import declare
from pipelines.sinks.sink_declaration import document_of
from pipelines.spark.deployment import deployment_of, plan_of
from pipelines.storage.arrow_digests import digests_by_bucket
from pipelines.storage.arrow_schema import BUCKET, STIME, file_schema
from pipelines.storage.segment_files import keep_files, new_attempt, write_file
from pipelines.storage.segment_rows import columns_of
from tests.catalog.building import ALPHA, HOUR_MS
from tests.home_pool import home_pool

WIDTH_US = 10_000_000
READINGS, COPIES = StreamName("readings"), StreamName("copies")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
URL_VARIABLE = "MEDUSA_SINK_TARGET"
COLUMNS = {
    "at": "bigint", "id": "bigint", "name": "string", "ok": "boolean", "level": "int",
    "share": "double", "raw": "binary", "day": "date", "seen": "timestamp",
    "price": "decimal(12,3)",
}  # fmt: skip


def a_network() -> Network:
    return Network(
        name="metering",
        sources=(Source(name=READINGS, columns=COLUMNS, time="at", time_unit="us", key=("id",)),),
        boxes=(Filter(name="kept", input=READINGS, cases={"yes": "id >= 0"}),),
        outputs=(Output(name=COPIES, input="kept.yes"),),
        bucket="10s",
    )


def a_row(id_: int, bucket: int, **values: Any) -> dict[str, Any]:
    """A record in a bucket; what is not given follows from its id."""
    at_us = bucket * WIDTH_US + 1 + id_ % 1_000
    made: dict[str, Any] = {
        "at": at_us, "id": id_, "name": f"n{id_}", "ok": id_ % 2 == 0, "level": id_ % 7,
        "share": id_ / 8, "raw": bytes([id_ % 256]), "day": date(2026, 1, 1 + id_ % 28),
        "seen": EPOCH + timedelta(seconds=id_ % 10**9), "price": Decimal(id_ % 10**6) / 8,
    }  # fmt: skip
    return made | values


@dataclass
class SinkHome:
    """An open home whose streams a test writes by hand, and the sinks that it declares."""

    home: Home
    settings: Settings
    target_url: str
    written: dict[StreamName, dict[int, list[dict[str, Any]]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        network = a_network()
        checked = check_network(network)
        self.plan = plan_of(network, checked, WIDTH_US, self.home.directory)
        fragments = fragments_for(checked)
        self.home.catalog.deploy(deployment_of(self.plan, checked, fragments, Producer(ALPHA)))
        names = {READINGS: landing_fragment(READINGS), COPIES: fragments[0].id}
        self.leases: dict[StreamName, Lease] = {
            stream: self.home.catalog.acquire_lease(
                LeaseKey(fragment=name, producer=Producer(ALPHA)), FIRST_EPOCH, "test", HOUR_MS
            )
            for stream, name in names.items()
        }

    # ------------------------------------------------------------ the stream

    def line(self, stream: StreamName) -> LineStatus:
        return next(ln for ln in self.home.catalog.lines() if ln.stream.name == stream)

    def write(
        self,
        stream: StreamName,
        begin: int,
        end: int,
        rows: Sequence[Mapping[str, Any]] = (),
        *,
        stability: Stability = Stability.STABLE,
        ends: bool = False,
    ) -> None:
        """A segment over whole buckets with these rows, in the place of tentative ones."""
        segment = self._segment(stream, begin, end, rows, stability)
        self.home.catalog.commit(
            Commit(
                lease=self.leases[stream],
                plan=self.plan.id,
                cause=Cause.NORMAL,
                segments=(segment,),
                ends=ends,
            )
        )
        self._note(stream, begin, end, rows)

    def revise(
        self, stream: StreamName, begin: int, end: int, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """These rows, and no others, in the place of the final ones of whole buckets."""
        line = self.line(stream)
        segment = self._segment(stream, begin, end, rows, Stability.STABLE)
        request = RevisionRequest(
            stream=stream, producer=line.producer, generation=line.generation,
            segments=(RevisedSegment(segment=segment, plan=self.plan.id),),
            because="the price was in pounds", who="ada",
        )  # fmt: skip
        with open_home(self.settings, line.producer.participant, as_owner=True) as owned:
            owned.catalog.revise(request)
        self._note(stream, begin, end, rows)

    def _segment(
        self, stream: StreamName, begin: int, end: int, rows: Sequence[Mapping[str, Any]],
        stability: Stability,
    ) -> OutputSegment:  # fmt: skip
        columns = columns_of(self.line(stream).stream)
        stimes = [row["at"] for row in rows]
        starts = [at - at % WIDTH_US for at in stimes]
        values = {c.name: [row[c.name] for row in rows] for c in columns}
        table = pa.table({**values, STIME: stimes, BUCKET: starts}, schema=file_schema(columns))
        files = ()
        if rows:
            files = (write_file(self.home.storage, stream, new_attempt(), table),)
            keep_files(self.home.storage, files)
        return OutputSegment(
            stream=stream,
            range=Range(begin * WIDTH_US, end * WIDTH_US),
            stability=stability,
            buckets=digests_by_bucket(table, columns, table[BUCKET].to_numpy()),
            files=files,
            missing=() if stability.is_final else (READINGS,),
        )

    def _note(
        self, stream: StreamName, begin: int, end: int, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        held = self.written.setdefault(stream, {})
        for bucket in range(begin, end):
            held[bucket] = [dict(r) for r in rows if r["at"] // WIDTH_US == bucket]

    def rows(self, stream: StreamName, before: int | None = None) -> list[dict[str, Any]]:
        """All rows that were written, or those of buckets before one."""
        return [
            row
            for bucket, rows in sorted(self.written.get(stream, {}).items())
            if before is None or bucket < before
            for row in rows
        ]

    def segments(self, stream: StreamName) -> Sequence[Segment]:
        return self.home.catalog.segments(stream)

    def trim(self, stream: StreamName, before: int) -> TrimResult:
        needed = {self.leases[COPIES].key.fragment: FOREVER_US}
        producer = Producer(ALPHA)
        return self.home.catalog.trim(
            stream, producer, before * WIDTH_US, needed=needed, segments_max=1_000
        )

    # ------------------------------------------------------------ sinks

    def declare(self, stream: StreamName, name: str = "lake", **document: Any) -> None:
        if "begins" in document:
            document["from"] = document.pop("begins")
        declare(self.home.catalog, stream, name, document_of(document))

    def declare_table(self, stream: StreamName, table: str = "public.rows", **more: Any) -> None:
        self.declare(
            stream, "desk", kind="postgres", url=f"${{{URL_VARIABLE}}}", table=table, **more
        )

    def sink(self, name: str = "lake") -> SinkRecord:
        return next(sink for sink in self.home.catalog.sinks() if sink.name == name)

    def deliver(self, name: str | None = None) -> list[DeliveryResult]:
        """Deliver all there is to all sinks, or to one; raises what keeps one from it."""
        sinks = [s for s in self.home.catalog.sinks() if name in (None, s.name)]
        results: list[DeliveryResult] = []
        failed = deliver_once(
            self.home.catalog, self.home.storage, self.home.directory, tuple(sinks),
            self.environment, results.append,
        )  # fmt: skip
        if failed:
            raise failed[0][1]
        return results

    def problem(self, name: str | None = None) -> MedusaError:
        """What keeps a sink from delivering."""
        try:
            self.deliver(name)
        except MedusaError as error:
            return error
        raise AssertionError("it delivers")

    @property
    def environment(self) -> Mapping[str, str]:
        return {URL_VARIABLE: self.target_url}


@contextmanager
def a_sink_home(server: EmbeddedServer, folder: Path, target_url: str = "") -> Iterator[SinkHome]:
    with (
        home_pool(server, folder, ALPHA) as settings,
        open_home(settings, ALPHA) as home,
    ):
        yield SinkHome(home, settings, target_url)


# ------------------------------------------------------------ what others see


def parquet_rows(folder: Path) -> list[dict[str, Any]]:
    """All rows of a folder of Parquet files, by file name, without the event time."""
    rows = []
    for path in sorted(folder.glob("*.parquet")):
        for row in pq.read_table(path).to_pylist():
            stime = row.pop("stime")
            assert (stime - EPOCH) // timedelta(microseconds=1) == row["at"]
            rows.append(row)
    return rows


def csv_rows(folder: Path) -> list[dict[str, str]]:
    """All records of a folder of CSV files, as text."""
    rows: list[dict[str, str]] = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            rows += csv.DictReader(file)
    return rows


def names(folder: Path) -> list[str]:
    """What a reader of the folder sees."""
    return sorted(p.name for p in folder.iterdir() if not p.name.startswith(("_", ".")))


def record_of(folder: Path) -> dict[str, Any]:
    """The folder's record."""
    found: dict[str, Any] = json.loads((folder / "_medusa.json").read_text())
    return found


class Database:
    """A database that rows are delivered into, looked at from outside."""

    def __init__(self, url: str) -> None:
        self.url = url
        parsed = make_url(url)
        self.password = str(parsed.password)
        self._connection = psycopg2.connect(
            host=parsed.host, port=parsed.port, user=parsed.username, password=parsed.password,
            dbname=parsed.database,
        )  # fmt: skip
        self._connection.autocommit = True

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute("SET timezone = 'UTC'")
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def rows(self, table: str = "rows", schema: str = "public") -> list[dict[str, Any]]:
        """The rows of a table by event time, without event time, bucket and marks."""
        with self._connection.cursor() as cursor:
            cursor.execute("SET timezone = 'UTC'")
            cursor.execute(
                SQL("SELECT * FROM {}.{} ORDER BY stime, id").format(
                    Identifier(schema), Identifier(table)
                )
            )
            described = [column.name for column in cursor.description or ()]
            found = [dict(zip(described, row, strict=True)) for row in cursor.fetchall()]
        for row in found:
            assert (row.pop("stime") - EPOCH) // timedelta(microseconds=1) == row["at"]
            start = (row.pop("bucket") - EPOCH) // timedelta(microseconds=1)
            assert start == row["at"] - row["at"] % WIDTH_US
            row["raw"] = None if row["raw"] is None else bytes(row["raw"])
            for mark in MARKS:
                row.pop(mark.name, None)
        return found

    def marks(self, table: str = "rows") -> list[tuple[int, str, int]]:
        """Id, stability and version of each row of a table that takes tentative rows."""
        statement = SQL("SELECT id, _stability, _stream_version FROM public.{} ORDER BY stime, id")
        with self._connection.cursor() as cursor:
            cursor.execute(statement.format(Identifier(table)))
            return list(cursor.fetchall())

    def empty(self) -> None:
        """Drop all that was delivered; who still holds some of it is an error, not a wait."""
        self.run("SET lock_timeout = '60s'")
        schemas = self.run(
            "SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema)'"
        )
        for (schema,) in schemas:
            self.run(f'DROP SCHEMA "{schema}" CASCADE')
        self.run("CREATE SCHEMA public")

    def close(self) -> None:
        self._connection.close()


@contextmanager
def locked_by_another(url: str, statement: str) -> Iterator[None]:
    """Another transaction that took locks by a statement; it ends with the block, in any case."""
    other = Database(url)
    try:
        other.run("BEGIN")
        other.run(statement)
        yield
        other.run("ROLLBACK")
    finally:
        other.close()


@contextmanager
def a_memory_home(folder: Path, target_url: str = "") -> Iterator[SinkHome]:
    """The same with a catalog in memory: files and targets are real."""
    settings = replace(Settings.from_environment({}), directory=folder)
    catalog: Any = MemoryCatalog(ALPHA, ManualClock(1_000))
    home = Home(participant=ALPHA, directory=folder, storage=folder / "storage", catalog=catalog)
    yield SinkHome(home, settings, target_url)
