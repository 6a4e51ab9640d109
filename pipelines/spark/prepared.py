"""Steps without planning: a fragment is planned once, and one job is sent again at every step.

Spark would parse, analyse and plan the same statements again for each step, write and look up its
code, and send its settings to the tasks, all of which takes longer than to run them over a
thousand records. Here the plan scans files of fixed names (slots), in one partition: without an
exchange a job keeps nothing of its last run, so the same job runs again over the present content
of the slots. Many records are read where they are: the scan of a slot is given other files, each
with the bytes of the row groups to read and with its bounds, which are columns of a partition, so
that a bound is data and no text of the plan. Only relations that several boxes read are kept in
memory, within a run; they are dropped after it.

Limits: one core for a step, which pays up to some hundred thousand records (a plan in two
partitions took 115 ms over 250,000 where this one took 70). A Function may look at its input
while it is planned, so fragments with one are not prepared. `toArrowBatchRdd`, `serveIterator`,
`ofRows`, the relation behind `persist` and the partitions of a scan are Spark's own but not public:
the version is pinned, and a test compares all execution modes.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from medusa_core.columns import Column
from medusa_core.errors import Unavailable
from medusa_core.grid import Range
from medusa_core.names import StreamName
from pipelines.base.files import link
from pipelines.spark.compiled_fragment import CompiledFragment, input_view
from pipelines.spark.user_functions import register
from pipelines.storage.arrow_schema import BUCKET, STIME, record_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class FileBytes:
    """The row groups in some bytes of a file, and which buckets of them are read; None: all."""

    path: Path
    size_bytes: int
    start: int
    end: int
    range: Range | None


Given: TypeAlias = pa.Table | Path
"""Rows that a job is given: a table, or a file that holds these rows and no others."""

GivenInput: TypeAlias = Given | Sequence[FileBytes]
"""An input of a step: its records, or the parts of files that hold them."""

SLOT_BYTES = 1 << 30
"""How long a slot seems while it is planned: a scan reads what begins before that, in one task."""

_SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.maxPartitionBytes": str(SLOT_BYTES),
    # A broadcast would be kept from the first run.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
_DROPPING = ThreadPoolExecutor(1, "medusa-dropping")
_KEEPS_STATE = ("Exchange", "Subquery")
_FIRST, _PAST = "_first_us", "_past_us"
"""The bounds of a file's buckets, as columns of its partition; NULL: it is read whole."""
_UNBOUNDED = f"{_FIRST}=__HIVE_DEFAULT_PARTITION__/{_PAST}=__HIVE_DEFAULT_PARTITION__"


class NotPreparable(Exception):
    """The plan stores part of what it has read, so it must be planned again for each step."""


def folder_of(session: SparkSession, job: object) -> Path:
    """A new folder for what a job is given; it goes with the job, or with this process."""
    scratch = session.conf.get("spark.medusa.scratch")
    assert scratch is not None
    folder = Path(scratch) / f"{type(job).__name__.lower()}-{uuid4().hex}"
    folder.mkdir(parents=True)
    weakref.finalize(job, shutil.rmtree, folder, ignore_errors=True)
    return folder


class PreparedFragment:
    """A fragment's job over one slot per input, made when the first step needs it.

    Raises NotPreparable if Spark's plan for it cannot be run again over other records.
    """

    def __init__(
        self,
        session: SparkSession,
        compiled: CompiledFragment,
        inputs: Mapping[StreamName, Sequence[Column]],
    ) -> None:
        folder = folder_of(session, self)
        # A session of its own: its views and settings touch no other step.
        own = session.newSession()
        for setting, value in _SETTINGS.items():
            own.conf.set(setting, value)
        if compiled.carried:
            # What is carried is met by joins. Slots seem large, and a join as large as both sides
            # multiplied: of so much, sides that have one partition each would be exchanged.
            own.conf.set("spark.sql.sources.fileCompressionFactor", "1e-9")
        java: Any = own._jvm
        # A plan is made for the session that is active in this thread, whoever opened it.
        java.org.apache.spark.sql.classic.SparkSession.setActiveSession(own._jsparkSession)
        self._slots: dict[str, _Slot] = {}
        views = {input_view(stream): columns for stream, columns in inputs.items()}
        for view, columns in {**views, **compiled.left_views}.items():
            fields = ", ".join(f"`{c.name}` {c.type}" for c in columns)
            self._slots[view] = _Slot(folder / view, record_schema(columns))
            self._slots[view].offer(own, view, f"{fields}, {STIME} bigint, {BUCKET} bigint")
        self._kept: list[_CachedRelation] = []
        register(own, compiled.aggregates)
        for statement in compiled.statements:
            assert statement.function is None
            self._kept.append(_CachedRelation(own, statement.view, own.sql(statement.sql)))
        self._job = RepeatedJob(own.sql(compiled.sql))
        scans = _Scans(own, [*(kept.plan for kept in self._kept), self._job.plan])
        for slot in self._slots.values():
            slot.scans = scans
        self._dropped: Future[None] | None = None

    def run(
        self, given: Mapping[StreamName, GivenInput], left: Mapping[str, Given] | None = None
    ) -> pa.Table:
        """The tagged relation over these inputs, and over what an earlier step left, by view."""
        for stream, records in given.items():
            self._slots[input_view(stream)].put(records)
        for view, rows in (left or {}).items():
            self._slots[view].put(rows)
        dropped, self._dropped = self._dropped, None
        if dropped is not None and dropped.exception() is not None:
            # Nothing of the last run may be found; if it still cannot be dropped, this raises.
            self._dropped = dropped
            self._drop()
        try:
            return self._job.run()
        finally:
            # While the results are written: the next run must find nothing of this one.
            self._dropped = _DROPPING.submit(self._drop) if self._kept else None

    def _drop(self) -> None:
        for kept in self._kept:
            kept.drop()


