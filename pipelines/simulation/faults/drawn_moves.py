"""Moves of a schedule: who hands which fragment over to whom, when, and how it comes back.

A provider has nothing of the network at first, as a partner that lends its machine; a fragment that
moves reads only what its payer lands or computes. Drawn from a separate random sequence, so that
schedules without moves do not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import TYPE_CHECKING

from medusa_core.fragments import Fragment
from medusa_core.names import Participant, StreamName
from pipelines.simulation.faults.schedule_shapes import Shape

if TYPE_CHECKING:
    from pipelines.simulation.faults.scenario import FeedBatch

LASTS_MS = (2_000, 14_000)
"""After how long a fragment is taken back, from the begin of its move on."""

MOVE_MS = (4_000, 15_000)
AGAIN, KILLED, LOST, BOUNDED, IN_TIME = 0.4, 0.5, 0.15, 0.6, 0.7
"""With which probability a fragment moves a second time, a process is killed in a transaction about
a move, a provider is lost for good, a contract has a bound, and is in force from the begin on."""

WAITS_MS = (500, 4_000)
"""How long a contract that is not in force from the begin on is only agreed at its provider."""


WRONG_AFTER = (0, 2)
"""After how many buckets with rows a provider makes its wrong row."""


class Return(Enum):
    """How a move ends, if nothing else ends it before."""

    BY_PAYER = "by the payer"
    BY_PROVIDER = "by the provider"
    BY_CONTRACT = "with its contract"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnMove:
    """A move: when it begins and for how long, how it returns, and whose process is killed."""

    number: int
    payer: Participant
    provider: Participant
    fragment: str
    at_ms: int
    lasts_ms: int
    returns: Return
    bound_ms: int | None
    in_force_ms: int
    killed: Participant | None

    @property
    def contract(self) -> str:
        """The contract of this move alone."""
        return f"move_{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongRow:
    """A provider that makes one wrong row in an output of a fragment that it computes for another:
    in the bucket after so many with rows of its first move."""

    provider: Participant
    fragment: str
    stream: StreamName
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnMoves:
    """The moves of a schedule; `lost` are providers that are away for good from a time on, with
    their catalog if it says so; `wrong` makes a wrong row."""

    moves: tuple[DrawnMove, ...] = ()
    move_ms: int = 0
    providers: tuple[Participant, ...] = ()
    lost: Mapping[Participant, tuple[int, bool]]
    wrong: WrongRow | None = None

    @property
    def occur(self) -> bool:
        """Whether there are any."""
        return bool(self.providers)

    def partners(self, participant: Participant) -> frozenset[Participant]:
        """With whom a participant has a move."""
        pairs = [(move.payer, move.provider) for move in self.moves]
        pairs += [(provider, payer) for payer, provider in pairs]
        return frozenset(other for one, other in pairs if one == participant)


NO_MOVES = DrawnMoves(lost={})


def draw_providers(
    seed: int, shape: Shape, participants: Sequence[Participant]
) -> tuple[Participant, ...]:
    """Those who have nothing of the network."""
    if not shape.moves[1]:
        return ()
    chance = Random(f"providers {seed}")
    return tuple(participants[-chance.randint(1, len(participants) - 2) :])


def placed_with_payers(
    seed: int, providers: Sequence[Participant], fragments: Mapping[str, Fragment],
    placed: Mapping[str, Participant],
) -> dict[str, Participant]:  # fmt: skip
    """Where everything is, so that providers have nothing and several fragments can move."""
    if not providers:
        return dict(placed)
    chance = Random(f"payers {seed}")
    payers = [p for p in dict.fromkeys(sorted(placed.values())) if p not in providers]
    found = {
        task: chance.choice(payers) if owner in providers else owner
        for task, owner in placed.items()
    }
    if not any(is_movable(name, fragments, found) for name in fragments):
        name = chance.choice(list(fragments))
        for stream in fragments[name].input_streams:
            found[_writer(stream, fragments)] = found[name]
    return found


def is_movable(
    name: str, fragments: Mapping[str, Fragment], placed: Mapping[str, Participant]
) -> bool:
    """Whether a fragment reads only what its own participant lands or computes."""
    return all(
        placed[_writer(stream, fragments)] == placed[name]
        for stream in fragments[name].input_streams
    )


def _writer(stream: StreamName, fragments: Mapping[str, Fragment]) -> str:
    return next((n for n, f in fragments.items() if stream in f.outputs), f"landing/{stream}")


def draw_moves(
    seed: int, shape: Shape, providers: tuple[Participant, ...],
    fragments: Mapping[str, Fragment], placed: Mapping[str, Participant],
    feeds: Mapping[StreamName, tuple[FeedBatch, ...]],
) -> DrawnMoves:  # fmt: skip
    """The moves of a seed; none if the shape has none."""
    if not providers:
        return NO_MOVES
    chance = Random(f"moves {seed}")
    movable = [name for name in fragments if is_movable(name, fragments, placed)]
    fed_ms = max(feed[-1].at_ms for feed in feeds.values())
    moves: list[DrawnMove] = []
    for _ in range(chance.randint(*shape.moves)):
        fragment, at_ms = chance.choice(movable), chance.randint(shape.first_ms // 2, fed_ms)
        for _ in range(2 if chance.random() < AGAIN else 1):
            provider, lasts_ms = chance.choice(providers), chance.randint(*LASTS_MS)
            killed = chance.choice((placed[fragment], provider))
            waits_ms = chance.randint(*WAITS_MS)
            moves.append(
                DrawnMove(
                    number=len(moves) + 1,
                    payer=placed[fragment],
                    provider=provider,
                    fragment=fragment,
                    at_ms=at_ms,
                    lasts_ms=lasts_ms,
                    returns=chance.choice(list(Return)),
                    bound_ms=chance.randint(500, 4_000) if chance.random() < BOUNDED else None,
                    in_force_ms=0 if chance.random() < IN_TIME else at_ms + waits_ms,
                    killed=killed if chance.random() < KILLED else None,
                )
            )
            at_ms += lasts_ms + chance.randint(100, 3_000)
    return DrawnMoves(
        moves=tuple(moves),
        move_ms=chance.randint(*MOVE_MS),
        providers=providers,
        lost={
            provider: (chance.randint(shape.first_ms, fed_ms), chance.random() < 0.5)
            for provider in providers
            if chance.random() < LOST
        },
        wrong=_draw_wrong(seed, shape, moves, fragments),
    )


def _draw_wrong(
    seed: int, shape: Shape, moves: Sequence[DrawnMove], fragments: Mapping[str, Fragment]
) -> WrongRow | None:
    """What is wrong; no stream that its own fragment reads, so that it is one row in one bucket."""
    chance = Random(f"wrong provider {seed}")
    move = chance.choice(moves)
    fragment = fragments[move.fragment]
    outputs = sorted(set(fragment.outputs) - set(fragment.input_streams))
    if chance.random() >= shape.diverges or not outputs:
        return None
    return WrongRow(
        provider=move.provider,
        fragment=move.fragment,
        stream=chance.choice(outputs),
        after=chance.randint(*WRONG_AFTER),
    )
