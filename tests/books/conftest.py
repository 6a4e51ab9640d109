"""Two homes on one server, emptied before each test, and the stream that beta sells to alpha."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pipelines.catalog.postgres.settlements import open_settlements
from pipelines.catalog.server.embedded_server import EmbeddedServer
from tests.agreements.building import ALPHA, BETA
from tests.agreements.homes import (
    HomeConnections,
    Urls,
    Watchers,
    connections_of,
    parties_in,
    watchers_of,
)
from tests.books.lending import Lending
from tests.books.sampling import Sampling
from tests.books.trade import Stores, Trade
from tests.home_pool import lent_homes


@pytest.fixture(scope="package")
def trading_urls(postgres_server: EmbeddedServer) -> Iterator[Urls]:
    """Two homes for the whole run."""
    with lent_homes(postgres_server, ALPHA, BETA) as homes:
        yield homes


@pytest.fixture(scope="package")
def trading_watchers(postgres_server: EmbeddedServer, trading_urls: Urls) -> Iterator[Watchers]:
    """A superuser on each."""
    with watchers_of(postgres_server, trading_urls) as watchers:
        yield watchers


@pytest.fixture(scope="package")
def trading_connections(trading_urls: Urls) -> Iterator[HomeConnections]:
    """What each has open, for the whole run."""
    with connections_of(trading_urls) as connections:
        yield connections


@pytest.fixture(scope="package")
def trading_stores(trading_urls: Urls) -> Iterator[Stores]:
    """The statements and books of each, for the whole run."""
    stores = {name: open_settlements(urls.job) for name, urls in trading_urls.items()}
    yield stores
    for store in stores.values():
        store.close()


@pytest.fixture
def trade(
    trading_connections: HomeConnections, trading_watchers: Watchers, trading_stores: Stores
) -> Trade:
    """Alpha, which buys `sums`, and beta, which sells it; nothing is agreed on yet."""
    parties = parties_in(trading_connections, trading_watchers)
    return Trade(parties, trading_watchers, trading_stores)


@pytest.fixture
def lending(
    trading_connections: HomeConnections,
    trading_watchers: Watchers,
    trading_stores: Stores,
    monkeypatch: pytest.MonkeyPatch,
) -> Lending:
    """Alpha, which hands load over, and beta, which carries it; nothing is agreed on yet."""
    monkeypatch.setattr("pipelines.market.settlement.settlement_sync.PERIODS_MAX", 1)
    parties = parties_in(trading_connections, trading_watchers)
    return Lending(parties, trading_watchers, trading_stores)


@pytest.fixture
def sampling(
    trading_connections: HomeConnections,
    trading_watchers: Watchers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Sampling]:
    """Alpha, which hands a fragment over, and beta, which computes it, with rows in files."""
    monkeypatch.setattr("pipelines.market.settlement.settlement_sync.PERIODS_MAX", 1)
    parties = parties_in(trading_connections, trading_watchers)
    with ExitStack() as stack:
        yield Sampling(parties, trading_watchers, tmp_path, stack)
