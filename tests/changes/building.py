"""A home with a real catalog and real files whose streams a test writes by hand.

`sums` declares a key (`name`), `big` declares none; a bucket is a list of rows (name, n).
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from medusa_core.changes import ChangeType
from medusa_core.commits import Lease, OutputSegment
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.names import StreamName, Version
from medusa_core.segments import Segment, Stability
from medusa_core.trims import TrimResult
from pipelines.base.settings import Settings
from pipelines.catalog.interface import Catalog
from pipelines.catalog.records import StreamRecord
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.changes.change_answers import Answer, changes_of
from pipelines.changes.changed_rows import RowChange
from pipelines.changes.line_versions import Position, line_of
from pipelines.cli.main import main
from pipelines.homes.home import Home, open_home
from pipelines.storage.arrow_digests import digests_by_bucket
from pipelines.storage.arrow_schema import BUCKET, STIME, file_schema
from pipelines.storage.segment_files import keep_files, new_attempt, write_file
from pipelines.storage.segment_rows import columns_of, read_segments
from tests.catalog import building as a
from tests.home_pool import home_pool

SUMS, BIG, WIDTH_US = a.SUMS, a.BIG, a.WIDTH_US
STABLE, TENTATIVE, GAP = Stability.STABLE, Stability.TENTATIVE, Stability.GAP
EVERYTHING = Range(BEGINNING_US, FOREVER_US)
WRITERS = {SUMS: a.MAIN, BIG: a.TAIL}
RowValues = tuple[str, int]
Contents = Mapping[int, Sequence[RowValues]]
Held = Counter[tuple[int, int, RowValues]]


@dataclass
class Lines:
    """An open home whose streams a test writes by hand."""

    home: Home
    settings: Settings

    def __post_init__(self) -> None:
        columns = {"name": "string", "n": "bigint"}
        streams = (
            a.a_stream(a.SRC, "source"),
            StreamRecord(
                name=SUMS, kind="derived", width_us=WIDTH_US, columns=columns, key=("name",)
            ),
            StreamRecord(name=BIG, kind="derived", width_us=WIDTH_US, columns=columns),
        )
        self.catalog.deploy(a.replace_streams(a.a_deployment(), streams))
        self.leases: dict[StreamName, Lease] = {
            stream: self.catalog.acquire_lease(a.a_key(fragment), a.FIRST, "me", a.HOUR_MS)
            for stream, fragment in WRITERS.items()
        }

    @property
    def catalog(self) -> Catalog:
        return self.home.catalog

    def write(
        self,
        stream: StreamName,
        begin: int,
        end: int,
        contents: Contents | None = None,
        stability: Stability = STABLE,
    ) -> Version:
        """A segment over whole buckets, in a file of its own; `contents` by a bucket's number."""
        segment = self.segment(stream, begin, end, contents or {}, stability)
        return self.commit(stream, segment)

    def commit(self, stream: StreamName, *segments: OutputSegment) -> Version:
        made = self.catalog.commit(a.a_commit(*segments, lease=self.leases[stream]))
        return made.versions[stream]

    def segment(
        self, stream: StreamName, begin: int, end: int, contents: Contents, stability: Stability
    ) -> OutputSegment:
        columns = columns_of(line_of(self.catalog, stream).stream)
        rows = [(at * WIDTH_US, row) for at, rows in contents.items() for row in rows]
        table = pa.table(
            {
                "name": [name for _, (name, _) in rows],
                "n": [n for _, (_, n) in rows],
                STIME: [at + stime_of(row) for at, row in rows],
                BUCKET: [at for at, _ in rows],
            },
            schema=file_schema(columns),
        )
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
            missing=() if stability.is_final else (a.SRC,),
        )

    def answer(self, stream: StreamName, since: int, **options: Any) -> Answer:
        part = options.pop("part", EVERYTHING)
        line = line_of(self.catalog, stream)
        return changes_of(self.catalog, line, Position(Version(since)), part, **options)

    def changes(self, stream: StreamName, since: int, **options: Any) -> list[RowChange]:
        return list(self.answer(stream, since, **options).rows(self.home.storage))

    def told(self, stream: StreamName, since: int, **options: Any) -> list[tuple[Any, ...]]:
        """The changes, each as (type, bucket's number, row)."""
        return [
            (c.type.value, c.bucket_us // WIDTH_US, c.values)
            for c in self.changes(stream, since, **options)
        ]

    def held_at(self, stream: StreamName, version: Version) -> Held:
        """What a reader of a version has: read from the files of its segments, by itself."""
        found = self.catalog.segments(stream, producer=a.ME, as_of=version)
        return held(self.rows_of(stream, found))

    def rows_of(
        self, stream: StreamName, segments: Sequence[Segment]
    ) -> Iterator[tuple[int, int, RowValues]]:
        columns = columns_of(line_of(self.catalog, stream).stream)
        for segment in segments:
            for table in read_segments(self.home.storage, [segment], columns):
                for row in table.to_pylist():
                    bucket_us = row[STIME] - row[STIME] % WIDTH_US
                    yield bucket_us, row[STIME], (row["name"], row["n"])

    def trim(self, stream: StreamName, before: int) -> TrimResult:
        """A trim that no fragment of this home holds back."""
        needed = dict.fromkeys((a.MAIN, a.TAIL), FOREVER_US)
        return self.catalog.trim(stream, a.ME, before * WIDTH_US, needed=needed, segments_max=1_000)

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


def next_write(lines: Lines, chance: random.Random, stream: StreamName, end_max: int) -> bool:
    """One commit more: a range at the end, or a piece of what is tentative made final.

    False once the stream reaches `end_max` buckets and all of it is final.
    """
    live = lines.catalog.segments(stream, producer=a.ME)
    end = max((s.range.to_us // WIDTH_US for s in live), default=0)
    owed = {
        at
        for s in live
        if not s.stability.is_final
        for at in range(s.range.from_us // WIDTH_US, s.range.to_us // WIDTH_US)
    }
    if owed and (end >= end_max or chance.random() < 0.5):
        at = chance.choice(sorted(owed))
        past = at + 1
        while past in owed and chance.random() < 0.5:
            past += 1
        is_lost = chance.random() < 0.1
        contents = {} if is_lost else some_contents(chance, at, past)
        lines.write(stream, at, past, contents, GAP if is_lost else STABLE)
        return True
    if end >= end_max:
        return False
    past = end + chance.randint(1, 6)
    stability = TENTATIVE if chance.random() < 0.6 else STABLE
    lines.write(stream, end, past, some_contents(chance, end, past), stability)
    return True


def some_contents(chance: random.Random, begin: int, end: int) -> Contents:
    """Few names and numbers, so that rows stay, change and occur several times."""
    return {
        at: [("abc"[chance.randrange(3)], chance.randrange(2)) for _ in range(chance.randrange(5))]
        for at in range(begin, end)
    }


def stime_of(row: RowValues) -> int:
    """The event time of a row inside its bucket: equal rows have equal ones."""
    return 1 + len(row[0]) + row[1] % 1_000


def held(rows: Iterable[tuple[int, int, RowValues]]) -> Held:
    return Counter(rows)


def apply(target: Held, changes: Iterable[RowChange]) -> None:
    """Apply changes as any consumer may; fails if something is taken back that is not there."""
    comes = {ChangeType.INSERT, ChangeType.UPDATE_POSTIMAGE}
    for change in changes:
        if change.values is None or change.stime_us is None:
            continue
        row = (change.bucket_us, change.stime_us, (change.values[0], change.values[1]))
        if change.type in comes:
            target[row] += 1
            continue
        assert target[row] > 0, f"{row} is taken back and not there"
        target[row] -= 1
        if not target[row]:
            del target[row]


@contextmanager
def some_lines(server: EmbeddedServer, folder: Path) -> Iterator[Lines]:
    """A home of alpha in the suite's server."""
    with (
        home_pool(server, folder, a.ALPHA) as settings,
        open_home(settings, a.ALPHA) as home,
    ):
        yield Lines(home, settings)
