"""The partition of a record: a range of the hash of its key, as a condition in Spark SQL.

The hash is the MD5 of the key as text, in hexadecimal digits: the engines of steps and the oracle
compute the same (law K1). Partition i of n has the hashes from i/n to (i+1)/n of their range, so
that a partition is a range of hashes, and each record is in one partition. NULL is a key as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import md5

from medusa_core.errors import Refused

_DIGITS = 8
_WHOLE: int = 16**_DIGITS

_TEXTS: Mapping[str, str] = {
    "string": "{0}",
    "int": "cast({0} as string)",
    "bigint": "cast({0} as string)",
    "boolean": "cast({0} as string)",
    "date": "cast(unix_date({0}) as string)",
    "timestamp": "cast(unix_micros({0}) as string)",
}
"""How a column becomes text: only types whose text is the same in each engine."""

KEY_TYPES = tuple(_TEXTS)


def bounds_of(n: int) -> tuple[str, ...]:
    """Where the partitions after the first one begin, as the first digits of the hash."""
    return tuple(f"{-(-i * _WHOLE // n):0{_DIGITS}x}" for i in range(1, n))


def key_hash(by: Sequence[str], types: Mapping[str, str]) -> str:
    """The expression of the hash of a record's key; `types` are those of its columns."""
    texts = []
    for column in by:
        type_ = types[column]
        if type_ not in _TEXTS:
            raise Refused(
                f"column {column} is a {type_}, by which records cannot be partitioned: name "
                f"columns of {', '.join(KEY_TYPES)}"
            )
        texts.append(f"coalesce({_TEXTS[type_].format(f'`{column}`')}, '')")
    joined = texts[0] if len(texts) == 1 else f"concat({', '.join(_with_marks(texts))})"
    return f"md5({joined})"


def _with_marks(texts: Sequence[str]) -> list[str]:
    return [part for text in texts for part in (text, "'|'")][:-1]


def conditions_of(by: Sequence[str], types: Mapping[str, str], n: int) -> tuple[str, ...]:
    """For each partition the condition that is true of its records; exactly one is, of each."""
    hashed = key_hash(by, types)
    bounds = bounds_of(n)
    found = []
    for i in range(n):
        parts = []
        if i:
            parts.append(f"{hashed} >= '{bounds[i - 1]}'")
        if i < n - 1:
            parts.append(f"{hashed} < '{bounds[i]}'")
        found.append(" and ".join(parts))
    return tuple(found)


def partition_of(key: Sequence[object], n: int) -> int:
    """The partition of a key whose values are texts, whole numbers, booleans or None."""
    hashed = md5("|".join(map(_text, key)).encode(), usedforsecurity=False).hexdigest()
    position: int = int(hashed[:_DIGITS], 16)
    return position * n // _WHOLE


def _text(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
