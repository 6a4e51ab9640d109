"""Strict YAML: mappings, lists and plain scalars, each with its line, and nothing else.

Only PyYAML's parser is used, which makes events and no objects; the scalars are resolved here. Of
YAML's surprises none is left: `no`, `010`, `12:30` and dates are text, a number is written as in
JSON, and duplicate keys, anchors, aliases, merges, tags and a second document are refused. Size and
nesting are limited, so that a file can cost neither memory nor stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from medusa_core.errors import Refused

SIZE_BYTES_MAX = 64 * 1024
NESTING_MAX = 16

_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,17})\.[0-9]{1,17}")
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A part of a file: what it holds, and where it stands (`field` is its path from the top).

    `written` is a scalar's text as it stands in the file: an amount of 1.30 is not what a float of
    it would be.
    """

    file: str
    line: int
    field: str
    content: Scalar | tuple[Value, ...] | dict[str, Value]
    written: str | None = None

    @property
    def place(self) -> str:
        """File, line and field, for a sentence."""
        return f"{self.file}, line {self.line}" + (f": {self.field}" if self.field else "")

    def refused(self, says: str) -> Refused:
        """An error that begins with this place."""
        return Refused(f"{self.place} {says}" if self.field else f"{self.place}: {says}")


def parse_yaml(content: bytes, file: str) -> Value:
    """The one document of a file; raises Refused, naming file and line, for all that is not read.

    `file` is the name to say in errors.
    """
    if len(content) > SIZE_BYTES_MAX:
        raise Refused(f"{file} is longer than {SIZE_BYTES_MAX // 1024} KiB: no contract needs that")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Refused(f"{file}, line {line}: this is not UTF-8; save the file as UTF-8") from None
    try:
        return _Builder(file).document(yaml.parse(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        why = " ".join(str(error.problem or error.context).split())
        raise Refused(f"{file}, line {line}: this is not YAML ({why}); correct it") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Refused(
            f"{file}, line {line}: character #x{ord(text[error.position]):04x} may not stand in "
            "YAML; remove it"
        ) from None


def read_yaml(path: Path, file: str) -> Value:
    """As `parse_yaml`, of a regular file."""
    try:
        if not path.is_file():
            raise Refused(f"{file} is not a file: write a contract there, or remove it")
        with path.open("rb") as opened:
            content = opened.read(SIZE_BYTES_MAX + 1)
    except OSError as error:
        raise Refused(f"{file} cannot be read ({error.strerror}): check its rights") from None
    return parse_yaml(content, file)


def plain(value: Value) -> object:
    """The value as JSON has it: without places."""
    match value.content:
        case dict() as fields:
            return {name: plain(inside) for name, inside in fields.items()}
        case tuple() as items:
            return [plain(item) for item in items]
        case scalar:
            return scalar


class _Builder:
    """Values from events; its recursion is bounded by NESTING_MAX."""

    def __init__(self, file: str) -> None:
        self._file = file

    def document(self, events: Iterator[Event]) -> Value:
        found: Value | None = None
        for event in events:
            if isinstance(event, DocumentStartEvent):
                if found is not None:
                    raise self._at(event, "", None).refused(
                        "a second document begins here; one file holds one contract"
                    )
                found = self._value(next(events), events, "", 0)
        if found is None:
            raise Refused(f"{self._file} is empty: write a contract, or remove the file")
        return found

    def _value(self, event: Event, events: Iterator[Event], field: str, depth: int) -> Value:
        self._check(event, field, depth)
        match event:
            case ScalarEvent():
                content = self._scalar(event, field)
                return replace(self._at(event, field, content), written=event.value)
            case SequenceStartEvent():
                return self._at(event, field, self._items(events, field, depth))
            case MappingStartEvent():
                return self._at(event, field, self._fields(events, field, depth))
        raise AssertionError(f"the parser gave {event} where a value begins")

    def _items(self, events: Iterator[Event], field: str, depth: int) -> tuple[Value, ...]:
        items: list[Value] = []
        while not isinstance(event := next(events), SequenceEndEvent):
            items.append(self._value(event, events, f"{field}[{len(items)}]", depth + 1))
        return tuple(items)

    def _fields(self, events: Iterator[Event], field: str, depth: int) -> dict[str, Value]:
        fields: dict[str, Value] = {}
        while not isinstance(event := next(events), MappingEndEvent):
            self._check(event, field, depth)
            if not isinstance(event, ScalarEvent) or not event.value:
                raise self._at(event, field, None).refused(
                    "has a key that is no word; write NAME: VALUE"
                )
            name = event.value
            inside = f"{field}.{_shown(name)}" if field else _shown(name)
            if name in fields:
                raise self._at(event, inside, None).refused(
                    f"is written again, after line {fields[name].line}; keep one"
                )
            value = self._value(next(events), events, inside, depth + 1)
            # The key's line: where somebody looks for a field whose value begins further down.
            fields[name] = replace(value, line=event.start_mark.line + 1)
        return fields

    def _check(self, event: Event, field: str, depth: int) -> None:
        where = self._at(event, field, None)
        if isinstance(event, AliasEvent):
            raise where.refused("is an alias (*…); write the value out")
        assert isinstance(event, NodeEvent)
        if event.anchor is not None:
            raise where.refused("has an anchor (&…); write values out where they are needed")
        if getattr(event, "tag", None) is not None:
            raise where.refused("has a tag (!…); write a plain value")
        if depth > NESTING_MAX:
            raise where.refused(f"is nested more than {NESTING_MAX} deep; no contract needs that")

    def _scalar(self, event: ScalarEvent, field: str) -> Scalar:
        text: str = event.value
        for character in text:
            if not character.isprintable() and character not in "\n\t":
                raise self._at(event, field, None).refused(
                    f"holds the character #x{ord(character):04x}; remove it"
                )
        if not event.implicit[0]:
            return text  # quoted
        if text in _WORDS:
            return _WORDS[text]
        if _WHOLE.fullmatch(text):
            return int(text)
        return float(text) if _DECIMAL.fullmatch(text) else text

    def _at(
        self, event: Event, field: str, content: Scalar | tuple[Value, ...] | dict[str, Value]
    ) -> Value:
        return Value(file=self._file, line=event.start_mark.line + 1, field=field, content=content)


def _shown(name: str) -> str:
    """A key in a field's path: as it is if it is a word, else quoted and cut."""
    return name if re.fullmatch(r"[\w-]{1,63}", name) else repr(name[:40])
