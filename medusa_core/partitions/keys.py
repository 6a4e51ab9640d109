"""The partition key on its way through the boxes of a fragment, and the boxes that need it.

A box that brings records together (an Aggregate, a Join, a fold) is partitioned if it brings
together only records of equal keys: then all of them are in one partition. A box that passes
records singly is always partitioned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, assert_never

from medusa_core.errors import Refused
from medusa_core.key_partitions import Partitions
from medusa_core.network import (
    Aggregate,
    Box,
    Deduplicate,
    Every,
    Filter,
    Function,
    Join,
    Lookup,
    Map,
    Network,
    Rank,
    Resample,
    Running,
    Session,
    Union,
    inputs_of,
)

Key: TypeAlias = tuple[str, ...] | None
"""The columns that hold the key of a port's records, in the order of `by`; None: it was lost."""


def check_keys(network: Network, fragment: str, partitions: Partitions) -> None:
    """Refuse a fragment with a box that brings together records of several partitions."""
    behind: dict[str, Key] = {}
    for name in network.order:
        box = network.box(name)
        if box.fragment != fragment:
            continue
        keys = []
        for reference in inputs_of(box):
            owner = network.port(reference, f"box {name}").owner
            keys.append(behind.get(owner, partitions.by))
        behind[name] = _key_behind(box, keys, partitions.by)


def _key_behind(box: Box, keys: Sequence[Key], by: Sequence[str]) -> Key:
    """The key in the records that a box gives; Refused if the box is not partitioned by it."""
    first = keys[0]
    match box:
        case Filter():
            return first
        case Map():
            return _mapped(first, box.columns)
        case Union():
            return first if len(set(keys)) == 1 else None
        case Function():
            return None
        case Aggregate():
            if box.emits_empty:
                raise Refused(
                    f"aggregate {box.name} has rows of windows without records, and each partition "
                    f"would make them: leave empty out, or do not partition fragment {box.fragment}"
                )
            return _grouped(box, "group_by", box.group_by, first, by)
        case Rank():
            return _grouped(box, "group_by", box.group_by, first, by)
        case Session() | Resample() | Deduplicate() | Running() | Every():
            return _grouped(box, "by", box.by, first, by)
        case Join() | Lookup():
            return _joined(box, keys, by)
    assert_never(box)


def _mapped(key: Key, columns: Mapping[str, str]) -> Key:
    """The key behind a Map: columns that are passed on, under the same name or another one."""
    if key is None:
        return None
    names = {text.strip(): name for name, text in reversed(list(columns.items()))}
    found = tuple(names[column] for column in key if column in names)
    return found if len(found) == len(key) else None


def _grouped(box: Box, field: str, group: Iterable[str], key: Key, by: Sequence[str]) -> Key:
    if key is None or not set(key) <= set(group):
        raise _refused(box, field, ", ".join(group), key, by)
    return key


def _joined(box: Join | Lookup, keys: Sequence[Key], by: Sequence[str]) -> Key:
    left, right = keys
    pairs = set(box.keys)
    if left is None or right is None or not set(zip(left, right, strict=True)) <= pairs:
        raise _refused(box, "on", ", ".join(box.on), left if right is not None else None, by)
    if not box.columns:
        return left
    names = {reference: name for name, reference in reversed(list(box.columns.items()))}
    sides = [_side(box, 0, left), _side(box, 1, right)]
    found = [next((names[s[at]] for s in sides if s[at] in names), "") for at in range(len(left))]
    return tuple(found) if all(found) else None


def _side(box: Join | Lookup, side: int, key: Sequence[str]) -> list[str]:
    """How the columns of the box refer to a key of one of its inputs."""
    name = (("left", "right") if isinstance(box, Join) else ("input", "table"))[side]
    return [f"{name}.{column}" for column in key]


def _refused(box: Box, field: str, given: str, key: Key, by: Sequence[str]) -> Refused:
    kind = type(box).__name__.lower()
    of_key = f"the partition key {', '.join(by)}"
    if key is None:
        return Refused(
            f"{kind} {box.name} cannot be partitioned: {of_key} is not a column of its input any "
            "more; pass it on in each box before it, or put the box into another fragment"
        )
    column = "" if tuple(key) == tuple(by) else f" (here {', '.join(key)})"
    return Refused(
        f"{kind} {box.name} cannot be partitioned: its {field} ({given or 'no column'}) does not "
        f"contain {of_key}{column}; add it, or put the box into another fragment"
    )
