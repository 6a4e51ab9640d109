"""Recomputation jobs: for each plan, the final ranges of the streams that it made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from medusa_core.errors import Refused
from medusa_core.fragments import fragments_of
from medusa_core.grid import Range
from medusa_core.names import PlanId, StreamName
from medusa_core.network import Network, Port
from pipelines.homes.home import Home
from pipelines.homes.network_files import network_of_plan
from pipelines.quality.port_columns import Columns, port_columns
from pipelines.quality.ranges import merged
from pipelines.quality.recompute import recompute
from pipelines.quality.spark_boxes import SparkBatch
from pipelines.quality.spark_types import NoSuchType
from pipelines.quality.stored_rows import lives_of, source_records

Plans = Mapping[PlanId, Mapping[str, Any]]
"""Plans as their documents say, by fingerprint."""

Made = Mapping[PlanId, Mapping[StreamName, Sequence[Range]]]
"""The ranges of streams that plans made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """The rows of a stream in the requested ranges, or why they cannot be recomputed.

    `columns` are those that the stream has by the oracle's rules. `engines` and `failed` are of the
    boxes that the rows pass through.
    """

    columns: Columns = ()
    rows: pa.Table | None = None
    reason: str = ""
    engines: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def recompute_streams(
    home: Home, made: Made, plans: Plans, batch: SparkBatch
) -> Mapping[StreamName, Sequence[Recomputed]]:
    """Recompute ranges of streams from the home's records: for each stream, one result a plan.

    Only records that the ranges need are read. Raises Unavailable if a file is missing or damaged.
    """
    found: dict[StreamName, list[Recomputed]] = {}
    for plan, ranges in made.items():
        for stream, one in _of_plan(home, plans[plan], ranges, batch):
            found.setdefault(stream, []).append(one)
    return found


def _of_plan(
    home: Home, plan: Mapping[str, Any], ranges: Mapping[StreamName, Sequence[Range]],
    batch: SparkBatch,
) -> Iterator[tuple[StreamName, Recomputed]]:  # fmt: skip
    """The ranges that one plan made; if it cannot be run, each stream with the reason."""

    def records(name: str, columns: Columns, parts: Sequence[Range]) -> pa.Table:
        stream = network.source(name).stream_name
        return source_records(home.catalog, home.storage, stream, columns, parts)

    try:
        network = network_of_plan(plan, home.directory)
        columns = port_columns(network)
    except (Refused, NoSuchType) as error:
        yield from ((stream, Recomputed(reason=str(error))) for stream in ranges)
        return
    ports = ports_of_streams(network)
    needed = {ports[stream]: merged(parts) for stream, parts in ranges.items()}
    lives = lives_of(home.catalog, ports)
    with recompute(network, needed, records, batch, lives) as run:
        for stream in ranges:
            port = ports[stream]
            rows = run.rows(port, needed[port])
            behind = boxes_behind(network, port)
            yield (
                stream,
                Recomputed(
                    columns=columns[port],
                    rows=rows,
                    engines={box: run.engines[box] for box in behind if box in run.engines},
                    failed={box: run.failed[box] for box in behind if box in run.failed},
                ),
            )


def ports_of_streams(network: Network) -> Mapping[StreamName, Port]:
    """Every stream of a network, also between fragments, and the port where it begins."""
    ports = {source.stream_name: Port(source.name) for source in network.sources}
    for fragment in fragments_of(network):
        ports |= fragment.outputs
    return ports


def boxes_behind(network: Network, port: Port) -> tuple[str, ...]:
    """The boxes that a port's rows pass through, in order."""
    found: set[str] = set()
    waiting = [port]
    while waiting:
        owner = waiting.pop().owner
        if not network.is_source(owner) and owner not in found:
            found.add(owner)
            waiting += [arc.start for arc in network.box_arcs if arc.end == owner]
    return tuple(name for name in network.order if name in found)
