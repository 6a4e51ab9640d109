"""Three homes on one server, emptied before each test; each knows the others' keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import Engine

from medusa_core.names import Participant
from pipelines.catalog.homes import HomeUrls, create_home, drop_home
from pipelines.catalog.server import EmbeddedServer
from pipelines.exchange.in_process import Partner
from tests.agreements.building import ALPHA, BETA, GAMMA, Party, a_key
from tests.catalog.homes_under_test import watcher_of, wipe


@pytest.fixture(scope="session")
def agreeing_urls(postgres_server: EmbeddedServer) -> Iterator[dict[Participant, HomeUrls]]:
    """Three homes for the whole run."""
    admin_url = postgres_server.superuser_url()
    names = (ALPHA, BETA, GAMMA)
    yield {name: create_home(admin_url, name, f"medusa_agreeing_{name}") for name in names}
    for name in names:
        drop_home(admin_url, f"medusa_agreeing_{name}")


@pytest.fixture(scope="session")
def watchers(
    postgres_server: EmbeddedServer, agreeing_urls: dict[Participant, HomeUrls]
) -> Iterator[dict[Participant, Engine]]:
    """A superuser on each."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(watcher_of(postgres_server.superuser_url(urls.database)))
            for name, urls in agreeing_urls.items()
        }


@pytest.fixture
def parties(
    agreeing_urls: dict[Participant, HomeUrls], watchers: dict[Participant, Engine]
) -> Iterator[dict[Participant, Party]]:
    """Alpha, beta and gamma, who know each other and have agreed on nothing."""
    partners = {
        name: Partner(reader_url=urls.reader, storage=Path("/nowhere"))
        for name, urls in agreeing_urls.items()
    }
    found = {}
    for name, urls in agreeing_urls.items():
        wipe(watchers[name], name)
        found[name] = Party(urls, a_key(name), partners)
    for party in found.values():
        for name in found:
            party.agreements.learn_key(name, a_key(name).public_key, "a test")
    yield found
    for party in found.values():
        party.close()


@pytest.fixture
def alpha(parties: dict[Participant, Party]) -> Party:
    """The payer of most contracts here."""
    return parties[ALPHA]


@pytest.fixture
def beta(parties: dict[Participant, Party]) -> Party:
    """The provider of most contracts here."""
    return parties[BETA]


@pytest.fixture
def gamma(parties: dict[Participant, Party]) -> Party:
    """Who has no part in them."""
    return parties[GAMMA]


@pytest.fixture
def agreeing_wipe(watchers: dict[Participant, Engine]) -> Callable[[str], None]:
    """Takes all from a home, as if it had been made anew."""
    return lambda name: wipe(watchers[Participant(name)], Participant(name))
