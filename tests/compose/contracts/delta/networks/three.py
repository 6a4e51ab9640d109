"""Connections that three partners land, counted in windows of two seconds."""

from medusa_core.network import Aggregate, Network, Output, Source, Union

PARTS = {"given_a": "alpha", "given_b": "beta", "given_c": "gamma"}
COLUMNS = {"ts_us": "bigint", "orig_h": "string", "resp_p": "int"}

network = Network(
    name="three",
    sources=tuple(
        Source(name=name, stream=f"{partner}/{name}", columns=COLUMNS)
        for name, partner in PARTS.items()
    ),
    boxes=(
        Union(name="given", inputs=tuple(PARTS)),
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
