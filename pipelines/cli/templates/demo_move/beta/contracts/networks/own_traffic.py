"""The connections that beta logs: how many each second."""

from medusa_core.network import Aggregate, Network, Output, Source

COLUMNS = {"ts_us": "bigint", "orig_h": "string", "resp_p": "int"}

network = Network(
    name="own_traffic",
    sources=(Source(name="own_connections", columns=COLUMNS, time="ts_us", disorder="1s"),),
    boxes=(
        Aggregate(
            name="per_second",
            input="own_connections",
            size="1s",
            columns={"connections": "count(*)"},
        ),
    ),
    outputs=(Output(name="own_counts", input="per_second"),),
    bucket="1s",
)
