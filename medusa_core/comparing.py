"""Comparison of several producers' rows of one stream, piece by piece and bucket by bucket.

Each piece is entirely inside or entirely outside each row. Where a producer's line has not begun
yet or has ended, all ranges are empty for it, so producers that ended with one more empty bucket
agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from medusa_core.digest import EMPTY
from medusa_core.divergence import Divergence, Side
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.imports import ImportKnowledge, ProducedLine
from medusa_core.names import PlanId, StreamName, Version
from medusa_core.segments import Producer, Segment, Stability


@dataclass(frozen=True, slots=True)
class ProducerDigest:
    """The copy of a piece that a producer has.

    `segment`: None if the piece has no row. `is_outside`: the producer's line begins after the
    piece or ends before it. `is_gone`: the piece is trimmed.
    """

    line: ProducedLine
    segment: Segment | None
    is_outside: bool = False
    is_gone: bool = False

    @property
    def producer(self) -> Producer:
        """Whose it is."""
        return self.line.producer

    @property
    def is_stable(self) -> bool:
        """Whether its content is final here and known."""
        return self.is_outside or (
            self.segment is not None and self.segment.stability is Stability.STABLE
        )

    @property
    def is_lost(self) -> bool:
        """Whether it is final that its content is lost."""
        return self.is_gone or (
            self.segment is not None and self.segment.stability is Stability.GAP
        )


def pieces_of(
    knowledge: ImportKnowledge, whole: Range
) -> Iterator[tuple[Range, list[ProducerDigest]]]:
    """`whole`, cut where any producer's rows are, and what each producer has of each piece."""
    cuts = {whole.from_us, whole.to_us}
    for line in knowledge.producers:
        for segment in line.segments:
            cuts.update((segment.range.from_us, segment.range.to_us))
        cuts.update(at for at in (line.origin_us, line.end_us, line.trimmed_us) if at is not None)
    cuts.update(d.bucket_us for d in knowledge.divergences)
    inside = sorted(at for at in cuts if whole.from_us <= at <= whole.to_us)
    places = [0] * len(knowledge.producers)
    for from_us, to_us in pairwise(inside):
        piece = Range(from_us, to_us)
        held: list[ProducerDigest] = []
        for number, line in enumerate(knowledge.producers):
            rows = line.segments
            while places[number] < len(rows) and rows[places[number]].range.to_us <= from_us:
                places[number] += 1
            at = rows[places[number]] if places[number] < len(rows) else None
            held.append(_held(line, piece, at if at and at.range.covers(piece) else None))
        yield piece, held


def _held(line: ProducedLine, piece: Range, segment: Segment | None) -> ProducerDigest:
    if line.trimmed_us is not None and piece.to_us <= line.trimmed_us:
        is_before = line.origin_us is not None and piece.to_us <= line.origin_us
        return ProducerDigest(line, None, is_outside=is_before, is_gone=not is_before)
    if segment is not None:
        return ProducerDigest(line, segment)
    is_before = line.origin_us is not None and piece.to_us <= line.origin_us
    is_behind = line.has_ended and line.end_us is not None and piece.from_us >= line.end_us
    return ProducerDigest(line, None, is_outside=is_before or is_behind)


def differences(
    stream: StreamName,
    pieces: Iterable[tuple[Range, list[ProducerDigest]]],
    known: Sequence[Divergence],
) -> tuple[Divergence, ...]:
    """Where producers' final rows differ under one plan: of each pair the first bucket.

    A pair is left out from where it is known to differ already.
    """
    first = {d.producers: d.bucket_us for d in known}
    for d in known:
        first[d.producers] = min(first[d.producers], d.bucket_us)
    found: list[Divergence] = []
    for piece, held in pieces:
        stable = [h for h in held if h.is_stable]
        for one, other in combinations(stable, 2):
            pair = frozenset({one.producer, other.producer})
            if piece.from_us >= first.get(pair, FOREVER_US):
                continue
            differs = _first_difference(stream, piece, one, other)
            if differs is not None and differs.bucket_us < first.get(pair, FOREVER_US):
                first[pair] = differs.bucket_us
                found.append(differs)
    return tuple(found)


def _first_difference(
    stream: StreamName, piece: Range, one: ProducerDigest, other: ProducerDigest
) -> Divergence | None:
    plan = _plan_of(one, other)
    if plan is None:
        return None
    here, there = (h.segment.within(piece) if h.segment else {} for h in (one, other))
    for at_us in sorted({*here, *there}):
        mine, its = here.get(at_us, EMPTY), there.get(at_us, EMPTY)
        if mine != its:
            return Divergence(
                stream=stream,
                bucket_us=at_us,
                plan=plan,
                one=Side(one.producer, _version(one), mine),
                other=Side(other.producer, _version(other), its),
            )
    return None


def _plan_of(one: ProducerDigest, other: ProducerDigest) -> PlanId | None:
    """The plan under which both have the piece; None if there is none."""
    plans = {h.segment.plan for h in (one, other) if h.segment is not None}
    return plans.pop() if len(plans) == 1 else None


def _version(held: ProducerDigest) -> Version:
    return Version(0) if held.segment is None else held.segment.version


def to_compare(producers: Sequence[ProducedLine]) -> Range | None:
    """The range over which final rows came that could be compared with another producer's.

    From where some line has not been compared yet up to where it, or another such line, is final
    and a second one, too: what comes of one that is far behind is not held against all the others
    have in front of it.
    """
    begun = [p for p in producers if p.origin_us is not None]
    if len(begun) < 2:
        return None
    through = sorted((_final_us(p) for p in begun), reverse=True)
    ends = [p.end_us if p.has_ended and p.end_us is not None else _final_us(p) for p in begun]
    first_us = min(p.origin_us for p in begun if p.origin_us is not None)
    new = {
        p.producer: max(first_us if p.compared_us is None else p.compared_us, first_us)
        for p in begun
        if _final_us(p) > (first_us if p.compared_us is None else p.compared_us)
    }
    furthest_us = max((_final_us(p) for p in begun if p.producer in new), default=BEGINNING_US)
    from_us = min(new.values(), default=FOREVER_US)
    to_us = min(through[1], max(ends), furthest_us)
    return Range(from_us, to_us) if from_us < to_us else None


def compared_through(knowledge: ImportKnowledge) -> dict[Producer, int]:
    """How far each producer's line has been compared once `knowledge.compare` has been; only those
    that have come further."""
    part = knowledge.compare
    found: dict[Producer, int] = {}
    for line in knowledge.producers if part is not None else ():
        assert part is not None
        through_us = min(_final_us(line), part.to_us)
        current_us = BEGINNING_US if line.compared_us is None else line.compared_us
        if through_us > max(current_us, part.from_us):
            found[line.producer] = through_us
    return found


def _final_us(line: ProducedLine) -> int:
    through_us = line.final_through_us
    return BEGINNING_US if through_us is None else through_us
