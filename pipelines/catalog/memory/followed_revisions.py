"""Partners' revisions in memory, written from the words of `Imports.import_line` and not from the
SQL."""

from __future__ import annotations

from dataclasses import dataclass, replace

from medusa_core.errors import Refused
from medusa_core.exchange import LineNews
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.line_revisions import RevisionAgreement
from medusa_core.names import Participant, StreamName, Version
from medusa_core.segments import Producer
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.commit import note_revision, supersede
from pipelines.catalog.memory.store import Table, Transaction
from pipelines.catalog.memory.tables import LineRow


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """What revisions of a partner's line the operator agreed to follow."""

    generation: int
    from_us: int


AGREEMENTS: Table[tuple[StreamName, Producer, int], AgreementRow] = Table("revision_agreement")


def declare_following(transaction: Transaction, stream: StreamName, follows: bool) -> None:
    """See `Guarantees.declare_following`."""
    if transaction.get(tables.STREAMS, stream) is None:
        raise Refused(f"stream {stream} is not deployed here: deploy its network first")
    transaction.put(tables.FOLLOWINGS, stream, follows)


def followings(transaction: Transaction) -> tuple[StreamName, ...]:
    """See `Guarantees.followings`."""
    return tuple(sorted(s for s, follows in transaction.rows(tables.FOLLOWINGS).items() if follows))


def agree_to_revisions(
    transaction: Transaction, here: Participant, agreement: RevisionAgreement
) -> None:
    """See `Recalls.agree_to_revisions`."""
    of = (agreement.stream, agreement.producer)
    line = transaction.get(tables.LINES, of)
    if line is None:
        raise Refused(f"stream {of[0]} has no line by {of[1]}: deploy it first")
    if agreement.producer.participant == here:
        raise Refused(f"the line of {of[0]} is written here: there is nobody to follow")
    if agreement.generation <= line.generation:
        raise Refused(f"the line of {of[0]} is followed to generation {line.generation} already")
    row = AgreementRow(agreement.generation, agreement.from_us)
    transaction.put(AGREEMENTS, (*of, transaction.next_number()), row)


def follow_revision(
    transaction: Transaction, line: LineRow, news: LineNews, refusal: str | None
) -> LineRow:
    """The copy of a partner's line without the rows that its revision replaces.

    Refused unless the stream's contract or the operator agrees, or nothing of them is kept.
    """
    revision, of = news.revision, (news.stream, news.producer)
    assert revision is not None, "only news of a revision is followed"
    kept_us = BEGINNING_US if line.trimmed_us is None else line.trimmed_us
    new = [p.segment for p in news.segments if p.end_version is None]
    new = sorted(
        (s for s in new if s.version == news.version and s.range.to_us > kept_us),
        key=lambda segment: segment.range,
    )
    if not new:
        return line
    if sum(stream == news.stream for stream, _ in transaction.rows(tables.LINES)) > 1:
        raise Refused(
            f"partner {news.producer.participant} revised {news.stream}, which has several "
            "producers here"
        )
    agreed = any(
        row.generation >= revision.generation and row.from_us <= new[0].range.from_us
        for (stream, producer, _), row in transaction.rows(AGREEMENTS).items()
        if (stream, producer) == of
    )
    if not agreed and not transaction.get(tables.FOLLOWINGS, news.stream):
        raise Refused(refusal or f"a partner revised {news.stream}")
    final = [r.segment.range for r in line.live if r.segment.stability.is_final]
    kept = Range(kept_us, FOREVER_US)
    named = [part for segment in new if (part := segment.range.intersection(kept))]
    if any(any(part.without(final)) for part in named) or revision.generation <= line.generation:
        raise Refused(f"partner {news.producer.participant} revised what is not final here")
    parts = [(segment.range, segment.buckets) for segment in new]
    moved = replace(line, version=Version(news.version))
    who = news.producer.participant
    moved = note_revision(transaction, of, moved, parts, revision.because, who, revision.generation)
    moved = supersede(moved, [segment.range for segment in new])
    return replace(moved, version=line.version)


def without_remainders(news: LineNews, line: LineRow) -> LineNews:
    """The news of a revision with its own rows alone, as far as they are kept here: what it leaves
    of the others is left of the copy's."""
    kept_us = BEGINNING_US if line.trimmed_us is None else line.trimmed_us
    segments = (
        p
        for p in news.segments
        if p.end_version is None
        and p.segment.version == news.version
        and p.segment.range.to_us > kept_us
    )
    return replace(news, segments=tuple(segments))
