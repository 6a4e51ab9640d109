"""docs/money.md: two months between two companies, typed and read as the page says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.cli.main import main
from tests.agreements.building import ALPHA, BETA, DAY_MS
from tests.agreements.homes import Urls
from tests.books.companies import companies
from tests.books.trade import A_DAY, Trade
from tests.docs.pages import LEFT_OUT, page

PIECE = re.compile(
    r"<!-- on: (\w+) -->\n```sh\n(.*?)```\n(?:\n```text\n(.*?)```\n)?"
    r"|<!-- sql: (\w+) -->\n```sql\n(.*?)```|^## (.*?)$",
    re.DOTALL | re.MULTILINE,
)
MONTH = 31 * A_DAY


@pytest.fixture
def typed(
    trade: Trade, trading_urls: Urls, postgres_server: EmbeddedServer, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Trade]:  # fmt: skip
    """The companies in a folder, with their contract of a month."""
    trade.agree(settlement_ms=31 * DAY_MS)
    with companies(tmp_path, trading_urls, postgres_server, monkeypatch):
        yield trade


def happens(trade: Trade, heading: str) -> None:
    """What happens outside the page, at the beginning of a part of it."""
    if heading == "January":
        trade.rows(0, 6 * A_DAY, {6 * A_DAY - 10: 2_000})
        trade.rows(6 * A_DAY, MONTH, {7 * A_DAY: 500, 20 * A_DAY: 10_000})
    elif heading == "The month after":
        trade.revise(6 * A_DAY, MONTH, {20 * A_DAY: 10_000})
        trade.rows(MONTH, MONTH + 9 * A_DAY, {MONTH + A_DAY: 3_000, MONTH + 8 * A_DAY + 100: 2_100},
                   homes=(BETA,))  # fmt: skip
        trade.rows(MONTH, MONTH + 9 * A_DAY, {MONTH + A_DAY: 3_000, MONTH + 8 * A_DAY + 100: 2_000},
                   homes=(ALPHA,))  # fmt: skip
        trade.rows(MONTH + 9 * A_DAY, 2 * MONTH, {})


def words(line: str) -> str:
    return " ".join(line.split())


@pytest.mark.long(quick=True)
def test_the_page_is_as_it_says(typed: Trade, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = 0
    for participant, commands, shown, sql_of, sql, heading in PIECE.findall(page("money")):
        if heading:
            happens(typed, heading)
            continue
        blocks += 1
        if sql:
            party = {"alpha": typed.alpha, "beta": typed.beta}[sql_of]
            party.sql(sql)
            continue
        printed = ""
        for line in commands.strip().splitlines():
            arguments = shlex.split(line)
            assert arguments[-1] == participant or "--participant" in arguments
            code = main(arguments[1:])
            output = capsys.readouterr()
            assert code == 0, output.err
            assert not output.err
            printed += output.out
        there = [words(line) for line in printed.splitlines()]
        missing = [
            line
            for line in shown.splitlines()
            if line != LEFT_OUT and line and words(line) not in there
        ]
        assert not missing, printed
        typed.check_books()
    assert blocks == 11
