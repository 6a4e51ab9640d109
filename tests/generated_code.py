"""Spark without generated code, for tests that are not about what Spark generates.

To generate and compile the code of a plan takes longer than to plan it and to run it over a few
hundred records. `make test` runs two shipped networks and every column type with generated code,
and steps that test plans, slots and panes without it. In `make test-long` all of it is generated,
but for the thousands of networks that are drawn; a part of it (tests/sweeps.py) generates it for
drawn networks in every mode, and is else as `make test`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING
from unittest import mock

from pipelines.quality import spark_expressions
from pipelines.spark import prepared
from tests.sweeps import IS_LONG, PART

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTHING_GENERATED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@contextmanager
def without_generated_code(spark: SparkSession) -> Iterator[None]:
    """Evaluate expressions without generated code, in the session and in prepared jobs.

    A task reads these settings from the properties of its job. Spark's own actions set them there,
    while a prepared job is an RDD that is run as it is. The recomputation of certificates has a
    session of its own, with settings of its own.
    """
    context = spark.sparkContext
    with (
        mock.patch.dict(prepared._SETTINGS, NOTHING_GENERATED),
        mock.patch.dict(spark_expressions.AS_WRITTEN, NOTHING_GENERATED),
    ):
        is_outermost = spark.conf.get("spark.sql.codegen.factoryMode") != "NO_CODEGEN"
        for name, value in NOTHING_GENERATED.items():
            spark.conf.set(name, value)
            context.setLocalProperty(name, value)
        try:
            yield
        finally:
            for name in NOTHING_GENERATED if is_outermost else ():
                spark.conf.unset(name)
                context.setLocalProperty(name, None)


def generated_in_long(spark: SparkSession) -> AbstractContextManager[None]:
    """Evaluate expressions without generated code, except in the whole of `make test-long`."""
    return nullcontext() if IS_LONG and PART == 1 else without_generated_code(spark)
