"""Records with every type and the values that break things, as a view for Spark SQL."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from medusa_core.columns import Column
from pipelines.spark.prepared import RepeatedJob

COLUMNS = {
    name: Column(name, type_)
    for name, type_ in {
        "flag": "boolean",
        "small": "int",
        "other": "int",
        "big": "bigint",
        "large": "bigint",
        "real": "double",
        "ratio": "double",
        "text": "string",
        "word": "string",
        "bytes": "binary",
        "day": "date",
        "time": "timestamp",
        "money": "decimal(10,2)",
        "wide": "decimal(38,10)",
    }.items()
}
"""The columns of view `records`, as expressions see them."""

_VALUES: dict[str, list[object]] = {
    "flag": [True, False, None],
    "small": [0, 1, -1, 7, 2**31 - 1, -(2**31), None],
    "other": [0, 3, None, -1, 60],
    "big": [0, 5, -1, 2**63 - 1, -(2**63), 1_580_056_770_000_000, None, 2**40],
    "large": [2, 0, -1, None, 2**62, 1000],
    "real": [0.0, -0.0, 1.5, -2.25, 1e300, float("nan"), float("inf"), None, -1e19, 1e-300],
    "ratio": [2.0, 0.0, None, 0.5, 1e9, -1.0],
    "text": ["12", "", "x", "-7.5", None, "2024-01-31", "a,b,c", "99999999999", "NaN", " 5 "],
    "word": ["a", "x", "2024-02-30 10:00:00", None, "true", "3", "2024-01-01 10:00:00"],
    "bytes": [b"abc", b"", None, b"\xff\x00"],
    "day": [date(2024, 1, 31), None, date(1970, 1, 1), date(1999, 12, 31)],
    "time": [
        datetime(2024, 1, 31, 12, 0, 1, 500_000, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        None,
    ],
    "money": [Decimal("0.00"), Decimal("12.50"), None, Decimal("-99999999.99"), Decimal("1.00")],
    "wide": [
        Decimal(0),
        Decimal("9999999999999999999999999999.9999999999"),
        None,
        Decimal("3.1415926536"),
        Decimal("-0.5"),
    ],
}
ROWS = 97


@pytest.fixture(scope="session")
def records(spark: SparkSession) -> SparkSession:
    """The session, with view `records`: every value of a type meets every other one's sooner or
    later, since the lists have different lengths."""
    rows = [
        tuple(
            values[(row * (2 * place + 1) + row // 11) % len(values)]
            for place, values in enumerate(_VALUES.values())
        )
        for row in range(ROWS)
    ]
    schema = ", ".join(f"{c.name} {c.type}" for c in COLUMNS.values())
    frame = spark.createDataFrame(rows, schema).coalesce(1).cache()
    frame.createOrReplaceTempView("records")
    return spark


# Prepared jobs are RDDs that are run as they are, so their tasks see none of the session's settings
# but Spark's defaults. These differ from the defaults, as the defaults may from the session's.
OTHER_SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "Asia/Kolkata",
    "spark.sql.caseSensitive": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
}


def in_tasks(
    session: SparkSession, query: str, settings: Mapping[str, str]
) -> list[dict[str, object]]:
    """The rows of a prepared job whose tasks have these settings."""
    job = RepeatedJob(session.sql(query))
    context = session.sparkContext
    try:
        for name, value in settings.items():
            context.setLocalProperty(name, value)
        return job.run().to_pylist()
    finally:
        for name in settings:
            context.setLocalProperty(name, None)
