"""Connections that three participants land, counted in windows of two seconds by a fourth."""

from medusa_core.network import Aggregate, Network, Output, Source, Union

PARTS = ("given_a", "given_b", "given_c")
COLUMNS = {"ts_us": "bigint", "orig_h": "string", "resp_p": "int"}

network = Network(
    name="three",
    sources=tuple(Source(name=name, columns=COLUMNS, time="ts_us") for name in PARTS),
    boxes=(
        Union(name="given", inputs=PARTS),
        Aggregate(
            name="per_source",
            input="given",
            size="2s",
            group_by=("orig_h",),
            columns={"n": "count(*)", "ports": "count(distinct resp_p)"},
        ),
    ),
    outputs=(Output(name="counted", input="per_source"),),
    bucket="2s",
)
