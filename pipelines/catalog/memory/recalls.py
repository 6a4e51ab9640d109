"""Recalls in memory, written from the words of `Recalls.recall` and not from the SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

from medusa_core.errors import Refused
from medusa_core.exchange import IMPORT_PREFIX, LineNews
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range, ceil_us, floor_us
from medusa_core.names import Participant, StreamName, Version
from medusa_core.recalls import RecallRequest, RecallResult
from medusa_core.segments import Producer
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.choices import COMPARED, DIVERGENCES
from pipelines.catalog.memory.commit import lock_line, note_version, supersede, width_of
from pipelines.catalog.memory.recalled import recalls_after
from pipelines.catalog.memory.store import Table, Transaction
from pipelines.catalog.memory.tables import NEVER, LineRow, SegmentRow
from pipelines.catalog.memory.trim import hold_again

Line = tuple[StreamName, Producer]
MOVED_BACK = ("import", "changes", "delivery")
"""Purposes of holds of those who have to read again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRow:
    """A partner's recall that the operator agreed to follow."""

    generation: int
    from_us: int
    because: str
    who: str
    stays: Mapping[StreamName, int]


FOLLOWS: Table[tuple[StreamName, Producer, int], FollowRow] = Table("recall_follow")


def recall(
    transaction: Transaction, here: Participant, request: RecallRequest
) -> tuple[RecallResult, ...]:
    """See `Recalls.recall`; to explain it, the caller forgets what was done."""
    # 1 May it be?
    line = transaction.get(tables.LINES, (request.stream, request.producer))
    if line is None:
        raise Refused(f"stream {request.stream} has no line by {request.producer}: deploy it first")
    root, is_own = (request.stream, request.producer), request.producer.participant == here
    if is_own != (request.follows is None):
        whose = "written here: recall it" if is_own else "a partner's: let it recall, and follow"
        raise Refused(f"the line of {request.stream} by {request.producer} is {whose}")
    if request.from_us % width_of(transaction, request.stream):
        raise Refused(
            f"{request.stream} cannot be recalled from {request.from_us} on, off its grid"
        )
    if line.origin_us is None or request.from_us < line.origin_us:
        raise Refused(
            f"{request.stream} begins at {line.origin_us}: recall it from there, or later"
        )

    record = transaction.get(tables.STREAMS, request.stream)
    if is_own and record is not None and record.kind == "source":
        for revision in recalls_after(transaction, root, NEVER):
            if any(part.to_us > request.from_us for part in revision.changed):
                raise Refused(
                    f"{request.stream} was revised behind {request.from_us} (generation "
                    f"{revision.generation}), which its landed records lack: revise it again"
                )

    # 2 Hold what is to be read again, 3 let nothing be committed meanwhile.
    again = closure(transaction, here, root, request.from_us)
    _hold(transaction, request, again)
    for stream, producer in sorted(transaction.rows(tables.LINES)):
        if producer.participant == here or (stream, producer) == root:
            lock_line(transaction, stream, producer)

    # 4 Is all of it there, and can be computed again?
    if is_own and request.from_us < _kept_from_us(transaction, here, root):
        raise Refused(f"{request.stream} is trimmed before {line.trimmed_us}: recall from later on")
    for fragment, inputs in request.needed.items():
        for stream, from_us in inputs.items():
            lines = [row for (s, _), row in transaction.rows(tables.LINES).items() if s == stream]
            if lines and all(_is_lost(row, from_us) for row in lines):
                raise Refused(f"{fragment} reads {stream} from {from_us} on, which is trimmed")

    # 5 Take it back, and say so; a partner's is taken back when its news comes.
    if request.follows is not None:
        if request.follows <= line.generation:
            raise Refused(f"{request.stream} is followed to generation {line.generation} already")
        follow = FollowRow(generation=request.follows, from_us=request.from_us,
                           because=request.because, who=request.who,
                           stays=request.stays)  # fmt: skip
        transaction.put(FOLLOWS, (*root, request.follows), follow)
    results: list[RecallResult] = []
    for of, from_us in sorted(again.items(), key=lambda item: (item[0] != root, item[0])):
        stays_us = BEGINNING_US if of == root else request.stays.get(of[0], BEGINNING_US)
        at_us = max(from_us, _kept_from_us(transaction, here, of), stays_us)
        done = _result_of(transaction, of, at_us, request.because, request.who)
        if done is None:
            continue
        if request.follows is None:
            _take_back(transaction, of, done)
        elif of == root:
            done = replace(done, generation=request.follows)
        results.append(done)
    if not results or (results[0].stream, results[0].producer) != root:
        raise Refused(f"{request.stream} reaches to {line.boundary_us} only: nothing to recall")
    return tuple(results)


