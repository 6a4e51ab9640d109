"""Read what changed of a stream, since a version or behind a consumer's cursor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from medusa_core.errors import Refused
from medusa_core.grid import Range
from medusa_core.names import Participant, Version
from pipelines.base.settings import Settings
from pipelines.changes.change_answers import Answer, changes_of
from pipelines.changes.changed_rows import RowChange
from pipelines.changes.consumer_cursors import changes_behind, find_cursor, place_cursor
from pipelines.changes.line_versions import line_of, parse_position
from pipelines.homes.home import Home, chosen_participant, open_home


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesRequest:
    """Changes since a version or position, or behind a cursor: one of the two.

    `participant`: None for the only home of the folder. `since` reads up to `until` (None: the
    newest version) and only buckets in `part`. A cursor that does not exist is placed at `begins`
    (origin, now or an event time) and holds its changes for `hold_ms`. Whole versions are read,
    until there are about `limit` rows.
    """

    participant: str | None = None
    stream: str
    since: str | None = None
    until: str | None = None
    part: Range
    cursor: str | None = None
    begins: str | None = None
    hold_ms: int
    limit: int

    def check(self) -> None:
        """Refused unless it is of a version or of a cursor."""
        if (self.since is None) == (self.cursor is None):
            raise Refused(
                "say since when: --since VERSION (0: since the beginning) or --cursor NAME"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamChanges:
    """The changes of a stream between two versions; rows are read from files as they are used.

    `revisions`: of each version that revised the line, the generation that it began.
    """

    participant: Participant
    answer: Answer
    storage: Path
    revisions: Mapping[Version, int]

    def rows(self) -> Iterator[RowChange]:
        """Each changed row, in the order of versions."""
        return iter(self.answer.rows(self.storage))


@contextmanager
def open_changes(settings: Settings, request: ChangesRequest) -> Iterator[StreamChanges]:
    """Find the changes; the only thing that may be written is a new cursor.

    Raises Refused for an unknown stream or version, Expired if the versions are trimmed, Diverged
    if the position is of another past.
    """
    request.check()
    with open_home(settings, chosen_participant(settings, request.participant)) as home:
        answer = (
            _behind_cursor(home, request) if request.cursor is not None else _between(home, request)
        )
        line = answer.line
        revisions = {
            done.version: done.generation
            for done in home.catalog.recalls(line.stream.name)
            if done.is_revision and done.producer == line.producer
        }
        yield StreamChanges(
            participant=home.participant,
            answer=answer,
            storage=home.storage,
            revisions=revisions,
        )


def _behind_cursor(home: Home, request: ChangesRequest) -> Answer:
    assert request.cursor is not None, "it was checked"
    line = line_of(home.catalog, request.stream)
    cursor = find_cursor(home.catalog, line.stream.name, request.cursor)
    if cursor is None:
        name, begins = request.cursor, request.begins
        cursor = place_cursor(home.catalog, line, name, begins, request.hold_ms)
    elif request.begins is not None:
        raise Refused(
            f"cursor {cursor.name} of {request.stream} exists already, at version "
            f"{cursor.version}: leave --from out, or drop it with `medusa cursor drop "
            f"{request.stream} {cursor.name}`"
        )
    return changes_behind(home.catalog, line, cursor, rows_max=request.limit)


def _between(home: Home, request: ChangesRequest) -> Answer:
    assert request.since is not None, "it was checked"
    line = line_of(home.catalog, request.stream)
    until: Version | None = None
    if request.until is not None:
        until = parse_position("--until", request.until).version
    since = parse_position("--since", request.since)
    return changes_of(home.catalog, line, since, request.part, until=until, rows_max=request.limit)
