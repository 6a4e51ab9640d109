"""A market's world: virtual time, processes that run ticks, links, and load that really moves.

A tick is production code (`pipelines.market.rounds.round_tick`) that is run to its end at one
moment, unless a fault waits for it at a failpoint: there it ends for good, or stops while the
world continues, other processes of the same home included.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from random import Random

from medusa_core.errors import MedusaError, Refused
from medusa_core.names import FragmentName, Participant
from pipelines.catalog.memory.round_rows import MoveRow, MoveState
from pipelines.market.rounds.round_tick import MarketWorker
from pipelines.simulation.faults.events import Event, Violation
from pipelines.simulation.faults.fibers import Killed
from pipelines.simulation.faults.simulated_links import Links
from pipelines.simulation.faults.world import Observe
from pipelines.simulation.rounds.market_homes import HomeClient, MarketHome
from pipelines.simulation.rounds.market_laws import MarketLaws
from pipelines.simulation.rounds.market_mail import SimulatedMail
from pipelines.simulation.rounds.market_scenario import Market

TRANSFER_MS = (100, 900)
RESTART_MS = (50, 1_500)
FREEZES_MAX = 4


@dataclass(eq=False, slots=True)
class Process:
    """One process of a participant; `worker` is what it has in memory."""

    participant: Participant
    name: str
    worker: MarketWorker
    is_alive: bool = True
    is_busy: bool = False


Trap = tuple[Participant, str, Callable[[Process, str], None]]
"""Whose process is waited for at which failpoint, and what happens to it there."""


class MarketWorld:
    """The state of a market during a run."""

    def __init__(self, market: Market, observe: Observe | None = None) -> None:
        self.market = market
        self.chance = Random(f"market world {market.seed}")
        self.now_ms = 0
        self.observe = observe
        self.events: Counter[str] = Counter()
        self.links = Links()
        self.laws = MarketLaws(self)
        self.loads = dict(market.loads)
        self.lies_at = dict(market.homes)
        self.homes = {name: MarketHome(t, self) for name, t in market.traders.items()}
        self.processes: list[Process] = []
        self.orders: list[tuple[str, str]] = []
        self.traps: list[Trap] = []
        self.happens: Callable[..., None] = lambda *given, **fields: None
        self.last_move_ms = 0
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        self._names = count(1)
        self._turning: list[Process] = []
        for agreement in market.agreements.values():
            if agreement.number == 1:
                for party in (agreement.payer, agreement.provider):
                    self.homes[party].mailbox.agree(agreement.terms)
                    self.laws.knows[party].add(agreement.revision)
        for name, trader in market.traders.items():
            self.start(name)
            self.after(self.chance.randint(0, trader.look_ms), partial(self._look, name))
            self.after(self.chance.randint(*TRANSFER_MS), partial(self._transfer, name))

    # ------------------------------------------------------------ time

    def after(self, ms: int, call: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self._queue, (self.now_ms + ms, next(self._numbers), call))

    def run(self, until_ms: int) -> None:
        """Let time pass; again and again on top of itself, where a process stands still."""
        while self._queue and self._queue[0][0] <= until_ms:
            at_ms, _, call = heapq.heappop(self._queue)
            self.now_ms = max(self.now_ms, at_ms)
            call()
        self.now_ms = max(self.now_ms, until_ms)

    def emit(self, who: str, kind: str, what: str = "", why: str = "") -> None:
        """Tell what happened."""
        self.events[kind.lower()] += 1
        if self.observe is not None:
            self.observe(Event(self.now_ms, who, kind, what, why))

    # ------------------------------------------------------------ processes

    def start(self, participant: Participant) -> Process:
        """A new process, which knows what lies in its home."""
        home = self.homes[participant]
        client = HomeClient(home, self)
        worker = MarketWorker(
            SimulatedMail(home, client, self),
            client,
            client,
            draw_nonce=lambda: f"{self.chance.getrandbits(128):032x}",
        )
        process = Process(participant, f"{participant}.{next(self._names)}", worker)
        self.processes.append(process)
        return process

    def end(self, process: Process) -> None:
        """The process is no more, and what it had in memory."""
        if process.is_alive:
            process.is_alive = False
            self.processes.remove(process)

    def alive(self, participant: Participant) -> list[Process]:
        """Its processes that live."""
        return [p for p in self.processes if p.participant == participant and p.is_alive]

    def rings(self, participant: Participant, in_ms: int) -> None:
        """Somebody has put something into an inbox."""
        self.after(in_ms, partial(self._tick_all, participant, None))

    def by_hand(self, participant: Participant) -> None:
        """`medusa round`: a process of its own, for one tick."""
        process = self.start(participant)
        self._tick(process, "by hand")
        self.end(process)

    def _look(self, participant: Participant) -> None:
        self._tick_all(participant, None)
        self.after(self.market.traders[participant].look_ms, partial(self._look, participant))

    def _tick_all(self, participant: Participant, opens: str | None) -> None:
        for process in self.alive(participant):
            if not process.is_busy:
                self._tick(process, opens)

    def _tick(self, process: Process, opens: str | None) -> None:
        process.is_busy = True
        self._turning.append(process)
        try:
            made = process.worker.tick(opens=opens)
            if made.opened is not None:
                self.emit(process.name, "round", str(made.opened))
            if self.observe is not None:
                for decision in made.decisions:
                    self.emit(process.name, "decision", type(decision).__name__, str(decision))
        except Killed:
            self.end(process)
            if not self.alive(process.participant):
                self.after(
                    self.chance.randint(*RESTART_MS), partial(self._restart, process.participant)
                )
        except Refused as error:
            raise Violation("REFUSED", f"a tick of {process.participant}: {error}") from error
        except MedusaError as error:
            self.emit(process.name, type(error).__name__, str(error))
        finally:
            self._turning.pop()
            process.is_busy = False

    def _restart(self, participant: Participant) -> None:
        if not self.alive(participant):
            self.start(participant)

    def reached(self, point: str) -> None:
        """A process comes to a failpoint: a fault may wait there."""
        if not self._turning:
            return
        process = self._turning[-1]
        for trap in self.traps:
            participant, at, spring = trap
            if participant == process.participant and at == point:
                self.traps.remove(trap)
                spring(process, point)
                break

    def stand_still(self, process: Process, lasts_ms: int) -> None:
        """The process stands still where it is; whoever supervises may start another one."""
        if len(self._turning) > FREEZES_MAX:
            return
        if self.chance.random() < 0.6:
            self.after(
                self.chance.randint(50, lasts_ms), partial(self._second, process.participant)
            )
        self.run(self.now_ms + lasts_ms)

    def _second(self, participant: Participant) -> None:
        if len(self.alive(participant)) < 2:
            self.start(participant)

    def order(self, kind: str, participant: Participant, of: str | None = None) -> bool:
        """Whether a fault waits for just this (`of` a participant or a kind of envelope); it
        happens now."""
        order = (kind, of or participant)
        if order not in self.orders:
            return False
        self.orders.remove(order)
        self.happens(kind, participant)
        return True

    def note_refused(self, participant: Participant, reason: str) -> None:
        """An envelope is refused."""
        self.emit(participant, "refused", reason)

    # ------------------------------------------------------------ load

    def carried(self, participant: Participant) -> dict[FragmentName, int]:
        """The fragments that lie there, and their loads in thousandths; none that has ended."""
        return {
            fragment: self.loads[fragment]
            for fragment, there in self.lies_at.items()
            if there == participant and self.loads[fragment]
        }

    def load(self, participant: Participant) -> int:
        """All that it carries, in thousandths."""
        background = self.market.traders[participant].background
        return background + sum(self.carried(participant).values())

    def _transfer(self, participant: Participant) -> None:
        """What was agreed moves, where both are there and agree; then the same again."""
        rounds = self.homes[participant].rounds
        agreed = [
            m
            for m in rounds.tables.moves.values()
            if m.is_given and m.state is MoveState.ACCEPTED and m.makes_room_for is None
        ]
        for move in agreed:
            if move.move_id in rounds.tables.moves:
                self._move(participant, move)
        self.after(self.chance.randint(*TRANSFER_MS), partial(self._transfer, participant))

    def _move(self, payer: Participant, move: MoveRow) -> bool:
        provider = move.partner
        ends = (self.homes[payer], self.homes[provider])
        if any(home.paused_until_ms > self.now_ms for home in ends) or any(
            self.links.is_lost(*link, self.now_ms)
            for link in ((payer, provider), (provider, payer))
        ):
            return False
        fragment = move.item.fragment
        taken = [
            m
            for m in ends[1].rounds.tables.moves.values()
            if not m.is_given and m.state is MoveState.ACCEPTED
            and (m.partner, m.contract, m.item) == (payer, move.contract, move.item)
        ]  # fmt: skip
        if not taken or self.lies_at[fragment] != payer:
            # The partner does not know of it any more, or it is not here.
            ends[0].rounds.drop_moves(lambda m: m.move_id == move.move_id)
            return False
        # What makes room for it goes first.
        for leaf in [
            m
            for m in ends[1].rounds.tables.moves.values()
            if m.is_given and m.makes_room_for == taken[0].move_id
        ]:
            if leaf.state is MoveState.ACCEPTED:
                self._move(provider, leaf)
        self.lies_at[fragment] = provider
        self.last_move_ms = self.now_ms
        self._leaves_what_it_lay_under(fragment)
        ends[0].rounds.moved(move.move_id)
        ends[1].rounds.moved(taken[0].move_id)
        self.emit(payer, "move", f"{fragment} to {provider}", f"{move.item.load:g}")
        return True

    def _leaves_what_it_lay_under(self, fragment: FragmentName) -> None:
        """A fragment lies under one contract at most: the one by which it came last."""

        def is_over(move: MoveRow) -> bool:
            return move.state is MoveState.MOVED and move.item.fragment == fragment

        for home in self.homes.values():
            home.rounds.drop_moves(is_over)
