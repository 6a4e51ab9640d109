"""The moves of a home, carried out: as payer by its own lines, as provider by the payer's word.

All state is in the home; a look that was cut short is completed by the next one. What is decided is
`medusa_core.market.moves`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from medusa_core.errors import Conflict, Refused
from medusa_core.fragments import Move
from medusa_core.grid import TIME_US_MIN, Range
from medusa_core.market.moves import (
    MoveProgress,
    MoveState,
    adoption_wait_ms,
    is_lossy,
    next_step,
    timeout_ms,
)
from medusa_core.market.terms import OriginStream
from medusa_core.names import Epoch, Participant, StreamName
from medusa_core.segments import Producer, content_of
from pipelines.base.time_text import iso
from pipelines.catalog.move_store import AgreedToGive, Moves, OpenMove
from pipelines.catalog.processing_roles import Deployments, Owners, Readers
from pipelines.catalog.reading_roles import Lines
from pipelines.catalog.records import LineStatus, OwnerLine
from pipelines.market.moves.move_begin import begin_move, hold_inputs
from pipelines.market.moves.move_order import MovedInput, MoveOrder, order_in
from pipelines.market.moves.moved_deployments import (
    check_inputs,
    deployed_fragments,
    outputs_of,
    payer_deployment,
    provider_deployments,
)
from pipelines.market.rounds.fragment_names import called

COMPARED_BUCKETS = 64
"""How many of the last buckets that both have are compared."""

GRANTS_KNOWN_MS = 30_000
"""How old a move is at least when a provider takes what a partner does not publish as refused: what
it heard of the partner's lines before may be of before the grant."""

LineMarks = Callable[[Participant], Mapping[tuple[StreamName, int], str] | None]
"""The lines of a partner that this home may read, by stream and replica; None: not known now."""


class MovingHome(Deployments, Owners, Lines, Protocol):
    """What is deployed in a home, who owns its buckets, and its lines."""


