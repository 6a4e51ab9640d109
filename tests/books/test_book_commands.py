"""`medusa settle`, `statement`, `ledger` and `dispute`, over two homes in a folder."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

from medusa_core.errors import Refused
from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.cli.main import main
from pipelines.operations.focus_rows import COLUMNS
from pipelines.operations.home_books import csv_text
from pipelines.operations.settling import settle_now
from tests.agreements.building import ALPHA, BETA
from tests.agreements.homes import Urls
from tests.books.companies import companies
from tests.books.test_guards import D
from tests.books.trade import A_DAY, CONTRACT, Trade


@pytest.fixture
def typed(
    trade: Trade, trading_urls: Urls, postgres_server: EmbeddedServer, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Trade]:  # fmt: skip
    """A folder in which commands are typed, with a day that both homes hold otherwise."""
    trade.agree()
    trade.rows(0, A_DAY, {100: 7}, homes=(ALPHA,))
    trade.rows(0, A_DAY, {100: 9}, homes=(BETA,))
    with companies(tmp_path, trading_urls, postgres_server, monkeypatch):
        yield trade


def test_two_homes_settle_dispute_and_read_the_same_figures(
    typed: Trade, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def printed(*arguments: str, code: int = 0) -> str:
        assert main([*arguments]) == code
        found = capsys.readouterr()
        return found.out if code == 0 else found.err

    alpha, beta = ("--participant", "alpha"), ("--participant", "beta")
    assert "no period has been stated" in printed("statement", *beta)
    early = ("contract", "what-if", "--edit", f"contract {CONTRACT} SET price = 0.004", *beta)
    assert f"no period of {CONTRACT} has been stated" in printed(*early, code=2)
    assert "are empty" in printed("ledger", *alpha)
    assert "nothing is disputed" in printed("dispute", "list", *alpha)
    assert "once the stream is final" in printed("settle", "--explain", *beta)
    assert json.loads(printed("settle", "--json", *beta))["settled"] == 1
    assert "alpha owes beta 0.014 EUR" in printed("settle", *alpha)
    assert "alpha owes beta 0.014 EUR" in printed("settle", *beta)
    line = f"0.004 EUR of contract {CONTRACT}, period 1, are in dispute from 2024-01-01"
    assert line in printed("settle", *beta)
    with pytest.raises(Refused, match="then end it with medusa dispute"):
        settle_now(Settings.from_environment(), "alpha").check()

    edit = ("contract", "what-if", "--edit", f"contract {CONTRACT} SET price = 0.004")
    shown = printed(*edit, *alpha)
    assert "price 0.002 -> 0.004" in shown
    assert shown.splitlines()[-2].split()[-3:] == ["0.014", "0.028", "0.014"], "by its own rows"
    (period,) = json.loads(printed(*edit, "--json", *beta))["periods"]
    assert (period["period"], period["before"], period["after"]) == (1, "0.018", "0.036")
    by_period = edit[-1] + ", per = 'period'"
    (period,) = json.loads(printed(*edit[:-1], by_period, "--json", *beta))["periods"]
    assert period["after"] == "0.004"
    unknown = edit[-1].replace(CONTRACT, "unheard")
    assert f"no contract unheard in the home of beta (there: {CONTRACT})" in printed(
        *edit[:-1], unknown, *beta, code=2
    )
    dollars = edit[-1] + ", currency = 'USD'"
    assert "is stated in EUR" in printed(*edit[:-1], dollars, *beta, code=2)

    (dispute,) = json.loads(printed("dispute", "list", "--json", *beta))
    assert (dispute["blocked"], dispute["state"]) == ("0.004", "open")
    found = json.loads(printed("statement", CONTRACT, "1", "--json", *alpha))
    assert (found["total"], found["owed"], found["blocked"]) == ("0.018", "0.014", "0.004")
    assert found["differences"][0]["own"] == "0.014"
    (row,) = csv.DictReader(StringIO(printed("statement", CONTRACT, "1", "--focus", *alpha)))
    assert tuple(row) == COLUMNS
    assert (row["BilledCost"], row["BillingAccountId"]) == ("0.018", "alpha")
    page = tmp_path / "invoice.html"
    printed("statement", CONTRACT, "1", "--html", str(page), *alpha)
    assert "0.018 EUR" in page.read_text()
    assert "http://" not in page.read_text()
    for form in ("--csv", "--json"):
        assert "0.014" in printed("ledger", form, *beta)
        assert CONTRACT in printed("statement", form, *beta)
    assert "first from" in printed("statement", CONTRACT, "1", *alpha)

    assert "give CONTRACT and PERIOD" in printed("statement", "--focus", *alpha, code=2)
    assert "list them" in printed("statement", CONTRACT, "9", *alpha, code=2)
    assert "is the payer" in printed("dispute", "concede", CONTRACT, "1", *alpha, code=2)
    assert "no open dispute" in printed("dispute", "withdraw", CONTRACT, "2", *alpha, code=2)
    assert "0.018 is owed" in printed("dispute", "withdraw", CONTRACT, "1", *alpha)
    settle_now(Settings.from_environment(), "alpha").check()
    printed("settle", *alpha)
    assert "alpha owes beta 0.018 EUR" in printed("settle", *beta)


def test_the_market_worker_of_a_participant_settles_by_itself(
    trade: Trade, trading_urls: Urls, postgres_server: EmbeddedServer, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    trade.agree()
    trade.rows(0, A_DAY, {100: 7})
    with companies(tmp_path, trading_urls, postgres_server, monkeypatch):
        for name in (BETA, ALPHA, ALPHA, BETA):
            assert main(["round", "--participant", name]) == 0
    assert not capsys.readouterr().err
    assert [bill[2] for bill in trade.bills(trade.beta)] == ["settled"]
    assert trade.accounts(trade.beta) == {"partner": D("0.014"), "revenue": D("-0.014")}


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1+1", "@sum", "\t=1", "\uff1d1"])
def test_a_text_that_a_spreadsheet_would_run_is_quoted_and_an_amount_is_not(text: str) -> None:
    rows = [{"reference": text, "amount": "-5.25"}]
    (row,) = csv.DictReader(StringIO(csv_text(rows, ["reference", "amount"])))
    assert row == {"reference": f"'{text}", "amount": "-5.25"}
