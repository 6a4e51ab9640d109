"""Moves of fragments in the simulation: the product's `MoveSync`, operators, and the messages.

A process carries the moves of its home out, beside its loop, as the market's worker does. A message
is put into the partner's inbox until the partner has answered, so it may arrive twice, late
and in another order; a process of the partner takes it. The inbox is durable, as in the product.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from medusa_core.commits import Hold
from medusa_core.errors import Conflict, MedusaError, OutcomeUnknown, Refused, Unavailable
from medusa_core.market.moves import MoveState
from medusa_core.market.terms import ContractName
from medusa_core.names import Participant, StreamName
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.moves import Force, MemoryMoves, Message, MovementTerms
from pipelines.catalog.memory.store import Transaction, Waiting
from pipelines.catalog.move_store import MoveStatus, OpenMove
from pipelines.catalog.records import Deployment, LineStatus, OwnerLine
from pipelines.market.moves.move_begin import begin_move
from pipelines.market.moves.move_sync import MoveSync
from pipelines.simulation.faults.clients import READ_MS, CatalogClient, transaction
from pipelines.simulation.faults.drawn_moves import DrawnMove, Return
from pipelines.simulation.faults.events import Violation
from pipelines.simulation.faults.simulated_homes import SimulatedHome
from pipelines.simulation.faults.simulated_links import TIMEOUT_MS
from pipelines.simulation.faults.simulated_processes import MOVING, Process

if TYPE_CHECKING:
    from pipelines.simulation.faults.world import World

LOOK_MS = (150, 900)
AGAIN_MS = (200, 1_500)
SOON_MS = (0, 2_500)
"""Within which time each of the two homes learns that a contract is over."""

MESSAGE_MS = (2, 40)
TRIES_MAX = 40
BY_HAND = "by hand"
NOT_YET = ("has computed nothing yet", "end that move first")
NO_MORE = ("has ended", "no contract")
EXPECTED = ("rename it, or move the fragment to another partner",)
"""What a move may be refused for: the provider has a stream of that name of another move."""

T = TypeVar("T")


class MovingClient(CatalogClient):
    """The catalog as `MoveSync` calls it: time passes between its calls, and it may be killed."""

    def deploy(self, deployment: Deployment) -> None:
        """See `Deployments.deploy`."""
        self._change(lambda c: c.deploy(deployment))

    def change_owner(self, line: OwnerLine) -> None:
        """See `Owners.change_owner`."""
        self._world.laws.moves.check_agrees(self._home, line, self.seen)
        self._change(lambda c: c.change_owner(line))
        what = f"{line.fragment} from {line.from_us} on"
        self._world.emit(self._process.name, "owner", what, f"{line.owner}: {line.because}")

    def stop_fragment(self, fragment: str) -> bool:
        """See `Owners.stop_fragment`."""
        return self._change(lambda c: c.stop_fragment(fragment))

    def place_hold(self, hold: Hold) -> None:
        """See `Readers.place_hold`."""
        self._change(lambda c: c.place_hold(hold))

    def lines(self, stream: StreamName | None = None) -> tuple[LineStatus, ...]:
        """See `Lines.lines`."""
        found = super().lines(stream)
        self.seen = self._home.lines()
        self._world.rest(READ_MS)
        return found

    def fragment_owners(self, fragment: str, partition: int = 0) -> tuple[OwnerLine, ...]:
        """See `Owners.fragment_owners`."""
        found = super().fragment_owners(fragment, partition)
        self._world.rest(READ_MS)
        return found

    def _change(self, call: Callable[[MemoryCatalog], T]) -> T:
        return transaction(
            self._world,
            self._process,
            self._home,
            call,
            notifies=True,
            gap=MOVING,
        )


class MoveClient(MemoryMoves):
    """The moves of a home as a process calls them."""

    def __init__(self, world: World, process: Process) -> None:
        self._world, self._process = world, process
        self._home = world.homes[process.participant]
        self._reads = CatalogClient(world, process)
        super().__init__(self._reads)

    def run(self, call: Callable[[Transaction], T]) -> T:
        """A call that is one event."""
        return self._reads.run(call)

    def begin(self, contract: str, number: int, fragment: str, order: str, reason: str) -> None:
        """See `Moves.begin`."""
        self._change(lambda moves: moves.begin(contract, number, fragment, order, reason))
        self._world.emit(self._process.name, "move", fragment, f"{number} under {contract}")

    def end(self, fragment: str, reason: str) -> bool:
        """See `Moves.end`."""
        return self._change(lambda moves: moves.end(fragment, reason))

    def settle(self, move: int, state: MoveState, reason: str, lost_us: int | None = None) -> bool:
        """See `Moves.settle`."""
        is_new = self._change(lambda moves: moves.settle(move, state, reason, lost_us))
        self._world.emit(self._process.name, "move", f"{move} {state.value}", reason)
        return is_new

    def open_moves(self) -> tuple[OpenMove, ...]:
        """See `Moves.open_moves`."""
        found = super().open_moves()
        if found:
            self._world.rest(READ_MS, gap=MOVING)
        return found

    def sent(self, to: Participant, about: str) -> None:
        """See `MemoryMoves.sent`."""
        self._change(lambda moves: moves.sent(to, about))

    def take(self, sender: Participant, message: Message) -> str:
        """See `MemoryMoves.take`."""
        return self._change(lambda moves: moves.take(sender, message))

    def _change(self, call: Callable[[MemoryMoves], T]) -> T:
        return transaction(
            self._world, self._process, self._home, lambda c: call(MemoryMoves(c)),
            notifies=True, gap=MOVING,
        )  # fmt: skip


# ------------------------------------------------------------ what a process does


def carry(world: World, process: Process) -> NoReturn:
    """Carry the moves of a home out, again and again, as the market's worker does."""
    moves = MoveClient(world, process)
    catalog = MovingClient(world, process)
    on_error = partial(_report, world, process)
    sync = MoveSync(moves, catalog, catalog, Path(), on_error)
    while True:
        world.rest(world.chance.randint(*LOOK_MS), is_timer=True)
        try:
            _take_messages(world, process, moves)
            sync.settle()
            _send_messages(world, process, moves)
        except (Conflict, Unavailable, OutcomeUnknown) as error:
            on_error(error)


