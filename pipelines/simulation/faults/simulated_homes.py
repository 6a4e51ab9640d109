"""A participant's home in the simulation: in-memory catalog, its clock, a storage root.

A paused catalog answers no call, and its open transactions are rolled back, as when a server is
killed and restarted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from medusa_core.errors import Unavailable
from medusa_core.names import Participant, StreamName
from medusa_core.segments import Producer
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.memory_catalog import MemoryCatalog, MemorySession
from pipelines.catalog.memory.store import Store
from pipelines.catalog.memory.tables import LineRow
from pipelines.simulation.faults.memory_storage import Storage

if TYPE_CHECKING:
    from pipelines.catalog.memory.moves import Message
    from pipelines.simulation.faults.simulated_listener import SimulatedConnection

LineKey = tuple[StreamName, Producer]
InboxEntry = tuple[Participant, "Message"]
"""A message and who has sent it."""


class HomeClock:
    """A home's clock: at another time and pace than the world's, but never back."""

    __slots__ = ("_at_ms", "_pace_per_mille", "_since_ms", "_world_ms")

    def __init__(self, at_ms: int, world_ms: Callable[[], int]) -> None:
        self._world_ms = world_ms
        self._since_ms, self._at_ms, self._pace_per_mille = world_ms(), at_ms, 1_000

    @property
    def now_ms(self) -> int:
        """Milliseconds of now."""
        passed_ms = self._world_ms() - self._since_ms
        return self._at_ms + passed_ms * self._pace_per_mille // 1_000

    def set_off(self, *, by_ms: int, pace_per_mille: int) -> None:
        """Jump forward, and go on at another pace."""
        assert by_ms >= 0, "a home's clock does not go back"
        self._at_ms, self._since_ms = self.now_ms + by_ms, self._world_ms()
        self._pace_per_mille = pace_per_mille


@dataclass(eq=False, slots=True)
class Flight:
    """A transaction in flight: open at the server until it ends, whatever becomes of its client.

    `notifies`: listeners are notified when it is kept. `is_kept` is None while it is open;
    `is_answered` tells whether the client hears of the end.
    """

    session: MemorySession
    notifies: bool
    is_kept: bool | None = None
    is_answered: bool = True


@dataclass(eq=False, slots=True)
class SimulatedHome:
    """One home; `between_reads` are the trims and kills since a reader last got something of it.

    `since_first_read` are those between its first and its last read; `inbox` are messages of
    partners about moves that are not taken yet.
    """

    participant: Participant
    clock: HomeClock
    store: Store
    catalog: MemoryCatalog
    storage: Storage = field(default_factory=Storage)
    is_paused: bool = False
    flights: list[Flight] = field(default_factory=list)
    listeners: list[SimulatedConnection] = field(default_factory=list)
    between_reads: set[str] = field(default_factory=set)
    since_first_read: set[str] | None = None
    inbox: list[InboxEntry] = field(default_factory=list)

    def reach(self) -> MemoryCatalog:
        """The catalog's calls, each a transaction of its own; Unavailable while it is paused."""
        if self.is_paused:
            raise Unavailable(f"the catalog of {self.participant} does not answer")
        return self.catalog

    def session(self) -> MemorySession:
        """A connection; Unavailable while the catalog is paused."""
        return self.reach().session()

    @property
    def is_interleaved(self) -> bool:
        """Whether a reader read before and after both a trim and a kill."""
        return self.since_first_read is not None and {"trim", "kill"} <= self.since_first_read

    def lines(self) -> dict[LineKey, LineRow]:
        """The lines as committed, a value; for those who look on, not for participants."""
        rows: dict[LineKey, LineRow] = self.store.committed.get(tables.LINES.name, {})  # type: ignore[assignment]
        return rows


def open_home(participant: Participant, clock: HomeClock) -> SimulatedHome:
    """A new, empty home with a clock of its own."""
    store = Store(clock)
    return SimulatedHome(
        participant=participant,
        clock=clock,
        store=store,
        catalog=MemoryCatalog(participant, clock, store),
    )
