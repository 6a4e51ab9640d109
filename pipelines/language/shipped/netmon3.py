"""`netmon` over connections that three participants log: one stream each, joined by a Union."""

from medusa_core.network import Network, Source, Union
from pipelines.language.shipped import netmon

PARTS = ("connections_a", "connections_b", "connections_c")

sources = tuple(
    Source(name=name, columns=netmon.connections.columns, time="ts_us", disorder="5s")
    for name in PARTS
)
connections = Union(name="connections", inputs=PARTS)
network = Network(
    name="netmon3",
    sources=sources,
    boxes=(connections, *netmon.network.boxes),
    outputs=netmon.network.outputs,
)
