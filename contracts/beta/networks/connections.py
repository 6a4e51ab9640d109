"""The connections that beta logs, landed for its partners: nothing is computed of them here."""

from medusa_core.network import Network, Source

network = Network(
    name="connections",
    sources=(
        Source(
            name="connections_b",
            columns={"ts_us": "bigint", "orig_h": "string", "resp_p": "int"},
            time="ts_us",
            disorder="5s",
        ),
    ),
    boxes=(),
    outputs=(),
)
