"""A producer that makes a wrong row under the same plan, and the rows that may then be wrong.

A reader of that producer alone cannot detect it, so from that bucket on the rows of everything
computed from the stream are not compared with the oracle's; before it they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from medusa_core.grid import Range, floor_us
from medusa_core.names import Participant, StreamName
from medusa_core.segments import Producer
from pipelines.simulation.faults.expected import expected_buckets
from pipelines.simulation.faults.scenario import Row, Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Diverging:
    """Who makes a wrong row of what, and in which bucket; `from_us`: stream -> from when on it may
    hold what follows from that."""

    fragment: str
    producer: Producer
    stream: StreamName
    bucket_us: int
    width_us: int
    from_us: Mapping[StreamName, int]

    def spoils(self, fragment: str, participant: Participant, stream: StreamName) -> bool:
        """Whether this is what goes wrong."""
        wrong = (self.fragment, self.producer.participant, self.stream)
        return (fragment, participant, stream) == wrong

    def spoilt(self, rows: Sequence[Row]) -> list[Row]:
        """The rows with another value in the first row of the bucket."""
        return with_a_wrong_row(rows, Range(self.bucket_us, self.bucket_us + self.width_us))


def with_a_wrong_row(rows: Sequence[Row], bucket: Range) -> list[Row]:
    """The rows with another value in the first one of a bucket."""
    inside = [row for row in rows if bucket.holds(row[0])]
    if not inside:
        return list(rows)
    found = list(rows)
    found.remove(min(inside))
    return [*found, (*min(inside)[:-1], min(inside)[-1] + 1)]


def spoilt_from(scenario: Scenario, stream: StreamName, bucket_us: int) -> Mapping[StreamName, int]:
    """Which streams a wrong row may reach, and from when on."""
    from_us = {stream: bucket_us}
    for fragment in scenario.fragments.values():
        starts = [from_us[name] for name in fragment.input_streams if name in from_us]
        for output in fragment.outputs if starts else ():
            from_us.setdefault(output, floor_us(min(starts), scenario.widths_us[output]))
    return from_us


def diverging_in(scenario: Scenario) -> Diverging | None:
    """Who makes a wrong row in a scenario; None if nobody does, or nothing would be wrong in it."""
    wrong = scenario.replicas.wrong
    if wrong is None:
        return None
    whole, width_us = scenario.whole, scenario.widths_us[wrong.stream]
    least_us = whole.from_us + int((whole.to_us - whole.from_us) * wrong.behind)
    rows = expected_buckets(scenario).get(wrong.stream, {})
    buckets = {floor_us(at_us, width_us) for at_us, found in rows.items() if found}
    bucket_us = min((at for at in buckets if at >= least_us), default=None)
    if bucket_us is None:
        return None
    return Diverging(
        fragment=wrong.fragment,
        producer=next(
            p for p in scenario.producers(wrong.fragment) if p.participant == wrong.participant
        ),
        stream=wrong.stream,
        bucket_us=bucket_us,
        width_us=width_us,
        from_us=spoilt_from(scenario, wrong.stream, bucket_us),
    )
