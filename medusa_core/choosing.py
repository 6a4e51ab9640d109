"""The choice among several producers of a stream: pure, as data with a reason in numbers.

From the import's boundary on a final row is read if a producer has one, else the tentative row that
lacks the fewest inputs; a tentative choice is replaced only by a final one, so a bucket is chosen
twice at most (S12). Final means that as many producers as are to verify it have the same content;
until then it is waited for like a missing input. From a bucket on over which producers disagree
nothing becomes final. Outside of its line's life a producer has every bucket as final, and empty,
though no row says so. A loss is declared only once every producer has lost the range.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from medusa_core.bounds import Policy
from medusa_core.comparing import ProducerDigest, compared_through, differences, pieces_of
from medusa_core.decisions import DecisionReason
from medusa_core.divergence import Divergence
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.imports import (
    DISPUTED,
    LOST,
    UNVERIFIED,
    Choose,
    ChosenRows,
    ImportKnowledge,
    cause_of,
)
from medusa_core.names import PlanId
from medusa_core.segments import Producer, Stability
from medusa_core.wait_budget import WaitBudget

CHOICES_MAX = 1_024
"""How many rows are chosen at once; the rest is chosen next."""


@dataclass(frozen=True, slots=True)
class _Picked:
    """What is best of a piece. `why` it is not final although its producer's row is; `lacking` are
    the producers that are waited for then."""

    stability: Stability
    held: ProducerDigest | None
    reason: str
    why: str | None = None
    lacking: frozenset[Producer] = frozenset()


def choose(knowledge: ImportKnowledge, wait_budget: WaitBudget | None, now_ms: int) -> ChosenRows:
    """What to read now of a stream, and what was found out by comparing its producers.

    `wait_budget` is the smallest of the fragments that read the stream here. None: they promise no
    bound, so unverified rows are waited for without limit. `now_ms` is the catalog's clock.
    """
    stream, known = knowledge.stream, knowledge.divergences
    found: tuple[Divergence, ...] = ()
    for part in _ranges(knowledge):
        pieces = pieces_of(knowledge, part)
        found += differences(stream, pieces, (*known, *found))
    knowledge = replace(knowledge, divergences=(*known, *found))
    rows = [row for part in knowledge.tentative for row in _corrected(knowledge, part)]
    ahead, reached_us, waits_until_ms = _ahead(knowledge, wait_budget, now_ms)
    rows = [*_joined(rows), *_joined(ahead)]
    is_cut = len(rows) > CHOICES_MAX
    return ChosenRows(
        stream=stream,
        rows=tuple(rows[:CHOICES_MAX]),
        divergences=found,
        compared_us=compared_through(knowledge),
        end_us=None if is_cut else _end_us(knowledge, reached_us),
        waits_until_ms=now_ms if is_cut else waits_until_ms,
    )


def _ranges(knowledge: ImportKnowledge) -> Iterator[Range]:
    """Every range over which something is chosen or compared now."""
    yield from knowledge.tentative
    window = _window(knowledge)
    if window is not None:
        yield window
    if knowledge.compare is not None:
        yield knowledge.compare


def _window(knowledge: ImportKnowledge) -> Range | None:
    """From the import's boundary to where the furthest producer's known rows end."""
    from_us = knowledge.starts_us
    if from_us is None or knowledge.has_ended:
        return None
    to_us = max((p.segments[-1].range.to_us for p in knowledge.producers if p.segments),
                default=from_us)  # fmt: skip
    ends = [p.trimmed_us for p in knowledge.producers if p.trimmed_us is not None]
    to_us = min(max(to_us, *ends) if ends else to_us, knowledge.window_us)
    return Range(from_us, to_us) if from_us < to_us else None


def _disputed_us(knowledge: ImportKnowledge) -> int:
    return min((d.bucket_us for d in knowledge.divergences), default=FOREVER_US)


def _corrected(knowledge: ImportKnowledge, part: Range) -> Iterator[Choose]:
    """The final rows that take the place of a tentative choice."""
    for piece, held in pieces_of(knowledge, part):
        picked = _pick(knowledge, piece, held)
        if picked is not None and picked.stability.is_final:
            yield _choice(knowledge, piece, picked, held)


def _ahead(
    knowledge: ImportKnowledge, wait_budget: WaitBudget | None, now_ms: int
) -> tuple[list[Choose], int | None, int | None]:
    """The rows behind the import's boundary up to the first piece that nobody has or that is waited
    for; where they end, and until when that is waited for."""
    window, reached_us = _window(knowledge), knowledge.starts_us
    rows: list[Choose] = []
    # Who was not there in the bucket before, if it was answered without them.
    without = _without(knowledge)
    for piece, held in pieces_of(knowledge, window) if window else ():
        picked = _pick(knowledge, piece, held)
        if picked is None:
            break
        if picked.lacking:
            due_ms = _due_ms(picked, wait_budget, without)
            if due_ms is None or due_ms > now_ms:
                return rows, reached_us, due_ms
        without = picked.lacking
        rows.append(_choice(knowledge, piece, picked, held))
        reached_us = piece.to_us
    return rows, reached_us, None


def _without(knowledge: ImportKnowledge) -> frozenset[Producer]:
    """The producers that the newest row was chosen without, and that have not moved since."""
    at_us, causes = knowledge.boundary_us, _waited_for(knowledge)
    if at_us is None or not causes.intersection(knowledge.lacks or ()):
        return frozenset()
    return frozenset(
        p.producer
        for p in knowledge.producers
        if (BEGINNING_US if p.final_through_us is None else p.final_through_us) < at_us
    )


def _waited_for(knowledge: ImportKnowledge) -> set[str]:
    return {cause_of(knowledge.stream, why) for why in (UNVERIFIED, LOST)}


def _due_ms(
    picked: _Picked, wait_budget: WaitBudget | None, without: frozenset[Producer]
) -> int | None:
    """When a piece is read although not enough producers are there; None: never."""
    if wait_budget is None or wait_budget.during_failure is Policy.SUSPEND:
        return None
    segment = picked.held.segment if picked.held is not None else None
    fresh_ms = 0 if segment is None else segment.fresh_ms
    if wait_budget.during_failure is Policy.PROCESS and picked.lacking == without:
        return fresh_ms
    return fresh_ms + wait_budget.wait_ms


def _pick(
    knowledge: ImportKnowledge, piece: Range, held: Sequence[ProducerDigest]
) -> _Picked | None:
    """What is best of a piece; None if no producer has anything of it."""
    agreeing = _agreeing(held)
    stable = min(agreeing, key=_by_row, default=None)
    is_disputed = piece.from_us >= _disputed_us(knowledge)
    if stable is not None and not is_disputed:
        if len(agreeing) >= knowledge.verify:
            reason = "a producer has it as final"
            if knowledge.verify > 1:
                reason = "as many producers as verify it have the same"
            return _Picked(Stability.STABLE, stable, reason)
        lacking = frozenset(h.producer for h in held if not h.is_stable)
        return _Picked(
            Stability.TENTATIVE, stable, "too few producers have the same", UNVERIFIED, lacking
            or frozenset(h.producer for h in held if h not in agreeing)
            or frozenset({knowledge.reader}),
        )  # fmt: skip
    if stable is not None:
        return _Picked(Stability.TENTATIVE, stable, "producers disagree from here on, or before",
                       DISPUTED)  # fmt: skip
    tentative = [h for h in held if h.segment is not None and not h.segment.stability.is_final]
    if tentative:
        best = min(tentative, key=_by_missing)
        return _Picked(Stability.TENTATIVE, best, "no producer has it as final",
                       DISPUTED if is_disputed else None)  # fmt: skip
    lost = [h for h in held if h.is_lost]
    if not lost:
        return None
    first = min(lost, key=_by_row)
    silent = frozenset(h.producer for h in held if not h.is_lost)
    if not silent and not is_disputed:
        return _Picked(Stability.GAP, first, "every producer has lost it")
    return _Picked(Stability.TENTATIVE, first, "who was heard has lost it, others were not heard",
                   DISPUTED if is_disputed else LOST, silent)  # fmt: skip


def _agreeing(held: Sequence[ProducerDigest]) -> list[ProducerDigest]:
    """The final rows under one plan that most producers have, those that are empty for good too;
    these alone where no final row is there: what others have lost is known to be empty by them.

    Where contents differ under one plan the piece is disputed, which is seen before.
    """
    stable = [h for h in held if h.is_stable]
    plans = {h.segment.plan for h in stable if h.segment is not None}

    def of(plan: PlanId) -> list[ProducerDigest]:
        return [h for h in stable if h.segment is None or h.segment.plan == plan]

    def first(plan: PlanId) -> Producer:
        return min(h.producer for h in of(plan) if h.segment is not None)

    return max((of(plan) for plan in sorted(plans, key=first)), key=len, default=stable)


def _by_row(held: ProducerDigest) -> tuple[bool, Producer]:
    return (held.segment is None, held.producer)


def _by_missing(held: ProducerDigest) -> tuple[int, Producer]:
    return (len(held.segment.missing) if held.segment else 0, held.producer)


def _choice(
    knowledge: ImportKnowledge, piece: Range, picked: _Picked, held: Sequence[ProducerDigest]
) -> Choose:
    segment = picked.held.segment if picked.held is not None else None
    is_final = picked.stability.is_final
    is_empty = segment is None or segment.stability is Stability.GAP
    buckets = {} if segment is None or is_empty else segment.within(piece)
    missing = () if segment is None or is_final else segment.missing
    if picked.why is not None:
        missing = tuple(sorted({*missing, cause_of(knowledge.stream, picked.why)}))
    return Choose(
        stream=knowledge.stream,
        range=piece,
        producer=None if segment is None else segment.producer,
        version=None if segment is None else segment.version,
        stability=picked.stability,
        plan=knowledge.plan if segment is None else segment.plan,
        because=DecisionReason(
            picked.reason,
            {
                "producers": len(held),
                "final": sum(h.is_stable for h in held),
                "lost": sum(h.is_lost for h in held),
                "verify": knowledge.verify,
            },
        ),
        missing=missing,
        buckets=buckets,
        files=() if segment is None or not buckets else segment.files,
        fresh_ms=None if segment is None else segment.fresh_ms,
    )


def _joined(rows: Iterable[Choose]) -> Iterator[Choose]:
    """The rows, those that meet and are parts of one producer's row made one again."""
    last: Choose | None = None
    for row in rows:
        if last is not None and last.range.to_us == row.range.from_us and _is_one(last, row):
            last = replace(
                last,
                range=last.range.hull(row.range),
                buckets={**last.buckets, **row.buckets},
                files=tuple(dict.fromkeys((*last.files, *row.files))),
            )
            continue
        if last is not None:
            yield last
        last = row
    if last is not None:
        yield last


def _is_one(one: Choose, other: Choose) -> bool:
    return (one.producer, one.version, one.stability, one.plan, one.missing, one.fresh_ms) == (
        other.producer, other.version, other.stability, other.plan, other.missing, other.fresh_ms,
    )  # fmt: skip


def _end_us(knowledge: ImportKnowledge, reached_us: int | None) -> int | None:
    """Where the import's line ends: as soon as so many producers' lines have as are to agree."""
    ends = [p.end_us for p in knowledge.producers if p.has_ended and p.end_us is not None]
    is_over = knowledge.end_us is not None or knowledge.has_ended
    if is_over or reached_us is None or len(ends) < max(knowledge.verify, 1):
        return None
    return reached_us if reached_us >= max(ends) else None
