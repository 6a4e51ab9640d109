"""Who scans the network: every second, over the last ten, of the logs of three participants."""

from medusa_core.network import Aggregate, Filter, Map, Network, Output, Source, Union

PARTS = ("connections_a", "connections_b", "connections_c")
COLUMNS = {"ts_us": "bigint", "orig_h": "string", "resp_p": "int"}

network = Network(
    name="scanners",
    sources=tuple(
        Source(name=name, columns=COLUMNS, time="ts_us", disorder="1s") for name in PARTS
    ),
    boxes=(
        Union(name="connections", inputs=PARTS),
        Aggregate(
            name="per_source",
            input="connections",
            size="10s",
            advance="1s",
            group_by=("orig_h",),
            columns={"connections": "count(*)", "distinct_ports": "count(distinct resp_p)"},
        ),
        Filter(name="scanning", input="per_source", cases={"yes": "distinct_ports > 10"}),
        Map(
            name="told",
            input="scanning",
            columns={
                "orig_h": "orig_h",
                "connections": "connections",
                "distinct_ports": "distinct_ports",
            },
        ),
    ),
    outputs=(Output(name="scanning_sources", input="told"),),
    bucket="1s",
)
