"""What was dropped of streams and is to be corrected, and the utility that they have lost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pipelines.base.time_text import iso
from pipelines.catalog.processing_roles import Guarantees
from pipelines.catalog.records import StreamStatus


def drop_facts(home: Guarantees, lines: Iterable[StreamStatus]) -> list[dict[str, Any]]:
    """For each line with drops its range, how much of it, and the utility that is lost by it.

    The share is that of the time from the first drop to where the line has come. The utility is
    that of the loss graph; None for a stream without a QoS, which others behind it have.
    """
    graphs = home.qos()
    known = {(line.stream.name, line.producer): line for line in lines}
    found = []
    for its in home.dropped():
        line = known.get((its.stream, its.producer))
        if line is None:
            continue  # it has begun since the lines were read
        through_us = max(its.range.to_us, line.live_through_us or its.range.to_us)
        share = its.dropped * line.stream.width_us / (through_us - its.range.from_us)
        qos = graphs.get(its.stream)
        found.append(
            {
                "stream": its.stream,
                "producer": str(its.producer),
                "buckets": its.buckets,
                "from": iso(its.range.from_us),
                "from_us": its.range.from_us,
                "through": iso(its.range.to_us),
                "through_us": its.range.to_us,
                "share": round(share, 4),
                "utility_lost": None if qos is None else round(1 - qos.loss.at(share), 4),
            }
        )
    return found
