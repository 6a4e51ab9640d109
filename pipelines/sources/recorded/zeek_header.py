"""The header of a Zeek log: its `#` lines describe the lines after them.

A log begins with `#separator` and names its fields and their types; concatenated logs do so
again. Some of its lines say nothing about records (`#open`, `#close`). A line that begins with
`#` and another word is no line of a header.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pipelines.sources.recorded.bound_columns import Kind

DIRECTIVES = ("separator", "set_separator", "empty_field", "unset_field", "path", "open", "close",
              "fields", "types")  # fmt: skip
_DIRECTIVE = re.compile(rb"#(%b)(?![A-Za-z_])" % "|".join(DIRECTIVES).encode())
_ESCAPE = re.compile(rb"\\x([0-9A-Fa-f]{2})")
_KINDS = {"time": Kind.TIME, "interval": Kind.INTERVAL}
SEPARATOR_BYTES_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeekHeader:
    """The header lines so far; `fields` is None before any are named."""

    separator: bytes = b"\t"
    empty: str = "(empty)"
    unset: str = "-"
    fields: tuple[str, ...] | None = None
    types: tuple[str, ...] = ()

    @property
    def kinds(self) -> dict[str, Kind]:
        """What the types say of fields beyond their text."""
        named = zip(self.fields or (), self.types, strict=False)
        return {name: _KINDS[type_] for name, type_ in named if type_ in _KINDS}

    @property
    def containers(self) -> frozenset[str]:
        """The fields that are sets and vectors: their text is kept as it stands."""
        named = zip(self.fields or (), self.types, strict=False)
        return frozenset(name for name, type_ in named if "[" in type_)

    def after(self, line: bytes) -> ZeekHeader:
        """The header behind one more of its lines."""
        match = _DIRECTIVE.match(line)
        if not match:
            return self
        name, rest = match[1], line[match.end() :].rstrip(b"\r\n")
        if name == b"separator":
            return ZeekHeader(separator=unescaped(rest.removeprefix(b" ").removeprefix(b"\t")))
        values = rest.removeprefix(self.separator).split(self.separator) if self.separator else []
        words = tuple(value.decode(errors="replace") for value in values)
        match name:
            case b"empty_field":
                return replace(self, empty=words[0])
            case b"unset_field":
                return replace(self, unset=words[0])
            case b"fields":
                return replace(self, fields=words, types=())
            case b"types":
                return replace(self, types=words)
            case _:
                return self


def is_zeek(head: bytes) -> bool:
    """Whether a text begins as a Zeek log does."""
    return _DIRECTIVE.match(head) is not None


def header_behind(lines: Iterable[bytes], header: ZeekHeader) -> ZeekHeader:
    """The header behind several of its lines."""
    for line in lines:
        header = header.after(line)
    return header


def unescaped(text: bytes) -> bytes:
    """Bytes written as `\\x` and two hexadecimal digits."""
    return _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), text)
