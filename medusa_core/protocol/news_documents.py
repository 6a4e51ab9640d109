"""News of a line as a document: every field has a range, and fits the others.

A file is described by its SHA-256, its size and its rows: a partner requests it by the hash, so
the path under which its owner stores it is not sent. Times are microseconds of event time, ages
are durations: no partner decides by another's clock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from medusa_core.digest import MASK, Digest
from medusa_core.exchange import LineNews, PublishedPlan, PublishedSegment
from medusa_core.grid import TIME_US_MAX, TIME_US_MIN, Range, merged_ranges
from medusa_core.line_revisions import RANGES_MAX, LineRevision
from medusa_core.names import (
    NAME_LENGTH_MAX,
    NAME_PATTERN,
    NetworkName,
    Participant,
    PlanId,
    StreamName,
    Version,
)
from medusa_core.plans import fingerprint_of
from medusa_core.protocol.document_fields import (
    INT64_MAX,
    ChoiceField,
    Document,
    IntegerField,
    ListField,
    NullableField,
    RecordField,
    TextField,
)
from medusa_core.recalls import (
    BECAUSE_CHARACTERS_MAX,
    GENERATION_MAX,
    RECALLS_PER_NEWS_MAX,
    LineRecall,
)
from medusa_core.segments import IMPORT, Producer, Segment, SegmentFile, Stability

NEWS_BYTES_MAX = 64 << 20
SEGMENTS_MAX, BUCKETS_MAX, FILES_MAX, PLANS_MAX, MISSING_MAX = (
    100_000,
    100_000,
    10_000,
    1_000,
    1_000,
)
PLAN_CHARACTERS_MAX = 4 << 20
AGE_MS_MAX = 100 * 366 * 86_400_000
REPLICA_MAX = 2**31 - 1
TO_DO = "call the partner's operator"

NAME = TextField(NAME_LENGTH_MAX, NAME_PATTERN, "a name")
STREAM = TextField(2 * NAME_LENGTH_MAX + 1, rf"{NAME_PATTERN}(?:/[a-z0-9_]{{1,63}})?", "a stream")
PLAN = TextField(128, r"[0-9A-Za-z_.:-]+", "the fingerprint of a plan")
HASH = TextField(64, "[0-9a-f]{64}", "a SHA-256 in 64 hexadecimal digits")
SUM = TextField(40, "0|[1-9][0-9]*", "a sum of hashes in decimal digits")
VERSION = IntegerField(0, INT64_MAX)
TIME_US = IntegerField(TIME_US_MIN, TIME_US_MAX + 1)
REPLICA = IntegerField(IMPORT, REPLICA_MAX)
COUNT = IntegerField(1, INT64_MAX)

FILE = RecordField({"sha256": HASH, "size_bytes": COUNT, "rows": COUNT})
BUCKET = RecordField({"at_us": TIME_US, "rows": COUNT, "sum_a": SUM, "sum_b": SUM})
SEGMENT = RecordField(
    {
        "from_us": TIME_US,
        "to_us": TIME_US,
        "stability": ChoiceField(tuple(s.value for s in Stability)),
        "version": VERSION,
        "begin_version": VERSION,
        "end_version": NullableField(VERSION),
        "plan": PLAN,
        "age_ms": IntegerField(0, AGE_MS_MAX),
        "missing": ListField(STREAM, MISSING_MAX),
        "buckets": ListField(BUCKET, BUCKETS_MAX),
        "files": ListField(FILE, FILES_MAX),
    }
)
NEWS = Document(
    "the news of a line",
    TO_DO,
    RecordField(
        {
            "stream": STREAM,
            "participant": NAME,
            "replica": REPLICA,
            "after": VERSION,
            "version": VERSION,
            "origin_us": NullableField(TIME_US),
            "end_us": NullableField(TIME_US),
            "trimmed_us": NullableField(TIME_US),
            "chain_after": NullableField(HASH),
            "chain": NullableField(HASH),
            "made_ago_ms": NullableField(IntegerField(0, AGE_MS_MAX)),
            "segments": ListField(SEGMENT, SEGMENTS_MAX),
            "plans": ListField(
                RecordField(
                    {
                        "id": PLAN,
                        "network": NAME,
                        "document": TextField(PLAN_CHARACTERS_MAX, is_line=False),
                    }
                ),
                PLANS_MAX,
            ),
            "recalls": ListField(
                RecordField(
                    {
                        "generation": IntegerField(2, GENERATION_MAX),
                        "from_us": TIME_US,
                        "version": IntegerField(1, INT64_MAX),
                        "because": TextField(BECAUSE_CHARACTERS_MAX),
                    }
                ),
                RECALLS_PER_NEWS_MAX,
            ),
            "revision": NullableField(
                RecordField(
                    {
                        "generation": IntegerField(2, GENERATION_MAX),
                        "last_generation": IntegerField(2, GENERATION_MAX),
                        "from_us": TIME_US,
                        "version": IntegerField(1, INT64_MAX),
                        "because": TextField(BECAUSE_CHARACTERS_MAX),
                        "ranges": ListField(
                            RecordField({"from_us": TIME_US, "to_us": TIME_US}), RANGES_MAX
                        ),
                    }
                )
            ),
        }
    ),
    NEWS_BYTES_MAX,
)


def write_news(news: LineNews) -> bytes:
    """The document of a line's news; Refused if a value of it could not be read again."""
    check_news(news)
    _check_hashes(news)
    return NEWS.write(news_fields(news))


