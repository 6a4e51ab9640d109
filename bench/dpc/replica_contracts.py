"""The contracts and the network of the replicas: two compute the same, one reads it from either.

The replicas join two of the sources. The reader joins their stream with the third source, which
it imports itself, so that it has some input to answer from when neither replica is available.
"""

from __future__ import annotations

from pathlib import Path

from bench.dpc.contracts import (
    NETWORK,
    OUTPUT,
    make_folders,
    write_computing,
    write_landing,
    write_promise,
)
from bench.dpc.scenario import BUCKET_S, EAST, LANDING, READER, REPLICAS, SOURCE_OF, ReplicaSet

CHOSEN = "passed"
"""The stream that the replicas give: what the reader chooses of."""

LINES = (*((replica, CHOSEN) for replica in REPLICAS), (READER, OUTPUT))
"""Who writes which stream."""

_NETWORK = """\
from medusa_core.network import Map, Network, Output, Source, Union

COLUMNS = {{"seq": "bigint", "ts_us": "bigint", "orig_h": "string", "resp_p": "int"}}
KEPT = {{"seq": "seq", "orig_h": "orig_h", "resp_p": "resp_p"}}

network = Network(
    name="replicated",
    sources=tuple(Source(name=name, columns=COLUMNS, time="ts_us") for name in {sources!r}),
    boxes=(
        Union(name="gathered", inputs={gathered!r}, fragment="computing"),
        Map(name="{chosen}", input="gathered", columns=KEPT, fragment="computing"),
        Map(name="direct", input="{direct}", columns=KEPT, fragment="reading"),
        Union(name="together", inputs=("{chosen}", "direct"), fragment="reading"),
    ),
    outputs=(Output(name="{output}", input="together"),),
    bucket="{bucket}s",
)
"""


def write_replicas(asked: ReplicaSet, folder: Path) -> Path:
    """The folder for `medusa apply`."""
    make_folders(folder)
    sources = tuple(SOURCE_OF[lander] for lander in LANDING)
    (folder / NETWORK).write_text(
        _NETWORK.format(
            sources=sources, direct=SOURCE_OF[EAST], chosen=CHOSEN, output=OUTPUT,
            gathered=tuple(SOURCE_OF[lander] for lander in LANDING if lander != EAST),
            bucket=f"{BUCKET_S:g}",
        )
    )  # fmt: skip
    write_landing(folder)
    for replica in REPLICAS:
        write_computing(folder, replica, "computing")
    write_computing(folder, READER, "reading")
    write_promise(folder, asked.policy)
    (folder / "streams" / f"{CHOSEN}.yaml").write_text(
        f"stream: {CHOSEN}\nreplicas: {len(REPLICAS)}\n"
    )
    return folder
