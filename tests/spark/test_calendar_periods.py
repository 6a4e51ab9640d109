"""Calendar windows in Spark: the window of a record is that of the core, by zone and period."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from medusa_core.calendar_windows import PERIODS, CalendarWindows
from pipelines.language.zone_database import offsets_of
from pipelines.spark.calendar_periods import in_periods
from pipelines.storage.arrow_schema import STIME
from tests.sweeps import long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZONES = ("UTC", "+05:30", "Europe/Berlin", "Asia/Beirut", "America/Sao_Paulo", "America/St_Johns",
         "Pacific/Apia", "America/Sitka", "Africa/Casablanca")  # fmt: skip
AWAY_S = (0, 1, 59, 60, 1_800, 3_600, 7_200, 86_400, 40 * 86_400)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("every", long_but(0, sorted(PERIODS)))
def test_spark_finds_the_windows_of_the_core(spark: SparkSession, every: str) -> None:
    queries, expected = [], set()
    for zone in ZONES:
        windows = CalendarWindows(every, offsets_of(zone))
        middles = [*windows.clock.begins_us[1:], 0, -62_135_596_800_000_000, 10**17]
        times = {at + sign * s * 1_000_000 - less for at in middles for s in AWAY_S
                 for sign in (1, -1) for less in (0, 1)}  # fmt: skip
        view = f"of_{len(queries)}"
        spark.createDataFrame([(t,) for t in times], f"{STIME} bigint").createOrReplaceTempView(
            view
        )
        held = in_periods(windows, view, "start", "end")
        queries.append(f"SELECT '{zone}' AS zone, {STIME}, start, end FROM ({held})")
        expected |= {
            (zone, time_us, window.from_us, window.to_us)
            for time_us in times
            for window in [windows.window_at(time_us)]
        }
    assert {tuple(row) for row in spark.sql(" UNION ALL ".join(queries)).collect()} == expected