def follow(
    transaction: Transaction, here: Participant, line: LineRow, news: LineNews, refusal: str | None
) -> LineRow:
    """The copy of a partner's line without what its news recalls; what was computed from it goes.

    Refused unless the operator agreed, or nothing of it was read.
    """
    of = (news.stream, news.producer)
    new = [r for r in news.recalls if r.generation > line.generation]
    if not new:
        return line
    last, from_us = new[-1], min(recall.from_us for recall in new)
    over = line.live_after(from_us)
    kept = over if line.trimmed_us is None else line.live_after(max(from_us, line.trimmed_us))
    agreed = transaction.get(FOLLOWS, (*of, last.generation))
    if kept and (agreed is None or agreed.from_us > from_us):
        raise Refused(refusal or f"a partner recalled {news.stream} from {from_us} on")
    again = closure(transaction, here, of, from_us) if kept else {}
    for line_recall in new:
        recall = RecallResult(
            stream=news.stream,
            producer=news.producer,
            generation=line_recall.generation,
            from_us=line_recall.from_us,
            version=line_recall.version,
            because=line_recall.because,
            who=news.producer.participant,
            recalled_at_ms=transaction.store.clock.now_ms,
        )
        _note(transaction, recall)
    ends = {(p.segment.range, p.begin_version): p.end_version for p in news.segments}
    ended = [
        replace(r, end_version=ends.get((r.segment.range, r.begin_version)) or news.version)
        for r in over
    ]
    live = line.live[: len(line.live) - len(over)]
    boundary_us = line.boundary_us
    if kept and boundary_us is not None:
        reached = [at for at in (line.origin_us, line.trimmed_us) if at is not None]
        boundary_us = min(boundary_us, max([*reached, *(r.segment.range.to_us for r in live)]))
    for (stream, producer), at_us in again.items():
        if (stream, producer) != of and agreed is not None:
            kept_us = max(at_us, _kept_from_us(transaction, here, (stream, producer)),
                          agreed.stays.get(stream, BEGINNING_US))  # fmt: skip
            done = _result_of(transaction, (stream, producer), kept_us, agreed.because, agreed.who)
            if done is not None:
                _take_back(transaction, (stream, producer), done)
    return replace(
        line,
        generation=last.generation,
        live=live,
        superseded=(*line.superseded, *ended),
        boundary_us=boundary_us,
        end_us=None,
    )


def closure(
    transaction: Transaction, here: Participant, root: Line, from_us: int
) -> dict[Line, int]:
    """From when on each line of this home goes that is computed from a line, itself included."""
    found, todo = {root: from_us}, [root]
    while todo:
        of = todo.pop()
        for other, at_us in (*_siblings(transaction, here, of, found[of]),
                             *_readers(transaction, here, of, found[of])):  # fmt: skip
            if at_us < found.get(other, FOREVER_US):
                found[other] = at_us
                todo.append(other)
    return found


def _siblings(
    transaction: Transaction, here: Participant, of: Line, from_us: int
) -> Iterable[tuple[Line, int]]:
    """The outputs of a fragment advance together, so they begin again together."""
    stream, producer = of
    if producer.participant != here or producer.is_import:
        return
    for name, fragment in transaction.rows(tables.FRAGMENTS).items():
        if stream in fragment.outputs and not name.startswith(IMPORT_PREFIX):
            width_us = max(width_of(transaction, output) for output in fragment.outputs)
            for output in fragment.outputs:
                if transaction.get(tables.LINES, (output, producer)) is not None:
                    yield (output, producer), floor_us(from_us, width_us)


def _readers(
    transaction: Transaction, here: Participant, of: Line, from_us: int
) -> Iterable[tuple[Line, int]]:
    """Whatever has a row that was computed from what is taken back."""
    stream, _ = of
    reading = {
        output
        for name, fragment in transaction.rows(tables.FRAGMENTS).items()
        if stream in fragment.inputs or name == f"{IMPORT_PREFIX}{stream}"
        for output in fragment.outputs
    }
    for (output, producer), line in transaction.rows(tables.LINES).items():
        if output not in reading or producer.participant != here or (output, producer) == of:
            continue
        if any(_reads(transaction, row, output, of, from_us) for row in line.live_after(from_us)):
            yield (output, producer), floor_us(from_us, width_of(transaction, output))


