"""The faults of a schedule, drawn from its seed: kind, target, time, duration.

Each kind happens to something that exists: a crash and a freeze wait at a gap between two numbers
of a step, a repeated or late delivery waits for the next one of its sort. A fault that finds no
occasion in time happens to any target at once, or is drawn again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from medusa_core.errors import Conflict, MedusaError
from medusa_core.names import Epoch, NetworkName, Participant, StreamName
from pipelines.catalog.memory.store import Waiting
from pipelines.catalog.records import Assignment, Deployment
from pipelines.simulation.faults import simulated_moves
from pipelines.simulation.faults.drawn_moves import DrawnMove, Return
from pipelines.simulation.faults.drawn_revisions import DrawnRevision
from pipelines.simulation.faults.leaving import gone, lapse
from pipelines.simulation.faults.scenario import FIRST_EPOCH, landing_of
from pipelines.simulation.faults.schedule_shapes import REVISION_KINDS
from pipelines.simulation.faults.simulated_participants import LEASE_MS
from pipelines.simulation.faults.simulated_processes import (
    GAPS,
    MOVE_GAPS,
    MOVING,
    REPLICA_GAPS,
    REVISION_GAPS,
    Process,
    Trap,
)
from pipelines.simulation.faults.simulated_revisions import revise
from pipelines.simulation.faults.strikes import strike_machines_or_links

if TYPE_CHECKING:
    from pipelines.simulation.faults.world import World

UNDISTURBING = ("cut", "one way", "lapse", "lost", "overload", *REVISION_KINDS)
"""Kinds that leave every participant as it was: what is missing must be answered without, and
revisions leave room for answers."""

_NAME = re.compile("[a-z]+")

FREEZE_LEASES = (0.3, 2.5)
DEPLOY_RETRY_MS = 300


class Faults:
    """Draws the faults of one schedule and lets them happen; counts those that did."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.happened: Counter[str] = Counter()
        self.gaps: Counter[tuple[str, str]] = Counter()
        self.healed_ms = 0
        self._epochs: dict[str, int] = {}
        chance = world.chance
        shape = world.scenario.shape
        kinds = [*chance.sample(shape.kinds, shape.kinds_min)]
        more = chance.randint(*shape.faults) - len(kinds)
        kinds += [chance.choice(shape.kinds) for _ in range(more)]
        chance.shuffle(kinds)
        self.last_ms = max(world.scenario.fed_ms + shape.beyond_ms, shape.first_ms + 1)
        for kind in kinds:
            at_ms = chance.randint(shape.first_ms, self.last_ms)
            world.after(at_ms, partial(self._strike, kind))
        self._let_move()
        revisions = world.scenario.revisions
        for command in revisions.commands:
            world.after(command.at_ms, partial(self._revise, command))
        for stream, batches in revisions.late.items():
            feed = {batch.batch_id: batch for batch in world.scenario.feeds[stream]}
            for batch_id, rows in batches.items():
                arrive = partial(self._late, stream, batch_id, len(rows))
                world.after(feed[batch_id].at_ms, arrive)

    @property
    def is_over(self) -> bool:
        """Whether no fault waits to happen any more."""
        return not self.world.orders and not self.world.traps

    def _strike(self, kind: str) -> None:
        strikes: dict[str, Callable[[], None]] = {
            "crash": lambda: self._set_trap(self._crash),
            "freeze": lambda: self._set_trap(self._freeze),
            "duplicate": self._duplicate,
            "reorder": lambda: self._order(kind, "late news", self._readers()),
            "lost reply": lambda: self._order(kind, "lost reply", self._all()),
            "epoch": self._epoch,
            "gone": lambda: gone(self.world, self.last_ms, self.happens, self._strike),
            "lapse": lambda: lapse(self.world, self.happens, self._strike),
        }
        if kind in strikes:
            strikes[kind]()
        else:
            strike_machines_or_links(kind, self.world, self.happens)

    def happens(self, kind: str, who: str, what: str = "", lasts_ms: int = 0) -> None:
        """A fault has begun: count it and tell it; all are healed when the last one is."""
        self.happened[kind] += 1
        self.healed_ms = max(self.healed_ms, self.world.now_ms + lasts_ms)
        if kind not in UNDISTURBING:
            named = set(_NAME.findall(who))
            self.world.disturb([p for p in self._all() if p in named] or self._all(), lasts_ms)
        why = f"for {lasts_ms} ms" if lasts_ms else ""
        self.world.emit(who, kind.upper(), what, why)

    def _all(self) -> list[Participant]:
        return list(self.world.scenario.participants)

    def _readers(self) -> list[Participant]:
        return [p for p in self._all() if self.world.imports[p]]

    def _feeders(self) -> list[Participant]:
        scenario = self.world.scenario
        return sorted({scenario.owners[landing_of(stream)] for stream in scenario.feeds})

    def _computing(self) -> list[Participant]:
        scenario = self.world.scenario
        return sorted({p for name in scenario.fragments for p in scenario.all_owners(name)})

    def _moving(self) -> list[Participant]:
        return [p for p in self._all() if self.world.scenario.moves.partners(p)]

    def _choosing(self) -> list[Participant]:
        return [p for p in self._all() if self.world.scenario.chosen(p)]

    def _who_comes_to(self, gap: str) -> list[Participant]:
        """Those whose work leads over a gap; everybody where nobody's does."""
        function = {"land": self._feeders, "close": self._feeders, "step": self._computing,
                "import": self._readers, "choice": self._choosing, "late": self._feeders,
                "revise": self._feeders, "move": self._moving}  # fmt: skip
        return function.get(gap.partition(".")[0], self._all)() or self._all()

    # a process dies or stands still

    def _set_trap(self, spring: Callable[[Process, str], None]) -> None:
        chance, shape = self.world.chance, self.world.scenario.shape
        revision_gaps = REVISION_GAPS if shape.revisions[1] else GAPS
        other_gaps = MOVE_GAPS if shape.moves[1] else revision_gaps
        gap = chance.choice(REPLICA_GAPS if shape.replicas else other_gaps)
        self._trap_at(gap, chance.choice(self._who_comes_to(gap)), spring)

    def _trap_at(
        self, gap: str, participant: Participant, spring: Callable[[Process, str], None]
    ) -> None:
        trap = Trap(participant, gap, spring)
        self.world.traps.append(trap)
        self.world.after(self.world.scenario.shape.trap_ms, lambda: self._spring_anyway(trap))

    def _spring_anyway(self, trap: Trap) -> None:
        world = self.world
        if trap not in world.traps:
            return
        there = world.alive(trap.participant)
        if trap.participant in world.gone:
            trap.participant = world.chance.choice(world.there())
        if not there:
            world.after(world.scenario.shape.trap_ms, lambda: self._spring_anyway(trap))
            return
        world.traps.remove(trap)
        trap.spring(world.chance.choice(there), "other")

    def _crash(self, process: Process, gap: str) -> None:
        self.gaps["crash", gap] += 1
        self.happens("crash", process.name, f"at {gap}")
        self.world.homes[process.participant].between_reads.add("kill")
        self.world.end(process)

    def _freeze(self, process: Process, gap: str) -> None:
        world = self.world
        lasts_ms = int(LEASE_MS * world.chance.uniform(*FREEZE_LEASES))
        self.gaps["freeze", gap] += 1
        process.frozen_until_ms = world.now_ms + lasts_ms
        self.happens("freeze", process.name, f"at {gap}", lasts_ms)
        if world.chance.random() < 0.6:
            # Whoever supervises takes it for dead.
            world.after(
                world.chance.randint(100, lasts_ms),
                lambda: self._replace(process),
            )

    def _replace(self, process: Process) -> None:
        if process.frozen_until_ms > self.world.now_ms and process.is_alive:
            if process.runs_again is not None:
                process.runs_again()
            else:
                self.world.start(process.participant, process.lane)

    # revisions

    def _revise(self, command: DrawnRevision) -> None:
        """An operator runs `medusa revise`; some of the commands are killed at a gap."""
        world = self.world
        participant = world.scenario.owners[landing_of(command.stream)]
        self.happens(command.action.value, participant, f"{command.because}: {command.stream}")
        if command.gap is not None:
            self._trap_at(command.gap, participant, self._crash)
        run = partial(revise, world, command=command)
        world.start_command(participant, f"revise {command.stream}", run)

    def _late(self, stream: StreamName, batch_id: int, records: int) -> None:
        """Late records arrive; some of the processes that admit them are killed at a gap."""
        participant = self.world.scenario.owners[landing_of(stream)]
        self.happens("late", participant, f"{records} of {stream}")
        gap = self.world.scenario.revisions.late_gaps.get((stream, batch_id))
        if gap is not None:
            self._trap_at(gap, participant, self._crash)

    # moves

    def _let_move(self) -> None:
        world, moves = self.world, self.world.scenario.moves
        for move in moves.moves:
            world.moving.add(move.number)
            world.after(move.at_ms, partial(self._move, move))
            world.after(move.at_ms + move.lasts_ms, partial(self._return, move))
        for participant, (at_ms, is_dark) in moves.lost.items():
            world.after(at_ms, partial(self._lose, participant, is_dark))

    def _move(self, move: DrawnMove) -> None:
        """An operator hands a fragment over; of some moves a process is killed."""
        world = self.world
        world.emit(move.payer, "MOVE", f"{move.fragment} to {move.provider}", move.returns.value)
        if move.killed is not None and move.killed not in world.gone:
            self._trap_at(MOVING, move.killed, self._crash)
        world.start_command(
            move.payer, f"move {move.fragment}", partial(simulated_moves.begin, world, move=move)
        )

    def _return(self, move: DrawnMove) -> None:
        world = self.world
        world.moving.discard(move.number)
        if move.returns is Return.BY_CONTRACT:
            simulated_moves.end_contract(world, move)
        who = simulated_moves.command_of_return(move)
        if who is not None and who not in world.gone:
            give_back = partial(simulated_moves.give_back, world, move=move)
            world.start_command(who, f"take back {move.fragment}", give_back)

    def _lose(self, participant: Participant, is_dark: bool) -> None:
        """A provider is away for good."""
        self.happens("lost", participant, "with its catalog" if is_dark else "its processes")
        self.world.leave(participant, is_dark=is_dark)
        self.world.gone_for_good.add(participant)

    # deliveries

    def _duplicate(self) -> None:
        orders = [
            ("commit again", self._all()),
            ("batch again", self._feeders()),
            ("news again", self._readers()),
            ("ack again", self._readers()),
        ]
        if self.world.scenario.moves.occur:
            orders.append(("message again", self._moving()))
        if self.world.scenario.revisions.occur:
            orders.append(("revision again", self._feeders()))
        order, among = self.world.chance.choice(orders)
        self._order("duplicate", order, among)

    def _order(self, kind: str, order: str, among: list[Participant]) -> None:
        if not among:
            self._strike("crash")
            return
        world = self.world
        participant = world.chance.choice(among)
        key = (order, participant)
        world.orders[key] = lambda: self.happens(kind, participant, order)
        world.after(world.scenario.shape.trap_ms, lambda: self._draw_anew(key, kind, among))

    def _draw_anew(self, key: tuple[str, Participant], kind: str, among: list[Participant]) -> None:
        """Nobody has met the fault; behind the last batch hardly anybody will: then a crash."""
        if self.world.orders.pop(key, None) is None:
            return
        if self.world.now_ms < self.world.scenario.fed_ms:
            self._order(kind, key[0], among)
        else:
            self._strike("crash")

    # an assignment

    def _epoch(self) -> None:
        """A fragment is assigned anew to the same producer: the old epoch must not write again."""
        world = self.world
        scenario = world.scenario
        name = world.chance.choice(sorted(scenario.owners))
        producers = scenario.producers(name)
        producer = world.chance.choice(producers) if len(producers) > 1 else producers[0]
        epoch = Epoch(self._epochs.get(name, FIRST_EPOCH + len(producers) - 1) + 1)
        self._epochs[name] = epoch
        line = Assignment(
            fragment=name,
            producer=producer,
            epoch=epoch,
            plan=scenario.plan_id,
        )
        deployment = Deployment(
            network=NetworkName(scenario.network.name),
            document=scenario.plan_document,
            plan=scenario.plan_id,
            plan_document=scenario.plan_document,
            streams=(),
            fragments={},
            assignments=(line,),
        )
        self.happens("epoch", producer.participant, f"{name} epoch {epoch}")
        for participant in scenario.participants:
            if participant not in scenario.moves.providers:
                self._deploy(participant, deployment)

    def _deploy(self, participant: Participant, deployment: Deployment) -> None:
        """In every home, as soon as it answers and has the epoch before."""
        world = self.world
        try:
            world.homes[participant].reach().deploy(deployment)
        except (Waiting, Conflict, MedusaError):
            world.after(DEPLOY_RETRY_MS, lambda: self._deploy(participant, deployment))
