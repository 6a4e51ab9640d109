"""A network with one output, for the comparison in which Structured Streaming needs no callback.

Sources that are busy (more than 100 connections in a minute) or scan (more than 10 ports).
"""

from medusa_core.network import Aggregate, Filter, Map, Network, Output, Source

connections = Source(
    name="connections",
    columns={"ts_us": "bigint", "orig_h": "string", "resp_p": "int"},
    time="ts_us",
)
per_source = Aggregate(
    name="per_source",
    input="connections",
    size="60s",
    group_by=("orig_h",),
    columns={"connections": "count(*)", "distinct_ports": "count(distinct resp_p)"},
)
in_seconds = Map(
    name="in_seconds",
    input="per_source",
    columns={
        "window_start": "unix_seconds(window_start)",
        "orig_h": "orig_h",
        "connections": "connections",
        "distinct_ports": "distinct_ports",
    },
)
noisy = Filter(
    name="noisy", input="in_seconds", cases={"yes": "connections > 100 or distinct_ports > 10"}
)
network = Network(
    name="noisy",
    sources=(connections,),
    boxes=(per_source, in_seconds, noisy),
    outputs=(Output(name="noisy_sources", input="noisy"),),
)
