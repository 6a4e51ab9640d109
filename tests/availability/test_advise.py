"""`medusa advise`: what is measured in a home, what is assumed, and what is recommended."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from medusa_core.bounds import Bound
from medusa_core.commits import Cause, Lane
from medusa_core.loads import LoadKey, LoadSample, Shares
from medusa_core.names import StreamName
from pipelines.cli.main import main
from pipelines.homes.home import open_home
from tests.catalog import building as a
from tests.cli.watched import Watched

NETWORK = "example"
Advise = Callable[..., tuple[int, str]]


@pytest.fixture
def advise(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Advise:
    for name, value in watched.environment().items():
        monkeypatch.setenv(name, value)

    def run(*words: str) -> tuple[int, str]:
        status = main(["advise", *words])
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    return run


def documents(advise: Advise, *words: str) -> dict[str, dict[str, Any]]:
    _, text = advise(NETWORK, "--participant", "alpha", "--json", *words)
    return {f["fragment"]: f for f in json.loads(text)["fragments"]}


def recommended(fragment: dict[str, Any]) -> tuple[str, str] | None:
    found = [(o["method"], o["recovery"]) for o in fragment["options"] if o["is_recommended"]]
    return found[0] if found else None


def test_rates_are_those_of_the_rows_and_what_is_not_measured_is_said_to_be_assumed(
    advise: Advise,
) -> None:
    figures = documents(advise)[a.MAIN]["figures"]
    second = a.WIDTH_US / 1_000_000
    assert figures["input_records"] == {"value": pytest.approx(5 / second), "assumption": None}
    assert figures["output_records"]["value"] > 0
    assert "lease" in figures["takeover_ms"]["assumption"]
    assert "no load was recorded" in figures["cpu"]["assumption"]
    status, text = advise(NETWORK, "--participant", "alpha")
    assert status == 0
    assert "assumed: takeover_ms is 19,000, since it is not measured: a lease of" in text


def test_a_recorded_load_takes_the_place_of_the_assumption(
    advise: Advise, watched: Watched
) -> None:
    shares = Shares(by_key={LoadKey(a.MAIN, 0, Cause.NORMAL): 9_000_000}, kinds={})
    sample = LoadSample(driver="d", number=1, lane=Lane.LIVE, length_ms=10_000, shares=shares)
    with open_home(watched.settings, a.ALPHA) as home:
        home.catalog.record_load(sample)
    main_fragment = documents(advise)[a.MAIN]
    assert main_fragment["figures"]["cpu"] == {"value": pytest.approx(0.9), "assumption": None}
    active = next(o for o in main_fragment["options"] if o["method"] == "active_standby")
    assert active["cpu"] >= 0.9


def test_a_short_bound_is_met_by_active_standby_alone_and_none_by_storage(
    advise: Advise,
) -> None:
    assert recommended(documents(advise)[a.MAIN]) == ("upstream_backup", "precise")
    assert recommended(documents(advise, "--bound", "5s")[a.MAIN]) == ("active_standby", "precise")
    assert recommended(documents(advise, "--recovery", "gap")[a.MAIN]) == ("amnesia", "gap")


def test_a_takeover_that_was_measured_makes_a_cheaper_method_fast_enough(advise: Advise) -> None:
    found = documents(advise, "--bound", "5s", "--takeover", "1s")[a.MAIN]
    assert found["figures"]["takeover_ms"] == {"value": 1_000, "assumption": None}
    assert recommended(found) == ("upstream_backup", "precise")


def test_a_bound_that_no_method_meets_is_a_failed_check(advise: Advise) -> None:
    status, text = advise(NETWORK, "--participant", "alpha", "--bound", "1ms")
    assert status == 1
    assert "no method meets the promise: promise a longer bound" in text


def test_the_declared_bound_of_an_output_is_the_promise(advise: Advise, watched: Watched) -> None:
    with open_home(watched.settings, a.ALPHA) as home:
        home.catalog.declare_bound(StreamName(a.SUMS), Bound(bound_ms=7_000), 0)
        try:
            promise = documents(advise)[a.MAIN]["promise"]
        finally:
            home.catalog.declare_bound(StreamName(a.SUMS), None, 0)
    assert promise == {
        "recovery": "rollback", "bound_ms": 7_000, "source": f"the bound of {a.SUMS}"
    }  # fmt: skip


def test_a_network_that_is_not_computed_here_is_refused_with_those_that_are(
    advise: Advise,
) -> None:
    status, text = advise(f"{NETWORK}s", "--participant", "alpha")
    assert status == 2
    assert f"alpha computes no fragment of network '{NETWORK}s': did you mean" in text
