"""A partner's file that has its hash and other content stops its line, and nothing else here."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from medusa_core.exchange import LineNews, PublishedPlan
from medusa_core.names import NetworkName, Participant, PlanId, StreamName, Version
from medusa_core.segments import Producer, SegmentFile
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.exchange import news_files
from pipelines.exchange.contents import FileContents
from pipelines.exchange.copies import FileCopies
from pipelines.exchange.importer import Imported, Importer
from pipelines.homes.home import storage_of
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.participant.assembly import has_ended
from pipelines.participant.home_session import HomeSession
from pipelines.storage.arrow_schema import BUCKET, STIME
from tests.exchange.stored_files import StoredFiles
from tests.federation.building import Running, no_spark, rounds_until, seated
from tests.home_pool import home_pool
from tests.sweeps import IS_LONG

HOMES = (Participant("alpha"), Participant("beta"))
ONE, TWO = StreamName("one"), StreamName("two")
NETWORK = """
from medusa_core.network import Filter, Network, Output, Source

columns = {"ts_us": "bigint", "host": "string", "port": "int"}
network = Network(
    name="pair",
    sources=tuple(Source(name=name, columns=columns, time="ts_us") for name in ("one", "two")),
    boxes=tuple(
        Filter(name=f"low_{name}", input=name, cases={"yes": "port < 1024"}, fragment=f"of_{name}")
        for name in ("one", "two")
    ),
    outputs=tuple(Output(name=f"out_{name}", input=f"low_{name}") for name in ("one", "two")),
    bucket="10s",
)
"""
ROWS, START_US = 600, 1_700_000_000_000_000

FEW = ("text", "a column of another name", "text for numbers", "fewer rows than announced",
       "a row without a time", "rows in a bucket that is not theirs", "rows of other buckets",
       "another value in one row", "rows that unpack to very much")  # fmt: skip
"""Of the spoilt files, those of `make test`: each check of a file refuses one."""

Content = bytes | tuple[bytes, int]
Spoil = Callable[[pa.Table], Content]


def parquet(table: pa.Table, **options: object) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def with_column(
    name: str, change: Callable[[pa.ChunkedArray], object], type_: pa.DataType
) -> Spoil:
    """The file with one column changed."""

    def spoil(table: pa.Table) -> bytes:
        at = table.column_names.index(name)
        values = pa.array(change(table[name]), type_)
        return parquet(table.set_column(at, pa.field(name, type_), values))

    return spoil


def first_null(values: pa.ChunkedArray) -> list[object]:
    return [None, *values.to_pylist()[1:]]


def many_equal(table: pa.Table) -> Content:
    rows = table.slice(0, 1).take(pa.array(np.zeros(300_000, np.int64)))
    return parquet(rows), rows.num_rows


def few_bytes_of_many_rows(table: pa.Table) -> Content:
    rows = table.slice(0, 1).take(pa.array(np.zeros(3_000_000, np.int64)))
    return parquet(rows, compression="zstd"), rows.num_rows


def few_bytes_of_long_texts(table: pa.Table) -> Content:
    """A text of 1 MiB in each of 600 rows, which the file has once."""
    host = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(len(table), np.int32)), pa.array(["a" * (1 << 20)])
    )
    at = table.column_names.index("host")
    return parquet(table.set_column(at, pa.field("host", host.type), host), compression="zstd")


REFUSED: dict[str, tuple[Spoil, str]] = {
    "text": (lambda table: b"these are no rows", "holds no rows of one"),
    "nothing": (lambda table: b"", "holds no rows of one"),
    "a torn Parquet file": (lambda table: parquet(table)[:-40], "holds no rows of one"),
    "noise in its pages": (
        lambda table: parquet(table)[:200] + b"\xff" * 400 + parquet(table)[600:],
        "holds no rows of one|hold other rows",
    ),
    "a column of another name": (
        lambda table: parquet(table.rename_columns(["ts_us", "guest", "port", STIME, BUCKET])),
        "column host is missing",
    ),
    "a column of another type": (
        with_column("port", lambda v: v.cast(pa.int64()), pa.int64()), "port is int64, not int32",
    ),
    "text for numbers": (
        with_column("port", lambda v: v.cast(pa.string()), pa.string()), "port is string",
    ),
    "a column more": (
        lambda table: parquet(table.append_column("more", pa.array([1] * len(table)))),
        "6 columns, not 5",
    ),
    "a column twice": (
        lambda table: parquet(pa.table(
            [*table.columns, table["port"]], names=[*table.column_names, "port"])),
        "port is int32, int32, not int32",
    ),
    "a list for a number": (
        with_column("port", lambda v: [[x] for x in v.to_pylist()], pa.list_(pa.int32())),
        "port is list",
    ),
    "fewer rows than announced": (
        lambda table: (parquet(table[:-1]), len(table)),
        "rows, 600 announced",
    ),
    "a row without a time": (with_column(STIME, first_null, pa.int64()), "holds no rows of one"),
    "a row without a bucket": (with_column(BUCKET, first_null, pa.int64()), "holds no rows of one"),
    "buckets off the grid": (
        with_column(BUCKET, lambda v: pc.add(v, 1).to_pylist(), pa.int64()),
        "outside of its bucket",
    ),
    "rows in a bucket that is not theirs": (
        with_column(BUCKET, lambda v: pc.add(v, 10_000_000).to_pylist(), pa.int64()),
        "outside of its bucket",
    ),
    "times of another year": (
        with_column(STIME, lambda v: pc.add(v, 2**60).to_pylist(), pa.int64()),
        "outside of its bucket",
    ),
    "times at the end of all numbers": (
        with_column(STIME, lambda v: [2**63 - 1] * len(v), pa.int64()), "outside of its bucket",
    ),
    "rows of other buckets": (
        lambda table: parquet(
            table.set_column(3, STIME, pc.add(table[STIME], 3_600_000_000))
            .set_column(4, BUCKET, pc.add(table[BUCKET], 3_600_000_000))
        ),
        "hold other rows in the bucket at",
    ),
    "another value in one row": (
        with_column("host", lambda v: ["z", *v.to_pylist()[1:]], pa.string()),
        "hold other rows in the bucket at .* than its news",
    ),
    "a long text in each row": (
        with_column("host", lambda v: ["a" * 20_000] * len(v), pa.string()),
        "hold other rows in the bucket at",
    ),
    "very many equal rows": (many_equal, "hold other rows in the bucket at"),
    "rows that unpack to very much": (few_bytes_of_many_rows, r"bytes unpack to 120,000,000 or"),
    "texts that unpack to very much": (few_bytes_of_long_texts, r"bytes unpack to \d+,\d+,\d+ or"),
}  # fmt: skip


class Spoilt(StoredFiles):
    """The product's exchange to a partner that tells of spoilt files, by their true hashes."""

    def __init__(self, session: HomeSession) -> None:
        alpha = Participant("alpha")
        self._storage = storage_of(session.home.directory, alpha)
        super().__init__({alpha: self._storage})
        self._exchange = session.exchange
        self.acknowledge = session.exchange.acknowledge
        self.spoil: Spoil | None = None
        self.plan: str | None = None

    def line_news(self, stream: StreamName, producer: Producer, after: Version, *,
                  segments_max: int) -> LineNews:  # fmt: skip
        news = self._exchange.line_news(stream, producer, after, segments_max=segments_max)
        if stream != ONE:
            return news
        if self.plan is not None:
            plans = (PublishedPlan(id=PlanId("p"), network=NetworkName("n"), document=self.plan),)
            news = replace(news, plans=plans)
        if self.spoil is None:
            return news
        return replace(
            news,
            segments=tuple(
                replace(
                    published,
                    segment=replace(
                        published.segment, files=tuple(map(self._file, published.segment.files))
                    ),
                )
                for published in news.segments
            ),
        )

    def fetch(self, partner: Participant, file: SegmentFile, target: Path) -> None:
        if file.path.endswith("-spoilt.parquet"):
            super().fetch(partner, file, target)
        else:
            self._exchange.fetch_all(partner, {file: target})

    def _file(self, file: SegmentFile) -> SegmentFile:
        assert self.spoil is not None
        stored = next(
            path for path in self._storage.rglob("*.parquet")
            if sha256(path.read_bytes()).hexdigest() == file.sha256
        )  # fmt: skip
        spoilt = self.spoil(pq.read_table(stored, partitioning=None))
        content, rows = spoilt if isinstance(spoilt, tuple) else (spoilt, file.rows)
        path = file.path.replace(".parquet", "-spoilt.parquet")
        (self._storage / path).parent.mkdir(exist_ok=True)
        (self._storage / path).write_bytes(content)
        return SegmentFile(
            path=path, size_bytes=len(content), sha256=sha256(content).hexdigest(), rows=rows
        )


