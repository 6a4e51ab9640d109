"""The cursors that a home keeps for consumers: list them, move one, drop one."""

from __future__ import annotations

from dataclasses import dataclass

from medusa_core.cursors import Cursor
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.changes.consumer_cursors import known_cursor
from pipelines.changes.line_versions import check_position, line_of, parse_position
from pipelines.homes.home import Home, chosen_participant, open_home


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorMove:
    """Move a cursor behind a version or position, whose changes are applied; hold them so long."""

    stream: str
    cursor: str
    to: str
    hold_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorDrop:
    """Remove a cursor; it holds nothing any more."""

    stream: str
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorList:
    """The cursors of a home, or of one of its streams."""

    participant: Participant
    stream: str | None
    cursors: tuple[Cursor, ...]


def change_cursors(
    settings: Settings,
    participant: str | None,
    change: CursorMove | CursorDrop | None,
    stream: str | None = None,
) -> CursorList:
    """Make the change, if any, and list the cursors afterwards (of one stream, if it is named).

    Raises Refused for an unknown stream or cursor, Diverged for a position of another past.
    """
    with open_home(settings, chosen_participant(settings, participant)) as home:
        match change:
            case CursorMove():
                _move(home, change)
            case CursorDrop():
                name = line_of(home.catalog, change.stream).stream.name
                cursor = known_cursor(home.catalog, name, change.cursor)
                home.catalog.drop_cursor(cursor.stream, cursor.name)
            case None:
                pass
        cursors = tuple(c for c in home.catalog.cursors() if stream in (None, c.stream))
        return CursorList(participant=home.participant, stream=stream, cursors=cursors)


def _move(home: Home, move: CursorMove) -> None:
    line = line_of(home.catalog, move.stream)
    known_cursor(home.catalog, line.stream.name, move.cursor)
    position = parse_position("--to", move.to)
    if position.chain is not None:
        check_position(home.catalog, line, position)
    home.catalog.move_cursor(line.stream.name, move.cursor, position.version, move.hold_ms)
