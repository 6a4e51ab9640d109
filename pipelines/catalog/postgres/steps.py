"""Steps in Postgres: commits, and the history of what was committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medusa_core.commits import Cause, Commit, CommitResult
from medusa_core.errors import MedusaError
from medusa_core.segments import Read, Segment
from medusa_core.states import Transition
from pipelines.catalog.postgres import many, rows
from pipelines.catalog.postgres.home_database import HomeDatabase
from pipelines.catalog.processing_roles import Steps
from pipelines.catalog.reading_roles import StepHistory
from pipelines.catalog.records import StepRecord


class PostgresSteps(HomeDatabase, Steps, StepHistory):
    """Commits of steps and their history."""

    def commit(self, commit: Commit) -> CommitResult:
        """See `Steps.commit`: the numbers are in `medusa.commit_step`."""
        answer = self._value("commit_step", committing=True, request=rows.commit_document(commit))
        return CommitResult(
            versions=answer["versions"],
            committed_at_ms=answer["committed_at_ms"],
            again=answer["again"],
        )

    def commit_many(self, commits: Sequence[Commit]) -> tuple[CommitResult | MedusaError, ...]:
        """See `Steps.commit_many`."""
        requests = many.commits_document(commits)
        answers = self._value("commit_steps", committing=True, requests=requests)
        return tuple(map(many.committed_of, answers))

    def record_transition(self, transition: Transition) -> bool:
        """See `Steps.record_transition`."""
        made: bool = self._value(
            "record_transition",
            fragment=transition.fragment,
            partition=transition.partition,
            participant=transition.producer.participant,
            replica=transition.producer.replica,
            state=transition.state.value,
            because=transition.because,
        )
        return made

    def transitions(self, limit: int | None = None) -> tuple[Transition, ...]:
        """See `StepHistory.transitions`."""
        return tuple(rows.transition_of(row) for row in self._rows("transitions", limit=limit))

    def states(self) -> tuple[Transition, ...]:
        """See `StepHistory.states`."""
        return tuple(rows.transition_of(row) for row in self._rows("states"))

    def steps(self, limit: int | None = None) -> tuple[StepRecord, ...]:
        """See `StepHistory.steps`."""
        return tuple(rows.step_of(row) for row in self._rows("steps", limit=limit))

    def step_counts(self) -> Mapping[Cause, int]:
        """See `StepHistory.step_counts`."""
        return {Cause(row["cause"]): row["steps"] for row in self._rows("step_counts")}

    def lineage(self, segment: Segment) -> tuple[Read, ...]:
        """See `StepHistory.lineage`."""
        found = self._rows(
            "lineage",
            **rows.line_fields(segment.stream, segment.producer),
            from_us=segment.range.from_us,
            to_us=segment.range.to_us,
            version=segment.version,
        )
        return tuple(rows.read_of(row) for row in found)
