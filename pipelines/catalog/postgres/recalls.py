"""Recalls as Postgres takes and answers them."""

from __future__ import annotations

import json

from medusa_core.fragments import landing_fragment
from medusa_core.grid import Range
from medusa_core.line_revisions import RevisionAgreement
from medusa_core.names import StreamName, Version
from medusa_core.recalls import RecallRequest, RecallResult
from medusa_core.revisions import RevisionRequest
from pipelines.catalog.postgres.home_database import HomeDatabase
from pipelines.catalog.postgres.rows import Row, producer_of, segment_fields
from pipelines.catalog.processing_roles import Recalls


def recall_document(request: RecallRequest, *, explain: bool) -> str:
    """What `medusa.recall` takes."""
    return json.dumps(
        {
            "stream": request.stream,
            "participant": request.producer.participant,
            "replica": request.producer.replica,
            "from_us": request.from_us,
            "because": request.because,
            "who": request.who,
            "follows": request.follows,
            "needed": {fragment: dict(inputs) for fragment, inputs in request.needed.items()},
            "stays": dict(request.stays),
            "explain": explain,
        }
    )


def revision_document(request: RevisionRequest) -> str:
    """What `medusa.revise` takes."""
    return json.dumps(
        {
            "key": request.key,
            "stream": request.stream,
            "participant": request.producer.participant,
            "replica": request.producer.replica,
            "fragment": landing_fragment(request.stream),
            "generation": request.generation,
            "because": request.because,
            "who": request.who,
            "parts": [
                {"plan": one.plan, **segment_fields(one.segment)} for one in request.segments
            ],
            "behind": dict(request.behind),
            "needed": {fragment: dict(inputs) for fragment, inputs in request.needed.items()},
            "late": list(request.late),
        }
    )


def recalled_of(row: Row) -> RecallResult:
    """A recall, made here or reported by a partner."""
    return RecallResult(
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
        ranges=tuple(Range(*bounds) for bounds in row.get("ranges") or ()),
        changed=tuple(Range(*bounds) for bounds in row.get("changed") or ()),
    )


class PostgresRecalls(HomeDatabase, Recalls):
    """Recalls of lines."""

    def recall(self, request: RecallRequest, *, explain: bool = False) -> tuple[RecallResult, ...]:
        """See `Recalls.recall`."""
        document = recall_document(request, explain=explain)
        return tuple(recalled_of(row) for row in self._value("recall", request=document))

    def revise(self, request: RevisionRequest) -> RecallResult:
        """See `Recalls.revise`."""
        query = "admit_late" if request.late else "revise"
        return recalled_of(self._value(query, request=revision_document(request)))

    def agree_to_revisions(self, agreement: RevisionAgreement) -> None:
        """See `Recalls.agree_to_revisions`."""
        request = {
            "stream": agreement.stream,
            "participant": agreement.producer.participant,
            "replica": agreement.producer.replica,
            "generation": agreement.generation,
            "from_us": agreement.from_us,
            "because": agreement.because,
            "who": agreement.who,
        }
        self._value("agree_to_revisions", request=json.dumps(request))

    def recalls(self, stream: StreamName | None = None) -> tuple[RecallResult, ...]:
        """See `Recalls.recalls`."""
        return tuple(recalled_of(row) for row in self._rows("recalls", stream=stream))
