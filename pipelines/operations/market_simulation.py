"""Compare schemes of placing load on the same random markets."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from medusa_core.errors import Refused
from pipelines.simulation.progress import code_fingerprint
from pipelines.simulation.schemes.drawn_worlds import Load, Sizes
from pipelines.simulation.schemes.parts import CELL, SEEDS, Part, matrix_parts
from pipelines.simulation.schemes.run_file import kept_in
from pipelines.simulation.schemes.run_parts import run_parts
from pipelines.simulation.schemes.scheme_names import (
    NAMES,
    OPTIMUM,
    OPTIMUM_PARTICIPANTS_MAX,
    scheme_named,
)
from pipelines.simulation.schemes.verdict import missed

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketRequest:
    """Which markets and schemes; None is a size that was not given.

    `jobs`: number of processes, None for one per CPU. `resume`: file that keeps the parts that are
    done; the same request continues with it.
    """

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

    @property
    def is_matrix(self) -> bool:
        """Whether no world is described: the whole matrix of the comparison is run."""
        given = (self.contracts, self.levels, self.utilisation, self.load)
        return all(one is None for one in given) and not self.schemes


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketResult:
    """The figures of each part by its key, and a sentence for each target that was missed."""

    parts: tuple[Part, ...]
    figures: Mapping[str, Any]
    missed: tuple[str, ...]


Observer = Callable[[int, int], None]
"""Called with how many parts are done, and of how many: first with those of earlier runs."""


def simulate_market(request: MarketRequest, observer: Observer) -> MarketResult:
    """Run the parts; Refused for sizes that make no market."""
    parts = parts_of(request)
    keys = [part.key for part in parts]
    with kept_in(request.resume, keys, code_fingerprint()) as kept:
        observer(len(kept.done), len(parts))
        jobs = request.jobs or os.cpu_count() or 1
        run_parts(parts, kept, jobs, lambda done: observer(done, len(parts)))
        figures = kept.done
    return MarketResult(parts=tuple(parts), figures=figures, missed=tuple(missed(parts, figures)))


def parts_of(request: MarketRequest) -> list[Part]:
    """The parts that the options ask for; Refused for what makes no market."""
    if request.seeds is not None and not 1 <= request.seeds <= 1_000:
        raise Refused(f"--seeds {request.seeds}: write a number from 1 to 1,000")
    for name in request.schemes:
        scheme_named(name)
    common = Sizes()
    sizes = Sizes(
        participants=_or(request.participants, common.participants),
        contracts=_or(request.contracts, min(common.contracts, _or(request.participants, 995) - 1)),
        levels=_or(request.levels, common.levels),
        utilisation=_or(request.utilisation, common.utilisation),
        load=_load(request.load) if request.load is not None else common.load,
        fragments=_or(request.fragments, common.fragments),
    )
    if request.is_matrix:
        return matrix_parts(request.seed, request.seeds or SEEDS, sizes)
    schemes = tuple(name for name in NAMES if name in request.schemes)
    if not schemes:
        is_large = sizes.participants > OPTIMUM_PARTICIPANTS_MAX
        schemes = tuple(name for name in NAMES if not (is_large and name == OPTIMUM))
    seeds = range(request.seed, request.seed + (request.seeds or 1))
    return [Part(kind=CELL, sizes=sizes, seed=seed, schemes=schemes) for seed in seeds]


def _load(name: str) -> Load:
    try:
        return Load(name)
    except ValueError:
        known = ", ".join(load.value for load in Load)
        raise Refused(f"there is no load {name!r}: choose of {known}") from None


def _or(given: Number | None, otherwise: Number) -> Number:
    return otherwise if given is None else given