def read_news(content: bytes) -> LineNews:
    """The news in a document that a partner sent.

    Raises Refused if it is not valid, and Diverged if the partner's home was restored from a
    backup.
    """
    news = news_from(NEWS.read(content))
    check_news(news)
    _check_hashes(news)
    return news


def checked_news(news: LineNews) -> LineNews:
    """The same news, from a partner's database, if its fields could be those of a document.

    Fingerprints and digests are left to the catalog and to the files, which have always been
    compared there.
    """
    NEWS.check(news_fields(news))
    check_news(news)
    return news


def news_fields(news: LineNews) -> Mapping[str, Any]:
    """The fields of the document."""
    return {
        "stream": news.stream,
        "participant": news.producer.participant,
        "replica": news.producer.replica,
        "after": news.after,
        "version": news.version,
        "origin_us": news.origin_us,
        "end_us": news.end_us,
        "trimmed_us": news.trimmed_us,
        "chain_after": news.chain_after,
        "chain": news.chain,
        "made_ago_ms": news.made_ago_ms,
        "segments": [_segment_fields(published) for published in news.segments],
        "plans": [plan_fields(plan) for plan in news.plans],
        "recalls": [recall_fields(recall) for recall in news.recalls],
        "revision": None if news.revision is None else revision_fields(news.revision),
    }


def news_from(fields: Mapping[str, Any]) -> LineNews:
    """The news of a document whose fields have been checked."""
    stream = StreamName(fields["stream"])
    producer = Producer(Participant(fields["participant"]), fields["replica"])
    return LineNews(
        stream=stream,
        producer=producer,
        after=Version(fields["after"]),
        version=Version(fields["version"]),
        origin_us=fields["origin_us"],
        end_us=fields["end_us"],
        trimmed_us=fields["trimmed_us"],
        chain_after=fields["chain_after"],
        chain=fields["chain"],
        made_ago_ms=fields["made_ago_ms"],
        segments=tuple(_segment_from(row, stream, producer) for row in fields["segments"]),
        plans=tuple(map(plan_from, fields["plans"])),
        recalls=tuple(map(recall_from, fields["recalls"])),
        revision=None if fields["revision"] is None else revision_from(fields["revision"]),
    )


def plan_fields(plan: PublishedPlan) -> dict[str, Any]:
    """The fields of a plan, as documents and the catalog have them."""
    return {"id": plan.id, "network": plan.network, "document": plan.document}


def plan_from(fields: Mapping[str, Any]) -> PublishedPlan:
    """The plan with these fields."""
    return PublishedPlan(
        id=PlanId(fields["id"]),
        network=NetworkName(fields["network"]),
        document=fields["document"],
    )


def recall_fields(recall: LineRecall) -> dict[str, Any]:
    """The fields of a recall, as documents and the catalog have them."""
    return {
        "generation": recall.generation,
        "from_us": recall.from_us,
        "version": recall.version,
        "because": recall.because,
    }


