"""Rows of windows in which no record is: which windows an Aggregate with `empty="emit"` has.

The rule. Such a box has a row for each combination of its declared keys in each window that shares
an instant with the life of its input. The life of a stream extends from the start of its first
bucket to the end of its last one; that of a stream that has not ended has no end yet. The life of a
box extends from the start of the first of its inputs to where the rows end that the last record of
an input could make (`Stage.ends_us`, as for the end of an output).

So which windows exist follows from the range that is computed and from where streams begin and end,
and not from records: a step that is cut otherwise gives the same rows. An end that is not known yet
changes nothing: a row needs all of its window, and a stream does not end before what it has
promised.

Worked example. `size="60s"`, a stream from 90 s to 200 s, no record, `keys={"k": ("a", "b")}`:

    windows      [60 s, 120 s), [120 s, 180 s), [180 s, 240 s)
    rows         a and b at 119.999999 s, at 179.999999 s and at 239.999999 s

With `advance="30s"` they start at 60 s, 90 s, 120 s, 150 s and 180 s: the window [30 s, 90 s) ends
where the stream begins.

Source: Flink and Kafka give no row for an empty window; SQL writes it as an outer join with a table
of all windows and keys, which is what this is.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod
from typing import TypeAlias

from medusa_core.errors import Refused
from medusa_core.suggest import did_you_mean

SKIP, EMIT = "skip", "emit"
KINDS = (SKIP, EMIT)
COMBINATIONS_MAX = 10_000
"""How many rows a window has at most of declared keys alone."""

Key: TypeAlias = str | int | bool | None
Keys: TypeAlias = Mapping[str, tuple[Key, ...]]


def combinations(keys: Keys, group_by: tuple[str, ...]) -> tuple[tuple[Key, ...], ...]:
    """Every combination of declared keys, in the order of `group_by`; without a group, one."""
    return tuple(product(*(keys[name] for name in group_by)))


def combination_count(keys: Keys, group_by: tuple[str, ...]) -> int:
    """How many rows a window has of declared keys alone."""
    return prod(len(keys[name]) for name in group_by)


def check_empty(owner: str, empty: object, group_by: tuple[str, ...], keys: Keys) -> None:
    """Refuse declared keys that do not fit the group; `owner` is the box in errors."""
    if empty not in KINDS:
        near = did_you_mean(str(empty), KINDS, f"write {' or '.join(KINDS)}")
        raise Refused(f"empty of {owner} is {empty!r}, which is not what windows can be: {near}")
    if empty == SKIP:
        if keys:
            raise Refused(
                f"{owner} has keys, and rows for windows with records alone: write empty='emit', "
                "or leave keys out"
            )
        return
    for name in keys:
        if name not in group_by:
            near = did_you_mean(name, group_by, "name the columns of group_by")
            raise Refused(f"{owner} has keys for {name!r}, which it does not group by: {near}")
    for name in group_by:
        if name not in keys:
            raise Refused(
                f"{owner} emits empty windows and has no keys for {name!r}: write "
                f"keys={{{name!r}: ('…',)}} with the values that have a row in each window"
            )
        _check_values(owner, name, keys[name])
    rows = combination_count(keys, group_by)
    if rows > COMBINATIONS_MAX:
        raise Refused(
            f"{owner} declares {rows:,} combinations of keys, more than {COMBINATIONS_MAX:,}: "
            "declare fewer, or group by fewer columns"
        )


def _check_values(owner: str, name: str, values: object) -> None:
    if not isinstance(values, tuple) or not values:
        raise Refused(
            f"keys of {owner} has {name!r}: {values!r}: write a tuple of values, "
            f"{{{name!r}: ('…',)}}"
        )
    for at, value in enumerate(values):
        if value is not None and not isinstance(value, str | int):
            raise Refused(
                f"keys of {owner} has the value {value!r} for {name!r}: write a text, a whole "
                "number, True, False or None"
            )
        if isinstance(value, str) and not _is_storable(value):
            raise Refused(
                f"keys of {owner} has the value {value!r} for {name!r}, which no catalog can hold: "
                "write a text without NUL and halves of surrogate pairs"
            )
        if any(value == other and type(value) is type(other) for other in values[:at]):
            raise Refused(f"keys of {owner} has {value!r} twice for {name!r}: write it once")


def _is_storable(text: str) -> bool:
    """Whether the catalog, in which plans are, can hold the text."""
    return "\0" not in text and text.encode(errors="ignore").decode() == text
