"""A home in memory with one source of connections, and live sources opened on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from medusa_core.commits import Lease, LeaseKey
from medusa_core.names import Epoch, NetworkName, Participant, PlanId, StreamName
from medusa_core.network import Source
from medusa_core.segments import Producer
from pipelines.catalog.interface import Catalog
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import ManualClock
from pipelines.catalog.records import Assignment, Deployment, StreamRecord, StreamStatus
from pipelines.sources.live.live_source import LiveSource, Polled
from pipelines.sources.live.source_declaration import parse_declaration
from pipelines.sources.live.source_factory import open_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

S = 1_000_000
WIDTH_US = 10 * S
NOW_MS = 1_800_000_000_000
STREAM = StreamName("connections")
FRAGMENT = "landing/connections"
SOLO = Participant("solo")
SOURCE = Source(
    name=STREAM,
    columns={"ts_us": "bigint", "orig_h": "string", "resp_p": "int"},
    time="ts_us",
)


def deploy_source(catalog: Catalog) -> Lease:
    """Deploy the source alone and take its lease for ever."""
    producer, plan = Producer(catalog.participant), PlanId("plan")
    record = StreamRecord(name=STREAM, kind="source", width_us=WIDTH_US, columns=SOURCE.columns)
    catalog.deploy(
        Deployment(
            network=NetworkName("netmon"),
            document="{}",
            plan=plan,
            plan_document="{}",
            streams=(record,),
            fragments={FRAGMENT: ((), (STREAM,))},
            assignments=(
                Assignment(fragment=FRAGMENT, producer=producer, epoch=Epoch(1), plan=plan),
            ),
        )
    )
    key = LeaseKey(fragment=FRAGMENT, producer=producer)
    return catalog.acquire_lease(key, Epoch(1), "test", 10**9)


def no_session() -> SparkSession:
    raise AssertionError("this source needs no Spark")


@dataclass
class Landing:
    """A home with the source, its folders, and how to open live sources there."""

    folder: Path
    catalog: Catalog = field(default_factory=lambda: MemoryCatalog(SOLO, ManualClock(1_000)))
    session: Callable[[], SparkSession] = no_session

    def __post_init__(self) -> None:
        self.lease = deploy_source(self.catalog)
        self.inbox = self.folder / "inbox"
        self.inbox.mkdir(parents=True)

    def open(self, **declared: Any) -> LiveSource:
        return open_source(
            parse_declaration(STREAM, declared),
            source=SOURCE,
            width_us=WIDTH_US,
            catalog=self.catalog,
            root=self.folder / "storage",
            lease=lambda: self.lease,
            checkpoints=self.folder / "checkpoints",
            session=self.session,
        )

    def watch(self, **declared: Any) -> LiveSource:
        return self.open(kind="directory", path=str(self.inbox), **declared)

    @property
    def status(self) -> StreamStatus:
        (status,) = self.catalog.streams()
        return status

    @property
    def records(self) -> int:
        """How many records have landed."""
        return sum(
            sum(self.catalog.landed_batches(STREAM, query).values())
            for query in self.catalog.landed_queries(STREAM)
        )

    def reasons(self) -> Mapping[str, int]:
        """How many records are in quarantine for which reason."""
        found: dict[str, int] = {}
        for record in self.catalog.quarantined():
            found[record.reason] = found.get(record.reason, 0) + 1
        return found


def write_csv(path: Path, times: Iterable[object]) -> Path:
    """Connections with these times, moved to their place when they are whole."""
    rows = [f"{time},192.0.2.{number % 250},443" for number, time in enumerate(times)]
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_text("\n".join(["ts_us,orig_h,resp_p", *rows]) + "\n")
    return unfinished.rename(path)


def write_parquet(path: Path, times: Iterable[int]) -> Path:
    listed = list(times)
    table = pa.table(
        {
            "ts_us": pa.array(listed, pa.int64()),
            "orig_h": ["192.0.2.1"] * len(listed),
            "resp_p": pa.array([443] * len(listed), pa.int32()),
        }
    )
    pq.write_table(table, path)
    return path


def poll_until_idle(source: LiveSource, now_ms: int = NOW_MS) -> Polled:
    """Poll as long as there is more at this very time; the last answer."""
    polled = source.poll(now_ms)
    while polled.has_more:
        polled = source.poll(now_ms)
    return polled
