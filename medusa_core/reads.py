"""The inputs of a range of outputs: lineage, its stability, its size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from medusa_core.grid import Range
from medusa_core.knowledge import FragmentKnowledge
from medusa_core.names import StreamName
from medusa_core.segments import Read, Segment, Stability, content_of


def reads_of(
    fragment: FragmentKnowledge,
    outputs: Iterable[StreamName],
    part: Range,
    *,
    keeps_content: bool = False,
) -> Iterator[Read]:
    """The lineage of a range of outputs: per input segment the part that is needed of it.

    `keeps_content`: with the fingerprint of what is there, for outputs that may be superseded.
    """
    for output in outputs:
        for name, need in fragment.fragment.needed(output, part).items():
            input_ = fragment.inputs[name]
            ranges = need.widened(input_.width_us)
            for segment in input_.overlapping(ranges):
                overlap = segment.range.intersection(ranges)
                assert overlap is not None
                yield Read(
                    output=output,
                    input=name,
                    producer=segment.producer,
                    range=overlap,
                    version=segment.version,
                    content=content_of((segment,), overlap) if keeps_content else None,
                )


def segments_needed(fragment: FragmentKnowledge, part: Range) -> Iterator[Segment]:
    """The live input segments that a range of all outputs is computed from."""
    for name, need in fragment.fragment.needed_by_all(part).items():
        input_ = fragment.inputs[name]
        yield from input_.overlapping(need.widened(input_.width_us))


def stability_of(fragment: FragmentKnowledge, part: Range) -> Stability:
    """Tentative if something tentative is read, else stable; never sticky."""
    if all(segment.stability.is_final for segment in segments_needed(fragment, part)):
        return Stability.STABLE
    return Stability.TENTATIVE


def missing_of(fragment: FragmentKnowledge, reads: Iterable[Read]) -> tuple[StreamName, ...]:
    """The inputs that the tentative segments read here were computed without, by name."""
    read = {(r.input, r.producer, r.version) for r in reads}
    return tuple(
        sorted(
            {
                name
                for input_ in fragment.inputs.values()
                for segment in input_.segments
                if (segment.stream, segment.producer, segment.version) in read
                for name in segment.missing
            }
        )
    )


def records_of(fragment: FragmentKnowledge, outputs: Iterable[StreamName], part: Range) -> int:
    """How many records a range of outputs is computed from, what is read again included."""
    return sum(
        digest.rows
        for name, need in fragment.fragment.needed_by(outputs, part).items()
        for segment in fragment.inputs[name].overlapping(need)
        for digest in segment.within(need).values()
    )
