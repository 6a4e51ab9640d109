"""The tables of a home: each shared stream is two, its stable rows and all of its rows."""

from __future__ import annotations

import re
from dataclasses import dataclass

from medusa_core.names import NAME_PATTERN, StreamName

SCHEMA = "streams"
"""The one schema of a share."""

ALL_SUFFIX = "__all"
"""How the name of the table ends that has tentative rows as well; no shared stream's name does."""

_TABLE = re.compile(rf"({NAME_PATTERN}?)({ALL_SUFFIX})?")


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table: a stream, and whether its tentative rows are among those of the table."""

    stream: StreamName
    has_tentative: bool = False

    def __str__(self) -> str:
        return f"{self.stream}{ALL_SUFFIX if self.has_tentative else ''}"


def table_name(name: str) -> TableName | None:
    """The table of a name, in which upper and lower case are the same; None: there is no such."""
    found = _TABLE.fullmatch(name.lower()) if name.isascii() else None
    return TableName(StreamName(found[1]), found[2] is not None) if found else None