def write_contracts(folder: Path) -> Path:
    for kind in ("participants", "streams"):
        (folder / kind).mkdir(parents=True)
    (folder / "pair.py").write_text(NETWORK)
    for name, what in (("alpha", "sources: [one, two]"), ("beta", "fragments: [of_one, of_two]")):
        (folder / "participants" / f"{name}.yaml").write_text(
            f"participant: {name}\nruns:\n  - network: pair.py\n    {what}\n"
        )
    for stream in (ONE, TWO):
        lines = [f"{START_US + n * 100_000},host{n % 7},{n % 2_000}" for n in range(ROWS)]
        (folder / f"{stream}.csv").write_text("\n".join(["ts_us,host,port", *lines, ""]))
        (folder / "streams" / f"{stream}.yaml").write_text(
            f"stream: {stream}\nsource:\n  kind: replay\n  speed: 1000000000\n  disorder: 600s\n"
            f"  paths: ['{folder / f'{stream}.csv'}']\n"
        )
    return folder


@pytest.fixture
def beta(postgres_server: EmbeddedServer, tmp_path: Path) -> Iterator[Running]:
    """beta, once alpha has landed both streams."""
    with home_pool(postgres_server, tmp_path / "homes", *HOMES) as settings, ExitStack() as stack:
        contracts = write_contracts(tmp_path / "contracts")
        apply_contracts(settings, ApplyRequest(contracts=contracts))
        alpha = stack.enter_context(seated(settings, "alpha", no_spark))
        rounds_until([alpha], lambda: has_ended(alpha.home_session))
        yield stack.enter_context(seated(settings, "beta", no_spark))


