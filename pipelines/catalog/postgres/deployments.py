"""Deployments in Postgres, and what is known of their inputs and outputs, read as one snapshot."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from medusa_core.fragments import Fragment
from medusa_core.knowledge import Knowledge, Limits, TentativeKnowledge
from medusa_core.names import Participant
from medusa_core.segments import Read, Segment
from medusa_core.step_costs import Cost
from pipelines.catalog import knowledge_rows
from pipelines.catalog.postgres import rows
from pipelines.catalog.postgres.costs import step_costs_of
from pipelines.catalog.postgres.database_errors import errors_of_catalog
from pipelines.catalog.postgres.home_database import HomeDatabase
from pipelines.catalog.postgres.owed_revisions import OwedRevisions
from pipelines.catalog.postgres.queries import query
from pipelines.catalog.processing_roles import Deployments, Owners
from pipelines.catalog.records import Assignment, Deployment, OwnerLine, PlanRecord


class PostgresDeployments(HomeDatabase, Deployments, Owners):
    """Deployments and the knowledge that steps are decided on."""

    def __init__(self, url: str, participant: Participant) -> None:
        super().__init__(url, participant)
        self._owed_revisions = OwedRevisions()

    def deploy(self, deployment: Deployment) -> None:
        """See `Deployments.deploy`."""
        self._value("deploy", request=rows.deployment_document(deployment))

    def assignments(self) -> tuple[Assignment, ...]:
        """See `Deployments.assignments`."""
        return tuple(rows.assignment_of(row) for row in self._rows("assignments"))

    def change_owner(self, line: OwnerLine) -> None:
        """See `Owners.change_owner`."""
        self._value("change_owner", **rows.owner_values(line))

    def fragment_owners(self, fragment: str, partition: int = 0) -> tuple[OwnerLine, ...]:
        """See `Owners.fragment_owners`."""
        found = self._rows("fragment_owners", fragment=fragment, partition=partition)
        return tuple(rows.owner_line_of(row) for row in found)

    def stop_fragment(self, fragment: str) -> bool:
        """See `Owners.stop_fragment`."""
        return bool(self._value("stop_fragment", fragment=fragment))

    def plans(self, *, superseded: bool = False) -> tuple[PlanRecord, ...]:
        """See `Deployments.plans`."""
        return tuple(PlanRecord(**row) for row in self._rows("plans", superseded=superseded))

    def step_costs(self) -> Mapping[str, Cost]:
        """See `Deployments.step_costs`."""
        with errors_of_catalog(), self._snapshot() as connection:
            return step_costs_of(connection, self._participant)

    def read_knowledge(self, fragments: Mapping[str, Fragment], limits: Limits) -> Knowledge:
        """See `Deployments.read_knowledge`: one snapshot, two strides, more where rows are owed."""
        with errors_of_catalog(), self._snapshot() as connection:
            assigned = self._assigned_lines(connection, fragments, limits)
            tentative = self._tentative(connection, assigned, limits)
            revised = self._owed_revisions.read(
                connection, assigned.read_revised(fragments), limits
            )
            seen = knowledge_rows.frontier_knowledge(assigned, fragments, tentative, revised)
            requests = [
                (at, r)
                for at, f in enumerate(seen)
                for r in knowledge_rows.requests_of(f, assigned)
            ]
            answers = segment_answers(connection, [request for _, request in requests], limits)
        pairs: list[list[tuple[knowledge_rows.SegmentRequest, knowledge_rows.SegmentAnswer]]] = [
            [] for _ in seen
        ]
        for (at, _), pair in zip(requests, answers, strict=True):
            pairs[at].append(pair)
        return knowledge_rows.knowledge_of(
            self._participant,
            assigned,
            map(knowledge_rows.with_input_segments, seen, pairs),
            limits,
        )

    def _assigned_lines(
        self, connection: Connection, fragments: Mapping[str, Fragment], limits: Limits
    ) -> knowledge_rows.AssignedLines:
        values = {
            "participant": self._participant,
            "fragments": list(fragments),
            "buckets_max": limits.buckets_per_step_max + 1,
        }
        document = connection.execute(query("knowledge_assigned"), values).scalar_one()
        return rows.assigned_lines_of(document)

    def _tentative(
        self, connection: Connection, assigned: knowledge_rows.AssignedLines, limits: Limits
    ) -> list[TentativeKnowledge]:
        lines = assigned.tentative_lines()
        if not lines:
            return []
        reach, inputs = knowledge_rows.what_is_there(assigned, lines)
        values = {
            "line_ids": list(lines),
            "segments_max": limits.buckets_per_step_max,
            "reach": json.dumps(reach),
            "inputs": json.dumps(inputs),
        }
        found = connection.execute(query("knowledge_tentative"), values).mappings().all()
        reads: dict[int, list[Read]] = {}
        commit_ids = {"commit_ids": list({row["commit_id"] for row in found})}
        for row in connection.execute(query("knowledge_lineage"), commit_ids).mappings():
            reads.setdefault(row["commit_id"], []).append(rows.read_of(row))
        tentative: list[TentativeKnowledge] = []
        for row in found:
            line = lines[row["line_id"]]
            mine = (r for r in reads.get(row["commit_id"], ()) if r.output == line.stream)
            segment = rows.segment_of(row, line.stream, line.producer)
            tentative.append(TentativeKnowledge(segment=segment, reads=tuple(mine)))
        return tentative


def segment_answers(
    connection: Connection,
    requests: Sequence[knowledge_rows.SegmentRequest],
    limits: Limits,
) -> list[tuple[knowledge_rows.SegmentRequest, knowledge_rows.SegmentAnswer]]:
    """The rows of lines that are requested, in the order of the requests."""
    if not requests:
        return []
    values = {
        "requests": list(range(len(requests))),
        "line_ids": [r.line.line_id for r in requests],
        "from_us": [r.from_us for r in requests],
        "need_us": [r.need_us for r in requests],
        "beyond": [limits.buckets_per_step_max if r.goes_on else -1 for r in requests],
        "records_max": limits.records_per_step_max,
        "buckets_max": limits.buckets_per_step_max,
    }
    found: list[list[Segment]] = [[] for _ in requests]
    next_us: list[int | None] = [None] * len(requests)
    for row in connection.execute(query("knowledge_segments"), values).mappings():
        at = row["request"]
        line = requests[at].line
        found[at].append(rows.segment_of(row, line.stream, line.producer))
        next_us[at] = row["next_from_us"]
    return [
        (request, knowledge_rows.SegmentAnswer(tuple(found[at]), next_us[at]))
        for at, request in enumerate(requests)
    ]
