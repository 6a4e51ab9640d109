"""Steps without planning: a fragment is planned once, and its physical plans run at every step.

Spark would parse, analyse and plan the same statements again for each step, which takes longer than
to run them over a thousand records. Here every plan reads whatever files lie in folders of its own;
a step puts its input there, lets the file indexes look again and runs copies of the plans (copies,
because plans keep what they computed). What several boxes read is computed by a plan of its own and
handed on as a file, as small as aggregates are.

Limit: a Function may look at its input while it is planned, so fragments with one are not prepared.
The calls behind `clone`, `refresh` and `toArrowBatchRdd` are Spark's own but not its public ones:
the version is pinned, and a test runs every way side by side.
"""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from medusa_core.columns import Column
from medusa_core.names import StreamName
from pipelines.spark.compiler import CompiledFragment, input_view
from pipelines.streams.schemas import STIME, record_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Given: TypeAlias = pa.Table | tuple[Path, ...]
"""An input of a step: its records, or files that hold these records and no others."""


class PreparedFragment:
    """A fragment's plans over one folder per input, made when the first step needs them.

    `in_one_partition` is for few records: no exchange, one task.
    """

    def __init__(
        self,
        session: SparkSession,
        compiled: CompiledFragment,
        inputs: Mapping[StreamName, Sequence[Column]],
        *,
        in_one_partition: bool,
    ) -> None:
        scratch = session.conf.get("spark.medusa.scratch")
        assert scratch is not None
        self._folder = Path(scratch) / f"prepared-{uuid4().hex}"
        # With the fragment, at the latest with this process, its links and copies go too.
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        # A session of its own: its views and settings touch no other step.
        self._own = session.newSession()
        self._indexes: dict[str, Any] = {}
        if in_one_partition:
            self._own.conf.set("spark.sql.shuffle.partitions", "1")
            # A copied plan would write its code anew for each run; few records do not need it.
            self._own.conf.set("spark.sql.codegen.wholeStage", "false")
        for stream, columns in inputs.items():
            fields = ", ".join(f"`{c.name}` {c.type}" for c in columns)
            empty = record_schema(columns).empty_table()
            frame = self._offer(input_view(stream), f"{fields}, {STIME} bigint", empty)
            frame = frame.coalesce(1) if in_one_partition else frame
            frame.createOrReplaceTempView(input_view(stream))
        self._kept: dict[str, _Plan] = {}
        for statement in compiled.statements:
            assert statement.function is None
            made = self._own.sql(statement.sql)
            plan = self._kept[statement.view] = _Plan(made)
            kept = self._offer(statement.view, made.schema, plan.schema.empty_table())
            kept.coalesce(1).createOrReplaceTempView(statement.view)
        last = self._own.sql(compiled.sql)
        self._last = _Plan(last.coalesce(1) if in_one_partition or self._kept else last)

    def run(self, given: Mapping[StreamName, Given]) -> pa.Table:
        """The tagged relation over these inputs."""
        # A copied plan belongs to the session that is active in this thread, whoever opened it.
        java: Any = self._own._jvm
        java.org.apache.spark.sql.classic.SparkSession.setActiveSession(self._own._jsparkSession)
        for stream, records in given.items():
            self._put(input_view(stream), records)
        for view, plan in self._kept.items():
            self._put(view, plan.run())
        return self._last.run()

    def _offer(self, view: str, schema: Any, empty: pa.Table) -> DataFrame:
        """A relation over whatever lies in the folder of that name."""
        (self._folder / view).mkdir(parents=True)
        pq.write_table(empty, self._folder / view / "empty.parquet")
        frame = self._own.read.schema(schema).parquet(str(self._folder / view))
        relation: Any = frame._jdf.queryExecution().analyzed()
        self._indexes[view] = relation.relation().location()
        return frame

    def _put(self, view: str, given: Given) -> None:
        """Let the folder hold these records and no others."""
        folder = self._folder / view
        for old in folder.iterdir():
            old.unlink()
        if isinstance(given, pa.Table):
            pq.write_table(given, folder / f"{uuid4().hex}.parquet", compression="none")
        else:
            for path in given:
                _link(path, folder / f"{uuid4().hex}.parquet")
        self._indexes[view].refresh()


class _Plan:
    """A physical plan that can be run again."""

    def __init__(self, frame: DataFrame) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self.schema: pa.Schema = to_arrow_schema(frame.schema, timezone="UTC")
        self._context: Any = frame.sparkSession.sparkContext
        self._frame: Any = frame._jdf
        self._plan: Any = frame._jdf.queryExecution().executedPlan()

    def run(self) -> pa.Table:
        """What it computes from what lies in its folders now."""
        from pyspark.serializers import NoOpSerializer
        from pyspark.util import _load_from_socket

        batches = self._frame.toArrowBatchRdd(self._plan.clone())
        served = self._context._jvm.PythonRDD.collectAndServe(batches)
        with _load_from_socket(served, NoOpSerializer()) as stream:
            found = [pa.ipc.read_record_batch(pa.py_buffer(b), self.schema) for b in stream]
        return pa.Table.from_batches(found, self.schema)


def _link(path: Path, name: Path) -> None:
    """Make a file known under another name, without a copy of it."""
    try:
        os.link(path, name)
    except OSError:
        # Another file system, or one without hard links.
        name.symlink_to(path.resolve())
