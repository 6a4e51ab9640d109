"""The declaration of key partitions: a fragment of a network is computed as several fragments.

Each computes the boxes over the records whose key falls to it (`medusa_core.partitions`), so that
several workers share the fragment. Source: Flux (Shah and others, 2003), whose exchange routes the
records of a partitioned operator by a hash of their key.
"""

from __future__ import annotations

from dataclasses import dataclass

from medusa_core.errors import Refused
from medusa_core.names import is_name

PARTITIONS_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """A fragment in `n` partitions, by the columns `by`, which each input of the fragment has.

    With `cut`, a fragment before the partitions writes each input once more, cut by partition, and
    each partition reads its part alone. Otherwise each partition reads all of the inputs.

    `fragments` are the names of the partitions, which are filled in when a network is loaded.
    """

    by: tuple[str, ...]
    n: int
    cut: bool = False
    fragments: tuple[str, ...] = ()

    @property
    def is_applied(self) -> bool:
        """Whether the network has the fragments of the partitions already."""
        return bool(self.fragments)

    def made_for(self, fragment: str) -> tuple[str, ...]:
        """The fragments that are there because `fragment` is partitioned: partitions and cut."""
        return (*self.fragments, *([cut_name(fragment)] if self.cut else []))


def cut_name(fragment: str) -> str:
    """The fragment that writes the inputs of a partitioned fragment cut by partition."""
    return f"{fragment}_cut"


def check_partitions(fragment: str, given: object, where: str) -> None:
    """Refuse a declaration that is not valid; `where` is the network as errors name it."""
    owner = f"partitions of fragment {fragment} {where}"
    if not isinstance(given, Partitions):
        raise Refused(f"{owner} are {given!r}: write Partitions(by=('…',), n=4)")
    if not isinstance(given.by, tuple) or not given.by or not all(map(is_name, given.by)):
        raise Refused(f"by of {owner} is {given.by!r}: write a tuple of columns, as in ('user',)")
    if len(set(given.by)) < len(given.by):
        raise Refused(f"by of {owner} has a column twice: name each once")
    is_number = isinstance(given.n, int) and not isinstance(given.n, bool)
    if not is_number or not 2 <= given.n <= PARTITIONS_MAX:
        raise Refused(f"n of {owner} is {given.n!r}: write a number from 2 to {PARTITIONS_MAX}")
    if not isinstance(given.cut, bool):
        raise Refused(f"cut of {owner} is {given.cut!r}: write True or False")
