"""A settlement of rows that one home wrote and the other imported over the exchange, and of a
revision that it followed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import text

from medusa_core.market.documents import document_of
from medusa_core.market.terms import Terms
from pipelines.catalog.postgres.agreements import PostgresAgreements
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import home_server
from pipelines.operations.home_books import list_bills, read_ledger
from pipelines.operations.settling import SettlementResult, settle_now
from tests.agreements.building import a_content, some_terms
from tests.catalog import building as a
from tests.changes.building import SUMS
from tests.exchange.served import served_home
from tests.recalls.building import BETA, Pair, a_pair
from tests.recalls.test_following_revisions import begin, compute, revise

PERIOD_MS = 3 * a.WIDTH_US // 1_000


def terms() -> Terms:
    """Beta buys `sums` of alpha, from the epoch on, in periods of three buckets."""
    content = a_content(stream=SUMS, price=Decimal("0.5"))
    return some_terms(payer=BETA, provider=a.ALPHA, valid_from_ms=0, settlement_ms=PERIOD_MS,
                      subject=content)  # fmt: skip


@pytest.fixture
def pair(postgres_server: EmbeddedServer, tmp_path: Path) -> Iterator[Pair]:
    """Both homes, served, with their contract."""
    with a_pair(postgres_server, tmp_path / "homes") as found:
        settings = found.alpha.settings
        with served_home(settings, BETA):
            each(found, lambda agreements: agreements.propose(document_of(terms()), "a test"))
            settle(found, 3)
            each(found, lambda agreements: agreements.open_round(0, "a test"))
            yield found


def each(pair: Pair, does: object) -> None:
    for name in (a.ALPHA, BETA):
        with (
            home_server(pair.alpha.settings, name) as server,
            closing(PostgresAgreements(server.login_url("job"), name)) as agreements,
        ):
            does(agreements)  # type: ignore[operator]


def settle(pair: Pair, times: int = 3) -> list[SettlementResult]:
    settings = pair.alpha.settings
    return [settle_now(settings, name) for _ in range(times) for name in (a.ALPHA, BETA)]


def test_what_was_imported_is_settled_and_what_was_revised_is_corrected(pair: Pair) -> None:
    settings = pair.alpha.settings
    begin(pair)
    results = settle(pair)
    assert [problem for one in results for problem in one.problems] == []
    pair.beta.catalog.declare_following(SUMS, True)
    compute(pair, 1, 2, {1: [("b", 7), ("c", 7), ("d", 7)]}, version=revise(pair, 1, 5))
    pair.alpha.write(SUMS, 3, 6, {3: [("d", 4)]})
    assert [told.problem for told in (*pair.poll(), *pair.poll())] == [None, None]
    assert [problem for one in settle(pair) for problem in one.problems] == []
    for name, sign in ((a.ALPHA, 1), (BETA, -1)):
        billed = [one for one in list_bills(settings, name, None) if one.made_by == a.ALPHA]
        assert [(one.state, one.total) for one in billed] == [
            ("settled", Decimal("1.5")), ("settled", Decimal("1.5")),
        ]  # fmt: skip
        (balance,) = (
            one.balance for one in read_ledger(settings, name, None).balances
            if one.account == "partner"
        )  # fmt: skip
        assert balance == sign * 3
    documents = []
    for name in (a.ALPHA, BETA):
        with (
            home_server(settings, name) as server,
            closing(PostgresAgreements(server.login_url("job"), name)) as agreements,
            agreements._engine.connect() as connection,
        ):
            rows = connection.execute(text(
                f"SELECT document FROM medusa_market.bill WHERE made_by = '{name}' ORDER BY period"
            ))  # fmt: skip
            documents.append([bytes(row[0]) for row in rows])
    assert documents[0] == documents[1], "each home made the same bytes alone"