def _report(world: World, process: Process, error: Exception) -> None:
    """A refusal that nobody should meet is a finding."""
    if isinstance(error, Refused) and not any(words in str(error) for words in EXPECTED):
        raise Violation("REFUSED", str(error)) from error
    world.emit(process.name, type(error).__name__.lower(), why=str(error))


def _take_messages(world: World, process: Process, moves: MoveClient) -> None:
    home = world.homes[process.participant]
    for entry in list(home.inbox):
        sender, message = entry
        try:
            became = moves.take(sender, message)
        except Conflict as error:
            world.emit(process.name, "message", str(message.number), str(error))
            continue
        world.emit(process.name, "message", f"{message.number} of {sender}", became)
        # Another process of this home may have taken it meanwhile.
        home.inbox = [one for one in home.inbox if one is not entry]


def _send_messages(world: World, process: Process, moves: MoveClient) -> None:
    here = process.participant
    for to, about, message in moves.outbox():
        partner = world.homes[to]
        factor = world.links.factor(here, to, world.now_ms)
        try:
            world.rest(min(world.chance.randint(*MESSAGE_MS) * factor, TIMEOUT_MS))
            world.check_link(here, to)
            _put(partner, here, message)
            world.check_link(to, here)
        except Unavailable as error:
            # It is sent again, and may have arrived.
            world.emit(process.name, "not sent", about, str(error))
            continue
        if world.takes_order("message again", here):
            world.later(partial(_put_again, world, partner, here, message))
        moves.sent(to, about)


def _put(partner: SimulatedHome, sender: Participant, message: Message) -> None:
    partner.reach()
    partner.inbox = [*partner.inbox, (sender, message)]


