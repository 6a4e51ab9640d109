"""How far back a new plan reads, compared with what the homes still keep.

Windows of the buckets from its first one on must find all of their records: a trimmed record is
not missing but removed, and a bucket computed without it would be wrong for good.

Limit: the inputs of a fragment in another home are checked in that home.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from medusa_core.commits import Hold
from medusa_core.errors import Conflict, Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US, floor_us
from medusa_core.names import Participant, StreamName
from medusa_core.segments import reading_order
from medusa_core.trims import begins_us, earliest_bucket_us
from pipelines.base.time_text import iso
from pipelines.catalog.processing_roles import Readers
from pipelines.catalog.reading_roles import Lines
from pipelines.catalog.records import Assignment
from pipelines.contracts.fields import listing
from pipelines.contracts.home_snapshot import HomeSnapshot
from pipelines.contracts.placed_network import PlacedNetwork

PURPOSE = "plan"
LIMIT_MS = 15 * 60_000
"""For how long what a new plan reads is held for it: a trim that knew nothing of the plan when it
began has ended long before, and all others know it."""

Logs = Mapping[Participant, Mapping[str, tuple[Assignment, ...]]]


def check_reach(
    network: PlacedNetwork,
    snapshots: Mapping[Participant, HomeSnapshot],
    logs: Logs,
    *,
    may_ask: bool,
    starts_us: int | None = None,
) -> None:
    """Refused if a fragment's new line begins with buckets that read what is trimmed.

    `may_ask`: whether another first bucket may still be requested. `starts_us` is the first bucket
    that the network computes, if not that of its origin.
    """
    worst: tuple[int, str] | None = None
    for home, snapshot in snapshots.items():
        kept = _kept(home, snapshot)
        for fragment, from_us in _beginning(network, home, snapshot, logs[home], starts_us):
            shape = network.fragments[fragment]
            begins = begins_us(shape, from_us) if from_us != BEGINNING_US else {}
            inside = {s: kept[s] for s in shape.input_streams if s in kept}
            short = [s for s in inside if begins.get(s, BEGINNING_US) < inside[s]]
            is_new = from_us in (BEGINNING_US, starts_us)
            if not short:
                is_late = any(fragment in its.log for its in snapshots.values())
                if is_new and (is_late or network.reads):
                    _check_late(network, fragment, home, snapshots, begins)
                continue
            stream = min(short, key=lambda s: begins.get(s, BEGINNING_US) - inside[s])
            needs = (
                f"fragment {fragment} reads stream {stream} from "
                f"{iso(begins.get(stream, BEGINNING_US))} on, and the home of {home} keeps it from "
                f"{iso(inside[stream])} on"
            )
            if is_new:
                raise Refused(f"{needs}: {_new(network, fragment, home, inside)}")
            first_us = earliest_bucket_us(shape, from_us, network.width_us, inside)
            worst = max(worst or (first_us, needs), (first_us, needs))
    if worst is None:
        return
    first_us, needs = worst
    what = f"say --from {iso(first_us)}"
    if not may_ask:
        what = "as some homes know this plan already, change the network again for that bucket"
    raise Refused(f"{needs}: the earliest bucket that works is {iso(first_us)}; {what}")


def _kept(home: Participant, snapshot: HomeSnapshot) -> dict[StreamName, int]:
    """From when on a home keeps each stream of which the line that is read here is trimmed."""
    lines = sorted(snapshot.lines, key=lambda its: reading_order(its.producer, home), reverse=True)
    read = {line.stream: line.trimmed_us for line in lines}
    return {stream: at_us for stream, at_us in read.items() if at_us is not None}


def _new(
    network: PlacedNetwork, fragment: str, home: Participant, kept: Mapping[StreamName, int]
) -> str:
    """Why a fragment that is new in a home cannot be computed there, and what to do."""
    others = [name for name in network.owners[fragment] if name != home]
    if not others and network.reads:
        width_us = network.width_us
        low_us = floor_us(min(kept.values()), width_us)
        first_us = earliest_bucket_us(network.fragments[fragment], low_us, width_us, kept)
        return f"write from: {iso(first_us)} under runs, or a later time"
    if not others:
        return (
            "a fragment that is new begins with the first bucket, which none works for; give the "
            "changed network and its streams other names"
        )
    return (
        f"a replica computes everything from the first bucket on, so {home} can be none; leave the "
        f"fragment to {listing(others)}, or give the network and its streams other names"
    )


def _check_late(
    network: PlacedNetwork,
    fragment: str,
    home: Participant,
    snapshots: Mapping[Participant, HomeSnapshot],
    begins: Mapping[StreamName, int],
) -> None:
    """Refused if a home that comes late to a fragment would read what no producer has any more.

    `begins` is from when on it reads each stream, if not from its first bucket on. A copy that it
    has begun here was looked at before.
    """
    kept: dict[StreamName, int] = {}
    for stream in network.fragments[fragment].input_streams:
        writers = network.writers_of(stream)
        gone = [_gone_us(stream, writer, home, snapshots) for writer in writers]
        if all(at_us is not None for at_us in gone):
            kept[stream] = min(at_us for at_us in gone if at_us is not None)
    for stream, first_us in kept.items():
        if begins.get(stream, BEGINNING_US) < first_us:
            writers = network.writers_of(stream)
            raise Refused(
                f"fragment {fragment} of {home} reads stream {stream} from "
                f"{_from(begins.get(stream))} on, and {listing(writers)} "
                f"{'keep' if len(writers) > 1 else 'keeps'} it from {iso(first_us)} on: "
                f"{_new(network, fragment, home, kept)}"
            )


def _from(begins_us: int | None) -> str:
    return "its first bucket" if begins_us is None else iso(begins_us)


def _gone_us(
    stream: StreamName,
    writer: Participant,
    home: Participant,
    snapshots: Mapping[Participant, HomeSnapshot],
) -> int | None:
    """Before which event time a home can no more get what somebody wrote of a stream."""
    for at in (home, writer):
        for line in snapshots[at].lines if at in snapshots else ():
            is_begun = line.boundary_us is not None
            if (line.stream, line.producer.participant) == (stream, writer) and is_begun:
                return line.trimmed_us
    return None


def reach_of(
    network: PlacedNetwork,
    home: Participant,
    snapshot: HomeSnapshot,
    logs: Mapping[str, tuple[Assignment, ...]],
    starts_us: int | None = None,
) -> Mapping[StreamName, int]:
    """From when on each stream must be kept in a home for the lines that are new in it."""
    needed: dict[StreamName, int] = {}
    for fragment, from_us in _beginning(network, home, snapshot, logs, starts_us):
        for stream, begin_us in begins_us(network.fragments[fragment], from_us).items():
            needed[stream] = min(begin_us, needed.get(stream, FOREVER_US))
    return needed


class HeldLines(Lines, Readers, Protocol):
    """Lines, and what is held of them."""


def hold_for_plan(catalog: HeldLines, holder: str, needed: Mapping[StreamName, int]) -> None:
    """Hold what a new plan will read before it is deployed, against a trim that is running.

    Raises Conflict if one was faster.
    """
    lines = catalog.lines()
    held = {line.stream.name for line in lines} & set(needed)
    for stream in sorted(held):
        catalog.place_hold(
            Hold(
                stream=stream,
                holder=holder,
                purpose=PURPOSE,
                from_us=needed[stream],
                limit_ms=LIMIT_MS,
            )
        )
    read = {
        line.stream.name: line.trimmed_us
        for line in sorted(
            catalog.lines(),
            key=lambda line: reading_order(line.producer, catalog.participant),
            reverse=True,
        )
    }
    for stream in held:
        trimmed_us = read[stream]
        if trimmed_us is not None and trimmed_us > needed[stream]:
            for other in held:
                catalog.release_hold(other, holder, PURPOSE)
            raise Conflict(
                f"stream {stream} was trimmed before {iso(trimmed_us)} meanwhile, and the new plan "
                f"reads it from {iso(needed[stream])} on: run medusa apply again"
            )


def _beginning(
    network: PlacedNetwork,
    home: Participant,
    snapshot: HomeSnapshot,
    logs: Mapping[str, tuple[Assignment, ...]],
    starts_us: int | None,
) -> Iterator[tuple[str, int]]:
    """The fragments that a home computes and has no line of the newest plan for: from when on.

    One that is new there is computed from where the network starts, wherever its first line begins.
    """
    for fragment, log in logs.items():
        if fragment not in network.fragments or home not in network.owners[fragment]:
            continue
        current, own = (
            [line for line in lines if line.producer.participant == home]
            for lines in (snapshot.log.get(fragment, ()), log)
        )
        if len(current) < len(own):
            from_us = own[-1].from_us
            is_new = not current or from_us is None
            start_us = BEGINNING_US if starts_us is None else starts_us
            yield fragment, start_us if is_new or from_us is None else max(from_us, start_us)
