"""Three homes on one server, emptied before each test; each knows the others' keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import Engine

from medusa_core.names import Participant
from pipelines.catalog.homes import HomeUrls, create_home, drop_home
from pipelines.catalog.postgres import PostgresCatalog
from pipelines.catalog.server import EmbeddedServer
from pipelines.exchange.in_process import Partner
from tests.agreements.building import ALPHA, BETA, GAMMA, Party, a_key
from tests.catalog.homes_under_test import watcher_of, wipe
from tests.rounds.building import Trader

NAMES = (ALPHA, BETA, GAMMA)


@pytest.fixture(scope="session")
def trading_urls(postgres_server: EmbeddedServer) -> Iterator[dict[Participant, HomeUrls]]:
    """Three homes for the whole run."""
    admin_url = postgres_server.superuser_url()
    yield {name: create_home(admin_url, name, f"medusa_trading_{name}") for name in NAMES}
    for name in NAMES:
        drop_home(admin_url, f"medusa_trading_{name}")


@pytest.fixture(scope="session")
def trading_watchers(
    postgres_server: EmbeddedServer, trading_urls: dict[Participant, HomeUrls]
) -> Iterator[dict[Participant, Engine]]:
    """A superuser on each."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(watcher_of(postgres_server.superuser_url(urls.database)))
            for name, urls in trading_urls.items()
        }


@pytest.fixture
def traders(
    trading_urls: dict[Participant, HomeUrls], trading_watchers: dict[Participant, Engine]
) -> Iterator[dict[Participant, Trader]]:
    """Alpha, beta and gamma, who know each other's keys and have agreed on nothing."""
    partners = {
        name: Partner(reader_url=urls.reader, storage=Path("/nowhere"))
        for name, urls in trading_urls.items()
    }
    found = {}
    for name, urls in trading_urls.items():
        wipe(trading_watchers[name], name)
        party = Party(urls, a_key(name), partners)
        found[name] = Trader(party, trading_watchers[name], PostgresCatalog(urls.job, name))
    for trader in found.values():
        for name in found:
            trader.party.agreements.learn_key(name, a_key(name).public_key, "a test")
    yield found
    for trader in found.values():
        trader.close()
        trader.party.close()


@pytest.fixture
def alpha(traders: dict[Participant, Trader]) -> Trader:
    """The payer of most contracts here."""
    return traders[ALPHA]


@pytest.fixture
def beta(traders: dict[Participant, Trader]) -> Trader:
    """The provider of most contracts here."""
    return traders[BETA]


@pytest.fixture
def gamma(traders: dict[Participant, Trader]) -> Trader:
    """Beta's provider, where there is one."""
    return traders[GAMMA]
