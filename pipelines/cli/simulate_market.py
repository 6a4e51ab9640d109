"""`medusa simulate market`: schemes of placing load, on the same random markets."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from medusa_core.errors import Refused
from pipelines.base import clock
from pipelines.simulation.progress import code_fingerprint
from pipelines.simulation.schemes.drawn_worlds import Load, Sizes
from pipelines.simulation.schemes.parts import CELL, SEEDS, Part, matrix_parts
from pipelines.simulation.schemes.run_file import kept_in
from pipelines.simulation.schemes.run_parts import run_parts
from pipelines.simulation.schemes.run_text import lines_of, verdict_lines
from pipelines.simulation.schemes.scheme_names import (
    NAMES,
    OPTIMUM,
    OPTIMUM_PARTICIPANTS_MAX,
    scheme_named,
)
from pipelines.simulation.schemes.verdict import missed

TOLD_EVERY_S = 10.0

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options as they were given; None is one that was not."""

    participants: int | None = None
    contracts: int | None = None
    levels: int | None = None
    utilisation: float | None = None
    load: str | None = None
    fragments: int | None = None
    schemes: tuple[str, ...] = ()
    seed: int = 1
    seeds: int | None = None
    jobs: int | None = None
    resume: Path | None = None
    as_json: bool = False

    @property
    def is_matrix(self) -> bool:
        """Whether nothing says what world it is to be."""
        said = (self.contracts, self.levels, self.utilisation, self.load)
        return all(one is None for one in said) and not self.schemes


def market_of(options: argparse.Namespace) -> int:
    """What the command line asked for; see `simulate_market`."""
    for name in ("schedules", "trims", "replicas", "markets", "explain"):
        if getattr(options, name):
            raise Refused(f"--{name} is of `medusa simulate faults`: leave it out")
    asked = Asked(
        participants=options.participants,
        contracts=options.contracts,
        levels=options.levels,
        utilisation=options.utilisation,
        load=options.load,
        fragments=options.fragments,
        schemes=tuple(options.scheme or ()),
        seed=options.seed,
        seeds=options.seeds,
        jobs=options.jobs,
        resume=options.resume,
        as_json=options.json,
    )
    return simulate_market(asked)


def simulate_market(asked: Asked) -> int:
    """Run the parts that are asked for and print their figures; 1 if a target was missed or a law
    did not hold."""
    parts = parts_of(asked)
    keys = [part.key for part in parts]
    with kept_in(asked.resume, keys, code_fingerprint()) as kept:
        if kept.done:
            print(f"goes on: {len(kept.done)} of {len(parts)} parts were done", file=sys.stderr)
        last_s = clock.monotonic_s()

        def tell(done: int) -> None:
            nonlocal last_s
            if clock.monotonic_s() - last_s > TOLD_EVERY_S:
                last_s = clock.monotonic_s()
                print(f"{done} of {len(parts)} parts done", file=sys.stderr, flush=True)

        run_parts(parts, kept, asked.jobs or os.cpu_count() or 1, tell)
        done = kept.done
    failures = missed(parts, done)
    if asked.as_json:
        given = {part.key: done[part.key] for part in parts}
        print(json.dumps({"parts": given, "missed": failures}, indent=1))
    else:
        for line in (*lines_of(parts, done), *verdict_lines(parts, failures)):
            print(line)
    return 1 if failures else 0


def parts_of(asked: Asked) -> list[Part]:
    """The parts that the options ask for; Refused for what makes no market."""
    if asked.seeds is not None and not 1 <= asked.seeds <= 1_000:
        raise Refused(f"--seeds {asked.seeds}: write a number from 1 to 1,000")
    for name in asked.schemes:
        scheme_named(name)
    common = Sizes()
    sizes = Sizes(
        participants=_or(asked.participants, common.participants),
        contracts=_or(asked.contracts, min(common.contracts, _or(asked.participants, 995) - 1)),
        levels=_or(asked.levels, common.levels),
        utilisation=_or(asked.utilisation, common.utilisation),
        load=_load(asked.load) if asked.load is not None else common.load,
        fragments=_or(asked.fragments, common.fragments),
    )
    if asked.is_matrix:
        return matrix_parts(asked.seed, asked.seeds or SEEDS, sizes)
    schemes = tuple(name for name in NAMES if name in asked.schemes)
    if not schemes:
        is_large = sizes.participants > OPTIMUM_PARTICIPANTS_MAX
        schemes = tuple(name for name in NAMES if not (is_large and name == OPTIMUM))
    seeds = range(asked.seed, asked.seed + (asked.seeds or 1))
    return [Part(kind=CELL, sizes=sizes, seed=seed, schemes=schemes) for seed in seeds]


def _load(name: str) -> Load:
    try:
        return Load(name)
    except ValueError:
        known = ", ".join(load.value for load in Load)
        raise Refused(f"there is no load {name!r}: choose of {known}") from None


def _or(given: Number | None, otherwise: Number) -> Number:
    return otherwise if given is None else given
