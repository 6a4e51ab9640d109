"""A recording that is played at a rate, and the contracts of those who land and compute it.

`kind: generate` gives 65,536 records a second at most, and the time to make them (about a
microsecond a record) would be the participant's. So a few seconds of connections are generated
once, their times are stretched or compressed to the rate, and they are repeated.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from pipelines.sources.generator import START_US, generate_connections

LANDER, SOURCE = "alpha", "connections"
CHAIN = (LANDER, "beta", "gamma")
NETWORK = "networks/live.py"
BLOCK_S, BASE_RATE = 5, 10_000
DISORDER_S, DISORDERED = 1, 0.9
"""How far records are behind, as declared, and the part of it that they are at most."""

_NETWORK = """\
from dataclasses import replace
from medusa_core.network import Aggregate, Filter
from pipelines.language.shipped.netmon import network as minutely

boxes = [replace(b, size="1s") if isinstance(b, Aggregate) else b for b in minutely.boxes]
{chain}network = replace(minutely, name="live", boxes=tuple(boxes), bucket="1s")
"""
_CHAIN = """\
boxes = [replace(b, fragment="last") for b in boxes]
boxes = [replace(b, input="passed.kept") if b.input == "connections" else b for b in boxes]
passed = Filter(
    name="passed", input="connections", cases={"kept": "resp_p >= 0"}, fragment="middle"
)
boxes.insert(0, passed)
"""


def write_recording(folder: Path, *, rate: int, seconds: float) -> list[Path]:
    """Files that hold `rate` records for each second of event time, from START_US on."""
    folder.mkdir(parents=True)
    table = pa.concat_tables(
        generate_connections(
            seed=1,
            records=rate * BLOCK_S,
            rate_per_s=BASE_RATE,
            disorder_us=int(DISORDERED * DISORDER_S * 1e6 * rate / BASE_RATE),
        )
    ).select(["ts_us", "orig_h", "resp_p"])
    at_us = table["ts_us"].to_numpy()
    since_us = at_us - at_us.min()
    block_us = BLOCK_S * 1_000_000
    times_us = START_US + since_us * block_us // (since_us.max() + 1)
    files = []
    for number in range(int(np.ceil(seconds / BLOCK_S))):
        block = table.set_column(0, "ts_us", pa.array(times_us + number * block_us))
        files.append(folder / f"{number:03}.parquet")
        pq.write_table(block, files[-1], compression="zstd", compression_level=1)
    return files


def write_contracts(folder: Path, homes: int, files: list[Path]) -> Path:
    """Contracts of one participant that lands and computes, or of a chain of three."""
    for kind in ("participants", "streams", "networks"):
        (folder / kind).mkdir(parents=True)
    (folder / NETWORK).write_text(_NETWORK.format(chain=_CHAIN if homes > 1 else ""))
    tasks = [{"sources": [SOURCE]}, {"fragments": ["middle"]}, {"fragments": ["last"]}]
    if homes == 1:
        tasks = [{"sources": [SOURCE], "fragments": ["main"]}]
    for name, task in zip(CHAIN, tasks, strict=False):
        document = {"participant": name, "runs": [{"network": NETWORK, "bucket": "1s", **task}]}
        (folder / "participants" / f"{name}.yaml").write_text(yaml.safe_dump(document))
    source = {
        "kind": "replay", "paths": [*map(str, files)], "speed": 1, "disorder": f"{DISORDER_S}s",
    }  # fmt: skip
    document = {"stream": SOURCE, "source": source}
    (folder / "streams" / f"{SOURCE}.yaml").write_text(yaml.safe_dump(document))
    return folder
