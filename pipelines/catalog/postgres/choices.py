"""Choices among several producers as Postgres takes and answers them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from medusa_core.commits import Lease
from medusa_core.digest import Digest
from medusa_core.divergence import Divergence, Side
from medusa_core.grid import Range
from medusa_core.imports import ChosenRows, ImportKnowledge, ProducedLine, commits_of
from medusa_core.names import Epoch, Participant, PlanId, StreamName, Version
from medusa_core.segments import IMPORT, Producer
from pipelines.catalog.postgres.many import lease_fields
from pipelines.catalog.postgres.rows import Row, commit_document, producer_of


def choice_document(lease: Lease, chosen: ChosenRows) -> str:
    """What `medusa.commit_choice` takes."""
    return json.dumps(
        {
            **lease_fields(lease),
            "stream": chosen.stream,
            "commits": [json.loads(commit_document(c)) for c in commits_of(lease, chosen)],
            "divergences": [_divergence_document(d) for d in chosen.divergences],
            "compared": [
                {
                    "participant": producer.participant,
                    "replica": producer.replica,
                    "compared_us": at_us,
                }
                for producer, at_us in sorted(chosen.compared_us.items())
            ],
            "end_us": chosen.end_us,
        }
    )


def _divergence_document(divergence: Divergence) -> dict[str, Any]:
    document: dict[str, Any] = {"bucket_us": divergence.bucket_us, "plan": divergence.plan}
    for prefix, side in (("", divergence.one), ("other_", divergence.other)):
        document |= {
            f"{prefix}participant": side.producer.participant,
            f"{prefix}replica": side.producer.replica,
            f"{prefix}version": side.version,
            f"{prefix}rows": side.digest.rows,
            f"{prefix}sum_a": side.digest.sum_a,
            f"{prefix}sum_b": side.digest.sum_b,
        }
    return document


def divergence_of(row: Row) -> Divergence:
    """A divergence as it was noted."""
    return Divergence(
        stream=StreamName(row["stream"]),
        bucket_us=row["bucket_us"],
        plan=PlanId(row["plan"]),
        one=_side_of(row, ""),
        other=_side_of(row, "other_"),
        number=row["divergence_id"],
        noticed_at_ms=row["noticed_at_ms"],
    )


def _side_of(row: Row, prefix: str) -> Side:
    digest = Digest(
        int(row[f"{prefix}rows"]), int(row[f"{prefix}sum_a"]), int(row[f"{prefix}sum_b"])
    )
    producer = Producer(Participant(row[f"{prefix}participant"]), row[f"{prefix}replica"])
    return Side(producer, Version(row[f"{prefix}version"]), digest)


def imports_of(
    document: Mapping[str, Any], here: Participant
) -> list[tuple[ImportKnowledge, dict[Producer, int]]]:
    """The document of the query `knowledge_imports`; with each the ids of its producers' lines."""
    found: list[tuple[ImportKnowledge, dict[Producer, int]]] = []
    lines_of, disputes_of = _by_stream(document["producers"]), _by_stream(document["divergences"])
    for row in document["imports"] or ():
        lines = lines_of.get(row["stream"], [])
        ids = {producer_of(line): int(line["line_id"]) for line in lines}
        knowledge = ImportKnowledge(
            stream=StreamName(row["stream"]),
            reader=Producer(here, IMPORT),
            epoch=Epoch(row["epoch"]),
            plan=PlanId(row["plan"]),
            width_us=row["width_us"],
            partition=row["partition"],
            verify=row["verify"],
            boundary_us=row["boundary_us"],
            end_us=row["end_us"],
            lacks=None if row["lacks"] is None else tuple(map(StreamName, row["lacks"])),
            producers=tuple(_line_of(line) for line in lines),
            tentative=tuple(Range(*part) for part in row["tentative"] or ()),
            divergences=tuple(map(divergence_of, disputes_of.get(row["stream"], []))),
            clock_ms=document["clock_ms"],
        )
        found.append((knowledge, ids))
    return found


def _by_stream(rows: list[Row] | None) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows or ():
        found.setdefault(row["stream"], []).append(row)
    return found


def _line_of(row: Row) -> ProducedLine:
    return ProducedLine(
        producer=producer_of(row),
        origin_us=row["origin_us"],
        boundary_us=row["boundary_us"],
        end_us=row["end_us"],
        tentative_us=row["tentative_us"],
        trimmed_us=row["trimmed_us"],
        compared_us=row["compared_us"],
    )
