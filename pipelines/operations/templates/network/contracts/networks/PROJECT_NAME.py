"""A network: traffic by owner, and alerts with the connections around them."""

from medusa_core.network import Aggregate, Join, Lookup, Network, Output, Source

connections = Source(
    name="connections",
    columns={
        "at": "timestamp",
        "source": "string",
        "port": "int",
        "bytes": "bigint",
    },
    time="at",
)
alerts = Source(
    name="alerts",
    columns={
        "at": "timestamp",
        "source": "string",
        "rule": "string",
    },
    time="at",
)
owners = Source(
    name="owners",
    columns={
        "at": "timestamp",
        "source": "string",
        "owner": "string",
    },
    time="at",
)
owned = Lookup(name="owned", input="connections", table="owners", on=("source",), max_age="1d")
per_owner = Aggregate(
    name="per_owner",
    input="owned",
    size="5m",
    group_by=("owner",),
    columns={"connections": "count(*)", "ports": "count(distinct port)", "bytes": "sum(bytes)"},
)
around = Join(
    name="around",
    left="alerts",
    right="owned",
    on=("source",),
    within=("-1m", "1m"),
    columns={
        "rule": "left.rule",
        "source": "left.source",
        "owner": "right.owner",
        "port": "right.port",
        "bytes": "right.bytes",
    },
)

network = Network(
    name="PROJECT_NAME",
    sources=(connections, alerts, owners),
    boxes=(owned, per_owner, around),
    outputs=(
        Output(name="owner_traffic", input="per_owner"),
        Output(name="alerted_connections", input="around"),
    ),
    bucket="1m",
)
