"""What has to be computed again: by plan, which streams over which ranges, from which records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from medusa_core.errors import Refused
from medusa_core.fragments import fragments_of
from medusa_core.grid import Range
from medusa_core.names import PlanId, StreamName
from medusa_core.network import Network, Port
from pipelines.homes.home import Home
from pipelines.homes.network_files import network_of_plan
from pipelines.language.check import CheckedNetwork, check_network
from pipelines.quality.recompute import Batch, Recomputation
from pipelines.quality.window_inputs import needed, source_records
from pipelines.storage.arrow_schema import record_schema

Plans = Mapping[PlanId, Mapping[str, Any]]
"""Plans as their documents say, by fingerprint."""

Made = Mapping[PlanId, Mapping[StreamName, Sequence[Range]]]
"""Which final ranges of which streams a plan has made."""


@dataclass(frozen=True, slots=True)
class Job:
    """What one plan has to answer for: streams, and the final ranges that it made of each."""

    checked: CheckedNetwork
    ports: Mapping[StreamName, Port]
    ranges: Mapping[StreamName, tuple[Range, ...]]


def jobs_of(home: Home, made: Made, plans: Plans, lost: dict[StreamName, str]) -> Iterator[Job]:
    """A job for every plan; `lost` is told of streams whose plan cannot be run, and why."""
    for plan, ranges in made.items():
        try:
            network = network_of_plan(plans[plan], home.directory)
        except Refused as error:
            lost |= dict.fromkeys(ranges, str(error))
            continue
        ports = ports_of_streams(network)
        yield Job(
            checked=check_network(network),
            ports={stream: ports[stream] for stream in ranges},
            ranges={stream: tuple(joined(parts)) for stream, parts in ranges.items()},
        )


def ports_of_streams(network: Network) -> Mapping[StreamName, Port]:
    """Every stream of a network, what crosses between fragments included, and where it begins."""
    ports = {StreamName(source.name): Port(source.name) for source in network.sources}
    for fragment in fragments_of(network):
        ports |= fragment.outputs
    return ports


def joined(parts: Sequence[Range]) -> Iterator[Range]:
    """The ranges in order, neighbours made one."""
    last: Range | None = None
    for part in sorted(parts):
        if last is not None and part.from_us <= last.to_us:
            last = last.hull(part)
            continue
        if last is not None:
            yield last
        last = part
    if last is not None:
        yield last


def hull(parts: Sequence[Range]) -> Range:
    return Range(min(p.from_us for p in parts), max(p.to_us for p in parts))


@contextmanager
def computing(home: Home, job: Job, batch: Batch) -> Iterator[Recomputation]:
    """The plan's network over all records that the ranges need."""
    wanted: dict[str, Range] = {}
    for stream, parts in job.ranges.items():
        need = needed(job.checked.network, job.ports[stream], hull(parts))
        for source, range_ in need.items():
            wanted[source] = wanted[source].hull(range_) if source in wanted else range_
    sources = {}
    for declared in job.checked.network.sources:
        name = declared.name
        columns = job.checked.columns[Port(name)]
        part = wanted.get(name)
        sources[name] = (
            record_schema(columns).empty_table()
            if part is None
            else source_records(home.catalog, home.storage, StreamName(name), columns, part)
        )
    with Recomputation(checked=job.checked, sources=sources, batch=batch) as run:
        yield run


def boxes_behind(network: Network, port: Port) -> tuple[str, ...]:
    """The boxes that a port's rows have gone through, in order."""
    found: set[str] = set()
    waiting = [port]
    arcs = network.box_arcs
    while waiting:
        owner = waiting.pop().owner
        if not network.is_source(owner) and owner not in found:
            found.add(owner)
            waiting += [arc.start for arc in arcs if arc.end == owner]
    return tuple(name for name in network.order if name in found)
