"""A mapping that never changes, keeps its order and can be hashed: what values are made of."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any, TypeVar

from medusa_core.errors import Refused

K = TypeVar("K")
V = TypeVar("V", covariant=True)


class FrozenMap(Mapping[K, V]):
    """An immutable, hashable mapping; equality is by content, iteration in the order given."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[K, V] | None = None) -> None:
        given = items._items if isinstance(items, FrozenMap) else items
        self._items: dict[K, V] = dict(given or {})

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    # What Mapping would make of the three above in Python, the dictionary does at once.

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def keys(self) -> KeysView[K]:
        """The keys, in the order given."""
        return self._items.keys()

    def values(self) -> ValuesView[V]:
        """The values, in the order given."""
        return self._items.values()

    def items(self) -> ItemsView[K, V]:
        """Keys and values, in the order given."""
        return self._items.items()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FrozenMap):
            return self._items == other._items
        return super().__eq__(other)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)


def freeze(value: object, *fields: str) -> None:
    """Replace the named mapping fields of a frozen dataclass by FrozenMaps (from __post_init__).

    Raises Refused for a field that is not a mapping.
    """
    for field in fields:
        mapping: Mapping[Any, Any] = getattr(value, field)
        if not isinstance(mapping, Mapping):
            owner = f"{type(value).__name__} {getattr(value, 'name', '')}"
            raise Refused(
                f"{field} of {owner} is a value of type {type(mapping).__name__}: write a "
                f"dictionary, {field}={{'name': '…'}}"
            )
        if not isinstance(mapping, FrozenMap):
            object.__setattr__(value, field, FrozenMap(mapping))
