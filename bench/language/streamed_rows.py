"""The rows of those cases that Structured Streaming can express, from streams with the time `at`.

A Lookup of the newest record and a Running have no such form: the first would be a join without a
bound on the number of table records, the second needs an arbitrary state in Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bench.language.batch_rows import expression, sessions_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def streamed_join(streams: Mapping[str, DataFrame]) -> DataFrame:
    """A stream-stream join with the interval as a condition on event times."""
    left, right = (
        streams[name].selectExpr(f"key AS {name}_key", f"at_us AS {name}_us", f"at AS {name}_at")
        for name in ("left", "right")
    )
    within = expression(
        "left_key = right_key AND right_at >= left_at - INTERVAL 2 SECONDS "
        "AND right_at <= left_at + INTERVAL 2 SECONDS"
    )
    return left.join(right, within).selectExpr("left_key AS key", "left_us", "right_us")


def streamed_sessions(streams: Mapping[str, DataFrame]) -> DataFrame:
    """A grouping by `session_window`."""
    return sessions_of(streams["left"])


def streamed_first(streams: Mapping[str, DataFrame]) -> DataFrame:
    """`dropDuplicates`, whose state grows with the keys."""
    return streams["left"].dropDuplicates(["key"]).drop("at")
