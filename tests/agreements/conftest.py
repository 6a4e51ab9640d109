"""Three homes on one server, emptied before each test; each knows the others' keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from medusa_core.names import Participant
from pipelines.catalog.server.embedded_server import EmbeddedServer
from tests.agreements.building import ALPHA, BETA, GAMMA, Party
from tests.agreements.homes import (
    HomeConnections,
    Parties,
    Urls,
    Watchers,
    connections_of,
    parties_in,
    watchers_of,
)
from tests.catalog.homes_under_test import wipe
from tests.home_pool import lent_homes


@pytest.fixture(scope="package")
def agreeing_urls(postgres_server: EmbeddedServer) -> Iterator[Urls]:
    """Three homes for the whole run."""
    with lent_homes(postgres_server, ALPHA, BETA, GAMMA) as homes:
        yield homes


@pytest.fixture(scope="package")
def watchers(postgres_server: EmbeddedServer, agreeing_urls: Urls) -> Iterator[Watchers]:
    """A superuser on each."""
    with watchers_of(postgres_server, agreeing_urls) as watchers:
        yield watchers


@pytest.fixture(scope="package")
def connections(agreeing_urls: Urls) -> Iterator[HomeConnections]:
    """What each has open, for the whole run."""
    with connections_of(agreeing_urls) as connections:
        yield connections


@pytest.fixture
def parties(connections: HomeConnections, watchers: Watchers) -> Parties:
    """Alpha, beta and gamma, who know each other and have agreed on nothing."""
    return parties_in(connections, watchers)


@pytest.fixture
def alpha(parties: Parties) -> Party:
    """The payer of most contracts here."""
    return parties[ALPHA]


@pytest.fixture
def beta(parties: Parties) -> Party:
    """The provider of most contracts here."""
    return parties[BETA]


@pytest.fixture
def gamma(parties: Parties) -> Party:
    """Who has no part in them."""
    return parties[GAMMA]


@pytest.fixture
def agreeing_wipe(watchers: Watchers) -> Callable[[str], None]:
    """Takes all from a home, as if it had been made anew."""
    return lambda name: wipe(watchers[Participant(name)], Participant(name))
