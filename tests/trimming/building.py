"""A home with a real catalog and real files, but no Spark: src -> sums (windows of 20 s) -> big."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medusa_core.commits import Cause, Commit, Lease, LeaseKey, OutputSegment
from medusa_core.fragments import landing_fragment
from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import FIRST_EPOCH, StreamName
from medusa_core.segments import Producer, Segment, SegmentFile, Stability
from medusa_core.trims import TrimResult
from pipelines.base.settings import Settings
from pipelines.catalog.records import StreamStatus
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.cli.main import main
from pipelines.homes.home import Home, make_home, open_home
from pipelines.language.check import check_network, fragments_for
from pipelines.sources.landing import landed_batch
from pipelines.spark.deployment import deployment_of, plan_of
from pipelines.storage.arrow_digests import digests_by_bucket
from pipelines.storage.arrow_schema import BUCKET, STIME, file_schema, record_schema
from pipelines.storage.segment_files import keep_files, new_attempt, write_file
from pipelines.storage.segment_rows import columns_of, read_segments
from tests.catalog import building as a
from tests.home_pool import home_pool

SRC, SUMS, BIG = a.SRC, a.SUMS, a.BIG
WIDTH_US = a.WIDTH_US
WRITES = {SRC: landing_fragment(SRC), SUMS: a.MAIN, BIG: a.TAIL}


@dataclass
class Store:
    """An open home whose streams a test writes by hand."""

    home: Home
    settings: Settings

    def __post_init__(self) -> None:
        network = a.a_network()
        checked = check_network(network)
        self.plan = plan_of(network, checked, WIDTH_US, self.home.directory)
        self.home.catalog.deploy(
            deployment_of(self.plan, checked, fragments_for(checked), Producer(a.ALPHA))
        )
        self.leases: dict[StreamName, Lease] = {
            stream: self.home.catalog.acquire_lease(
                LeaseKey(fragment=fragment, producer=Producer(a.ALPHA)),
                FIRST_EPOCH,
                "test",
                a.HOUR_MS,
            )
            for stream, fragment in WRITES.items()
        }

    @property
    def root(self) -> Path:
        return self.home.storage

    def status(self, stream: StreamName) -> StreamStatus:
        return next(s for s in self.home.catalog.streams() if s.stream.name == stream)

    def write(
        self,
        stream: StreamName,
        begin: int,
        end: int,
        *,
        rows: int = 3,
        stability: Stability = Stability.STABLE,
        ends: bool = False,
    ) -> SegmentFile:
        """A segment over whole buckets with so many rows in each, in a file of its own."""
        columns = columns_of(self.status(stream).stream)
        starts = [at * WIDTH_US for at in range(begin, end) for _ in range(rows)]
        stimes = [at + 1 + i % rows for i, at in enumerate(starts)]
        values = {c.name: _values(c.type, stimes) for c in columns}
        table = pa.table({**values, STIME: stimes, BUCKET: starts}, schema=file_schema(columns))
        file = write_file(self.root, stream, new_attempt(), table)
        keep_files(self.root, (file,))
        segment = OutputSegment(
            stream=stream,
            range=Range(begin * WIDTH_US, end * WIDTH_US),
            stability=stability,
            buckets=digests_by_bucket(table, columns, table[BUCKET].to_numpy()),
            files=(file,),
            missing=() if stability.is_final else (SRC,),
        )
        self.home.catalog.commit(
            Commit(
                lease=self.leases[stream],
                plan=self.plan.id,
                cause=Cause.NORMAL,
                segments=(segment,),
                ends=ends,
            )
        )
        return file

    def land(self, begin: int, end: int, batch_id: int) -> SegmentFile:
        """A landed batch of `src` with a record in each bucket; nothing is promised of it."""
        columns = columns_of(self.status(SRC).stream)
        stimes = [at * WIDTH_US + 5 for at in range(begin, end)]
        values = {c.name: _values(c.type, stimes) for c in columns}
        table = pa.table({**values, STIME: stimes}, schema=record_schema(columns))
        batch = landed_batch(self.root, SRC, "live", batch_id, table, columns, WIDTH_US)
        self.home.catalog.land(self.leases[SRC], batch)
        assert batch.file is not None
        return batch.file

    def promise(self, before: int) -> None:
        self.home.catalog.promise(
            self.leases[SRC], SRC, origin_us=0, boundary_us=before * WIDTH_US, end_us=None
        )

    def segments(self, stream: StreamName) -> Sequence[Segment]:
        return self.home.catalog.segments(stream)

    def rows(self, stream: StreamName) -> list[Mapping[str, Any]]:
        """All rows of the live segments, read from their files."""
        columns = columns_of(self.status(stream).stream)
        tables = read_segments(self.root, self.segments(stream), columns)
        return [row for table in tables for row in table.to_pylist()]

    def paths(self) -> set[str]:
        """All files under the root."""
        return {p.relative_to(self.root).as_posix() for p in self.root.rglob("*") if p.is_file()}

    def trim(self, stream: StreamName, before: int) -> TrimResult:
        """A trim that no fragment of this home holds back, without the files."""
        needed = dict.fromkeys((a.MAIN, a.TAIL), FOREVER_US)
        return self.home.catalog.trim(
            stream, a.ME, before * WIDTH_US, needed=needed, segments_max=1_000
        )

    def command(self, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
        """Run `medusa` in this process against this home."""
        monkeypatch.setenv("MEDUSA_DIR", str(self.settings.directory))
        monkeypatch.setenv("MEDUSA_CATALOG_URL", str(self.settings.catalog_url))
        return main(arguments)

    def document(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
    ) -> dict[str, Any]:
        """What a command prints with --json."""
        capsys.readouterr()
        assert self.command(monkeypatch, *words, "--json") == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found


def _values(type_: str, stimes: Sequence[int]) -> list[Any]:
    return [str(at) for at in stimes] if type_ == "string" else list(stimes)


def rows_in(root: Path, file: SegmentFile) -> int:
    """How many rows a file has."""
    return int(pq.read_metadata(root / file.path).num_rows)


@contextmanager
def a_store(server: EmbeddedServer, folder: Path) -> Iterator[Store]:
    """A home of alpha in the suite's server."""
    with (
        home_pool(server, folder, a.ALPHA) as settings,
        open_home(settings, a.ALPHA) as home,
    ):
        yield Store(home, settings)


@contextmanager
def a_store_of_its_own(server: EmbeddedServer, folder: Path) -> Iterator[Store]:
    """The same in a database of its own, which a test may make anew; it is dropped at the end."""
    settings = replace(
        Settings.from_environment({}), catalog_url=server.superuser_url(), directory=folder
    )
    with make_home(settings, a.ALPHA, keep=False) as home:
        yield Store(home, settings)