def _put_again(world: World, partner: SimulatedHome, sender: Participant, message: Message) -> None:
    if not partner.is_paused:
        _put(partner, sender, message)
        world.emit(partner.participant, "again", f"message of {sender}", str(message.number))


# ------------------------------------------------------------ what operators do


def declare(world: World) -> None:
    """The contracts as they stand in both homes at the beginning."""
    moves = world.scenario.moves
    for move in moves.moves:
        for participant in (move.payer, move.provider):
            home = MemoryMoves(world.homes[participant].catalog)
            home.declare_move_ms(moves.move_ms)
            waits = participant == move.provider and move.in_force_ms > 0
            home.declare(_terms(move, Force.AGREED if waits else Force.IN_FORCE))
        if move.in_force_ms:
            begins = partial(_declare, world, move, move.provider, Force.IN_FORCE)
            world.after(move.in_force_ms, begins)


def _terms(move: DrawnMove, force: Force) -> MovementTerms:
    return MovementTerms(
        contract=ContractName(move.contract),
        payer=move.payer,
        provider=move.provider,
        bound_ms=move.bound_ms,
        force=force,
    )


def _declare(world: World, move: DrawnMove, participant: Participant, force: Force) -> None:
    """A contract begins or is over in a home, as soon as that answers."""
    home = world.homes[participant]
    known = None if home.is_paused else world.laws.moves.force(home, move.contract)
    if known is Force.OVER:
        return
    try:
        MemoryMoves(home.reach()).declare(_terms(move, force))
    except (Waiting, MedusaError):
        if participant not in world.gone_for_good:
            world.after(AGAIN_MS[0], partial(_declare, world, move, participant, force))
        return
    world.emit(participant, "contract", move.contract, force.value)


def end_contract(world: World, move: DrawnMove) -> None:
    """A contract is over, in each home at a time of its own."""
    for participant in (move.payer, move.provider):
        ends = partial(_declare, world, move, participant, Force.OVER)
        world.after(world.chance.randint(*SOON_MS), ends)


def begin(world: World, process: Process, move: DrawnMove) -> None:
    """Run `medusa move begin` until it is done, or refused."""
    catalog, moves = MovingClient(world, process), MoveClient(world, process)

    def try_once() -> bool:
        if any(_is_of(move, status) for status in moves.statuses()):
            return True
        begin_move(
            moves,
            catalog,
            catalog,
            contract=move.contract,
            provider=move.provider,
            fragment=move.fragment,
            reason=BY_HAND,
        )
        return True

    _until_done(world, process, move, try_once)


def give_back(world: World, process: Process, move: DrawnMove) -> None:
    """Run `medusa move end` at the payer or at the provider until it is done."""
    moves = MoveClient(world, process)

    def try_once() -> bool:
        known = [status for status in moves.statuses() if _is_of(move, status)]
        if known and known[0].state is not MoveState.ENDED:
            if known[0].is_given:
                moves.end(move.fragment, BY_HAND)
            else:
                moves.settle(known[0].id, MoveState.ENDED, BY_HAND)
        return bool(known)

    _until_done(world, process, move, try_once)


def _is_of(move: DrawnMove, status: MoveStatus) -> bool:
    return status.contract == move.contract


def _until_done(
    world: World, process: Process, move: DrawnMove, try_once: Callable[[], bool]
) -> None:
    for _ in range(TRIES_MAX):
        try:
            if try_once():
                return
        except (Conflict, Unavailable, OutcomeUnknown) as error:
            world.emit(process.name, "no move", move.fragment, str(error))
        except Refused as error:
            world.emit(process.name, "no move", move.fragment, str(error))
            if any(words in str(error) for words in NO_MORE):
                return
            if not any(words in str(error) for words in NOT_YET):
                raise Violation("REFUSED", str(error)) from error
        world.rest(world.chance.randint(*AGAIN_MS), is_timer=True)


def command_of_return(move: DrawnMove) -> Participant | None:
    """Who runs the command by which a move ends, if one is run."""
    return {Return.BY_PAYER: move.payer, Return.BY_PROVIDER: move.provider}.get(move.returns)
