"""Three homes on one server, emptied before each test; each knows the others' keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipelines.catalog.server.embedded_server import EmbeddedServer
from tests.agreements.homes import (
    HomeConnections,
    Urls,
    Watchers,
    connections_of,
    watchers_of,
)
from tests.home_pool import lent_homes
from tests.rounds.building import (
    ALPHA,
    BETA,
    GAMMA,
    Trader,
    Traders,
    traders_in,
)


@pytest.fixture(scope="package")
def trading_urls(postgres_server: EmbeddedServer) -> Iterator[Urls]:
    """Three homes for the whole run."""
    with lent_homes(postgres_server, ALPHA, BETA, GAMMA) as homes:
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


@pytest.fixture
def traders(trading_connections: HomeConnections, trading_watchers: Watchers) -> Traders:
    """Alpha, beta and gamma, who have agreed on nothing."""
    return traders_in(trading_connections, trading_watchers)


@pytest.fixture
def alpha(traders: Traders) -> Trader:
    """The payer of most contracts here."""
    return traders[ALPHA]


@pytest.fixture
def beta(traders: Traders) -> Trader:
    """The provider of most contracts here."""
    return traders[BETA]


@pytest.fixture
def gamma(traders: Traders) -> Trader:
    """Beta's provider, where there is one."""
    return traders[GAMMA]
