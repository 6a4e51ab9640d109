"""Contracts and money as shown: two homes with a sale, a move, a proposal and a dispute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import storage_of
from pipelines.pages.amounts import column_of
from pipelines.pages.contracts_figures import LISTED_MAX
from tests.agreements.homes import HomeConnections, Urls, Watchers, parties_in
from tests.books.conftest import (
    trading_connections,
    trading_stores,
    trading_urls,
    trading_watchers,
)
from tests.books.lending import Lending
from tests.books.trade import A_DAY, CONTRACT, Stores
from tests.home_pool import record_homes
from tests.pages.pages_under_test import ALPHA, BETA, Shown
from tests.pages.same_elsewhere import check_same_elsewhere

__all__ = ["trading_connections", "trading_stores", "trading_urls", "trading_watchers"]

HOSTILE = "<script>alert(1)</script>"
BYTES_MAX = 200_000
MANY = """
INSERT INTO medusa_market.bill (contract, period, made_by, statement, document, revision, from_ms,
    to_ms, payer, provider, currency, total)
SELECT 'many', n, 'beta', encode(sha256(n::text::bytea), 'hex'), n::text::bytea, 'x', n,
    n + 1, 'alpha', 'beta', 'EUR', n
FROM generate_series(1000, 1999) AS n
"""

NOTED = f"""
INSERT INTO medusa_market.move_state (move_id, state, reason)
SELECT move_id, 'started', '{HOSTILE}' FROM medusa_market.move
"""
ENDED = """
INSERT INTO medusa_market.bill_answer (contract, period, step, statement, outcome, amount, blocked)
SELECT contract, period, 2, statement, 'claimed', 1.4, 0 FROM medusa_market.bill_answer
WHERE outcome = 'disputed'
"""

LOAD = """
INSERT INTO medusa_market.cost_function (kind, capacity, scale, threshold, currency)
VALUES ('queue', 4, 1, 3, 'EUR');
INSERT INTO medusa_market.load_sample (driver, number, lane, length_ms, total_us, ended_at)
VALUES ('a driver', 1, 'live', 10000, 20000000, clock_timestamp());
INSERT INTO medusa_market.load_part (sample_id, kind, fragment, partition, cause, cpu_us)
SELECT sample_id, 'work', 'net/main', 0, 'normal', 20000000 FROM medusa_market.load_sample
"""
NO_LOAD = """
DELETE FROM medusa_market.load_part;
DELETE FROM medusa_market.load_sample;
DELETE FROM medusa_market.cost_function
"""


@dataclass
class Market:
    """Alpha buys and hands load over, beta sells and carries it; a site shows both homes."""

    shown: Shown

    def document(self, values: str = "") -> Any:
        return self.shown.document(f"contracts.json{values}")


@pytest.fixture(scope="module")
def market(
    trading_connections: HomeConnections,
    trading_watchers: Watchers,
    trading_stores: Stores,
    trading_urls: Urls,
    postgres_server: EmbeddedServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Market]:
    """A settled period, one in dispute, a move that goes on, and a proposed price."""
    folder = tmp_path_factory.mktemp("market")
    record_homes(folder, trading_urls)
    for name in (ALPHA, BETA):
        storage_of(folder, name).mkdir(parents=True, exist_ok=True)
    settings = replace(
        Settings.from_environment({}), catalog_url=postgres_server.superuser_url(), directory=folder
    )
    parties = parties_in(trading_connections, trading_watchers)
    lending = Lending(parties, trading_watchers, trading_stores)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("pipelines.market.settlement.settlement_sync.PERIODS_MAX", 1)
        trade(lending)
    shown = Shown(settings, postgres_server)
    with closing(shown.readings):
        yield Market(shown)


def trade(lending: Lending) -> None:
    """What has happened between the two."""
    lending.agree()
    lending.lend()
    lending.move(1, 0)
    lending.rows(0, A_DAY, {5: 500, 6: 1_000})
    lending.settle()
    lending.rows(A_DAY, 2 * A_DAY, {A_DAY + 3: 400}, homes=(ALPHA,))
    lending.rows(A_DAY, 2 * A_DAY, {A_DAY + 3: 700}, homes=(BETA,))
    lending.settle()
    lending.beta.sql("UPDATE medusa_api.contract SET price = 0.003 WHERE contract = %s", CONTRACT)
    lending.exchange()


@contextmanager
def changed(market: Market, statement: str, back: str) -> Iterator[None]:
    """Both homes, while something else is in them."""
    try:
        for home in (ALPHA, BETA):
            market.shown.sql(home, statement)
        yield
    finally:
        for home in (ALPHA, BETA):
            market.shown.sql(home, back)


def test_contracts_statements_moves_and_balances_are_shown_once_each(market: Market) -> None:
    document = market.document()
    contracts = {(one["contract"], one["state"]): one["homes"] for one in document["contracts"]}
    assert contracts == {
        ("load_of_alpha", "in force"): ["alpha", "beta"],
        (CONTRACT, "in force"): ["alpha", "beta"],
    }
    (move,) = document["moves"]
    assert (move["payer"], move["provider"], move["state"]) == ("alpha", "beta", "started")
    sold = [one for one in document["bills"] if one["contract"] == CONTRACT]
    assert [(one["period"], one["state"], one["homes"]) for one in sold] == [
        (2, "disputed", ["alpha", "beta"]),
        (1, "settled", ["alpha", "beta"]),
    ]
    owed = {(one["home"], one["account"]): one["balance"] for one in document["balances"]}
    assert float(owed["beta", "partner"]) == -float(owed["alpha", "partner"]) > 0


def test_a_proposal_says_what_it_changes_and_what_the_last_bills_would_have_been(
    market: Market,
) -> None:
    (proposal,) = market.document()["proposals"]
    assert proposal["proposed_by"] == "beta"
    assert proposal["differences"] == [{"field": "price", "before": 0.002, "after": 0.003}]
    assert [(one["before"], one["after"]) for one in proposal["bills"]][-1] == ("3", "4.5")
    text = market.shown.part("contracts")
    assert "proposed by beta" in text
    assert f"medusa contract what-if --edit &#x27;contract {CONTRACT}&#x27;" in text


def test_a_dispute_shows_both_figures_and_the_command_of_each_party(market: Market) -> None:
    (dispute,) = market.document()["disputes"]
    assert (dispute["state"], dispute["claimed"], dispute["agreed"]) == ("open", "1.4", "0.800000")
    assert [(one["claimed"], one["own"]) for one in dispute["differences"]] == [("1.4", "0.8")]
    assert dispute["statement"] != dispute["own_statement"]
    text = market.shown.part("contracts")
    assert f"medusa dispute withdraw {CONTRACT} 2 --participant alpha" in text
    assert f"medusa dispute concede {CONTRACT} 2 --participant beta" in text


def test_a_dispute_that_was_ended_asks_for_nothing_more(market: Market) -> None:
    with changed(market, ENDED, "DELETE FROM medusa_market.bill_answer WHERE step = 2"):
        states = {one["state"] for one in market.document()["disputes"]}
        assert states == {"claimed"}
        assert "medusa dispute withdraw" not in market.shown.part("contracts")


def test_what_load_costs_is_shown_against_the_prices_of_partners(market: Market) -> None:
    assert market.document()["costs"][0]["fragments"] == []
    with changed(market, LOAD, NO_LOAD):
        cost = market.document()["costs"][0]
        (fragment,) = cost["fragments"]
        assert (cost["home"], fragment["fragment"], fragment["load"]) == ("alpha", "net/main", 2.0)
        assert fragment["marginal_cost"] > 0
        assert cost["next_unit"] > fragment["marginal_cost"], "the cost function is convex"
        assert "beta 1 EUR" in market.shown.part("contracts")


def test_what_ends_is_listed_by_its_date_with_the_days_that_are_left(market: Market) -> None:
    ahead = market.document()["ahead"]
    times = [one["at_ms"] for one in ahead]
    assert times == sorted(times)
    assert ahead[0]["what"] == "proposal lapses"
    assert all(one["days"] >= 0 for one in ahead)
    assert [one["contract"] for one in ahead if one["what"] == "ends"][:1]


def test_one_contract_can_be_chosen(market: Market) -> None:
    document = market.document("?contract=load_of_alpha")
    assert {one["contract"] for one in document["contracts"]} == {"load_of_alpha"}
    assert document["disputes"] == []
    text = market.shown.part(f"contracts?contract={HOSTILE}")
    assert "There is no contract" in text
    assert HOSTILE not in text


def test_homes_that_are_not_shown_keep_their_contracts_and_money(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDUSA_PAGE_HOMES", "ola: alpha")
    document = market.document()
    assert {home for one in document["bills"] for home in one["homes"]} == {"alpha"}
    assert {one["home"] for one in document["balances"]} == {"alpha"}
    assert "dispute concede" not in market.shown.part("contracts")


def test_hostile_values_of_contracts_are_escaped(market: Market) -> None:
    hostile = f"UPDATE medusa_market.move SET reason = '{HOSTILE}'; " + NOTED
    back = "UPDATE medusa_market.move SET reason = 'x'; DELETE FROM medusa_market.move_state"
    with changed(market, hostile, back):
        text = market.shown.get("contracts").text
        assert text.count("<script") == 1, "the page's own"
        assert "&lt;script&gt;" in text


def test_every_section_names_a_command_a_statement_and_a_section_that_exist(
    market: Market,
) -> None:
    check_same_elsewhere(market.shown, ALPHA, "contracts")


def test_many_statements_are_cut(market: Market) -> None:
    with changed(market, MANY, "DELETE FROM medusa_market.bill WHERE contract = 'many'"):
        document = market.document()
        assert len(document["bills"]) == LISTED_MAX
        assert document["bills_go_on"]
        assert len(market.shown.get("contracts").content) < BYTES_MAX


def test_homes_without_contracts_say_so(shown: Shown) -> None:
    text = shown.part("contracts")
    for words in ("No contract has been proposed", "Nothing ends", "No fragment has been handed",
                  "No period of a contract", "Nothing has been booked"):  # fmt: skip
        assert words in text


def test_amounts_of_a_column_have_equally_many_decimals() -> None:
    found = [str(one) for one in column_of(["1234.5", "-0.002", None, "0"])]
    assert [one.partition(">")[2].partition("<")[0] for one in found] == [
        "1,234.500", "−0.002", "–", "0.000",
    ]  # fmt: skip
