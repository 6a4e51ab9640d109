"""A made-up import: whom a reader read each bucket of, and a cell of it as it is kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from bench.dpc.metrics import Episode, Lost, measure
from bench.dpc.replica_figures import Choice, Switch, measure_switch
from bench.dpc.scenario import REPLICAS
from tests.bench.dpc_building import SECOND_US, SETTLED_S, a_cell, a_history

LOST_MS, BACK_MS, WHOLE_MS = 100_300.0, 115_000.0, 118_000.0


def a_choice(at_s: int, of: str, committed_ms: float | None = None) -> Choice:
    """A bucket that is chosen 400 ms after its end."""
    chosen_ms = (at_s + 1) * 1e3 + 400 if committed_ms is None else committed_ms
    return Choice(committed_ms=chosen_ms, from_us=at_s * SECOND_US, to_us=(at_s + 1) * SECOND_US,
                  stability="stable", producers=(of,))  # fmt: skip


def choices_of(*, lost: str, then: str | None) -> list[Choice]:
    """Buckets 80 to 119: of the lost one up to its loss, then of another or, of nobody, as soon as
    it is back."""
    found = []
    for at in range(80, 120):
        usual = a_choice(at, lost)
        if usual.committed_ms < LOST_MS or usual.committed_ms >= BACK_MS + 1_000:
            found.append(usual)
        elif then is not None:
            found.append(a_choice(at, then))
        else:
            found.append(a_choice(at, lost, max(usual.committed_ms, BACK_MS + 700)))
    return found


def a_switch(
    choices: Sequence[Choice], lost: Sequence[str] = ("left",), divergences: int = 0
) -> Switch:
    return measure_switch(
        choices, lost=lost, replicas=REPLICAS, from_ms=LOST_MS, to_ms=BACK_MS,
        settled_ms=WHOLE_MS, divergences=divergences,
    )  # fmt: skip


def a_replica_cell(switch: Switch | None = None) -> dict[str, Any]:
    """Nothing tentative in it: it begins when all of the history is whole again."""
    shown = switch or a_switch(choices_of(lost="left", then="right"))
    lost = Lost(source="left", from_ms=133_000, to_ms=136_000)
    episode = Episode(began_ms=133_000, settled_ms=SETTLED_S * 1e3, lost=(lost,))
    return {
        **a_cell(measure(a_history(), episode)),
        "switch": json.loads(json.dumps(shown.document())),
    }
