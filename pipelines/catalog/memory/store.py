"""The store of the in-memory catalog: immutable tables, transactions over them, and row locks.

A transaction keeps its own changes apart from the committed tables until it ends, so a snapshot
is a reference and READ COMMITTED is reading again. A lock is on a row's name, exclusive or
shared, and held to the end of its transaction; a call that meets another's lock raises `Waiting`
instead of waiting, having written nothing, and is repeated when that transaction has ended. As in
Postgres, an error inside a transaction fails all of it.

Limit: single-threaded, and without deadlock detection; a caller that waits for itself sees
Waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from operator import is_
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from medusa_core.errors import MedusaError, Refused

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")


class Clock(Protocol):
    """Where the catalog's time comes from."""

    @property
    def now_ms(self) -> int:
        """Milliseconds of now."""


@dataclass(slots=True)
class ManualClock:
    """A clock that advances by `advance` only."""

    now_ms: int = 0

    def advance(self, by_ms: int) -> None:
        """Let time pass."""
        assert by_ms >= 0, "time does not go back"
        self.now_ms += by_ms


class Waiting(Exception):
    """The call waits for a lock that another transaction holds."""


@dataclass(frozen=True, slots=True)
class Table(Generic[K, V]):
    """The name of a table whose rows are values of type V by keys of type K."""

    name: str


Tables = Mapping[str, Mapping[Hashable, Any]]
_GONE: Any = object()
_NO_ROWS: Mapping[Hashable, Any] = {}


@dataclass(slots=True)
class Store:
    """One home's tables as committed, who holds which lock, and the numbers given so far."""

    clock: Clock
    committed: Tables = field(default_factory=dict)
    locks: dict[Hashable, Transaction] = field(default_factory=dict)
    shared: dict[Hashable, set[Transaction]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    made: dict[Hashable, tuple[tuple[object, ...], Any]] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Transaction:
    """One transaction: READ COMMITTED, or a read-only snapshot as of its beginning."""

    store: Store
    snapshot: Tables | None = None
    changes: dict[str, dict[Hashable, Any]] = field(default_factory=dict)
    has_failed: bool = False

    def get(self, table: Table[K, V], key: K) -> V | None:
        """A row as this transaction sees it."""
        changed = self.changes.get(table.name)
        if changed is not None and (value := changed.get(key)) is not None:
            return None if value is _GONE else value
        base = self.store.committed if self.snapshot is None else self.snapshot
        return base.get(table.name, _NO_ROWS).get(key)

    def rows(self, table: Table[K, V]) -> Mapping[K, V]:
        """All rows as this transaction sees them now; later writes do not change the answer."""
        base: Mapping[Any, Any] = self._base.get(table.name, _NO_ROWS)
        changed = self.changes.get(table.name)
        # What was committed is never written again, so it need not be copied.
        return _with(base, changed) if changed else base

    def made_of(self, name: Hashable, values: tuple[object, ...], make: Callable[[], T]) -> T:
        """What `make` makes of values that nobody changes, such as whole tables and rows.

        It is kept under a name until one of the values is another object; nobody may change it.
        """
        known = self.store.made.get(name)
        if known and len(known[0]) == len(values) and all(map(is_, known[0], values)):
            return known[1]  # type: ignore[no-any-return]
        made = make()
        self.store.made[name] = values, made
        return made

    def as_before(self, name: Hashable, value: V) -> V:
        """The value kept under a name if it is equal, so that what was made of it stands."""
        known = self.store.made.get(name)
        if known is not None and known[1] == value:
            return known[1]  # type: ignore[no-any-return]
        self.store.made[name] = (), value
        return value

    def put(self, table: Table[K, V], key: K, value: V) -> None:
        """Write a row."""
        self._check_writes()
        self.changes.setdefault(table.name, {})[key] = value

    def remove(self, table: Table[K, V], key: K) -> None:
        """Take a row away."""
        self._check_writes()
        self.changes.setdefault(table.name, {})[key] = _GONE

    def lock_row(self, table: Table[K, V], key: K) -> V | None:
        """Lock a row and return it, or None if this transaction sees none (and locks nothing)."""
        self._check_writes()
        row = self.get(table, key)
        if row is not None:
            self.lock_name(table, key)
        return row

    def lock_name(self, table: Table[K, V], key: K) -> None:
        """Lock the name of a row, whether it is there or about to be."""
        self._check_writes()
        name = (table.name, key)
        if self.store.shared.get(name, set()) - {self}:
            raise Waiting(f"{table.name} {key}")
        if self.store.locks.setdefault(name, self) is not self:
            raise Waiting(f"{table.name} {key}")

    def share_name(self, table: Table[K, V], key: K) -> None:
        """Lock the name of a row, shared with others."""
        self._check_writes()
        name = (table.name, key)
        if self.store.locks.get(name, self) is not self:
            raise Waiting(f"{table.name} {key}")
        self.store.shared.setdefault(name, set()).add(self)

    def next_number(self) -> int:
        """The next of the home's numbers; like a sequence's it is not given back."""
        return next(self.store.numbers)

    def end(self, *, keep: bool) -> None:
        """Make the changes visible to all, or forget them; locks are released in both cases."""
        if keep and self.changes and not self.has_failed:
            committed = self.store.committed
            changed = {n: _with(committed.get(n, {}), rows) for n, rows in self.changes.items()}
            self.store.committed = {**committed, **changed}
        self._let_go()

    def fail(self) -> None:
        """An error inside: nothing goes on in it, and its locks go."""
        self.has_failed = True
        self._let_go()

    @property
    def _base(self) -> Tables:
        return self.store.committed if self.snapshot is None else self.snapshot

    def _check_writes(self) -> None:
        if self.snapshot is not None:
            raise Refused("this transaction reads a snapshot and cannot write: begin another")

    def _let_go(self) -> None:
        self.changes = {}
        if not self.store.locks and not self.store.shared:
            return
        held = [name for name, holder in self.store.locks.items() if holder is self]
        for name in held:
            del self.store.locks[name]
        for name, holders in list(self.store.shared.items()):
            holders.discard(self)
            if not holders:
                del self.store.shared[name]


class Call:
    """One call of a transaction: whole or, if it waits, not at all; an error fails the transaction.

    `ends`: the transaction is the call's own and ends with it.
    """

    __slots__ = ("_before", "_ends", "_transaction")

    def __init__(self, transaction: Transaction, *, ends: bool) -> None:
        self._transaction, self._ends = transaction, ends
        self._before: dict[str, dict[Hashable, Any]] = {}

    def __enter__(self) -> Transaction:
        if self._transaction.has_failed:
            raise Refused("this transaction has failed: end it first")
        self._before = {name: dict(rows) for name, rows in self._transaction.changes.items()}
        return self._transaction

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, MedusaError):
            self._transaction.fail()
            return
        is_waiting = isinstance(error, Waiting)
        if is_waiting:
            self._transaction.changes = self._before
        if self._ends and (is_waiting or error is None):
            self._transaction.end(keep=error is None)


def _with(base: Mapping[Any, Any], changed: Mapping[Any, Any]) -> dict[Any, Any]:
    """A table with changes made to it."""
    # Merging takes the keys' hashes over; a comprehension would compute that of each key again.
    merged = {**base, **changed}
    for key in [key for key, value in changed.items() if value is _GONE]:
        del merged[key]
    return merged
