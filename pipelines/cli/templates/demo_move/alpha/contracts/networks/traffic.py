"""Every second: how many connections each source opened, and to how many ports."""

from medusa_core.network import Aggregate, Network, Output, Source

COLUMNS = {"ts_us": "bigint", "orig_h": "string", "resp_p": "int"}

network = Network(
    name="traffic",
    sources=(Source(name="connections", columns=COLUMNS, time="ts_us", disorder="1s"),),
    boxes=(
        Aggregate(
            name="per_source",
            input="connections",
            size="1s",
            group_by=("orig_h",),
            columns={"connections": "count(*)", "ports": "count(distinct resp_p)"},
        ),
    ),
    outputs=(Output(name="active_sources", input="per_source"),),
    bucket="1s",
)
