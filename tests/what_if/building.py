"""Homes with recorded load, and questions about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medusa_core.commits import Cause, Lane
from medusa_core.loads import LoadKey, LoadSample, Shares
from pipelines.market.what_if.analysis import WhatIf, ask_what_if
from pipelines.market.what_if.edits import parse_edit
from tests.rounds.building import FORGET, PERIOD_MS, Trader, parts

HOUR_MS = 3_600_000
BUSY, QUIET = parts(9), parts(9, 0.01)
Pair = tuple[Trader, Trader]
WITHOUT_A_GAP = f"""
    UPDATE medusa_market.load_sample AS s
    SET ended_at = newest.ended_at - (newest.number - s.number) * interval '{PERIOD_MS} ms'
    FROM (SELECT number, ended_at FROM medusa_market.load_sample ORDER BY number DESC LIMIT 1)
        AS newest"""


def records(trader: Trader, minutes: Sequence[Mapping[str, float]]) -> None:
    """The load of these minutes, by fragment, the last one ending now, as its loop records it."""
    trader.in_time(FORGET)
    for number, minute in enumerate(minutes, 1):
        by_key = {
            LoadKey(f"trade/{name}", 0, Cause.NORMAL): round(load * PERIOD_MS * 1_000)
            for name, load in minute.items()
        }
        trader.catalog.record_load(
            LoadSample(
                driver=f"a recording of {trader.name}", number=number, lane=Lane.LIVE,
                length_ms=PERIOD_MS, shares=Shares(by_key=by_key),
                ended_ago_ms=(len(minutes) - number) * PERIOD_MS,
            )
        )  # fmt: skip
    # Each was recorded by the clock of its own moment: what a busy machine took between is no load.
    trader.in_time(WITHOUT_A_GAP)


def ask(trader: Trader, *edits: str, over_ms: int = HOUR_MS) -> WhatIf:
    """What if its contracts were edited so?"""
    parsed = [parse_edit(edit) for edit in edits]
    return ask_what_if(trader.party.urls.job, trader.name, parsed, (), over_ms)
