"""Traffic on the roads of a city, from sensors that each watch one stretch of road.

Per sensor and quarter of an hour: readings, vehicles, lowest and highest average speed. Two streams
come out: segments with many vehicles, and per window how many segments were full and slow.
`window_start` is in Unix seconds.
"""

from medusa_core.network import Aggregate, Filter, Map, Network, Output, Source

readings = Source(
    name="readings",
    columns={"ts_us": "bigint", "report_id": "int", "avg_speed": "int", "vehicle_count": "int"},
    time="ts_us",
)
per_segment = Aggregate(
    name="per_segment",
    input="readings",
    size="15m",
    group_by=("report_id",),
    columns={
        "readings": "count(*)",
        "vehicles": "sum(vehicle_count)",
        "min_speed": "min(avg_speed)",
        "max_speed": "max(avg_speed)",
    },
)
busy = Filter(name="busy", input="per_segment", cases={"yes": "vehicles > 100"})
busy_in_seconds = Map(
    name="busy_in_seconds",
    input="busy",
    columns={
        "window_start": "unix_seconds(window_start)",
        "report_id": "report_id",
        "readings": "readings",
        "vehicles": "vehicles",
        "min_speed": "min_speed",
        "max_speed": "max_speed",
    },
)
slow = Filter(name="slow", input="per_segment", cases={"yes": "vehicles > 30 and max_speed < 20"})
per_window = Aggregate(
    name="per_window", input="slow", size="15m", columns={"segments": "count(*)"}
)
slow_in_seconds = Map(
    name="slow_in_seconds",
    input="per_window",
    columns={"window_start": "unix_seconds(window_start)", "segments": "segments"},
)
network = Network(
    name="road_sensors",
    sources=(readings,),
    boxes=(per_segment, busy, busy_in_seconds, slow, per_window, slow_in_seconds),
    outputs=(
        Output(name="busy_segments", input="busy_in_seconds"),
        Output(name="slow_segments", input="slow_in_seconds"),
    ),
    bucket="5m",
)
