"""The network-monitoring query of the Borealis demonstration.

Per source address and minute of a connection log: how many connections, to how many ports. Out come
busy sources, those that look like a port scan, and how many scanners share a /24 (IPv4 only).
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
busy = Filter(name="busy", input="in_seconds", cases={"yes": "connections > 100"})
scanning = Filter(name="scanning", input="in_seconds", cases={"yes": "distinct_ports > 10"})
ipv4 = Filter(name="ipv4", input="scanning", cases={"yes": "not contains(orig_h, ':')"})
PREFIX24 = "substring_index(orig_h, '.', 3) || '.0/24'"
prefixes = Map(name="prefixes", input="ipv4", columns={"prefix24": PREFIX24})
per_prefix = Aggregate(
    name="per_prefix",
    input="prefixes",
    size="60s",
    group_by=("prefix24",),
    columns={"ips": "count(*)"},
)
prefix_counts = Map(
    name="prefix_counts",
    input="per_prefix",
    columns={"window_start": "unix_seconds(window_start)", "prefix24": "prefix24", "ips": "ips"},
)
network = Network(
    name="netmon",
    sources=(connections,),
    boxes=(per_source, in_seconds, busy, scanning, ipv4, prefixes, per_prefix, prefix_counts),
    outputs=(
        Output(name="busy_sources", input="busy"),
        Output(name="scanning_sources", input="scanning"),
        Output(name="scanning_prefixes", input="prefix_counts"),
    ),
)
