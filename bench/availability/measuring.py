"""What a method takes of CPU, and what the loss of the provider did to an output."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from bench.availability.pair import CLASSES, NETWORK, Shape, name_of
from medusa_core.grid import parse_duration_us
from medusa_core.market.terms import Method
from pipelines.base.time_text import parse_time_us
from tests.federation.moving_offices import Participants
from tests.federation.test_moves_by_contract import rows
from tests.partners.offices import Office

LATE_S = 1.0
"""So much later than the usual bucket one is late."""

GROUP = 5
COMMITS = """SELECT c.from_us, c.to_us, extract(epoch FROM c.committed_at)
    FROM medusa.commit AS c WHERE c.fragment = :fragment AND c.participant = 'alpha'
        AND c.replica = 0 AND c.cause = 'normal' ORDER BY c.commit_id"""
SEGMENTS = """SELECT s.from_us, s.to_us, s.stability::text
    FROM medusa.segment AS s JOIN medusa.stream_producer AS p USING (line_id)
    WHERE p.stream = :stream AND p.participant = 'alpha' AND p.replica = 0
        AND s.end_version IS NULL ORDER BY s.from_us"""
CPU = """SELECT p.fragment, sum(p.cpu_us) / 1e6 FROM medusa_api.load_samples AS p
    WHERE p.fragment IS NOT NULL AND p.ended_at > to_timestamp(:from_s)
        AND p.ended_at <= to_timestamp(:to_s) GROUP BY p.fragment"""
SAMPLED = """SELECT coalesce(sum(p.length_ms), 0) / 1e3 FROM medusa_api.load_samples AS p
    WHERE p.kind IS NULL AND p.ended_at > to_timestamp(:from_s)
        AND p.ended_at <= to_timestamp(:to_s)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the loss did to one output.

    `recovered_s` is the time from the kill to the last late bucket (0: none was late), `pause_s`
    how late the latest one was. Rows are compared outside of gaps.
    """

    method: Method
    class_: str
    usual_s: float
    pause_s: float
    recovered_s: float
    lost_s: float
    lost_rows: int
    missing_rows: int
    repeated_rows: int
    rows: int


def loads(office: Office, from_s: float, to_s: float) -> dict[str, float]:
    """CPU seconds per second of each fragment, over the samples of a time."""
    (sampled,) = office.sql(SAMPLED, from_s=from_s, to_s=to_s)
    whole_s = float(sampled[0])
    found = office.sql(CPU, from_s=from_s, to_s=to_s)
    return {name: float(spent) / whole_s for name, spent in found} if whole_s else {}


def load_of_method(found: dict[str, float], method: Method) -> float:
    """What the fragments of a method take in a home: their steps, and imports of their outputs."""
    outputs = {name_of(method, class_) for class_ in CLASSES}
    return sum(load for name, load in found.items() if name.rpartition("/")[2] in outputs)


def outcome_of(
    both: Participants, method: Method, class_: str, shape: Shape, killed_s: float
) -> Outcome:
    """Compare an output with what has landed, and its commits with the kill."""
    name, width_s = name_of(method, class_), parse_duration_us(shape.width) / 1e6
    buckets = []
    for from_us, to_us, committed_s in both.payer.sql(COMMITS, fragment=f"{NETWORK}/{name}"):
        ends = range(int(from_us), int(to_us), int(width_s * 1e6))
        buckets += [(at / 1e6 + width_s, float(committed_s)) for at in ends]
    usual_s = median(done - end for end, done in buckets if end < killed_s - width_s)
    after = [(end, done) for end, done in buckets if end >= killed_s - width_s]
    late = [done for end, done in after if done - end > usual_s + LATE_S]
    segments = both.payer.sql(SEGMENTS, stream=name)
    gaps = [(a, b) for a, b, stability in segments if stability == "gap"]
    begin_us, end_us = segments[0][0], segments[-1][1]
    needed = Counter(
        {
            row: n
            for row, n in expected(both.payer, class_, shape).items()
            if begin_us <= row[0] < end_us
        }
    )
    outside = Counter({r: n for r, n in needed.items() if not any(a <= r[0] < b for a, b in gaps)})
    found = Counter(map(partial(row_of, class_, shape), rows(both.payer, name)))
    return Outcome(
        method=method,
        class_=class_,
        usual_s=usual_s,
        pause_s=max((done - end - usual_s for end, done in after), default=0.0),
        recovered_s=max(late, default=killed_s) - killed_s,
        lost_s=sum(b - a for a, b in gaps) / 1e6,
        lost_rows=(needed - outside).total(),
        missing_rows=(outside - found).total(),
        repeated_rows=(found - outside).total(),
        rows=found.total(),
    )


Row = tuple[int, str, int]
"""An event time, a host, and a value."""


def row_of(class_: str, shape: Shape, row: dict[str, Any]) -> Row:
    """A row of an output, by its event time."""
    host = row["orig_h"]
    match class_:
        case "filter":
            return int(row["ts_us"]), host, 1
        case "windows":
            start_us = parse_time_us("", row["window_start"])
            return start_us + parse_duration_us(shape.window) - 1, host, int(row["n"])
        case _:
            return int(row["last_us"]), host, GROUP


def expected(office: Office, class_: str, shape: Shape) -> Counter[Row]:
    """What an output has, computed from the landed records without Medusa."""
    landed = sorted((int(row["ts_us"]), row["orig_h"]) for row in rows(office, "connections"))
    window_us = parse_duration_us(shape.window)
    match class_:
        case "filter":
            return Counter((at_us, host, 1) for at_us, host in landed if at_us % 2 == 0)
        case "windows":
            counts = Counter((at_us // window_us, host) for at_us, host in landed)
            return Counter(((k + 1) * window_us - 1, host, n) for (k, host), n in counts.items())
    found: Counter[Row] = Counter()
    seen: Counter[tuple[int, str]] = Counter()
    for at_us, host in landed:
        seen[at_us // window_us, host] += 1
        if seen[at_us // window_us, host] % GROUP == 0:
            found[at_us, host, GROUP] += 1
    return found
