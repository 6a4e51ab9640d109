"""News of a line as the database gives and takes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from medusa_core.exchange import LineNews, PublishedSegment
from medusa_core.line_revisions import RevisionReach
from medusa_core.names import PlanId, StreamName, Version
from medusa_core.protocol.news_documents import (
    plan_fields,
    plan_from,
    recall_fields,
    recall_from,
    revision_fields,
    revision_from,
)
from medusa_core.segments import Producer
from pipelines.catalog.postgres.rows import files_document, segment_of
from pipelines.catalog.recall_text import recall_sentence, revision_sentence


def news_of(
    document: Mapping[str, Any], stream: StreamName, producer: Producer, after: Version
) -> LineNews:
    """From the document of medusa.line_news."""
    return LineNews(
        stream=stream,
        producer=producer,
        after=after,
        version=Version(document["version"]),
        origin_us=document["origin_us"],
        end_us=document["end_us"],
        trimmed_us=document["trimmed_us"],
        chain_after=document.get("chain_after"),  # a home of an older Medusa tells none
        chain=document.get("chain"),
        made_ago_ms=document.get("made_ago_ms"),
        segments=tuple(
            PublishedSegment(
                segment=segment_of(row, stream, producer),
                begin_version=Version(row["begin_version"]),
                end_version=None if row["end_version"] is None else Version(row["end_version"]),
            )
            for row in document["segments"] or ()
        ),
        plans=tuple(map(plan_from, document["plans"] or ())),
        # A home of an older Medusa tells none.
        recalls=tuple(map(recall_from, document.get("recalls") or ())),
        revision=revision_from(document["revision"]) if document.get("revision") else None,
    )


def import_document(
    lease: Mapping[str, Any], news: LineNews, plan: PlanId, reach: RevisionReach
) -> str:
    """What medusa.import_line takes; `lease` as the functions' arguments."""
    return json.dumps(
        {
            **lease,
            "key": news.key,
            "plan": plan,
            "stream": news.stream,
            "from_participant": news.producer.participant,
            "from_replica": news.producer.replica,
            "after": news.after,
            "version": news.version,
            "origin_us": news.origin_us,
            "end_us": news.end_us,
            "trimmed_us": news.trimmed_us,
            "chain_after": news.chain_after,
            "chain": news.chain,
            "segments": [_segment_document(news, published) for published in news.segments],
            "plans": [plan_fields(plan) for plan in news.plans],
            "recalls": [recall_fields(recall) for recall in news.recalls],
            "revision": None if news.revision is None else revision_fields(news.revision),
            "behind": reach.behind,
            "needed": {fragment: dict(inputs) for fragment, inputs in reach.needed.items()},
            "refusal": recall_sentence(news) or revision_sentence(news),
        }
    )


def _segment_document(news: LineNews, published: PublishedSegment) -> dict[str, Any]:
    segment = published.segment
    buckets = sorted(segment.buckets.items())
    return {
        "from_us": segment.range.from_us,
        "to_us": segment.range.to_us,
        "stability": segment.stability.value,
        "version": segment.version,
        "begin_version": published.begin_version,
        "end_version": published.end_version,
        "plan": segment.plan,
        "fresh_ms": news.fresh_ms(segment),
        "missing": list(segment.missing),
        "bucket_us": [at_us for at_us, _ in buckets],
        "bucket_rows": [digest.rows for _, digest in buckets],
        "sum_a": [digest.sum_a for _, digest in buckets],
        "sum_b": [digest.sum_b for _, digest in buckets],
        "files": files_document(segment.files),
    }
