"""The parts of a run: each is one world, or one experiment, and depends on its line alone.

A part is named by a line such as `cell contracts=3 levels=2 utilisation=0.95 load=pareto seed=4`,
so that a file can list the finished ones. Its results are JSON values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pipelines.simulation.schemes.changing_load import measure_changing
from pipelines.simulation.schemes.demo_phases import demo_failures, run_demo
from pipelines.simulation.schemes.drawn_worlds import Load, Sizes, make_world
from pipelines.simulation.schemes.lemmas import WORLDS, lemma_failures
from pipelines.simulation.schemes.measures import figures_of
from pipelines.simulation.schemes.misreporting import measure_misreporting
from pipelines.simulation.schemes.scheme_names import (
    BOUNDED,
    NAMES,
    PLAIN,
    ROUNDS_MAX,
    scheme_named,
)

SEEDS = 10
CELL, PUBLISHED, SPREAD, CHANGING, DEMO, SMALL, MISREPORT = (
    "cell",
    "published",
    "spread",
    "changing",
    "demo",
    "small",
    "misreport",
)
SMALL_PER_PART = 100
PAIR = (BOUNDED, PLAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One piece of work. `seed` is that of the world; of small worlds, the first number."""

    kind: str
    sizes: Sizes
    seed: int
    schemes: tuple[str, ...]

    @property
    def key(self) -> str:
        """Its name, which says all that it depends on."""
        s = self.sizes
        spread = f" spread={s.spread:g}" if s.spread else ""
        return (
            f"{self.kind} participants={s.participants} contracts={s.contracts} levels={s.levels} "
            f"utilisation={s.utilisation:g} load={s.load.value} fragments={s.fragments}{spread} "
            f"seed={self.seed} schemes={','.join(self.schemes)}"
        )


def matrix_parts(first_seed: int, seeds: int = SEEDS, base: Sizes | None = None) -> list[Part]:
    """All parts of a whole run: the matrix of papers 3.12 (B1-B3, B9), then the others."""
    of = base or Sizes()
    cells = [
        replace(of, contracts=contracts, levels=levels, utilisation=utilisation, load=load)
        for load in Load
        for utilisation in (0.8, 0.95)
        for contracts in (3, 5)
        for levels in (0, 1, 2, 4)
    ]
    few = range(first_seed, first_seed + min(seeds, 2))
    parts = [
        Part(kind=CELL, sizes=sizes, seed=seed, schemes=NAMES)
        for seed in range(first_seed, first_seed + seeds)
        for sizes in cells
    ]
    edges = [
        replace(of, contracts=contracts, levels=levels, utilisation=utilisation, load=load)
        for contracts, utilisation, load in (
            (1, 0.8, Load.UNIFORM),
            (10, 0.8, Load.UNIFORM),
            (10, 0.95, Load.UNIFORM),
            (10, 0.95, Load.PARETO),
            (5, 1.2, Load.PARETO),
            (10, 1.2, Load.PARETO),
        )
        for levels in (0, 1, 2, 4)
    ]
    parts += [Part(kind=PUBLISHED, sizes=s, seed=seed, schemes=PAIR) for seed in few for s in edges]
    middling = replace(of, contracts=5, levels=2, utilisation=0.95, load=Load.UNIFORM)
    parts += [
        Part(kind=SPREAD, sizes=replace(middling, spread=spread), seed=seed, schemes=PAIR)
        for seed in few
        for spread in (0.1, 0.2, 0.3)
    ]
    smaller = replace(middling, participants=min(of.participants, 200))
    for seed in few:
        parts.append(
            Part(kind=CHANGING, sizes=replace(smaller, utilisation=0.9), seed=seed, schemes=PAIR)
        )
        parts.append(Part(kind=MISREPORT, sizes=smaller, seed=seed, schemes=PAIR))
    parts.append(Part(kind=DEMO, sizes=middling, seed=0, schemes=PAIR))
    worlds = WORLDS if seeds >= SEEDS else SMALL_PER_PART
    parts += [
        Part(kind=SMALL, sizes=middling, seed=number, schemes=PAIR)
        for number in range(0, worlds, SMALL_PER_PART)
    ]
    return parts


def run_part(part: Part) -> dict[str, Any]:
    """What a part gives, by scheme; JSON values."""
    return {name: _run(part, name) for name in part.schemes}


def _run(part: Part, name: str) -> Any:
    scheme = scheme_named(name)
    match part.kind:
        case "cell" | "published" | "spread":
            world = make_world(part.sizes, part.seed)
            outcome = scheme.run(world, ROUNDS_MAX)
            return figures_of(world, outcome, part.sizes.levels).document()
        case "changing":
            return measure_changing(part.sizes, part.seed, scheme, ROUNDS_MAX)
        case "misreport":
            return measure_misreporting(part.sizes, part.seed, scheme, ROUNDS_MAX)
        case "demo":
            phases = run_demo(scheme)
            return {
                "phases": [phase.document() for phase in phases],
                "lines": [phase.line() for phase in phases],
                "failures": demo_failures(phases),
            }
        case "small":
            failures = lemma_failures(part.seed, SMALL_PER_PART, scheme)
            return {"worlds": SMALL_PER_PART, "failures": failures}
        case kind:
            raise AssertionError(kind)
