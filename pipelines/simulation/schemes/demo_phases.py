"""The four phases of the demonstration (papers: 3.13, experiment B6) for one scheme.

A, B and C have contracts with each other at one price. (1) Their loads differ, none is over its
threshold: nothing moves. (2) A is overloaded: it hands load to B and C until all is acceptable.
(3) B's load rises: the whole does not fit any more, and no participant has headroom. (4) D joins,
with contracts with C at 0.8 of the price: load flows from C to D and from B to C until all is
acceptable again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipelines.simulation.schemes.acceptable import ACCEPTABLE, acceptance_of
from pipelines.simulation.schemes.drawn_worlds import UNIT, costs_of, price_range
from pipelines.simulation.schemes.worlds import Contract, Scheme, World

THRESHOLD = 80
A, B, C, D = range(4)
NAMES = "ABCD"
ROUNDS_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """How a phase ended: what each carries, and who handed how much to whom, first to last."""

    what: str
    units: tuple[int, ...]
    flows: Mapping[tuple[int, int], int]
    is_at_rest: bool
    acceptance: str
    violations: tuple[str, ...]

    def line(self) -> str:
        """For people."""
        carried = " ".join(f"{name}={n}" for name, n in zip(NAMES, self.units, strict=False))
        flows = ", ".join(
            f"{NAMES[one]}->{NAMES[other]} {n}" for (one, other), n in sorted(self.flows.items())
        )
        return f"{self.what}: {flows or 'nothing moves'}; {carried} ({self.acceptance})"

    def document(self) -> dict[str, object]:
        """As JSON values."""
        return {
            "phase": self.what,
            "units": list(self.units),
            "flows": {f"{NAMES[a]}->{NAMES[b]}": n for (a, b), n in sorted(self.flows.items())},
            "is_at_rest": self.is_at_rest,
            "acceptance": self.acceptance,
            "violations": list(self.violations),
        }


def run_demo(scheme: Scheme) -> list[Phase]:
    """Play the phases one after the other; each begins where the one before ended."""
    phases = [_phase(scheme, "uneven load", (60, 50, 40))]
    phases.append(_phase(scheme, "A overloads", _more(phases[-1], A, 60)))
    phases.append(_phase(scheme, "load rises at B", _more(phases[-1], B, 60)))
    phases.append(_phase(scheme, "D joins at 0.8 of the price", (*phases[-1].units, 10)))
    return phases


def demo_failures(phases: list[Phase]) -> list[str]:
    """Sentences about what did not go as expected."""
    uneven, overload, too_much, joined = phases
    failures = [f"{p.what}: it did not come to rest" for p in phases if not p.is_at_rest]
    failures += [f"{p.what}: {one}" for p in phases for one in p.violations]
    failures += [f"{p.what}: it ended {p.acceptance}" for p in phases if p.acceptance != ACCEPTABLE]
    expected = {
        uneven.what: (uneven, set()),
        overload.what: (overload, {(A, B), (A, C)}),
        too_much.what: (too_much, {(B, C)}),
        joined.what: (joined, {(C, D), (B, C)}),
    }
    for what, (phase, pairs) in expected.items():
        if set(phase.flows) != pairs:
            named = ", ".join(f"{NAMES[a]}->{NAMES[b]}" for a, b in sorted(pairs)) or "nothing"
            failures.append(f"{what}: expected was {named}, seen {phase.line()}")
    return failures


def _more(phase: Phase, who: int, units: int) -> tuple[int, ...]:
    return tuple(n + units * (at == who) for at, n in enumerate(phase.units))


def _phase(scheme: Scheme, what: str, units: tuple[int, ...]) -> Phase:
    world = demo_world(units)
    outcome = scheme.run(world, ROUNDS_MAX)
    return Phase(
        what=what,
        units=outcome.units,
        flows=dict(outcome.flows),
        is_at_rest=outcome.is_at_rest,
        acceptance=acceptance_of(world, outcome.units, 0),
        violations=outcome.violations,
    )


def demo_world(units: tuple[int, ...]) -> World:
    """A, B, C with contracts at one price; a fourth has cheaper ones with C."""
    common, cheaper = price_range(THRESHOLD, 0), price_range(THRESHOLD, 0, 0.8)
    trio = [Contract(one, other, common) for one in (A, B, C) for other in (A, B, C)]
    contracts = [contract for contract in trio if contract.payer != contract.provider]
    if len(units) > D:
        contracts += [Contract(C, D, cheaper), Contract(D, C, cheaper)]
    thresholds = [THRESHOLD] * len(units)
    return World(
        seed=0,
        unit=UNIT,
        thresholds=thresholds,
        costs=costs_of(thresholds),
        contracts=contracts,
        homes=[home for home, n in enumerate(units) for _ in range(n)],
        initial=sum(units),
    )
