"""The exchange between simulated homes, as the product's `Importer` calls it, with faults.

Between two participants a link can be cut, in both directions or in one: then a request is
carried out and its answer is lost, or it never arrives. The link can be slow, a catalog
unavailable, an answer late: then it arrives in place of the answer to a later request, as does
one that is delivered twice, both also when the reader has advanced far past it. Copies are stored
in the reader's storage root.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from medusa_core.errors import MedusaError, Unavailable
from medusa_core.exchange import LineNews
from medusa_core.names import Participant, StreamName, Version
from medusa_core.segments import Producer, SegmentFile
from pipelines.catalog.memory.store import Waiting
from pipelines.exchange.exchange_port import Request
from pipelines.simulation.faults.clients import short
from pipelines.simulation.faults.simulated_homes import SimulatedHome
from pipelines.simulation.faults.simulated_links import TIMEOUT_MS
from pipelines.simulation.faults.simulated_processes import Process

if TYPE_CHECKING:
    from pipelines.simulation.faults.world import World

ANSWER_MS = (2, 40)
AT_ONCE = 0.3
FETCH_MS, ACKNOWLEDGE_MS = 5, 1


class SimulatedExchange:
    """An `Exchange` of one process."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._reader = process.participant
        self._late: dict[StreamName, LineNews] = {}
        self._news: dict[StreamName, list[LineNews]] = {}

    def begin(self, requests: Iterable[Request]) -> None:
        """See `Exchange.begin`: one request follows another here."""

    def line_news(self, stream: StreamName, producer: Producer, after: Version, *,
                  segments_max: int) -> LineNews:  # fmt: skip
        """See `Exchange.line_news`."""
        world, writer = self._world, producer.participant
        partner = self._home_of(writer)
        news = short(
            world,
            lambda: partner.reach().line_news(stream, producer, after, segments_max=segments_max),
        )
        self._wait_for(writer, world.chance.randint(*ANSWER_MS))
        stale = self._stale(stream, after)
        if stale is not None:
            world.emit(self._process.name, "stale news", f"{stream} after v{stale.after}")
            return stale
        if news.version > after:
            if world.takes_order("late news", self._reader):
                self._late[stream] = news
                raise Unavailable(f"{writer} does not answer in time")
            self._news.setdefault(stream, []).append(news)
        return news

    def _stale(self, stream: StreamName, after: Version) -> LineNews | None:
        """An answer to an earlier question that comes only now, or once more."""
        late = self._late.get(stream)
        if late is not None and (after > late.version or self._world.chance.random() < AT_ONCE):
            return self._late.pop(stream)
        passed = [news for news in self._news.get(stream, ()) if news.version < after]
        if passed and self._world.takes_order("news again", self._reader):
            return self._world.chance.choice(passed)
        return None

    def fetch_all(self, partner: Participant, files: Mapping[SegmentFile, Path]) -> None:
        """See `Exchange.fetch_all`."""
        for file, target in files.items():
            home = self._home_of(partner)
            self._wait_for(partner, FETCH_MS)
            rows = home.storage.read(file)
            self._world.homes[self._reader].storage.write(str(target), rows)

    def acknowledge(self, partner: Participant, stream: StreamName, through_us: int,
                    limit_ms: int, path_ms: int, *, replica: int,
                    version: Version) -> None:  # fmt: skip
        """See `Exchange.acknowledge`."""
        world, home = self._world, self._home_of(partner)

        def call() -> None:
            home.reach().acknowledge(stream, self._reader, through_us, limit_ms, path_ms,
                                     replica=replica, version=version)  # fmt: skip
            world.laws.check_acknowledged(home, stream, self._reader, limit_ms)

        short(world, call)
        if world.takes_order("ack again", self._reader):
            world.later(lambda: _deliver(world, call))
        self._wait_for(partner, ACKNOWLEDGE_MS)

    def close(self) -> None:
        """See `Exchange.close`."""

    def _home_of(self, name: Participant) -> SimulatedHome:
        """The home of a partner whom the question reaches; Unavailable if it does not."""
        self._world.check_link(self._reader, name)
        return self._world.homes[name]

    def _wait_for(self, partner: Participant, answer_ms: int) -> None:
        """Until the answer is here; Unavailable if it is lost, or takes longer than one waits."""
        world = self._world
        factor = world.links.factor(self._reader, partner, world.now_ms)
        world.rest(min(answer_ms * factor, TIMEOUT_MS), is_timer=factor > 1)
        if answer_ms * factor > TIMEOUT_MS:
            raise Unavailable(f"{partner} does not answer within {TIMEOUT_MS} ms")
        world.check_link(partner, self._reader)


def _deliver(world: World, call: Callable[[], None]) -> None:
    try:
        call()
    except Waiting:
        world.later(lambda: _deliver(world, call))
    except MedusaError:
        return  # nobody waits for this answer


class MemoryCopies:
    """`Copies` in a home's storage in memory."""

    def __init__(self, home: SimulatedHome) -> None:
        self._storage = home.storage

    def holds(self, file: SegmentFile) -> bool:
        """See `Copies.holds`."""
        return self._storage.hash(file.path) == file.sha256

    def place(self, file: SegmentFile) -> Path:
        """See `Copies.place`."""
        return Path(file.path)

    def sync(self, files: Iterable[SegmentFile]) -> None:
        """See `Copies.sync`."""
        for file in files:
            if self._storage.hash(file.path) is None:
                raise Unavailable(f"file {file.path} is gone before it was committed")
