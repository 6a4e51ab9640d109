"""The exchange in memory: news of a line, and bringing a partner's in; written from the words of
`Readers.line_news` and `Imports.import_line`, not from the SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from medusa_core.commits import Lease
from medusa_core.errors import Conflict, Diverged, Refused
from medusa_core.exchange import (
    ImportStatus,
    LineNews,
    PublishedPlan,
    PublishedSegment,
    import_fragment,
)
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.line_revisions import LineRevision, RevisionReach
from medusa_core.names import Participant, PlanId, StreamName, Version
from medusa_core.recalls import LineRecall, RecallResult
from medusa_core.segments import Producer, Segment, Stability
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.choices import divergences
from pipelines.catalog.memory.commit import (
    check_lease,
    lock_line,
    note_version,
    record_files,
    remainders,
    supersede,
)
from pipelines.catalog.memory.followed_revisions import follow_revision, without_remainders
from pipelines.catalog.memory.lines import sorted_lines
from pipelines.catalog.memory.owners import stopped_producers
from pipelines.catalog.memory.recalled import recalls_after
from pipelines.catalog.memory.recalls import follow
from pipelines.catalog.memory.revisions import hold_for_revision
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.tables import LineRow, SegmentRow
from pipelines.catalog.recall_text import recall_sentence, revision_sentence
from pipelines.catalog.records import Assignment


def imports(transaction: Transaction, here: Participant) -> tuple[ImportStatus, ...]:
    """See `Imports.imports`."""
    log = transaction.rows(tables.ASSIGNMENTS)

    def make() -> dict[str, Assignment]:
        return {fragment: row for (fragment, _, _), row in sorted(log.items())}

    newest = transaction.made_of("newest by name", (log,), make)
    wired, stopped = transaction.rows(tables.FRAGMENTS), stopped_producers(transaction)
    disputed = divergences(transaction)
    return tuple(
        ImportStatus(
            stream=stream,
            producer=producer,
            version=line.version,
            boundary_us=line.boundary_us,
            reader=assigned.producer,
            epoch=assigned.epoch,
            plan=assigned.plan,
            tentative_us=line.tentative_us,
            disputed_us=min(
                (d.bucket_us for d in disputed if d.stream == stream and producer in d.producers),
                default=None,
            ),
            chain=transaction.get(tables.CHAINS, (stream, producer, line.version)),
            read_at_ms=transaction.store.clock.now_ms,
        )
        for (stream, producer), line in sorted_lines(transaction)
        if producer.participant != here
        and (assigned := newest.get(import_fragment(stream))) is not None
        and assigned.producer.participant == here
        and not wired[assigned.fragment].is_stopped
        and (stream, producer) not in stopped
    )


def line_news(
    transaction: Transaction,
    stream: StreamName,
    producer: Producer,
    after: Version,
    segments_max: int,
) -> LineNews:
    """See `Readers.line_news`."""
    line = transaction.get(tables.LINES, (stream, producer))
    if line is None:
        raise Refused(f"stream {stream} has no line by {producer}: deploy an assignment first")
    if after > line.version:
        raise Diverged(f"the line of {stream} by {producer} is at {line.version}, not {after}")
    since = recalls_after(transaction, (stream, producer), after)
    revisions = [recall for recall in since if recall.is_revision]
    # A revision is a page of its own. A copy that is begun has all of them in its first page.
    last, whole, revision = line.version, after, None
    if revisions and after == 0:
        whole = revisions[-1].version
    elif revisions:
        revision = _revision(revisions)
        last = Version(max(revision.version - 1, after + 1))
    upto = max(_page_end(line, after, last, segments_max), whole)
    recalled = [r for r in since if not r.is_revision and r.version <= last]
    # What a later page takes back is not reported first.
    again_us = min((r.from_us for r in recalled if r.version > upto), default=FOREVER_US)
    changed = [
        _as_of(row, upto)
        for row in ((*line.live, *line.superseded) if upto > after else ())
        if _is_kept(row, line)
        and row.segment.range.to_us <= again_us
        and _is_news(row, after, upto)
    ]
    plans = {row.segment.plan for row in changed if row.begin_version > after}
    return LineNews(
        stream=stream,
        producer=producer,
        after=after,
        version=upto,
        origin_us=line.origin_us,
        end_us=line.end_us if upto == line.version else None,
        trimmed_us=_gone_before_us(line, upto),
        chain_after=transaction.get(tables.CHAINS, (stream, producer, after)),
        chain=transaction.get(tables.CHAINS, (stream, producer, upto)),
        segments=tuple(
            PublishedSegment(
                segment=_aged(row.segment, transaction.store.clock.now_ms),
                begin_version=row.begin_version,
                end_version=row.end_version,
            )
            for row in sorted(changed, key=lambda r: (r.begin_version, r.segment.range))
        ),
        plans=tuple(_plan(transaction, plan) for plan in sorted(plans)),
        recalls=tuple(
            LineRecall(
                generation=r.generation, from_us=r.from_us, version=r.version, because=r.because
            )
            for r in recalled
        ),
        revision=revision,
    )


def _revision(revisions: Sequence[RecallResult]) -> LineRevision:
    """The first of some revisions, as news tells of it."""
    first = revisions[0]
    return LineRevision(
        generation=first.generation,
        last_generation=revisions[-1].generation,
        from_us=min(revision.ranges[0].from_us for revision in revisions),
        version=first.version,
        because=first.because,
        ranges=first.ranges,
    )


def _aged(segment: Segment, now_ms: int) -> Segment:
    """The segment with its age of now: only durations cross between participants."""
    return replace(segment, age_ms=max(now_ms - segment.fresh_ms, segment.age_ms))


def _arrived(news: LineNews, segment: Segment, now_ms: int) -> Segment:
    """The segment as it arrives in this home, its age increased by the time of transfer.

    At which rate its home dropped records is not sent.
    """
    fresh_ms = news.fresh_ms(segment)
    age_ms = 0 if fresh_ms is None else max(now_ms - fresh_ms, 0)
    return replace(segment, age_ms=age_ms, arrived_ms=now_ms, drop_rate=0.0)


def _as_of(row: SegmentRow, version: Version) -> SegmentRow:
    """The row as it stood at a version: what ended it later is not known yet."""
    ends = row.end_version
    return row if ends is None or ends <= version else replace(row, end_version=None)


def _page_end(line: LineRow, after: Version, last: Version, segments_max: int) -> Version:
    if after == last:
        return after
    begun = sorted(
        row.begin_version
        for row in (*line.live, *line.superseded)
        if after < row.begin_version <= last and _is_kept(row, line)
    )
    if len(begun) <= segments_max:
        return last
    return Version(max(begun[segments_max] - 1, begun[0]))


def _is_kept(row: SegmentRow, line: LineRow) -> bool:
    return line.trimmed_us is None or row.segment.range.to_us > line.trimmed_us


def _gone_before_us(line: LineRow, upto: Version) -> int | None:
    """Before where nothing of the line will come or end, once its news up to a version have."""
    if line.trimmed_us is None or upto == line.version:
        return line.trimmed_us
    to_come = [
        row.segment.range.from_us
        for row in (*line.live, *line.superseded)
        if _is_kept(row, line) and upto < (row.end_version or row.begin_version)
    ]
    return min([line.trimmed_us, *to_come])


def _is_news(row: SegmentRow, after: Version, upto: Version) -> bool:
    """Live at `upto` and not before, or the reverse."""
    return row.is_live_at(upto) != (row.begin_version <= after and row.is_live_at(after))


def _plan(transaction: Transaction, plan: PlanId) -> PublishedPlan:
    deployed = transaction.get(tables.PLANS, plan)
    assert deployed is not None, "a segment implies its plan"
    return PublishedPlan(id=plan, network=deployed[0], document=deployed[1])


def import_line(
    transaction: Transaction, here: Participant, lease: Lease, news: LineNews, plan: PlanId,
    reach: RevisionReach,
) -> bool:  # fmt: skip
    """See `Imports.import_line`."""
    # 1 The same news brought before?
    if transaction.get(tables.IMPORTS, news.key) is not None:
        return False

    # 2 Lock the lease.
    check_lease(transaction, lease)
    if lease.key.fragment != import_fragment(news.stream):
        raise Refused(f"fragment {lease.key.fragment} does not import {news.stream}")

    # A revision is read again by what was computed from it.
    if news.replaced:
        hold_for_revision(
            transaction, news.stream, news.replaced[0].from_us, reach.behind, reach.needed
        )

    # 3 Lock the line.
    line = lock_line(transaction, news.stream, news.producer)
    if news.producer.participant == here:
        raise Refused(f"the line of {news.stream} is written here: only a partner's is imported")
    if line.version != news.after:
        raise Conflict(f"the line of {news.stream} is at {line.version}: ask for news again")
    read = transaction.get(tables.CHAINS, (news.stream, news.producer, news.after))
    if read is not None and news.chain_after not in (None, read):
        raise Diverged(f"the line of {news.stream} is not the one read up to {news.after}")
    for plan_ in news.plans:
        known = transaction.get(tables.PLANS, plan_.id)
        if known is not None and known[1] != plan_.document:
            raise Refused(f"plan {plan_.id} exists here with another document")
        transaction.put(tables.PLANS, plan_.id, known or (plan_.network, plan_.document))
    if transaction.get(tables.PLANS, plan) is None:
        raise Refused(f"plan {plan} is not deployed here: deploy it first")

    # What the partner has recalled is taken back first, if the operator of this home agreed.
    line = follow(transaction, here, line, news, recall_sentence(news))
    # So is what it has revised, if the contract of the stream or the operator says so.
    if news.replaced:
        line = follow_revision(transaction, line, news, revision_sentence(news))
        news = without_remainders(news, line)
    if line.generation > 1:
        later = recalls_after(transaction, (news.stream, news.producer), news.version)
        news = _without_trimmed(news, line)
        if any(_is_recalled(p, later) for p in news.segments):
            raise Refused(f"news of {news.stream} holds rows that it says are recalled later")

    # 4 End what was superseded, write what is live.
    ended = {
        (p.segment.range, p.begin_version): p.end_version
        for p in news.segments
        if p.end_version is not None
    }
    live = [r for r in line.live if (r.segment.range, r.begin_version) not in ended]
    over = [
        replace(r, end_version=ended[r.segment.range, r.begin_version])
        for r in line.live
        if (r.segment.range, r.begin_version) in ended
    ]
    if any(row.segment.stability.is_final for row in over):
        raise Refused(f"news of {news.stream} would change what is final (S2)")
    # The end of a trimmed tentative row is not reported: its replacement shows it.
    for row in live.copy():
        if row.segment.stability.is_final or row.segment.range.to_us > _lost_before_us(news):
            continue
        by = [
            p.begin_version
            for p in news.segments
            if p.end_version is None and p.segment.range.overlaps(row.segment.range)
        ]
        if by:
            live.remove(row)
            over.append(replace(row, end_version=min(by)))
    for published in news.segments:
        if published.end_version is None:
            part = published.segment.range
            if any(row.segment.range.overlaps(part) for row in live):
                raise Refused(f"news of {news.stream} overlaps what is live at {part} (S3)")
            record_files(transaction, news.stream, published.segment.files)
            arrived = _arrived(news, published.segment, transaction.store.clock.now_ms)
            live.append(SegmentRow(arrived, published.begin_version, news.key))
    live.sort(key=lambda row: row.segment.range)

    moved = replace(
        line,
        version=news.version,
        origin_us=news.origin_us if line.origin_us is None else line.origin_us,
        end_us=news.end_us if line.end_us is None else line.end_us,
        live=tuple(live),
        superseded=(*line.superseded, *over),
    )

    # 5 Declare what is lost.
    moved = _with_gaps(moved, news, plan)

    # 6 Move version and boundary.
    transaction.put(tables.LINES, (news.stream, news.producer), _reached(moved))
    transaction.put(tables.IMPORTS, news.key, news)
    of = (news.stream, news.producer, news.version)
    if news.chain is not None and transaction.get(tables.CHAINS, of) is None:
        transaction.put(tables.CHAINS, of, news.chain)
        note_version(transaction, *of)
    return True


def _without_trimmed(news: LineNews, line: LineRow) -> LineNews:
    """The news without the rows that are trimmed here: after a recall they are reported again."""
    kept_us = BEGINNING_US if line.trimmed_us is None else line.trimmed_us
    segments = (
        p for p in news.segments if p.end_version is not None or p.segment.range.to_us > kept_us
    )
    return replace(news, segments=tuple(segments))


def _is_recalled(published: PublishedSegment, recalls: Sequence[RecallResult]) -> bool:
    part = published.segment.range
    return published.end_version is None and any(r.from_us < part.to_us for r in recalls)


def _lost_before_us(news: LineNews) -> int:
    return BEGINNING_US if news.trimmed_us is None else news.trimmed_us


def _with_gaps(line: LineRow, news: LineNews, plan: PlanId) -> LineRow:
    """The line with a gap wherever nothing final stands before the partner's trim."""
    begin_us = line.origin_us if line.trimmed_us is None else line.trimmed_us
    if begin_us is None or begin_us >= _lost_before_us(news):
        return line
    final = [r.segment.range for r in line.live if r.segment.stability.is_final]
    gaps = remainders(Range(begin_us, _lost_before_us(news)), final)
    line = supersede(line, gaps)
    rows = [
        SegmentRow(
            Segment(
                stream=news.stream,
                producer=news.producer,
                range=gap,
                stability=Stability.GAP,
                version=news.version,
                plan=plan,
            ),
            begin_version=news.version,
            commit_key=news.key,
        )
        for gap in gaps
    ]
    return replace(line, live=tuple(sorted((*line.live, *rows), key=lambda r: r.segment.range)))


def _reached(line: LineRow) -> LineRow:
    """The line with its boundary where its live rows reach from the origin without a hole."""
    at_us = line.origin_us if line.boundary_us is None else line.boundary_us
    if at_us is None:
        return line
    for row in line.live_after(at_us):
        if row.segment.range.from_us > at_us:
            break
        at_us = row.segment.range.to_us
    if line.end_us is not None and at_us >= line.end_us:
        at_us = FOREVER_US
    return replace(line, boundary_us=at_us)
