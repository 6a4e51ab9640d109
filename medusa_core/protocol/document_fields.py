"""Fields of documents: the type and the range of each value, as a check and as a JSON Schema.

A document is declared once, as a `RecordField`. The declaration checks what another program
sent, checks what this program is about to send, and is printed as the schema that the OpenAPI
document holds. A check accepts exact JSON types only: `true` is no integer, nor is `1.0`.

What a check finds is one sentence that names the field, its value and what is expected. How the
fields of a document relate to one another is checked by its module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from medusa_core.errors import Refused
from medusa_core.suggest import shown

INT64_MAX = 2**63 - 1

ELEMENTS_MAX = 3_000_000
ARRAYS_MAX = 300_000
"""What a document holds at most, however large its kind may be. Its parser stops for no other
thread in a run of arrays, and an empty one takes 20 times as much memory as its text."""

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{,]', re.DOTALL)
"""A text, as far as it goes, or what begins an element. It looks at each byte once."""

Schema = dict[str, Any]


class WrongField(Exception):
    """A value is not what its field declares; the document's door makes it Refused."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path: list[str] = []

    def within(self, step: str) -> WrongField:
        """The same, found one level further inside."""
        self.path.insert(0, step)
        return self

    def __str__(self) -> str:
        place = "".join(self.path).removeprefix(".")
        return f"{place} {self.problem}" if place else f"the document {self.problem}"


class Field(Protocol):
    """What a value has to be."""

    def check(self, value: Any) -> None:
        """Raise WrongField unless the value is of the type and within the range."""

    @property
    def schema(self) -> Schema:
        """The same as JSON Schema."""


@dataclass(frozen=True, slots=True)
class IntegerField:
    """A whole number between two limits, both included."""

    least: int
    most: int

    def check(self, value: Any) -> None:
        """See `Field.check`."""
        if type(value) is not int:
            raise WrongField(f"is {shown(value)}, not an integer")
        if not self.least <= value <= self.most:
            raise WrongField(f"is {shown(value)}, not between {self.least} and {self.most}")

    @property
    def schema(self) -> Schema:
        """See `Field.schema`."""
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class TextField:
    """Text of a limited length that can be written as UTF-8, and is of a pattern if one is given.

    `what` names what the pattern describes, with an article.
    """

    characters_max: int
    pattern: str = ""
    what: str = ""
    is_line: bool = True

    def check(self, value: Any) -> None:
        """See `Field.check`."""
        if type(value) is not str:
            raise WrongField(f"is {shown(value)}, not text")
        if len(value) > self.characters_max:
            raise WrongField(f"has {len(value)} characters, not {self.characters_max} at most")
        if self.pattern and not re.fullmatch(self.pattern, value):
            raise WrongField(f"is {shown(value)}, not {self.what}")
        if value.isascii() and value.isprintable():
            return
        if self.is_line and not value.isprintable():
            raise WrongField(f"is {shown(value)}, which holds a control character")
        if "\0" in value or not _is_unicode(value):
            raise WrongField(f"is {shown(value)}, which no database stores as text")

    @property
    def schema(self) -> Schema:
        """See `Field.schema`."""
        pattern = {"pattern": f"^(?:{self.pattern})$"} if self.pattern else {}
        return {"type": "string", "maxLength": self.characters_max, **pattern}


@dataclass(frozen=True, slots=True)
class ChoiceField:
    """One of a few labels."""

    labels: tuple[str, ...]

    def check(self, value: Any) -> None:
        """See `Field.check`."""
        if type(value) is not str or value not in self.labels:
            raise WrongField(f"is {shown(value)}, not one of {', '.join(self.labels)}")

    @property
    def schema(self) -> Schema:
        """See `Field.schema`."""
        return {"type": "string", "enum": list(self.labels)}


@dataclass(frozen=True, slots=True)
class NullableField:
    """A value of another field, or null."""

    field: Field

    def check(self, value: Any) -> None:
        """See `Field.check`."""
        if value is not None:
            self.field.check(value)

    @property
    def schema(self) -> Schema:
        """See `Field.schema`."""
        return {"anyOf": [self.field.schema, {"type": "null"}]}


@dataclass(frozen=True, slots=True)
class ListField:
    """A list of a limited length."""

    item: Field
    most: int

    def check(self, value: Any) -> None:
        """See `Field.check`."""
        if type(value) is not list:
            raise WrongField(f"is {shown(value)}, not a list")
        if len(value) > self.most:
            raise WrongField(f"has {len(value)} entries, not {self.most} at most")
        check = self.item.check
        at = 0
        try:
            for at, item in enumerate(value):  # noqa: B007 - the handler names the entry
                check(item)
        except WrongField as wrong:
            raise wrong.within(f"[{at}]") from None

    @property
    def schema(self) -> Schema:
        """See `Field.schema`."""
        return {"type": "array", "items": self.item.schema, "maxItems": self.most}


