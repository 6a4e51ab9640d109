"""The connections that beta logs: nothing is computed of them here."""

from medusa_core.network import Network, Source

COLUMNS = {"ts_us": "bigint", "orig_h": "string", "resp_p": "int"}

network = Network(
    name="connections",
    sources=(Source(name="connections_b", columns=COLUMNS, time="ts_us", disorder="1s"),),
    boxes=(),
    outputs=(),
    bucket="1s",
)
