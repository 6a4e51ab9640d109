"""What a clause reads and makes: relations, and the boxes of one stream with their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from medusa_core.errors import Refused
from medusa_core.names import NAME_LENGTH_MAX
from medusa_core.network import Box, Filter, Map, check_box, inputs_of
from medusa_core.ranks import WINDOW_START
from pipelines.language.sql.sql_text import SqlText, Token, Tokens, column_token, written

PORT = "yes"
"""The only port of a Filter that WHERE or HAVING makes."""


EVENT_TIME = "stime"
"""The event time of any row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """Rows that a clause reads: the source or box that they come from, and their columns.

    `time` is the column of event time, where the records of a source are read as they are. `window`
    is how far apart windows begin and how long they are, where each row is that of a window and has
    its `window_start`.
    """

    port: str
    columns: tuple[str, ...]
    time: str | None = None
    is_source: bool = False
    window: tuple[str, str] | None = None


@dataclass
class BoxList:
    """The boxes of one stream or view, in the order of its clauses."""

    text: SqlText
    owner: str
    fragment: str
    taken: set[str]
    boxes: list[Box] = field(default_factory=list)
    places: dict[tuple[str, str], str] = field(default_factory=dict)

    def name_of(self, clause: str) -> str:
        """The name of a box that a clause makes."""
        for number in count(1):
            ending = f"_{clause}" if number == 1 else f"_{clause}_{number}"
            name = self.owner[: NAME_LENGTH_MAX - len(ending)] + ending
            if name not in self.taken:
                break
        self.taken.add(name)
        return name

    def add(self, box: Box, at: Token, parts: Mapping[str, Token] | None = None) -> str:
        """Add a box; `parts` are where its columns or ports are written. Returns its name."""
        try:
            check_box(box)
        except Refused as error:
            raise self.text.refused(at, str(error)) from None
        self.boxes.append(replace(box, fragment=self.fragment))
        self.places[box.name, ""] = self.text.place(at)
        for part, token in (parts or {}).items():
            self.places[box.name, part] = self.text.place(token)
        return box.name

    def name_last(self, port: str) -> str:
        """Give the box of the result the name of the stream; one that others made keeps its own."""
        self._keep(port)
        if port not in {box.name for box in self.boxes}:
            return port
        self.boxes = [
            replace(box, name=self.owner) if box.name == port else box for box in self.boxes
        ]
        for owner, part in [key for key in self.places if key[0] == port]:
            self.places[self.owner, part] = self.places.pop((owner, part))
        return self.owner

    def _keep(self, port: str) -> None:
        """Leave out the boxes of queries that nothing reads."""
        needed = {port}
        for box in reversed(self.boxes):
            if box.name in needed:
                needed.update(inputs_of(box))
        self.boxes = [box for box in self.boxes if box.name in needed]


def filtered(made: BoxList, relation: Relation, condition: Tokens, clause: str) -> Relation:
    """The rows for which a condition is true."""
    box = Filter(name=made.name_of(clause), input=relation.port, cases={PORT: written(condition)})
    port = made.add(box, condition[0])
    return replace(relation, port=port, is_source=False)


def mapped(
    made: BoxList, relation: Relation, columns: Mapping[str, Tokens], at: Token, clause: str
) -> Relation:
    """A column for each name: its expression."""
    texts = {name: written(tokens) for name, tokens in columns.items()}
    box = Map(name=made.name_of(clause), input=relation.port, columns=texts)
    port = made.add(box, at, {name: tokens[0] for name, tokens in columns.items()})
    start = columns.get(WINDOW_START, ())
    has_start = len(start) == 1 and start[0].name == WINDOW_START
    window = relation.window if has_start else None
    return Relation(port=port, columns=tuple(columns), window=window)


def renamed(made: BoxList, relation: Relation, names: Sequence[str], at: Token) -> Relation:
    """The same columns with other names, or with the same."""
    columns = {
        name: (column_token(column, at.start, at.end),)
        for name, column in zip(names, relation.columns, strict=True)
    }
    return mapped(made, relation, columns, at, "columns")


def is_identity(columns: Mapping[str, Tokens], relation: Relation) -> bool:
    """Whether a Map would give what it reads."""
    given = tuple(tokens[0].name if len(tokens) == 1 else "" for tokens in columns.values())
    return tuple(columns) == relation.columns == given
