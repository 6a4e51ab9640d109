"""`netmon` over the connections that three partners land and grant."""

from medusa_core.network import Network, Source, Union
from pipelines.language.shipped import netmon

PARTS = {"connections_a": "alpha", "connections_b": "beta", "connections_c": "gamma"}

network = Network(
    name="monitoring",
    sources=tuple(
        Source(name=name, stream=f"{partner}/{name}", columns=netmon.connections.columns)
        for name, partner in PARTS.items()
    ),
    boxes=(Union(name="connections", inputs=tuple(PARTS)), *netmon.network.boxes),
    outputs=netmon.network.outputs,
    bucket="10s",
)
