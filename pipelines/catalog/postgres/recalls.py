"""Recalls as Postgres takes and answers them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from medusa_core.names import StreamName, Version
from medusa_core.recalls import LineRecall, Recalled, RecallWanted
from pipelines.catalog.postgres.rows import Row, producer_of


def recall_document(wanted: RecallWanted, *, explain: bool) -> str:
    """What `medusa.recall` takes."""
    return json.dumps(
        {
            "stream": wanted.stream,
            "participant": wanted.producer.participant,
            "replica": wanted.producer.replica,
            "from_us": wanted.from_us,
            "because": wanted.because,
            "who": wanted.who,
            "follows": wanted.follows,
            "needed": {fragment: dict(inputs) for fragment, inputs in wanted.needed.items()},
            "stays": dict(wanted.stays),
            "explain": explain,
        }
    )


def recalled_of(row: Row) -> Recalled:
    """A recall as it was made or told."""
    return Recalled(
        stream=StreamName(row["stream"]),
        producer=producer_of(row),
        generation=row["generation"],
        from_us=row["from_us"],
        version=Version(row["version"]),
        because=row["because"],
        who=row["who"],
        recalled_at_ms=row["recalled_at_ms"],
        segments=row.get("segments", 0),
        rows=row.get("rows", 0),
    )


def line_recalls_of(told: list[Mapping[str, Any]] | None) -> tuple[LineRecall, ...]:
    """The recalls that the news has; a home of an older Medusa tells none."""
    return tuple(
        LineRecall(
            generation=row["generation"],
            from_us=row["from_us"],
            version=Version(row["version"]),
            because=row["because"],
        )
        for row in told or ()
    )


def line_recalls_document(recalls: tuple[LineRecall, ...]) -> list[dict[str, Any]]:
    """The same as `medusa.import_line` takes them."""
    return [
        {
            "generation": r.generation,
            "from_us": r.from_us,
            "version": r.version,
            "because": r.because,
        }
        for r in recalls
    ]
