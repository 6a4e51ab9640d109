"""What an owner sees of load and of what it costs, and what nobody is told."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from medusa_core.commits import Cause, Lane
from medusa_core.loads import ActivityKind, Load, LoadKey, LoadSample, Shares
from medusa_core.market.costs import Queue
from medusa_core.market.declared import DeclaredCost, marginal_costs
from pipelines.cli.main import main
from pipelines.homes.home import open_home
from tests.catalog import building as a
from tests.cli.watched import Watched

Status = Callable[..., str]
MAIN, LANDING = LoadKey(a.MAIN, 0, Cause.NORMAL), LoadKey(a.LANDING, 0, Cause.LANDING)
CORRECTED = LoadKey(a.MAIN, 0, Cause.CORRECTION)
SHARES = Shares(
    by_key={MAIN: 9_000_000, CORRECTED: 4_000_000, LANDING: 1_000_000},
    kinds={ActivityKind.UNATTRIBUTED: 1_000_000, ActivityKind.HOUSEKEEPING: 1_000_000},
)
SCALE = 7.346291
WIDTH_MAX = 100
FORGET = """
    SET session_replication_role = replica;
    TRUNCATE medusa_market.load_sample, medusa_market.load_part, medusa_market.cost_function;
    SET session_replication_role = DEFAULT
"""
"""What the administrator of a server can do to a home, and nobody else."""


@pytest.fixture
def status(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Status:
    """Run `medusa status` of alpha, which has just recorded ten seconds of load."""
    with open_home(watched.settings, a.ALPHA) as home:
        watched.change(FORGET)
        home.catalog.record_load(
            LoadSample(driver="d", number=1, lane=Lane.LIVE, length_ms=10_000, shares=SHARES)
        )

    def run(*arguments: str) -> str:
        for name, value in watched.environment().items():
            monkeypatch.setenv(name, value)
        assert main(["status", "--participant", "alpha", *arguments]) == 0
        return capsys.readouterr().out

    return run


def test_before_a_cost_is_declared_load_is_shown_without_one(status: Status) -> None:
    (home,) = json.loads(status("--json"))["homes"]
    load = home["load"]
    assert (load["total"], load["carried"], load["corrections"]) == (1.6, 1.2, 0.4)
    assert load["unattributed_percent"] == 6.25
    assert load["kinds"] == {"housekeeping": 0.1, "unattributed": 0.1}
    main_, landing = sorted(load["fragments"], key=lambda f: -f["load"])
    assert (main_["fragment"], main_["load"]) == (a.MAIN, 0.9)
    assert main_["by_cause"] == {"correction": 0.4, "normal": 0.9}
    assert landing["fragment"] == a.LANDING
    assert (main_["marginal_cost"], load["declared"]) == (None, None)
    assert "not declared: see docs/load.md" in " ".join(status().split())


def test_an_owner_sees_what_each_fragment_costs_at_the_margin_and_no_cost_function(
    status: Status, watched: Watched
) -> None:
    watched.change(
        "INSERT INTO medusa_api.cost (kind, capacity, scale, threshold, currency) "
        f"VALUES ('queue', 2, {SCALE}, 1.0, 'EUR')"
    )
    whole = status("--json")
    (home,) = json.loads(whole)["homes"]
    load, declared = home["load"], home["load"]["declared"]
    same = DeclaredCost(cost=Queue(2.0, SCALE), threshold=1.0, currency="EUR")
    costs = marginal_costs(
        same,
        Load(
            window_ms=10_000,
            kinds={k: us / 1e7 for k, us in SHARES.kinds.items()},
            by_key={k: us / 1e7 for k, us in SHARES.by_key.items()},
        ),
    )
    shown = {(f["fragment"], f["partition"]): f["marginal_cost"] for f in load["fragments"]}
    assert shown == pytest.approx(costs)
    assert (declared["threshold"], declared["is_above"], declared["currency"]) == (1.0, True, "EUR")
    text = status()
    lines = text.splitlines()
    assert "threshold 1, which it is above" in " ".join(text.split())
    assert max(len(line) for line in lines if not line.startswith("folder")) <= WIDTH_MAX
    assert str(SCALE) not in whole + text


def test_a_home_in_which_nothing_ran_for_a_minute_has_no_load(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in watched.environment().items():
        monkeypatch.setenv(name, value)
    assert main(["status", "--participant", "beta", "--json"]) == 0
    (home,) = json.loads(capsys.readouterr().out)["homes"]
    assert home["load"] is None