def recall_from(fields: Mapping[str, Any]) -> LineRecall:
    """The recall with these fields."""
    return LineRecall(
        generation=fields["generation"],
        from_us=fields["from_us"],
        version=Version(fields["version"]),
        because=fields["because"],
    )


def revision_fields(revision: LineRevision) -> dict[str, Any]:
    """The fields of a revision, as documents and the catalog have them."""
    return {
        "generation": revision.generation,
        "last_generation": revision.last_generation,
        "from_us": revision.from_us,
        "version": revision.version,
        "because": revision.because,
        "ranges": [{"from_us": r.from_us, "to_us": r.to_us} for r in revision.ranges],
    }


def revision_from(fields: Mapping[str, Any]) -> LineRevision:
    """The revision with these fields."""
    return LineRevision(
        generation=fields["generation"],
        last_generation=fields["last_generation"],
        from_us=fields["from_us"],
        version=Version(fields["version"]),
        because=fields["because"],
        ranges=tuple(Range(part["from_us"], part["to_us"]) for part in fields["ranges"]),
    )


def _segment_fields(published: PublishedSegment) -> dict[str, Any]:
    segment = published.segment
    return {
        "from_us": segment.range.from_us,
        "to_us": segment.range.to_us,
        "stability": segment.stability.value,
        "version": segment.version,
        "begin_version": published.begin_version,
        "end_version": published.end_version,
        "plan": segment.plan,
        "age_ms": segment.age_ms,
        "missing": list(segment.missing),
        "buckets": [
            {"at_us": at_us, "rows": d.rows, "sum_a": str(d.sum_a), "sum_b": str(d.sum_b)}
            for at_us, d in sorted(segment.buckets.items())
        ],
        "files": [
            {"sha256": f.sha256, "size_bytes": f.size_bytes, "rows": f.rows} for f in segment.files
        ],
    }


def _segment_from(
    row: Mapping[str, Any], stream: StreamName, producer: Producer
) -> PublishedSegment:
    buckets = row["buckets"]
    for one, next_ in pairwise(buckets):
        if one["at_us"] >= next_["at_us"]:
            raise NEWS.refusal(f"the buckets of {stream} are not in order at {next_['at_us']}")
    end = row["end_version"]
    return PublishedSegment(
        segment=Segment(
            stream=stream,
            producer=producer,
            range=Range(row["from_us"], row["to_us"]),
            stability=Stability(row["stability"]),
            version=Version(row["version"]),
            plan=PlanId(row["plan"]),
            buckets={
                b["at_us"]: Digest(b["rows"], int(b["sum_a"]), int(b["sum_b"])) for b in buckets
            },
            files=tuple(
                SegmentFile(
                    path=path_of(stream, f["sha256"]),
                    size_bytes=f["size_bytes"],
                    sha256=f["sha256"],
                    rows=f["rows"],
                )
                for f in row["files"]
            ),
            age_ms=row["age_ms"],
            missing=tuple(StreamName(name) for name in row["missing"]),
        ),
        begin_version=Version(row["begin_version"]),
        end_version=None if end is None else Version(end),
    )


def path_of(stream: StreamName, file_hash: str) -> str:
    """What a reader calls a partner's file: the stream and the hash say which it is."""
    return f"{stream}/{file_hash[:16]}.parquet"


def check_news(news: LineNews) -> None:
    """Raise Refused unless the fields of news fit one another."""
    plans = {plan.id for plan in news.plans}
    if len(plans) != len(news.plans):
        raise NEWS.refusal("one plan has two documents")
    origin_us, end_us = news.origin_us, news.end_us
    if origin_us is not None and end_us is not None and end_us < origin_us:
        raise NEWS.refusal(f"{news.stream} ends at {end_us}, before its origin {origin_us}")
    for published in news.segments:
        problem = _segment_problem(news, published, plans)
        if problem is not None:
            where = published.segment.range
            raise NEWS.refusal(f"the segment {where} of {news.stream} {problem}")
    live = sorted(p.segment.range for p in news.segments if p.end_version is None)
    for one, next_ in pairwise(live):
        if one.overlaps(next_):
            raise NEWS.refusal(f"two live segments of {news.stream} overlap at {next_.from_us}")
    if news.replaced:
        _check_revision(news)


