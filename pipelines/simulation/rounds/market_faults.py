"""The faults of a market's schedule: drawn from its seed, each with a target that exists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import combinations

from medusa_core.market.documents import document_of
from medusa_core.market.envelopes import EnvelopeKind
from medusa_core.market.terms import Revision
from medusa_core.names import FragmentName, Participant
from pipelines.base.failpoints import ROUND_POINTS
from pipelines.simulation.faults.fibers import Killed
from pipelines.simulation.faults.schedule_shapes import MARKET_KINDS
from pipelines.simulation.faults.strikes import PACES_PER_MILLE
from pipelines.simulation.rounds.market_world import MarketWorld, Process, Trap

MARKET_GAPS = (*ROUND_POINTS, "agreement.sent", "agreement.acknowledged")
"""Where crashes and freezes wait: in a tick of the market, and at the transfer of envelopes."""

DRAWN_KINDS = tuple(kind for kind in MARKET_KINDS if kind != "gone")
FAULTS, KINDS_MIN = (16, 26), 4
FIRST_MS = 1_500
TRAP_MS = 5_000
FREEZE_MS = (300, 9_000)
PAUSE_MS = (300, 8_000)
LINK_MS = (1_000, 12_000)
FOR_EVER_MS = 10**12
JUMP_MS = (0, 2_500)
SLOW_FACTOR = 20


class MarketFaults:
    """Lets faults, revisions and changes of load happen; counts them."""

    def __init__(self, world: MarketWorld) -> None:
        self.world = world
        self.happened: Counter[str] = Counter()
        self.gaps: Counter[tuple[str, str]] = Counter()
        self.healed_ms = world.market.safety_ms
        world.happens = self.happens
        chance, market = world.chance, world.market
        kinds = [*chance.sample(DRAWN_KINDS, KINDS_MIN)]
        kinds += [chance.choice(DRAWN_KINDS) for _ in range(chance.randint(*FAULTS) - len(kinds))]
        for kind in kinds:
            world.after(chance.randint(FIRST_MS, market.safety_ms), partial(self._strike, kind))
        for at_ms, revision in market.revised:
            world.after(at_ms, partial(self._revise, revision))
        if market.gone is not None:
            world.after(market.gone[0], partial(self._gone, market.gone[1]))
        for change in market.changes:
            world.after(change.at_ms, partial(self._change, change.fragment, change.load))

    def happens(self, kind: str, who: str, what: str = "", lasts_ms: int = 0) -> None:
        """A fault has begun."""
        self.happened[kind] += 1
        self.healed_ms = max(self.healed_ms, self.world.now_ms + lasts_ms)
        self.world.emit(who, kind.upper(), what, f"for {lasts_ms} ms" if lasts_ms else "")

    def _strike(self, kind: str) -> None:
        strikes: dict[str, Callable[[], None]] = {
            "crash": partial(self._set_trap, self._crash),
            "freeze": partial(self._set_trap, self._freeze),
            "pause": self._pause,
            "cut": self._cut,
            "one way": self._one_way,
            "slow link": self._slow_link,
            "skew": self._skew,
            "second": self._by_hand,
        }
        strikes.get(kind, partial(self._order, kind))()

    def _anybody(self) -> Participant:
        return self.world.chance.choice(sorted(self.world.homes))

    # processes

    def _set_trap(self, spring: Callable[[Process, str], None]) -> None:
        trap: Trap = (self._anybody(), self.world.chance.choice(MARKET_GAPS), spring)
        self.world.traps.append(trap)
        self.world.after(TRAP_MS, partial(self._spring_anyway, trap))

    def _spring_anyway(self, trap: Trap) -> None:
        """No process reached the gap: one dies between two ticks."""
        if trap not in self.world.traps:
            return
        self.world.traps.remove(trap)
        for process in self.world.alive(trap[0])[:1]:
            if process.is_busy:
                continue
            self._counts("crash", process, "other")
            self.world.end(process)
            self.world.start(process.participant)

    def _counts(self, kind: str, process: Process, gap: str, lasts_ms: int = 0) -> None:
        self.gaps[kind, gap] += 1
        self.happens(kind, process.name, f"at {gap}", lasts_ms)

    def _crash(self, process: Process, gap: str) -> None:
        self._counts("crash", process, gap)
        raise Killed

    def _freeze(self, process: Process, gap: str) -> None:
        lasts_ms = self.world.chance.randint(*FREEZE_MS)
        self._counts("freeze", process, gap, lasts_ms)
        self.world.stand_still(process, lasts_ms)

    def _by_hand(self) -> None:
        participant = self._anybody()
        self.happens("second", participant)
        self.world.by_hand(participant)

    # homes, links, envelopes

    def _pause(self) -> None:
        participant, lasts_ms = self._anybody(), self.world.chance.randint(*PAUSE_MS)
        home = self.world.homes[participant]
        home.paused_until_ms = max(home.paused_until_ms, self.world.now_ms + lasts_ms)
        self.happens("pause", participant, "", lasts_ms)

    def _gone(self, participant: Participant) -> None:
        """It is away for good, with its home and with what lies there."""
        self.world.homes[participant].paused_until_ms = FOR_EVER_MS
        self.happens("gone", participant)

    def _skew(self) -> None:
        participant, chance = self._anybody(), self.world.chance
        by_ms, pace = chance.randint(*JUMP_MS), chance.randint(*PACES_PER_MILLE)
        self.world.homes[participant].clock.set_off(by_ms=by_ms, pace_per_mille=pace)
        self.happens("skew", participant, f"{by_ms} ms ahead, {pace} per mille")

    def _link(self) -> tuple[Participant, Participant]:
        return self.world.chance.choice(list(combinations(sorted(self.world.homes), 2)))

    def _cut(self) -> None:
        one, other = self._link()
        lasts_ms = self.world.chance.randint(*LINK_MS)
        self.world.links.cut(one, other, self.world.now_ms + lasts_ms)
        self.happens("cut", one, other, lasts_ms)

    def _one_way(self) -> None:
        ends = list(self._link())
        self.world.chance.shuffle(ends)
        lasts_ms = self.world.chance.randint(*LINK_MS)
        self.world.links.lose(ends[0], ends[1], self.world.now_ms + lasts_ms)
        self.happens("one way", ends[0], f"to {ends[1]}", lasts_ms)

    def _slow_link(self) -> None:
        one, other = self._link()
        lasts_ms = self.world.chance.randint(*LINK_MS)
        self.world.links.slow_down(one, other, SLOW_FACTOR, self.world.now_ms + lasts_ms)
        self.happens("slow link", one, other, lasts_ms)

    def _order(self, kind: str) -> None:
        """It happens to the next reply of a home, or to the next envelope of a kind: an offer, or
        an answer that accepts something."""
        if kind == "lost reply":
            self.world.orders.append((kind, self._anybody()))
        else:
            self.world.orders.append((kind, self.world.chance.choice(("offer", "answer"))))

    # what owners do, and what their load does

    def _revise(self, revision: Revision) -> None:
        """Both have signed: the payer holds it at once, the provider when it arrives."""
        agreement = self.world.market.agreements[revision]
        payer = self.world.homes[agreement.payer]
        payer.mailbox.agree(agreement.terms)
        payer.mailbox.put(
            agreement.provider, EnvelopeKind.DOCUMENT, f"agreement/{revision}",
            document_of(agreement.terms),
        )  # fmt: skip
        self.world.laws.knows[agreement.payer].add(revision)
        self.world.emit(agreement.payer, "REVISION", f"{agreement.contract} {agreement.number}")

    def _change(self, fragment: FragmentName, load: int) -> None:
        self.world.loads[fragment] = load
        self.world.emit(self.world.lies_at[fragment], "LOAD", fragment, f"{load} thousandths")
