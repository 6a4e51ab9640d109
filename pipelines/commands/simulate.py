"""`medusa simulate faults`: schedules of faults against the product's decisions and catalogs."""

from __future__ import annotations

import json

from pipelines.simulation.events import Event
from pipelines.simulation.runs import RunFigures, run_schedules

VIOLATIONS_SHOWN_MAX = 10


def simulate_faults(*, schedules: int, seed: int, explain: bool, as_json: bool) -> int:
    """Run the schedules and print their figures; 1 if a law was broken or too little happened."""
    figures = run_schedules(
        schedules,
        seed,
        tell=_tell if explain else None,
        begun=_begun if explain else lambda number: None,
    )
    if as_json:
        print(json.dumps(figures.document(), indent=1))
    else:
        _print(figures)
    return 1 if figures.has_failed else 0


def _begun(seed: int) -> None:
    print(f"schedule {seed}")


def _tell(event: Event) -> None:
    print(event)


def _print(figures: RunFigures) -> None:
    for seed, violation in figures.violations[:VIOLATIONS_SHOWN_MAX]:
        print(f"schedule {seed}: {violation}")
        print(f"  see it: medusa simulate faults --schedules 1 --seed {seed} --explain")
    for shortfall in figures.shortfalls[:VIOLATIONS_SHOWN_MAX]:
        print(f"too little: {shortfall}")
    print(figures.line())
