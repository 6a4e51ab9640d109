"""What a case says: what is given, and what has to come of it.

A sentence is a regular expression that the one line of the refusal has to hold. `quarantined`
tells the
quarantined records in their order: line or row, column, a regular expression for the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from medusa_core.network import Source

ESCAPES = "\x1b[31mred\x1b]0;title\x07\r\x9b2J\u202e"
"""Colours, a window title, a carriage return, the one-byte CSI, and right-to-left text."""

MARKUP = "<script>alert('in')</script>\"'&<img src=x onerror=alert(1)>"
SQL = "x'; DROP TABLE medusa.segment; --"
SHELL = "$(touch broken_out); `touch broken_out` | touch broken_out"

CONNECTIONS = Source(
    name="connections",
    columns={"ts_us": "bigint", "host": "string", "port": "int", "size": "double"},
    time="ts_us",
)

Quarantined = tuple[int | None, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCase:
    """A recorded file: refused in a sentence, or so many records land and those go aside."""

    name: str
    content: bytes | Callable[[], bytes]
    refused: str | None = None
    landed: int = 0
    quarantined: tuple[Quarantined, ...] = ()
    source: Source = CONNECTIONS
    file: str = "input"

    def written(self, folder: Path) -> Path:
        """The file, written."""
        path = folder / self.file
        path.write_bytes(self.content if isinstance(self.content, bytes) else self.content())
        return path


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCase:
    """A text of some kind that is refused in a sentence."""

    name: str
    text: str
    refused: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractCase:
    """A contract, a stream's if not told otherwise, that `medusa apply` refuses."""

    name: str
    content: bytes | Callable[[], bytes]
    refused: str
    file: str = "streams/connections_a.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandCase:
    """A command line, files beside it, and its environment; `{at}` is the folder it works in.

    `exit_code` is what it ends with, `says` what standard error (output, if it is 0) has to hold.
    """

    name: str
    words: tuple[str, ...]
    says: str
    exit_code: int = 2
    files: Mapping[str, bytes] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
