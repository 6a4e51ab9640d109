"""A made-up catalog of a chain, and cells as they are kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bench.dpc.history import History, Version
from bench.dpc.metrics import CellFigures, Episode, Lost

SECOND_US = 1_000_000
STEP_MS, WAIT_MS, LATE_MS = 200.0, 9_000.0, 500.0
CUT_S, HEAL_S, SETTLED_S = 100, 130, 140
ROWS = 50


def a_version(commit: int, at_s: int, committed_ms: float, stability: str = "stable", *,
              cause: str = "normal", rows: int = ROWS) -> Version:  # fmt: skip
    return Version(
        commit=commit, committed_ms=committed_ms, cause=cause, stability=stability,
        from_us=at_s * SECOND_US, to_us=(at_s + 1) * SECOND_US, rows={at_s * SECOND_US: rows},
        step_ms=STEP_MS,
    )  # fmt: skip


def a_history(hops: int = 1, corrected_after_ms: float = 1_000.0) -> History:
    """Buckets 60 to 139. `first` is lost from 100 s to 130 s; answers wait for 9 s, once.

    A source closes a bucket 100 ms after its end, a hop takes 500 ms.
    """
    landed = {
        name: tuple(a_version(at, at, (at + 1) * 1e3 + 100) for at in range(60, 140))
        for name in ("first", "second", "third")
    }
    made: list[tuple[Version, ...]] = []
    for hop in range(1, hops + 1):
        versions = []
        for at in range(60, 140):
            ready_ms = (at + 1) * 1e3 + 100 + LATE_MS * hop
            if not CUT_S <= at < HEAL_S:
                versions.append(a_version(at, at, ready_ms))
                continue
            first_ms = CUT_S * 1e3 + 1_100 + WAIT_MS + LATE_MS * hop
            versions.append(a_version(at, at, max(ready_ms, first_ms), "tentative", rows=30))
            final_ms = HEAL_S * 1e3 + corrected_after_ms + LATE_MS * (hop - 1)
            versions.append(a_version(1_000 + at, at, final_ms, cause="correction"))
        made.append(tuple(versions))
    return History(width_us=SECOND_US, landed=landed, hops=tuple(made))


EPISODE = Episode(
    began_ms=CUT_S * 1e3 + 950,
    settled_ms=SETTLED_S * 1e3,
    lost=(Lost(source="first", from_ms=CUT_S * 1e3 + 950, to_ms=HEAL_S * 1e3),),
)


ORACLE = {"rows": 100, "lost": 0, "extra": 0}


def a_cell(figures: CellFigures, oracle: Mapping[str, Any] = ORACLE) -> dict[str, Any]:
    return {
        "figures": json.loads(json.dumps(figures.document())),
        "oracle": dict(oracle),
        "machine": {"load_after": [1.5, 1.0, 1.0]},
    }