def _check_revision(news: LineNews) -> None:
    """Raise Refused unless a revision's news holds final rows of all its ranges, and of no others.

    What is left of the segments that it replaces in part has an earlier version.
    """
    ends = [part.to_us for part in news.replaced]
    new: list[Range] = []
    for segment in (p.segment for p in news.segments if p.end_version is None):
        at = bisect_right(ends, segment.range.from_us)
        named = news.replaced[at] if at < len(ends) else None
        is_new = segment.version == news.version
        if is_new and (named is None or not named.covers(segment.range)):
            problem = "is of a revision, and in no range that it names"
        elif is_new and segment.stability is not Stability.STABLE:
            problem = f"is of a revision, and {segment.stability.value}"
        elif not is_new and named is not None and named.overlaps(segment.range):
            problem = "is in a range that is revised, and not of the revision"
        else:
            new += [segment.range] if is_new else []
            continue
        raise NEWS.refusal(f"the segment {segment.range} of {news.stream} {problem}")
    gone_us = TIME_US_MIN if news.trimmed_us is None else news.trimmed_us
    held = merged_ranges(new)
    begins = [part.from_us for part in held]
    for part in news.replaced:
        inside = held[bisect_left(begins, part.from_us) : bisect_left(begins, part.to_us)]
        if any(rest.to_us > gone_us for rest in part.without(inside)):
            raise NEWS.refusal(f"the revision of {news.stream} has no rows for a part of {part}")


def check_page(news: LineNews, segments_max: int) -> None:
    """Raise Refused for more segments than were requested, unless one version has so many.

    The first news of a line that was revised is not divided.
    """
    if news.after == 0:
        return
    begun = [p.begin_version for p in news.segments if p.begin_version > news.after]
    if len(begun) > segments_max and len(set(begun)) > 1:
        raise NEWS.refusal(
            f"{len(begun)} segments of {news.stream} were sent where {segments_max} were requested"
        )


def _check_hashes(news: LineNews) -> None:
    """Raise Refused for a plan that is not its document's, or a digest that no rows have."""
    for plan in news.plans:
        if fingerprint_of(plan.document) != plan.id:
            raise NEWS.refusal(f"plan {plan.id} has a document of another fingerprint")
    for published in news.segments:
        for at_us, digest in published.segment.buckets.items():
            if max(digest.sum_a, digest.sum_b) > digest.rows * MASK:
                raise NEWS.refusal(
                    f"the bucket at {at_us} of {news.stream} has a digest that {digest.rows} rows "
                    "cannot have"
                )


def _segment_problem(news: LineNews, published: PublishedSegment, plans: set[PlanId]) -> str | None:
    """What of a segment does not fit the news that it is part of; None if all does."""
    segment, begin, end = published.segment, published.begin_version, published.end_version
    if segment.version > begin:
        return f"has version {segment.version}, above the {begin} since which it is live"
    if end is None:
        if not news.after < begin <= news.version:
            return f"is live since {begin}, not after {news.after} and up to {news.version}"
    elif not begin <= news.after < end <= news.version:
        return f"is live from {begin} to {end}, not superseded after {news.after}"
    if end is None and segment.plan not in plans:
        return f"names plan {segment.plan}, whose document is not sent"
    if news.origin_us is None or segment.range.from_us < news.origin_us:
        return f"begins before the line's origin {news.origin_us}"
    if news.end_us is not None and segment.range.to_us > news.end_us:
        return f"ends after the line's end {news.end_us}"
    if news.trimmed_us is not None and segment.range.to_us <= news.trimmed_us:
        return f"ends before {news.trimmed_us}, up to where the line is trimmed"
    again_us = min((r.from_us for r in news.recalls if r.version > news.version), default=None)
    if again_us is not None and segment.range.to_us > again_us:
        return f"holds what is recalled later, from {again_us} on"
    return _content_problem(segment)


def _content_problem(segment: Segment) -> str | None:
    """What of a segment's rows, digests and files does not fit; None if all does."""
    if segment.stability is Stability.GAP and segment.buckets:
        return "is a gap that has rows"
    if bool(segment.buckets) != bool(segment.files):
        return f"has {segment.rows} rows in {len(segment.files)} files"
    if segment.rows > sum(file.rows for file in segment.files):
        return f"has {segment.rows} rows, more than its files"
    return None