@pytest.fixture
def exchange(beta: Running) -> Spoilt:
    return Spoilt(beta.home_session)


@pytest.fixture
def poll(
    beta: Running, exchange: Spoilt, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], dict[StreamName, str | None]]:
    """What a poll tells of each stream: a problem, or None for news."""
    # Files are spoilt while news is requested, which takes more than a second on a busy machine.
    monkeypatch.setattr(news_files, "FILES_S", 600.0)
    home = beta.home_session.home
    importing = Importer(
        home.catalog, FileCopies(home.storage), exchange, beta.leases,
        contents=FileContents(home.storage, home.catalog),
    )  # fmt: skip

    def once() -> dict[StreamName, str | None]:
        found: list[Imported] = []
        importing.poll(found.append)
        return {imported.stream: imported.problem for imported in found}

    return once


@pytest.mark.sweep
def test_each_spoilt_file_stops_its_line_until_a_whole_one_is_told(
    beta: Running, exchange: Spoilt, poll: Callable[[], dict[StreamName, str | None]]
) -> None:
    catalog = beta.home_session.home.catalog
    for number, name in enumerate(REFUSED if IS_LONG else FEW):
        exchange.spoil, says = REFUSED[name]
        told = poll()
        problem = told.pop(ONE)
        assert problem is not None, name
        assert_says(problem, says, name)
        assert told == ({TWO: None} if number == 0 else {}), name
        assert catalog.segments(ONE) == (), name
    exchange.spoil = None
    assert poll() == {ONE: None}
    assert [s.buckets for s in catalog.segments(ONE)] == [
        s.buckets for s in catalog.segments(TWO)
    ], "the streams hold the same records"


def assert_says(problem: str, says: str, name: str) -> None:
    assert re.search(says, problem), (name, problem)
    assert len(problem) < 800, name
    assert problem.isprintable(), name


@pytest.mark.long
def test_a_plan_that_is_no_document_stops_its_line(
    exchange: Spoilt, poll: Callable[[], dict[StreamName, str | None]]
) -> None:
    documents = ("", "[]", "{", "7", "[" * 100_000, '{"a": "b"', '{"network": {"name": "other"}}')
    for number, document in enumerate(documents):
        exchange.plan = document
        told = poll()
        assert_says(told.pop(ONE) or "", "plan p", document[:20])
        assert told == ({TWO: None} if number == 0 else {})
    exchange.plan = None
    assert poll() == {ONE: None}