class _Slot:
    """A file whose name is planned with, and whose content changes from step to step."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.scans: _Scans | None = None
        self._folder = folder
        self._path = folder / _UNBOUNDED / "slot.parquet"
        self._schema = schema

    def offer(self, session: SparkSession, view: str, fields: str) -> None:
        """Make what the slot holds, or is given in its place, a relation of that name."""
        self._path.parent.mkdir(parents=True)
        with writing(self._path), self._path.open("wb") as file:
            file.truncate(SLOT_BYTES)
        reader = session.read.schema(f"{fields}, {_FIRST} bigint, {_PAST} bigint")
        frame = reader.option("basePath", str(self._folder)).parquet(str(self._path))
        frame = frame.where(f"{_PAST} IS NULL OR {BUCKET} >= {_FIRST} AND {BUCKET} < {_PAST}")
        frame = frame.drop(BUCKET, _FIRST, _PAST)
        frame.coalesce(1).createOrReplaceTempView(view)
        self.put(self._schema.empty_table())

    def put(self, given: GivenInput) -> None:
        """Let the slot hold these records and no others."""
        if not isinstance(given, pa.Table | Path):
            assert self.scans is not None, "made with the plans"
            self.scans.give(self._path, given)
            return
        if self.scans is not None:
            self.scans.take_back(self._path)
        self._path.unlink(missing_ok=True)
        if isinstance(given, pa.Table):
            with writing(self._path):
                pq.write_table(given, self._path, compression="none")
            return
        try:
            link(given, self._path)
        except FileNotFoundError as error:
            raise Unavailable(
                f"file {given} is gone: restore it from a backup or another replica"
            ) from error
        except OSError:
            # Another file system, or one without hard links.
            self._path.symlink_to(given.resolve())


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Unavailable in place of what writing a file of a step's records raises."""
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"file {path} could not be written ({error.strerror or error}): free space or mend "
            "the folder, then run again; nothing was committed"
        ) from error


class _Scans:
    """The scans of slots in some plans, each of one partition. Other files can be given to them."""

    def __init__(self, session: SparkSession, plans: Sequence[Any]) -> None:
        java: Any = session._jvm
        assert session.sparkContext._gateway is not None
        self._new_array = session.sparkContext._gateway.new_array
        self._string = java.String
        sql = java.org.apache.spark.sql
        self._partition = sql.execution.datasources.FilePartition
        self._file = sql.execution.datasources.PartitionedFile
        self._row = sql.catalyst.expressions.GenericInternalRow
        self._path = java.org.apache.spark.paths.SparkPath.fromPathString
        # The partitions of each scan's RDD: an array, of which jobs read the element at each run.
        self._scans: dict[str, list[tuple[Any, Any]]] = {}
        self._given: set[str] = set()
        for node in (node for plan in plans for node in _nodes(plan)):
            if node.getClass().getSimpleName() == "FileSourceScanExec":
                partitions = node.inputRDD().partitions()
                assert len(partitions) == 1, "a slot is one file"
                (file,) = partitions[0].files()
                path = file.toPath().toUri().getPath()
                self._scans.setdefault(path, []).append((partitions, partitions[0]))

    def give(self, slot: Path, parts: Sequence[FileBytes]) -> None:
        """Let the scans of a slot read these parts of files."""
        scans = self._scans.get(str(slot), [])
        if not scans:
            return
        files = self._new_array(self._file, len(parts))
        nowhere = self._new_array(self._string, 0)
        nothing = scans[0][1].files()[0].otherConstantMetadataColumnValues()
        for at, part in enumerate(parts):
            row = self._row(2)
            if part.range is not None:
                row.setLong(0, part.range.from_us)
                row.setLong(1, part.range.to_us)
            files[at] = self._file(
                row, self._path(str(part.path)), part.start, part.end - part.start, nowhere, 0,
                part.size_bytes, nothing,
            )  # fmt: skip
        self._given.add(str(slot))
        for partitions, _ in scans:
            partitions[0] = self._partition(0, files)

    def take_back(self, slot: Path) -> None:
        """Let the scans of a slot read its own file again."""
        if str(slot) in self._given:
            for partitions, own in self._scans[str(slot)]:
                partitions[0] = own
            self._given.remove(str(slot))


