"""Columns: the few types that records are made of, spelled alike in Python, SQL and YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from medusa_core import digest
from medusa_core.errors import Refused
from medusa_core.names import check_name
from medusa_core.suggest import did_you_mean

_TAG_OF = {
    "boolean": digest.TAG_BOOLEAN,
    "int": digest.TAG_INTEGER,
    "bigint": digest.TAG_INTEGER,
    "double": digest.TAG_DOUBLE,
    "string": digest.TAG_STRING,
    "binary": digest.TAG_BINARY,
    "date": digest.TAG_DATE,
    "timestamp": digest.TAG_TIMESTAMP,
}
_DECIMAL = re.compile(r"decimal\((\d{1,2}),\s*(\d{1,2})\)")
RESERVED = ("stime", "bucket")


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name and its Spark SQL type (`decimal(p,s)` with p <= 38)."""

    name: str
    type: str

    @property
    def tag(self) -> int:
        """The type tag of the digest's encoding."""
        return _TAG_OF.get(self.type, digest.TAG_DECIMAL)

    @property
    def scale(self) -> int:
        """Digits behind the point of a decimal, else 0."""
        return decimal_shape(self.type)[1] if self.type.startswith("decimal") else 0


def decimal_shape(type_: str) -> tuple[int, int]:
    """Precision and scale of `decimal(p,s)`; raises Refused for anything else."""
    match = _DECIMAL.fullmatch(type_)
    if not match or not (0 < int(match[1]) <= 38 and int(match[2]) <= int(match[1])):
        raise Refused(f"type {type_!r} is no decimal(p,s) with 0 <= s <= p <= 38")
    return int(match[1]), int(match[2])


def check_type(owner: str, type_: str) -> str:
    """Return the type in its one spelling, or raise Refused naming who declares it."""
    spelled = type_.strip().lower().replace(", ", ",")
    spelled = {"integer": "int", "long": "bigint", "float": "double"}.get(spelled, spelled)
    if spelled in _TAG_OF:
        return spelled
    if spelled.startswith("decimal"):
        precision, scale = decimal_shape(spelled)
        return f"decimal({precision},{scale})"
    known = ", ".join([*_TAG_OF, "decimal(p,s)"])
    near = did_you_mean(spelled, (*_TAG_OF, "decimal(p,s)"))
    raise Refused(f"{owner} has type {type_!r}, which is not one of {known}{near and '; '}{near}")


def declare_columns(owner: str, columns: Mapping[str, str]) -> tuple[Column, ...]:
    """Checked columns of a stream or box; raises Refused naming owner and column."""
    if not columns:
        raise Refused(f"{owner} has no columns: name at least one")
    for name in columns:
        check_name(f"column of {owner},", name)
        if name in RESERVED:
            raise Refused(f"{owner} has a column {name!r}, a word Medusa keeps: choose another")
    return tuple(
        Column(name, check_type(f"column {name!r} of {owner}", type_))
        for name, type_ in columns.items()
    )
