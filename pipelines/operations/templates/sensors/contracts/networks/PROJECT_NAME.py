"""Rooms: what their thermometers say, by room, and heating with open windows."""

from medusa_core.network import Aggregate, Filter, Join, Lookup, Network, Output, Source

readings = Source(
    name="readings",
    columns={
        "at": "timestamp",
        "sensor": "string",
        "decicelsius": "int",
    },
    time="at",
)
openings = Source(
    name="openings",
    columns={
        "at": "timestamp",
        "room": "string",
        "window": "int",
    },
    time="at",
)
places = Source(
    name="places",
    columns={
        "at": "timestamp",
        "sensor": "string",
        "room": "string",
    },
    time="at",
)
placed = Lookup(
    name="placed", input="readings", table="places", on=("sensor",), max_age="1d", how="inner"
)
per_room = Aggregate(
    name="per_room",
    input="placed",
    size="10m",
    advance="5m",
    group_by=("room",),
    columns={
        "readings": "count(*)",
        "lowest": "min(decicelsius)",
        "highest": "max(decicelsius)",
        "mean": "round(avg(decicelsius), 1)",
    },
)
cold = Filter(name="cold", input="placed", cases={"yes": "decicelsius < 185"})
cooled = Join(
    name="cooled",
    left="cold",
    right="openings",
    on=("room",),
    within=("-5m", "0s"),
    columns={"room": "left.room", "decicelsius": "left.decicelsius", "window": "right.window"},
)

network = Network(
    name="PROJECT_NAME",
    sources=(readings, openings, places),
    boxes=(placed, per_room, cold, cooled),
    outputs=(
        Output(name="room_temperatures", input="per_room"),
        Output(name="cooled_rooms", input="cooled"),
    ),
    bucket="1m",
)