def as_leaf(frame: DataFrame) -> tuple[DataFrame, Any]:
    """A relation without the plan behind it, and Spark's node for what is cached.

    The relation has been persisted and not executed yet. With its own plan it would be analysed
    again by each of its readers, and by theirs: the plan of a step would grow as a tree where the
    boxes are a graph.
    """
    from pyspark.sql import DataFrame

    session = frame.sparkSession
    java: Any = session._jvm
    relation: Any = frame._jdf.queryExecution().withCachedData()
    rows = java.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, relation)
    return DataFrame(rows, session), relation


class _CachedRelation:
    """A relation that a run computes once, for all that read it, and keeps in memory."""

    def __init__(self, session: SparkSession, view: str, frame: DataFrame) -> None:
        from pyspark import StorageLevel

        frame = frame.coalesce(1).persist(StorageLevel.MEMORY_AND_DISK_DESER)
        rows, relation = as_leaf(frame)
        # Only this fragment's plans shall find it.
        frame.unpersist(blocking=True)
        # The plan of `frame` itself is a leaf that scans the cache: the cached plan lies behind it.
        self.plan = relation.cachedPlan()
        _check_keeps_nothing(self.plan)
        rows.createOrReplaceTempView(view)
        self._rows = relation.cacheBuilder().cachedColumnBuffers()
        self._level: Any = self._rows.getStorageLevel()

    def drop(self) -> None:
        """Forget what the last run kept; returns when it is gone."""
        self._rows.unpersist(True)
        self._rows.persist(self._level)


class RepeatedJob:
    """A job that can be run again, because its plan has one partition and keeps nothing."""

    def __init__(self, frame: DataFrame) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        frame = frame.coalesce(1)
        self.schema: pa.Schema = to_arrow_schema(frame.schema, timezone="UTC")
        java: Any = frame.sparkSession._jvm
        self.plan: Any = frame._jdf.queryExecution().executedPlan()
        _check_keeps_nothing(self.plan)
        self._batches = frame._jdf.toArrowBatchRdd(self.plan).toJavaRDD()
        # Looked up once: py4j searches every jar for each part of a dotted name, each time.
        self._serve = java.PythonRDD.serveIterator
        self._iterated = java.scala.jdk.javaapi.CollectionConverters.asScala

    def run(self) -> pa.Table:
        """What it computes from what lies in its slots now."""
        from pyspark.serializers import NoOpSerializer
        from pyspark.util import _load_from_socket

        # `collectAsync` examines one closure where `collect` examines two, 3 ms each.
        batches = self._batches.collectAsync().get()
        count = batches.size()
        served = self._serve(self._iterated(batches.iterator()), "medusa results")
        with _load_from_socket(served, NoOpSerializer()) as stream:
            found = [pa.ipc.read_record_batch(pa.py_buffer(b), self.schema) for b in stream]
        if len(found) != count:
            # To the reader of a socket, a JVM that dies looks like one that has no more to say.
            raise EOFError(f"{len(found)} of {count} batches of results came")
        return pa.Table.from_batches(found, self.schema)


def _check_keeps_nothing(plan: Any) -> None:
    """Raise NotPreparable if a node of the plan would give the rows of an earlier run again."""
    for node in _nodes(plan):
        if any(word in node.nodeName() for word in _KEEPS_STATE):
            raise NotPreparable(f"{node.nodeName()} stores the rows of its first run")


def _nodes(plan: Any) -> Iterator[Any]:
    """A plan's nodes, from the result on."""
    yield plan
    children = plan.children()
    for at in range(children.size()):
        yield from _nodes(children.apply(at))
