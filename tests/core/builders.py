"""Small values for the core's tests: each builder gives a whole value, tests name what matters."""

from __future__ import annotations

from collections.abc import Mapping

from medusa_core.digest import Digest
from medusa_core.fragments import Fragment, fragments_of
from medusa_core.grid import FOREVER_US, Range
from medusa_core.knowledge import (
    FragmentKnowledge,
    InputKnowledge,
    LandingKnowledge,
    OutputKnowledge,
    TentativeKnowledge,
)
from medusa_core.names import Epoch, Participant, PlanId, StreamName, Version
from medusa_core.network import Aggregate, Filter, Map, Network, Output, Source
from medusa_core.segments import Producer, Segment, Stability

SECOND_US = 1_000_000
ALPHA = Producer(Participant("alpha"))
PLAN = PlanId("0" * 32)
READINGS = StreamName("readings")
TOTALS = StreamName("totals")


def seconds(*bounds: int) -> Range:
    """A range in whole seconds."""
    return Range(bounds[0] * SECOND_US, bounds[1] * SECOND_US)


def a_source(name: str = "readings") -> Source:
    return Source(name=name, columns={"at_us": "bigint", "key": "string"}, time="at_us")


def a_network(size: str = "60s", advance: str | None = None) -> Network:
    """readings -> totals per key and window."""
    return Network(
        name="example",
        sources=(a_source(),),
        boxes=(
            Aggregate(
                name="per_key",
                input="readings",
                size=size,
                advance=advance,
                group_by=("key",),
                columns={"records": "count(*)"},
            ),
        ),
        outputs=(Output(name="totals", input="per_key"),),
    )


def a_passing_network() -> Network:
    """readings -> totals, record by record."""
    return Network(
        name="example",
        sources=(a_source(),),
        boxes=(
            Filter(name="some", input="readings", cases={"yes": "key <> ''"}),
            Map(name="renamed", input="some", columns={"name": "key"}),
        ),
        outputs=(Output(name="totals", input="renamed"),),
    )


def a_fragment(network: Network | None = None) -> Fragment:
    (fragment,) = fragments_of(network or a_network())
    return fragment


def a_segment(
    range_: Range,
    counts: Mapping[int, int] | None = None,
    *,
    stream: StreamName = READINGS,
    stability: Stability = Stability.STABLE,
    version: int = 1,
) -> Segment:
    """A segment whose buckets hold so many rows; `counts` maps seconds to rows."""
    return Segment(
        stream=stream,
        producer=ALPHA,
        range=range_,
        stability=stability,
        version=Version(version),
        plan=PLAN,
        buckets={at * SECOND_US: Digest(n, n, n) for at, n in (counts or {}).items()},
    )


def an_input(
    *segments: Segment, boundary_s: int | None = None, end_s: int | None = None, width_s: int = 10
) -> InputKnowledge:
    boundary_us = segments[-1].range.to_us if segments else 0
    if boundary_s is not None:
        boundary_us = boundary_s * SECOND_US
    return InputKnowledge(
        stream=READINGS,
        width_us=width_s * SECOND_US,
        origin_us=0,
        boundary_us=boundary_us,
        end_us=None if end_s is None else end_s * SECOND_US,
        segments=segments,
        known_through_us=FOREVER_US,
    )


def a_fragment_knowledge(
    input_: InputKnowledge,
    *,
    computed_s: int = 0,
    width_s: int = 10,
    network: Network | None = None,
    tentative: tuple[TentativeKnowledge, ...] = (),
) -> FragmentKnowledge:
    return FragmentKnowledge(
        fragment=a_fragment(network),
        plan=PLAN,
        producer=ALPHA,
        epoch=Epoch(1),
        partition=0,
        inputs={READINGS: input_},
        outputs={
            TOTALS: OutputKnowledge(
                stream=TOTALS, width_us=width_s * SECOND_US, boundary_us=computed_s * SECOND_US
            )
        },
        tentative=tentative,
    )


def a_landing(
    counts: Mapping[int, int], *, closed_s: int = 0, boundary_s: int, end_s: int | None = None
) -> LandingKnowledge:
    return LandingKnowledge(
        stream=READINGS,
        producer=ALPHA,
        epoch=Epoch(1),
        width_us=10 * SECOND_US,
        closed_us=closed_s * SECOND_US,
        boundary_us=boundary_s * SECOND_US,
        end_us=None if end_s is None else end_s * SECOND_US,
        counts={at * SECOND_US: n for at, n in counts.items()},
        known_through_us=FOREVER_US,
        plan=PLAN,
    )
