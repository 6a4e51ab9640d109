"""A fragment's kernel: one task of Spark in which DuckDB computes the whole step.

Its job is planned once and sent again at each step with another task, like that of a
PreparedFragment, and gives the same tagged relation. Files are read where they are. What it cannot
compute (a record on which a box fails, a number beyond all range) is KernelFailed, and the step is
computed by Spark SQL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medusa_core.columns import Column
from medusa_core.errors import Refused
from medusa_core.names import StreamName
from pipelines.spark.compiled_fragment import TAG, CompiledFragment, input_view
from pipelines.spark.failures import spark_errors
from pipelines.spark.kernel_sql import kernel_sql
from pipelines.spark.kernel_task import PROPERTY, rows_of_task, task_of
from pipelines.spark.prepared import Given, GivenInput, RepeatedJob, folder_of, writing
from pipelines.storage.arrow_schema import STIME, arrow_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class KernelFailed(Exception):
    """The kernel did not compute this step; the text says why."""


class Kernel:
    """The kernel of a fragment, which is made when the first step needs it. Raises NotInKernel."""

    def __init__(
        self,
        session: SparkSession,
        compiled: CompiledFragment,
        inputs: Mapping[StreamName, Sequence[Column]],
    ) -> None:
        self._query = kernel_sql(compiled, inputs)
        self._folder = folder_of(session, self)
        self._context = session.sparkContext
        schema = pa.schema([pa.field(n, arrow_type(type_)) for n, type_ in self._query.columns])
        views = {**{input_view(s): of for s, of in inputs.items()}, **compiled.left_views}
        names = {view: (*(c.name for c in of), STIME) for view, of in views.items()}
        fields = ", ".join(f"`{name}` {type_}" for name, type_ in self._query.columns)
        doubles = [view for view, of in views.items() if any(c.type == "double" for c in of)]
        task = partial(rows_of_task, schema=schema, names=names, with_doubles=doubles)
        self._job = RepeatedJob(session.newSession().range(0, 1, 1, 1).mapInArrow(task, fields))

    def run(self, given: Mapping[StreamName, GivenInput], left: Mapping[str, Given]) -> pa.Table:
        """The tagged relation over these inputs, and over what an earlier step left, by view.

        Raises KernelFailed.
        """
        rows_of = {**{input_view(s): rows for s, rows in given.items()}, **left}
        inputs = {view: self._files(view, rows) for view, rows in rows_of.items()}
        threads = self._context.defaultParallelism
        task = task_of(self._query.sql, inputs, threads=threads, folder=str(self._folder))
        self._context.setLocalProperty(PROPERTY, task)
        try:
            with spark_errors("a kernel"):
                table = self._job.run()
        except Refused as error:
            raise KernelFailed(str(error)) from error
        finally:
            self._context.setLocalProperty(PROPERTY, "")
        if table.num_rows and pc.min(table[TAG]).as_py() < 0:
            raise KernelFailed("a box fails on a record")
        return table

    def _files(self, view: str, rows: GivenInput) -> list[tuple[str, int | None, int | None]]:
        """Where the rows are: for each file its path and the buckets that are read, or all."""
        if isinstance(rows, pa.Table):
            path = self._folder / f"{view}.parquet"
            with writing(path):
                pq.write_table(rows, path, compression="none")
            return [(str(path), None, None)]
        if isinstance(rows, Path):
            return [(str(rows), None, None)]
        return [
            (str(part.path), part.range.from_us, part.range.to_us)
            if part.range is not None
            else (str(part.path), None, None)
            for part in rows
        ]
