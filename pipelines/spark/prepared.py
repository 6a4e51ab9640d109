"""A small step without planning: the fragment is planned once and its physical plan run each time.

Of a step over a thousand records Spark spends most on parsing, analysing and planning the same
statement again. Here the plan reads whatever file lies in a folder of its own; a step puts its
records there, lets the file index look again and runs a copy of the plan (a copy, because plans
keep what they computed). One partition from end to end: no exchange, no relation kept, one job.

Limit: each output computes its boxes from the records on, so this pays for few records; and a
Function may look at its input while it is planned, so fragments with one are not prepared.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from medusa_core.columns import Column
from medusa_core.names import StreamName
from pipelines.spark.compiler import CompiledFragment, input_view
from pipelines.streams.schemas import STIME, record_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class PreparedFragment:
    """A fragment's physical plan over one file per input, planned at the first step."""

    def __init__(
        self,
        session: SparkSession,
        compiled: CompiledFragment,
        inputs: Mapping[StreamName, Sequence[Column]],
    ) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        assert not compiled.statements, "a prepared fragment keeps no relation"
        scratch = session.conf.get("spark.medusa.scratch")
        assert scratch is not None
        self._folder = Path(scratch) / f"prepared-{uuid4().hex}"
        self._inputs = inputs
        self._indexes: dict[StreamName, Any] = {}
        # A session of its own: its views and settings touch no other step.
        own = session.newSession()
        self._own: Any = own
        own.conf.set("spark.sql.shuffle.partitions", "1")
        for stream, columns in inputs.items():
            (self._folder / stream).mkdir(parents=True)
            self._put(stream, record_schema(columns).empty_table())
            fields = ", ".join(f"`{c.name}` {c.type}" for c in columns)
            frame = own.read.schema(f"{fields}, {STIME} bigint").parquet(str(self._folder / stream))
            relation: Any = frame._jdf.queryExecution().analyzed()
            self._indexes[stream] = relation.relation().location()
            frame.coalesce(1).createOrReplaceTempView(input_view(stream))
        last: Any = own.sql(compiled.sql).coalesce(1)
        self._schema: pa.Schema = to_arrow_schema(last.schema, timezone="UTC")
        self._frame: Any = last._jdf
        self._plan: Any = last._jdf.queryExecution().executedPlan()

    def run(self, tables: Mapping[StreamName, pa.Table]) -> pa.Table:
        """The tagged relation over these records."""
        # A copied plan belongs to the session that is active in this thread, whoever opened it.
        java: Any = self._own._jvm
        java.org.apache.spark.sql.classic.SparkSession.setActiveSession(self._own._jsparkSession)
        for stream in self._inputs:
            self._put(stream, tables[stream])
            self._indexes[stream].refresh()
        batches = self._frame.toArrowBatchRdd(self._plan.clone()).collect()
        found = [pa.ipc.read_record_batch(pa.py_buffer(bytes(b)), self._schema) for b in batches]
        return pa.Table.from_batches(found, self._schema)

    def close(self) -> None:
        """Remove its folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _put(self, stream: StreamName, table: pa.Table) -> None:
        """Let the folder of an input hold these records and no others."""
        folder = self._folder / stream
        for old in folder.iterdir():
            old.unlink()
        pq.write_table(table, folder / f"{uuid4().hex}.parquet", compression="none")
