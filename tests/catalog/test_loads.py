"""Samples of load, in both catalogs."""

from __future__ import annotations

import pytest

from medusa_core.commits import Cause, Lane
from medusa_core.errors import Refused
from medusa_core.loads import ActivityKind, LoadKey, LoadSample, Shares, load_of
from pipelines.catalog.interface import Catalog
from tests.catalog import building as a

MAIN = LoadKey(a.MAIN, 0, Cause.NORMAL)
CORRECTED = LoadKey(a.MAIN, 0, Cause.CORRECTION)
SHARES = Shares(
    by_key={MAIN: 5_000_000, CORRECTED: 1_000_000}, kinds={ActivityKind.UNATTRIBUTED: 250_000}
)


def a_sample(number: int = 1, shares: Shares = SHARES, ended_ago_ms: int = 0,
             driver: str = "one") -> LoadSample:  # fmt: skip
    return LoadSample(driver=driver, number=number, lane=Lane.LIVE, length_ms=10_000,
                      shares=shares, ended_ago_ms=ended_ago_ms)  # fmt: skip


def test_what_is_recorded_is_read_with_its_period(catalog: Catalog) -> None:
    assert catalog.loads_since() == ()
    assert catalog.record_load(a_sample())
    (found,) = catalog.loads_since()
    assert (found.shares, found.to_ms - found.from_ms) == (SHARES, 10_000)
    load = load_of((found,), catalog.read_clock_ms())
    assert load is not None
    assert (load.of(a.MAIN), load.corrections) == (pytest.approx(0.5), pytest.approx(0.1))


def test_a_sample_sent_twice_is_there_once(catalog: Catalog) -> None:
    assert catalog.record_load(a_sample())
    assert not catalog.record_load(a_sample(shares=Shares(by_key={MAIN: 1})))
    assert catalog.record_load(a_sample(driver="another"))
    assert [found.shares for found in catalog.loads_since()] == [SHARES, SHARES]


def test_a_sample_that_had_to_wait_is_of_the_time_that_it_was_taken_in(catalog: Catalog) -> None:
    before_ms = catalog.read_clock_ms()
    catalog.record_load(a_sample(1, ended_ago_ms=600_000))
    catalog.record_load(a_sample(2, ended_ago_ms=12 * a.HOUR_MS))
    after_ms = catalog.read_clock_ms()
    (found,) = catalog.loads_since(a.HOUR_MS)
    assert before_ms <= found.to_ms + 600_000 <= after_ms


def test_a_period_in_which_nothing_was_spent_is_a_sample_too(catalog: Catalog) -> None:
    catalog.record_load(a_sample(shares=Shares()))
    (found,) = catalog.loads_since()
    assert found.shares == Shares()


def test_load_of_a_fragment_that_is_not_deployed_is_refused(catalog: Catalog) -> None:
    unknown = Shares(by_key={LoadKey("nobody's", 0, Cause.NORMAL): 1})
    with pytest.raises(Refused):
        catalog.record_load(a_sample(shares=unknown))
    assert catalog.loads_since() == ()


def test_a_period_without_length_is_refused(catalog: Catalog) -> None:
    sample = LoadSample(driver="one", number=1, lane=Lane.LIVE, length_ms=0, shares=SHARES)
    with pytest.raises(Refused):
        catalog.record_load(sample)


def test_nobody_has_declared_a_cost_before_its_owner_does(catalog: Catalog) -> None:
    assert catalog.declared_cost() is None