def _reads(transaction: Transaction, row: SegmentRow, output: str, of: Line, from_us: int) -> bool:
    made = transaction.get(tables.COMMITS, row.commit_key)
    return made is not None and any(
        read.output == output and (read.input, read.producer) == of and read.range.to_us > from_us
        for read in made.commit.lineage
    )


def _kept_from_us(transaction: Transaction, here: Participant, of: Line) -> int:
    """From when on a line and the other outputs of its fragment are kept, on the widest grid."""
    together = {of, *(line for line, _ in _siblings(transaction, here, of, 0))}
    widest_us = max(width_of(transaction, stream) for stream, _ in together)
    lines = [lock_line(transaction, *line) for line in together]
    gone = [
        line.trimmed_us
        for line in lines
        if line.trimmed_us is not None and line.trimmed_us != line.origin_us
    ]
    return ceil_us(max(gone), widest_us) if gone else BEGINNING_US


def _is_lost(line: LineRow, from_us: int) -> bool:
    lost_us = line.trimmed_us
    return lost_us is not None and line.origin_us != lost_us and from_us < lost_us


def _hold(transaction: Transaction, request: RecallRequest, again: dict[Line, int]) -> None:
    for (stream, _), from_us in again.items():
        for key, row in transaction.rows(tables.HOLDS).items():
            if (key[0] == stream and row.hold.purpose in MOVED_BACK
                    and row.hold.from_us > from_us):  # fmt: skip
                transaction.share_name(tables.ORDERS, stream)
                transaction.lock_name(tables.HOLDS, key)
                moved = replace(row, hold=replace(row.hold, from_us=from_us))
                transaction.put(tables.HOLDS, key, moved)
    needed: dict[StreamName, int] = {}
    for inputs in request.needed.values():
        for stream, at_us in inputs.items():
            needed[stream] = min(needed.get(stream, FOREVER_US), at_us)
    for stream, at_us in needed.items():
        hold_again(transaction, stream, at_us)


def _result_of(
    transaction: Transaction, of: Line, from_us: int, because: str, who: str
) -> RecallResult | None:
    """The recall of a line; None if nothing lies behind."""
    line = lock_line(transaction, *of)
    over = line.live_after(from_us)
    if not over:
        return None
    return RecallResult(
        stream=of[0],
        producer=of[1],
        generation=line.generation + 1,
        from_us=from_us if line.origin_us is None else max(from_us, line.origin_us),
        version=Version(line.version + 1),
        because=because,
        who=who,
        recalled_at_ms=transaction.store.clock.now_ms,
        segments=len(over),
        rows=sum(
            digest.rows
            for row in over
            for digest in row.segment.within(Range(from_us, FOREVER_US)).values()
        ),
    )


def _take_back(transaction: Transaction, of: Line, recall: RecallResult) -> None:
    line = replace(lock_line(transaction, *of), version=recall.version)
    line = supersede(line, [Range(recall.from_us, FOREVER_US)])
    record = transaction.get(tables.STREAMS, of[0])
    assert record is not None, "a line implies its stream"
    assert line.boundary_us is not None, "a line with rows has begun"
    recalled = replace(
        line,
        generation=recall.generation,
        boundary_us=min(line.boundary_us, recall.from_us),
        end_us=line.end_us if record.kind == "source" else None,
    )
    transaction.put(tables.LINES, of, recalled)
    _note(transaction, recall)
    before = transaction.get(tables.CHAINS, (*of, Version(recall.version - 1))) or ""
    text = f"{before}\nrecall {recall.generation} {recall.from_us}"
    transaction.put(tables.CHAINS, (*of, recall.version), sha256(text.encode()).hexdigest())
    note_version(transaction, *of, recall.version)


def _note(transaction: Transaction, recall: RecallResult) -> None:
    """Write a recall down; what the producer took back nobody disputes, and is compared anew."""
    of = (recall.stream, recall.producer)
    transaction.put(tables.RECALLS, (*of, recall.generation), recall)
    compared_us = transaction.get(COMPARED, of)
    if compared_us is not None:
        transaction.put(COMPARED, of, min(compared_us, recall.from_us))
    for number, divergence in transaction.rows(DIVERGENCES).items():
        is_its = divergence.stream == recall.stream and recall.producer in divergence.producers
        if is_its and divergence.bucket_us >= recall.from_us:
            transaction.remove(DIVERGENCES, number)