class MoveSync:
    """Carries the moves of a home out.

    `readers` keeps inputs for partners; `on_error` receives what was refused; `line_marks` returns
    the lines of a partner that this home may read.
    """

    def __init__(
        self,
        moves: Moves,
        catalog: MovingHome,
        readers: Readers,
        directory: Path,
        on_error: Callable[[Exception], None] = lambda error: None,
        line_marks: LineMarks = lambda partner: None,
    ) -> None:
        self._moves = moves
        self._line_marks = line_marks
        self._catalog = catalog
        self._readers = readers
        self._directory = directory
        self._on_error = on_error
        self._orders: dict[int, MoveOrder] = {}
        self._seen_lines: tuple[LineStatus, ...] | None = None
        self._agreeing: dict[StreamName, tuple[object, bool]] = {}
        self._reached: dict[int, tuple[tuple[int, ...], int]] = {}

    def settle(self) -> int:
        """Begin what rounds have agreed on, and do what is next for each move; how many changed."""
        changed = sum(map(self._begin, self._moves.to_begin()))
        moves = self._moves.open_moves()
        self._orders = {m.id: self._orders[m.id] for m in moves if m.id in self._orders}
        self._reached = {m.id: self._reached[m.id] for m in moves if m.id in self._reached}
        self._seen_lines = None
        for move in moves:
            try:
                changed += self._is_settled(move)
            except Conflict as error:
                # A line or a log has moved on meanwhile: the next look decides again.
                self._on_error(error)
            except Refused as error:
                self._on_error(Refused(f"move {move.number} of {move.fragment} ends: {error}"))
                state = MoveState.RETURNING
                state = state if move.state is MoveState.RELEASED else MoveState.ENDED
                changed += self._moves.settle(move.id, state, str(error)[:500])
        return changed

    def movable(self, fragments: Iterable[str]) -> Mapping[str, frozenset[OriginStream]]:
        """Those of this home's fragments that can be handed over as they are now, each with the
        streams of other participants that it reads."""
        return deployed_fragments(self._catalog).movable(fragments)

    def _begin(self, agreed: AgreedToGive) -> bool:
        """Hand over what a partner has accepted; what does not move any more is not given."""
        own = {a.fragment for a in self._catalog.assignments()}
        fragments = [name for name in sorted(own) if agreed.fragment in (called(name) or ())]
        reason = f"agreed in round {agreed.round} at {agreed.price} (level {agreed.level})"
        try:
            if len(fragments) != 1:
                raise Refused(f"{agreed.fragment} is not one fragment of this home")
            begin_move(
                self._moves,
                self._catalog,
                self._readers,
                contract=agreed.contract,
                provider=agreed.partner,
                fragment=fragments[0],
                reason=reason,
            )
        except Conflict as error:
            self._on_error(error)
            return False
        except Refused as error:
            self._on_error(Refused(f"{agreed.fragment} is not handed over: {error}"))
            return self._moves.lapse(agreed.id)
        return True

    def _is_settled(self, move: OpenMove) -> bool:
        here = self._catalog.participant
        payer = here if move.is_given else move.partner
        if move.id not in self._orders:
            self._orders[move.id] = order_in(move.order, Move(payer, move.number), move.fragment)
        order = self._orders[move.id]
        if move.state is MoveState.ENDED:
            self._leave(move, order)
            return False
        return self._pay(move, order) if move.is_given else self._provide(move, order)

    # ------------------------------------------------------------ the provider

    def _provide(self, move: OpenMove, order: MoveOrder) -> bool:
        if not move.is_in_force:
            reason = f"contract {move.contract} is not in force any more"
            return self._moves.settle(move.id, MoveState.ENDED, reason)
        if move.state is MoveState.STARTED:
            check_inputs(order, self._catalog, move.reads, move.readable)
            if move.age_ms > GRANTS_KNOWN_MS:
                self._check_published(order.inputs_from_others(self._catalog.participant))
        if move.state is not MoveState.ACCEPTED or move.waits:
            return False
        if move.lacks_room:
            reason = "what was to make room for it has not left"
            return self._moves.settle(move.id, MoveState.ENDED, reason)
        check_inputs(order, self._catalog, move.reads, move.readable)
        for deployment in provider_deployments(self._catalog, order, self._directory, move.earlier):
            self._catalog.deploy(deployment)
        reason = f"{self._catalog.participant} computes it from {iso(order.starts_us)} on"
        return self._moves.settle(move.id, MoveState.STARTED, reason)

    # ------------------------------------------------------------ the payer

    def _pay(self, move: OpenMove, order: MoveOrder) -> bool:
        if move.state is not MoveState.RETURNING:
            self._check_published(order.inputs_from_others(self._catalog.participant))
        if move.state is MoveState.ACCEPTED:
            hold_inputs(self._readers, order, move.partner)
        if move.state is MoveState.STARTED and not move.is_deployed:
            self._catalog.deploy(payer_deployment(self._catalog, order, move.partner))
        step = next_step(self._progress(move, order))
        if step is None:
            return False
        if step.from_us is not None:
            is_released = step.state is MoveState.RELEASED
            here = Producer(self._catalog.participant)
            owner = Producer(move.partner, order.replica) if is_released else here
            self._change_owner(move, owner, step.from_us, step.reason)
        if step.state is MoveState.ENDED:
            self._take_back(move, order, step.reason)
        return self._moves.settle(move.id, step.state, step.reason, step.lost_us)

    def _take_back(self, move: OpenMove, order: MoveOrder, reason: str) -> None:
        """This home owns the next bucket, whatever became of the provider."""
        here = Producer(self._catalog.participant)
        log = self._catalog.fragment_owners(move.fragment)
        lines = self._lines(order, here)
        has_ended = all(line.has_ended for line in lines)
        if log and log[-1].owner == Producer(move.partner, order.replica) and not has_ended:
            self._change_owner(move, here, max(map(_computed_us, lines)), reason)

    def _change_owner(self, move: OpenMove, owner: Producer, from_us: int, reason: str) -> None:
        log = self._catalog.fragment_owners(move.fragment)
        if log and log[-1].owner == owner:
            return
        self._catalog.change_owner(
            OwnerLine(
                fragment=move.fragment,
                epoch=Epoch(len(log) + 1),
                owner=owner,
                from_us=from_us,
                timeout_ms=adoption_wait_ms(move.method, move.recovery, move.bound_ms),
                because=f"move {move.number}: {reason}",
            )
        )

    def _check_published(self, inputs: Iterable[MovedInput]) -> None:
        """Refused if a participant does not publish one of its streams to this home any more."""
        for one in inputs:
            by, name = one.producer, one.stream.name
            marks = self._line_marks(by.participant)
            if marks is not None and (name, by.replica) not in marks:
                raise Refused(
                    f"{by.participant} does not let {self._catalog.participant} read {name}: ask "
                    "its operator to grant it"
                )

    def _progress(self, move: OpenMove, order: MoveOrder) -> MoveProgress:
        own = self._lines(order, Producer(self._catalog.participant))
        theirs = self._lines(order, Producer(move.partner, order.replica))
        has_all = len(theirs) == len(own) and all(line.origin_us is not None for line in theirs)
        return MoveProgress(
            state=move.state,
            age_ms=move.age_ms,
            is_in_force=move.is_in_force,
            own_us=min(map(_final_us, own)),
            computed_us=max(map(_computed_us, own)),
            provider_us=min(map(_final_us, theirs)) if has_all else None,
            width_us=max(line.stream.width_us for line in own),
            agrees=not has_all or all(map(self._agrees, own, theirs)),
            is_recalled=move.is_recalled,
            has_ended=all(line.has_ended for line in own),
            move_ms=move.move_ms,
            timeout_ms=timeout_ms(move.bound_ms),
            is_lossy=is_lossy(move.method, move.recovery),
            ready_us=self._ready_us(order),
            quiet_ms=self._quiet_ms(move, theirs),
        )

    def _ready_us(self, order: MoveOrder) -> int:
        """How far the inputs are final in this home, as the fragment reads them."""
        needed = {(one.stream.name, one.producer) for one in order.inputs}
        lines = self._seen_lines if self._seen_lines is not None else self._catalog.lines()
        found = [_final_us(x) for x in lines if (x.stream.name, x.producer) in needed]
        return min(found, default=0)

    def _quiet_ms(self, move: OpenMove, theirs: Iterable[LineStatus]) -> int:
        """For how long, as seen since this process began, the provider's line has not grown."""
        reached = tuple(map(_final_us, theirs))
        now_ms = self._catalog.read_clock_ms()
        if self._reached.get(move.id, (None, 0))[0] != reached:
            self._reached[move.id] = reached, now_ms
        return now_ms - self._reached[move.id][1]

    def _lines(self, order: MoveOrder, by: Producer) -> list[LineStatus]:
        """The lines of the fragment's outputs by a producer, by name."""
        outputs = outputs_of(order)
        if self._seen_lines is None:
            self._seen_lines = self._catalog.lines()
        lines = (line for line in self._seen_lines if line.producer == by)
        found = (line for line in lines if line.stream.name in outputs)
        return sorted(found, key=lambda line: line.stream.name)

    def _agrees(self, own: LineStatus, theirs: LineStatus) -> bool:
        """Whether the last buckets that are final in both lines have the same rows."""
        to_us, width_us = min(_final_us(own), _final_us(theirs)), own.stream.width_us
        kept_us = max(_us(line.kept_from_us) for line in (own, theirs))
        from_us = max(to_us - COMPARED_BUCKETS * width_us, kept_us)
        if from_us >= to_us:
            return True
        part, stream = Range(from_us, to_us), own.stream.name
        known = part, own.version, theirs.producer, theirs.version
        if self._agreeing.get(stream, (None, False))[0] != known:
            contents = {
                content_of(self._catalog.segments(stream, part, producer=line.producer), part)
                for line in (own, theirs)
            }
            self._agreeing[stream] = known, len(contents) == 1
        return self._agreeing[stream][1]

    def _leave(self, move: OpenMove, order: MoveOrder) -> None:
        """What has ended is computed and imported no more."""
        if move.is_given:
            # The partner's hold of the inputs runs out: another import may share it.
            self._take_back(move, order, "it has ended")
        self._catalog.stop_fragment(order.id)


def _final_us(line: LineStatus) -> int:
    return _us(line.stable_through_us)


def _computed_us(line: LineStatus) -> int:
    return _us(line.live_through_us)


def _us(at_us: int | None) -> int:
    return TIME_US_MIN if at_us is None else at_us