@dataclass(frozen=True, slots=True)
class RecordField:
    """An object that has all of these fields.

    Of an answer, fields that are not known are ignored: a partner may run a newer Medusa. A request
    that `is_closed` has no other fields: what it asks for must not be ignored.
    """

    fields: Mapping[str, Field]
    is_closed: bool = False

    def check(self, value: Any) -> None:
        """See `Field.check`."""
        if type(value) is not dict:
            raise WrongField(f"is {shown(value)}, not an object")
        name = ""
        try:
            for name, field in self.fields.items():
                if name not in value:
                    raise WrongField("is missing")
                field.check(value[name])
        except WrongField as wrong:
            raise wrong.within(f".{name}") from None
        if self.is_closed and (others := value.keys() - self.fields.keys()):
            raise WrongField(f"has a field {shown(min(others))}, which is not known")

    @property
    def schema(self) -> Schema:
        """See `Field.schema`."""
        return {
            "type": "object",
            "properties": {name: field.schema for name, field in self.fields.items()},
            "required": list(self.fields),
            "additionalProperties": not self.is_closed,
        }


@dataclass(frozen=True, slots=True)
class Document:
    """A kind of document: its fields, its greatest size, and whose it is.

    `what` is the subject of the sentence about a wrong one, `to_do` what to do about it.
    """

    what: str
    to_do: str
    record: RecordField
    bytes_max: int
    elements_max: int = field(init=False)
    arrays_max: int = field(init=False)

    def __post_init__(self) -> None:
        elements, arrays = _size_of(self.record.schema)
        # Fields that are not known may come with those of a newer Medusa.
        object.__setattr__(self, "elements_max", min(2 * elements + 100, ELEMENTS_MAX))
        object.__setattr__(self, "arrays_max", min(2 * arrays + 100, ARRAYS_MAX))

    def read(self, content: bytes) -> Mapping[str, Any]:
        """The fields of a document that another program sent. Raises Refused if it is not valid."""
        if len(content) > self.bytes_max:
            raise self.refusal(f"has {len(content)} bytes, not {self.bytes_max} at most")
        if has_more_elements(content, self.elements_max, self.arrays_max):
            raise self.refusal(
                f"has more than {self.elements_max} elements or {self.arrays_max} arrays"
            )
        try:
            value = json.loads(
                content.decode(), object_pairs_hook=_without_repeats, parse_constant=_no_constant
            )
        except UnicodeDecodeError:
            raise self.refusal("is not UTF-8") from None
        except RecursionError:
            raise self.refusal("is nested too deeply") from None
        except WrongField as wrong:
            raise self.refusal(wrong.problem) from None
        except ValueError:
            raise self.refusal("is not JSON") from None
        self.check(value)
        fields: Mapping[str, Any] = value
        return fields

    def write(self, value: Mapping[str, Any]) -> bytes:
        """The document as it is sent. Raises Refused if a field of it is not valid."""
        self.check(value)
        content = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        if len(content) > self.bytes_max:
            raise self.refusal(f"has {len(content)} bytes, not {self.bytes_max} at most")
        return content

    def check(self, value: object) -> None:
        """Raise Refused unless the value is a valid document of this kind."""
        try:
            self.record.check(value)
        except WrongField as wrong:
            raise self.refusal(str(wrong)) from None

    def refusal(self, problem: str) -> Refused:
        """The sentence about a wrong document."""
        link = " " if problem.startswith(("is ", "has ")) else " is not valid: "
        return Refused(f"{self.what}{link}{problem}; {self.to_do}")


def has_more_elements(content: bytes, elements_max: int, arrays_max: int) -> bool:
    """Whether a JSON document has more elements, or more arrays, than it may have.

    Found before it is parsed, and without memory: a parser makes hundreds of bytes of three.
    """
    arrays = content.count(b"[")
    if arrays <= arrays_max and arrays + content.count(b"{") + content.count(b",") <= elements_max:
        return False
    elements = arrays = 0
    for token in _TOKEN.finditer(content):
        first = content[token.start()]
        if first != _QUOTE:
            elements += 1
            arrays += first == _BRACKET
            if elements > elements_max or arrays > arrays_max:
                return True
    return False


_QUOTE, _BRACKET = b'"['


def _size_of(schema: Schema) -> tuple[int, int]:
    """How many elements and arrays a value of a schema has at most, beside itself."""
    match schema:
        case {"anyOf": list(kinds)}:
            sizes = [_size_of(kind) for kind in kinds]
            return max(e for e, _ in sizes), max(a for _, a in sizes)
        case {"type": "array", "items": item, "maxItems": most}:
            elements, arrays = _size_of(item)
            return 1 + most * (elements + 1), 1 + most * arrays
        case {"type": "object", "properties": fields}:
            sizes = [_size_of(one) for one in fields.values()]
            return 1 + sum(e + 1 for e, _ in sizes), sum(a for _, a in sizes)
    return 0, 0


def _is_unicode(text: str) -> bool:
    """Whether text can be written as UTF-8: half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; two programs may read a repeated field differently."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise WrongField("names a field twice")
    return value


def _no_constant(name: str) -> Any:
    raise WrongField(f"holds {name}, which is not JSON")
