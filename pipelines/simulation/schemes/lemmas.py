"""Small random markets against the theorems (experiment B7): each in a few milliseconds.

Half of them fit, half do not; graphs are sparse, so that load has to be relayed. `figures_of` holds
every one at rest against the move bound and the lemma, the course every move against its laws.
"""

from __future__ import annotations

from random import Random

from pipelines.simulation.schemes.drawn_worlds import Load, Sizes, make_world
from pipelines.simulation.schemes.measures import figures_of
from pipelines.simulation.schemes.worlds import Scheme

WORLDS = 600
ROUNDS_MAX = 2_000


def small_sizes(number: int) -> Sizes:
    """What the small market of a number is made by."""
    random = Random(f"small {number}")
    return Sizes(
        participants=random.randint(4, 30),
        contracts=random.randint(1, 3),
        levels=random.randint(0, 4),
        utilisation=random.choice((0.6, 0.8, 0.9, 0.95, 1.0, 1.05, 1.2)),
        load=random.choice(tuple(Load)),
        fragments=random.choice((20, 40, 80)),
    )


def lemma_failures(first: int, worlds: int, scheme: Scheme) -> list[str]:
    """Sentences about theorems that did not hold in the worlds of these numbers."""
    failures = []
    for number in range(first, first + worlds):
        sizes = small_sizes(number)
        world = make_world(sizes, number)
        figures = figures_of(world, scheme.run(world, ROUNDS_MAX), sizes.levels)
        failures += [f"world {number}: {violation}" for violation in figures.violations]
        if not figures.is_at_rest:
            failures.append(f"world {number}: it did not come to rest")
    return failures
