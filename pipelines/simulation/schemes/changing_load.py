"""Load that changes (experiment B4): fragments begin and end anywhere, and spikes come and return.

Every few rounds some participants' queries begin or end; now and then one participant's load rises
by half its threshold at once, and the same fragments end some rounds later, wherever they lie then.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from pipelines.simulation.schemes.drawn_worlds import Sizes, make_world
from pipelines.simulation.schemes.measures import rounds_to
from pipelines.simulation.schemes.worlds import Change, Outcome, Scheme, World

CHANGES, EVERY_ROUNDS = 20, 10
PARTICIPANTS_CHANGED, UNITS_CHANGED_MAX = 0.05, 8
SPIKE_LASTS = 3
"""Changes after which a spike ends; every third change begins one."""


def make_changing_world(sizes: Sizes, seed: int) -> World:
    """The world of a seed, and what changes in it: round 10, 20, and so on."""
    world = make_world(sizes, seed)
    random = Random(f"changes {seed}")
    there: list[list[int]] = [[] for _ in range(world.participants)]
    for fragment, home in enumerate(world.homes):
        there[home].append(fragment)
    homes = list(world.homes)
    ends: dict[int, list[int]] = {}
    changes = []
    for number in range(1, CHANGES + SPIKE_LASTS + 1):
        arrived: list[int] = []
        departed = ends.pop(number, [])

        def begin(home: int, units: int, arrived: list[int] = arrived) -> list[int]:
            begun = list(range(len(homes), len(homes) + units))
            homes.extend([home] * units)
            arrived += begun
            return begun

        if number <= CHANGES:
            for _ in range(max(1, int(world.participants * PARTICIPANTS_CHANGED))):
                home = random.randrange(world.participants)
                units = random.randint(1, UNITS_CHANGED_MAX)
                if random.random() < 0.5:
                    there[home] += begin(home, units)
                else:
                    departed += [there[home].pop() for _ in range(min(units, len(there[home])))]
            if number % SPIKE_LASTS == 1:
                home = random.randrange(world.participants)
                ends[number + SPIKE_LASTS] = begin(home, world.thresholds[home] // 2)
        # What began in this very change cannot end in it.
        gone = set(departed) - set(arrived)
        changes.append(
            Change(
                round=number * EVERY_ROUNDS,
                arrived=tuple(arrived),
                departed=tuple(sorted(gone)),
            )
        )
    return replace(world, homes=tuple(homes), changes=tuple(changes))


def measure_changing(sizes: Sizes, seed: int, scheme: Scheme, rounds_max: int) -> dict[str, object]:
    """A run's moves against what changed, its excess between the changes, and its rest."""
    world = make_changing_world(sizes, seed)
    outcome = scheme.run(world, rounds_max)
    first = world.changes[0].round
    changed = sum(len(c.arrived) + len(c.departed) for c in world.changes)
    moves_before = sum(one.moves for one in outcome.rounds[:first])
    moves = sum(one.moves for one in outcome.rounds)
    last = max((at for at, one in enumerate(outcome.rounds) if one.moves), default=0)
    brought = outcome.rounds[0].excess + sum(len(c.arrived) for c in world.changes)
    levels = sizes.levels
    bound = (levels + 1) * brought + world.participants * levels * (levels + 1) // 2
    return {
        "is_at_rest": outcome.is_at_rest,
        "units_changed": changed,
        "moves_after": moves - moves_before,
        "moves_per_changed_unit": (moves - moves_before) / changed,
        "excess_before_changes": _before(outcome, world.changes),
        "excess_after": outcome.rounds[-1].excess,
        "rounds_to_rest_after": max(last - world.changes_until, 0),
        "rounds_to_95": rounds_to(outcome, 0.95),
        "is_within_move_bound": moves <= bound,
        "violations": list(outcome.violations),
    }


def _before(outcome: Outcome, changes: tuple[Change, ...]) -> float:
    """The mean excess that was left when the next change came."""
    left = [outcome.rounds[c.round - 1].excess for c in changes if c.round <= len(outcome.rounds)]
    return sum(left) / max(len(left), 1)
