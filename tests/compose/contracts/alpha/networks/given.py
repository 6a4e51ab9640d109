"""Connections that alpha lands."""

from medusa_core.network import Network, Source

COLUMNS = {"ts_us": "bigint", "orig_h": "string", "resp_p": "int"}

network = Network(
    name="given",
    sources=(Source(name="given_a", columns=COLUMNS, time="ts_us"),),
    boxes=(),
    outputs=(),
    bucket="2s",
)
