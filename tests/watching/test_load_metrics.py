"""Load as a scraper gets it: of the participant's own fragments, and never what it costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from medusa_core.commits import Cause, Lane
from medusa_core.loads import ActivityKind, LoadKey, LoadSample, Shares
from medusa_core.market.costs import Queue
from medusa_core.market.declared import DeclaredCost
from pipelines.watching.watcher import Watcher
from tests.catalog import building as a
from tests.watching.homes import World
from tests.watching.test_metrics import scrape

CANARY = 48_151.625


def test_load_is_told_by_fragment_and_cause_but_not_its_cost_nor_the_threshold(
    tmp_path: Path,
) -> None:
    world = World()
    cost = DeclaredCost(cost=Queue(2 * CANARY), threshold=CANARY, currency="EUR")
    world.catalog.declare_cost(cost)
    shares = Shares(
        by_key={
            LoadKey(a.MAIN, 0, Cause.NORMAL): 5_000_000,
            LoadKey(a.MAIN, 0, Cause.CORRECTION): 1_000_000,
        },
        kinds={ActivityKind.UNATTRIBUTED: 250_000},
    )
    with Watcher(a.ALPHA, tmp_path, catalog=world.catalog, metrics_at=("127.0.0.1", 0)) as watcher:
        assert "medusa_load" not in scrape(watcher).text
        world.catalog.record_load(
            LoadSample(driver="d", number=1, lane=Lane.LIVE, length_ms=10_000, shares=shares)
        )
        scraped = scrape(watcher)
        for cause, load in (("normal", 0.5), ("correction", 0.1)):
            found = scraped("load", fragment=a.MAIN, partition="0", cause=cause)
            assert found == pytest.approx(load)
        assert scraped("other_load", kind="unattributed") == pytest.approx(0.025)
        assert scraped("other_load", kind="delivery") == 0
        for private in ("48151", "96303", "threshold", "marginal", "cost"):
            assert private not in scraped.text
