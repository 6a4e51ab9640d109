"""The data source as Spark sees it: options in, a schema and readers out.

Spark creates it in separate processes, several times for one read, and stores it in the plan: so
it holds the user's options and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from medusa_core.errors import Refused
from pipelines.base.settings import CATALOG_URL, DIRECTORY, environment
from pipelines.datasource.batch_reader import BatchReader
from pipelines.datasource.home_access import snapshot_of
from pipelines.datasource.options import ReadOptions, parse_options
from pipelines.datasource.spark_columns import schema_of
from pipelines.datasource.stream_reader import StreamReader
from pipelines.datasource.user_errors import in_one_sentence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "medusa"
VARIABLES = (DIRECTORY, CATALOG_URL)


class MedusaSource(DataSource):
    """`format("medusa")`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """The stream's columns; with tentative rows, the marks too."""
        with in_one_sentence():
            options = self._options()
            with snapshot_of(options.participant) as seen:
                line = seen.stream_snapshot(options.stream)
                return schema_of(line, with_marks=options.with_tentative)

    def reader(self, schema: StructType) -> BatchReader:
        """A reader of one snapshot; `schema` may leave columns out."""
        with in_one_sentence():
            return BatchReader(self._options(), schema)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 Spark's name
        """A reader of what becomes stable; `schema` may leave columns out."""
        return StreamReader(dict(self.options), schema)

    def _options(self) -> ReadOptions:
        return parse_options(dict(self.options))


def register(spark: SparkSession) -> None:
    """Make `format("medusa")` known to a session.

    Raises Refused if the environment was changed after the session's JVM was started: the processes
    that read would not see it.
    """
    if not is_remote():
        _check_environment(spark)
    spark.dataSource.register(MedusaSource)


def _check_environment(spark: SparkSession) -> None:
    context = spark.sparkContext
    seen_by_jvm = context._jvm.java.lang.System.getenv  # type: ignore[union-attr]
    for name in VARIABLES:
        seen = context.environment.get(name, seen_by_jvm(name))
        if (environment().get(name) or None) != (seen or None):
            raise Refused(
                f"{name} was set or changed after the Spark session was started, which does not "
                "see it: set it before, or stop the session and start another"
            )
