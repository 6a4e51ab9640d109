"""A mapping that never changes, keeps its order and can be hashed: what values are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V", covariant=True)


class FrozenMap(Mapping[K, V]):
    """An immutable, hashable mapping; equality is by content, iteration in the order given."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[K, V] | None = None) -> None:
        self._items: dict[K, V] = dict(items or {})

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)


def freeze(value: object, *fields: str) -> None:
    """Replace the named mapping fields of a frozen dataclass by FrozenMaps (from __post_init__)."""
    for field in fields:
        mapping: Mapping[Any, Any] = getattr(value, field)
        object.__setattr__(value, field, FrozenMap(mapping))
