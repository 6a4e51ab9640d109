"""Two homes on one server in a folder of their own, emptied before each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.catalog.server.embedded_server import EmbeddedServer
from tests.agreements.homes import (
    HomeConnections,
    Urls,
    Watchers,
    connections_of,
    watchers_of,
)
from tests.home_pool import lent_homes, record_homes
from tests.rounds.building import (
    ALPHA,
    BETA,
    Trader,
    a_price,
    a_round,
    agree_on,
    parts,
    traders_in,
)
from tests.what_if.building import BUSY, records


@pytest.fixture(scope="package")
def asking_urls(postgres_server: EmbeddedServer) -> Iterator[Urls]:
    """Two homes for the whole run."""
    with lent_homes(postgres_server, ALPHA, BETA) as homes:
        yield homes


@pytest.fixture(scope="package")
def asking_watchers(postgres_server: EmbeddedServer, asking_urls: Urls) -> Iterator[Watchers]:
    """A superuser on each."""
    with watchers_of(postgres_server, asking_urls) as watchers:
        yield watchers


@pytest.fixture(scope="package")
def asking_connections(asking_urls: Urls) -> Iterator[HomeConnections]:
    """What each has open, for the whole run."""
    with connections_of(asking_urls) as connections:
        yield connections


@pytest.fixture
def pair(asking_connections: HomeConnections, asking_watchers: Watchers) -> tuple[Trader, Trader]:
    """Alpha and beta, who have agreed on nothing."""
    traders = traders_in(asking_connections, asking_watchers)
    return traders[ALPHA], traders[BETA]


@pytest.fixture(scope="module")
def traded_once(
    asking_connections: HomeConnections, asking_watchers: Watchers
) -> tuple[Trader, Trader]:
    """Alpha has asked beta at 2 to 6 and was answered; now the price is 2, at which beta takes
    nothing. For modules whose tests only ask: whoever empties the homes ends it."""
    traders = traders_in(asking_connections, asking_watchers)
    alpha, beta = traders[ALPHA], traders[BETA]
    agree_on(alpha, beta, a_price("2", "6"))
    alpha.declares(1.0, 0.6)
    beta.declares(1.0, 0.9)
    alpha.carries(BUSY)
    beta.carries(parts(3))
    for _ in range(3):
        a_round(alpha, beta)
    assert alpha.moves(), "beta takes something at a higher price"
    for trader in (alpha, beta):
        trader.sql("UPDATE medusa_api.contract SET price_high = 2")
    for _ in range(4):
        for trader in (alpha, beta):
            trader.party.contract_sync.tick()
    for _ in range(2):
        a_round(alpha, beta)
    beta.in_time("UPDATE medusa_market.offer SET made_at = made_at - interval '20 minutes'")
    return alpha, beta


@pytest.fixture
def traded(traded_once: tuple[Trader, Trader]) -> tuple[Trader, Trader]:
    """The same; alpha has been overloaded for half an hour, and beta has had room."""
    for trader, minute in zip(traded_once, (BUSY, parts(3)), strict=True):
        records(trader, [minute] * 30)
    return traded_once


@pytest.fixture
def commands_find_them(
    postgres_server: EmbeddedServer,
    asking_urls: Urls,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Commands find the homes in MEDUSA_DIR."""
    record_homes(tmp_path, asking_urls)
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path))
    admin_url = postgres_server.superuser_url()
    monkeypatch.setenv("MEDUSA_CATALOG_URL", admin_url.replace("/postgres", "/{participant}"))
