"""Every column type passes through every way in and out unchanged, NULL and edges too."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from medusa_core.columns import declare_columns
from medusa_core.network import Map, Network, Output, Source
from pipelines.spark.execution_mode import ExecutionMode
from pipelines.storage.arrow_schema import STIME, arrow_type
from pipelines.storage.segment_rows import read_segments
from tests.replaying import Replayer, parquet_files
from tests.sweeps import long_but

COLUMNS = {
    "at_us": "bigint",
    "flag": "boolean",
    "small": "int",
    "big": "bigint",
    "real": "double",
    "price": "decimal(9,2)",
    "huge": "decimal(38,10)",
    "text": "string",
    "raw": "binary",
    "day": "date",
    "instant": "timestamp",
}
EDGES = {
    "flag": [True, False, None, True],
    "small": [2**31 - 1, -(2**31), None, 0],
    "big": [2**63 - 1, -(2**63), None, 0],
    "real": [1.5, float("inf"), None, 5e-324],
    "price": [Decimal("9999999.99"), Decimal("-0.01"), None, Decimal("0.00")],
    "huge": [Decimal("9" * 28 + "." + "9" * 10), Decimal("-1.0000000001"), None, Decimal(0)],
    "text": ["plain", "é\n\"x\",y", None, "x" * 70_000],
    "raw": [b"\0\xff", b"x" * 300, None, b"a"],
    "day": [date(1, 1, 1), date(9999, 12, 31), None, date(1970, 1, 1)],
    "instant": [datetime(1900, 1, 1, tzinfo=UTC), datetime(2020, 2, 29, 23, 59, 59, 999_999, UTC),
                None, datetime(1970, 1, 1, tzinfo=UTC)],
}  # fmt: skip
AT_US = [-5_000_000, 0, 1_600_000_000_123_456, 1_600_000_000_123_457]


def a_network() -> Network:
    return Network(
        name="types",
        sources=(Source(name="given", columns=COLUMNS, time="at_us", time_unit="us"),),
        boxes=(Map(name="same", input="given", columns={name: name for name in COLUMNS}),),
        outputs=(Output(name="taken", input="same"),),
    )


@pytest.mark.parametrize("way", list(ExecutionMode))
@pytest.mark.parametrize("rows_in_driver", long_but(1, [-1, 1_000]), ids=["by tasks", "by driver"])
def test_every_type_is_output_as_it_was_input(
    replayer: Replayer, monkeypatch: pytest.MonkeyPatch, way: ExecutionMode, rows_in_driver: int
) -> None:
    monkeypatch.setattr("pipelines.spark.step.mode_of", lambda *_, **__: way)
    monkeypatch.setattr("pipelines.spark.job.RESULT_ROWS_IN_DRIVER_MAX", rows_in_driver)
    values = {"at_us": AT_US, **EDGES}
    given = pa.table({n: pa.array(values[n], arrow_type(t)) for n, t in COLUMNS.items()})
    network = a_network()
    with replayer.home() as home:
        replayer.run(home, network, {"given": parquet_files(replayer.folder / "in", given)})
        segments = home.catalog.segments("taken")  # type: ignore[arg-type]
        columns = declare_columns("taken", COLUMNS)
        taken = pa.concat_tables(read_segments(home.storage, segments, columns))
        assert home.catalog.quarantined() == ()
    assert (
        taken.sort_by(STIME)
        .drop_columns([STIME])
        .equals(given.cast(taken.drop_columns([STIME]).schema))
    )
    (whole,) = {sum((s.digest for s in segments), start=segments[0].digest - segments[0].digest)}
    assert whole.rows == 4
