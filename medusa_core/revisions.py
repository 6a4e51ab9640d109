"""Revisions: final buckets of named ranges are replaced, and every other bucket stays as it is.

The owner of a home revises a source. The line begins another generation for the named ranges
alone, and the act is kept with its reason. What was computed from a bucket that differs now is
owed once more, window by window: nothing records that it is owed, a final segment that read an
older version of the bucket shows it. Its replacement is a revision of its own line. A bucket that
is computed again with equal rows has not changed, and nothing behind it is owed (early cutoff).

A recall of a suffix is the other act that begins a generation (`medusa_core.recalls`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from medusa_core.commits import OutputSegment
from medusa_core.errors import Refused
from medusa_core.fragments import Fragment
from medusa_core.frozen import freeze
from medusa_core.grid import Range, floor_us
from medusa_core.knowledge import FragmentKnowledge, RevisedKnowledge
from medusa_core.line_revisions import RANGES_MAX
from medusa_core.names import PlanId, StreamName
from medusa_core.recalls import BECAUSE_CHARACTERS_MAX, WHO_CHARACTERS_MAX, check_text
from medusa_core.segments import Producer, Stability


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisedSegment:
    """What takes the place of the buckets of one range, under the plan of those before."""

    segment: OutputSegment
    plan: PlanId

    def __post_init__(self) -> None:
        if self.segment.stability is not Stability.STABLE:
            raise Refused(f"a revision of {self.segment.stream} holds rows that are not final")


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRequest:
    """Which ranges of a source of this home an operator replaces, and by which rows.

    `generation` is that of the line when its rows were read: if it has another by now, the revision
    is refused. `behind` names the streams computed from the ranges, and the first event time of
    each that may change. `needed` is from when on each fragment that computes again needs each of
    its inputs and outputs. `late` are the numbers in quarantine of late records: if there are some,
    a revision adds these, and changes nothing else.
    """

    stream: StreamName
    producer: Producer
    generation: int
    segments: tuple[RevisedSegment, ...]
    because: str
    who: str
    behind: Mapping[StreamName, int] = field(default_factory=dict)
    needed: Mapping[str, Mapping[StreamName, int]] = field(default_factory=dict)
    late: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        freeze(self, "behind", "needed")
        check_text("the reason of a revision", self.because, BECAUSE_CHARACTERS_MAX)
        check_text("who revises", self.who, WHO_CHARACTERS_MAX)
        if not 0 < len(self.segments) <= RANGES_MAX:
            raise Refused(
                f"a revision of {self.stream} names {len(self.segments)} ranges: give 1 to "
                f"{RANGES_MAX:,}"
            )
        past_us: int | None = None
        for one in self.segments:
            part = one.segment.range
            is_behind = past_us is not None and part.from_us < past_us
            if one.segment.stream != self.stream or is_behind:
                raise Refused(f"a revision of {self.stream} has ranges out of order at {part}")
            past_us = part.to_us

    @property
    def ranges(self) -> tuple[Range, ...]:
        """What it replaces, in order."""
        return tuple(one.segment.range for one in self.segments)

    @property
    def key(self) -> str:
        """The same for the same revision: sent again after a lost reply, it is made once."""
        parts = [
            f"revision of {self.stream} by {self.producer} at {self.generation}",
            self.because,
            *map(str, self.late),
            *(
                f"{one.plan}{one.segment.range}{sorted(one.segment.buckets.items())}"
                for one in self.segments
            ),
        ]
        return sha256("\n".join(parts).encode()).hexdigest()


def touched(
    fragment: Fragment, output: StreamName, width_us: int, whole: Range,
    changed: Mapping[StreamName, Iterable[Range]],
) -> tuple[Range, ...]:  # fmt: skip
    """The buckets of an output in `whole` that need something of the changed ranges, in order.

    Halving finds them: a range needs all that a part of it needs, so that a half that needs nothing
    changed is left out at once.
    """
    starts: set[int] = set()
    for name, parts in changed.items():
        for part in parts:
            starts.update(_touched_by(fragment, output, width_us, whole, name, part))
    return tuple(Range(at_us, at_us + width_us) for at_us in sorted(starts))


def is_touched(
    fragment: Fragment, output: StreamName, width_us: int, whole: Range,
    changed: Mapping[StreamName, Iterable[Range]],
) -> bool:  # fmt: skip
    """Whether `touched` finds anything."""
    found = (
        at_us
        for name, parts in changed.items()
        for part in parts
        for at_us in _touched_by(fragment, output, width_us, whole, name, part)
    )
    return next(found, None) is not None


def _touched_by(
    fragment: Fragment, output: StreamName, width_us: int, whole: Range, name: StreamName,
    changed: Range,
) -> Iterator[int]:  # fmt: skip
    halves = [whole]
    while halves:
        half = halves.pop()
        need = fragment.needed(output, half).get(name)
        if need is None or not need.overlaps(changed):
            continue
        if half.to_us - half.from_us <= width_us:
            yield half.from_us
            continue
        middle_us = floor_us((half.from_us + half.to_us) // 2, width_us)
        if middle_us == half.from_us:
            middle_us += width_us
        halves += [Range(half.from_us, middle_us), Range(middle_us, half.to_us)]


def owed_again(fragment: FragmentKnowledge, revised: RevisedKnowledge) -> tuple[Range, ...]:
    """The buckets of a final segment that were computed from what was revised since."""
    output = revised.segment.stream
    width_us = fragment.outputs[output].width_us
    return touched(fragment.fragment, output, width_us, revised.part, revised.changed)
