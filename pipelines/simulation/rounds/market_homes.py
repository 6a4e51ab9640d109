"""A participant's home in a market, and its processes' view of it.

A write is a transaction: it is done or not, whichever process dies. A paused home answers no
call; after a lost reply the caller does not learn that its call was done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from medusa_core.commits import Cause
from medusa_core.errors import OutcomeUnknown, Unavailable
from medusa_core.loads import WINDOW_MS, ActivityKind, LoadKey, RecordedSample, Shares
from medusa_core.market.declared import DeclaredCost
from medusa_core.market.envelopes import EnvelopeKind
from medusa_core.market.messages import Item
from medusa_core.names import Participant
from pipelines.catalog.agreement_store import Received
from pipelines.catalog.memory.mailbox import MemoryMailbox
from pipelines.catalog.memory.rounds import MemoryRounds
from pipelines.catalog.round_store import AnswerRecord, MarketFacts
from pipelines.simulation.faults.simulated_homes import HomeClock
from pipelines.simulation.rounds.market_scenario import CURRENCY, Trader

if TYPE_CHECKING:
    from pipelines.simulation.rounds.market_world import MarketWorld

T = TypeVar("T")
US_PER_THOUSANDTH = WINDOW_MS
"""What a thousandth of a core spends in the window over which load is an average."""


class MarketHome:
    """What one participant keeps, and the clock of its home."""

    def __init__(self, trader: Trader, world: MarketWorld) -> None:
        self.trader = trader
        self.clock = HomeClock(trader.clock_ms, lambda: world.now_ms)
        self.paused_until_ms = 0
        self.mailbox = MemoryMailbox(
            trader.name,
            lambda: self.clock.now_ms,
            lambda: f"{world.chance.getrandbits(128):032x}",
        )
        declared = DeclaredCost(cost=trader.cost, threshold=trader.threshold, currency=CURRENCY)
        self.rounds = MemoryRounds(
            self.mailbox, trader.trading, declared, lambda: self._metered(world)
        )

    def _metered(self, world: MarketWorld) -> tuple[RecordedSample, ...]:
        """What its loop has recorded over the last minute; loads are what they are now."""
        now_ms = self.clock.now_ms
        by_key = {
            LoadKey(f"trade/{fragment}", 0, Cause.NORMAL): load * US_PER_THOUSANDTH
            for fragment, load in world.carried(self.trader.name).items()
        }
        kinds = {ActivityKind.UNATTRIBUTED: self.trader.background * US_PER_THOUSANDTH}
        shares = Shares(by_key=by_key, kinds=kinds)
        return (RecordedSample(from_ms=now_ms - WINDOW_MS, to_ms=now_ms, shares=shares),)


class HomeClient:
    """The home as one process reaches it: its `Rounds`, and what a tick needs of `Agreements`."""

    def __init__(self, home: MarketHome, world: MarketWorld) -> None:
        self._home = home
        self._world = world
        self._metered = 0

    @property
    def participant(self) -> Participant:
        """Whose home this is."""
        return self._home.trader.name

    def close(self) -> None:
        """Nothing is open."""

    def waits(self) -> bool:
        """See `Rounds.waits`."""
        return self._call(self._home.rounds.waits)

    def is_due(self) -> bool:
        """See `Rounds.is_due`."""
        return self._call(self._home.rounds.is_due)

    def read(self) -> MarketFacts:
        """See `Rounds.read`; the laws look on."""
        facts = self._call(self._home.rounds.read)
        self._metered = self._world.load(self.participant)
        self._world.laws.look_at_facts(self._home, facts)
        return facts

    def last_answers(self) -> tuple[AnswerRecord, ...]:
        """See `Rounds.last_answers`."""
        return self._call(self._home.rounds.last_answers)

    def expire(self) -> int:
        """See `Rounds.expire`."""
        return self._written(self._home.rounds.expire)

    def take_offer(self, envelope_id: int) -> int:
        """See `Rounds.take_offer`."""
        return self._written(lambda: self._home.rounds.take_offer(envelope_id))

    def take_answer(
        self,
        envelope_id: int,
        keeps: Sequence[Item] | None = None,
        judged_at: int | None = None,
    ) -> int:
        """See `Rounds.take_answer`."""
        return self._written(lambda: self._home.rounds.take_answer(envelope_id, keeps, judged_at))

    def apply(self, request: Mapping[str, Any]) -> None:
        """See `Rounds.apply`; what is kept of it is held to the laws."""
        laws, metered = self._world.laws, self._metered

        def write() -> None:
            before = laws.agreed_load(self._home, metered)
            self._home.rounds.apply(request)
            laws.look_at_request(self._home, before, request)

        self._written(write)

    def open_round(self, round_ms: int, because: str = "") -> int | None:
        """See `Agreements.open_round`."""
        return self._written(lambda: self._home.mailbox.open_round(round_ms, because))

    def verified(self, kind: EnvelopeKind, envelopes_max: int) -> tuple[Received, ...]:
        """See `Agreements.verified`."""
        return self._call(lambda: self._home.mailbox.verified(kind, envelopes_max))

    def refuse(self, envelope_id: int, reason: str) -> bool:
        """See `Agreements.refuse`."""
        self._world.note_refused(self.participant, reason)
        return self._written(lambda: self._home.mailbox.refuse(envelope_id, reason))

    def read_inbox(self) -> int:
        """Verify what came."""
        return self._written(self._home.mailbox.read_inbox)

    def _call(self, call: Callable[[], T]) -> T:
        self._look_whether_there()
        return call()

    def _written(self, call: Callable[[], T]) -> T:
        self._look_whether_there()
        answer = call()
        self._world.laws.look_at_tables(self._home)
        if self._world.order("lost reply", self.participant):
            raise OutcomeUnknown(f"the home of {self.participant} has not answered")
        return answer

    def _look_whether_there(self) -> None:
        if self._home.paused_until_ms > self._world.now_ms:
            raise Unavailable(f"the home of {self.participant} is away")
