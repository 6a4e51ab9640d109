"""Homes on the suite's server, emptied before each test, of participants that know each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from sqlalchemy import Engine

from medusa_core.names import Participant
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls
from tests.agreements.building import Connections, Party, a_key
from tests.catalog.homes_under_test import watcher_of, wipe

Urls = Mapping[Participant, HomeUrls]
Watchers = dict[Participant, Engine]
HomeConnections = dict[Participant, Connections]
Parties = dict[Participant, Party]


@contextmanager
def watchers_of(server: EmbeddedServer, homes: Urls) -> Iterator[Watchers]:
    """A superuser on each."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(watcher_of(server.superuser_url(urls.database)))
            for name, urls in homes.items()
        }


@contextmanager
def connections_of(homes: Urls) -> Iterator[HomeConnections]:
    """What each of these has open, for all tests."""
    exchanges = {name: urls.exchange for name, urls in homes.items()}
    found = {name: Connections(urls, exchanges) for name, urls in homes.items()}
    yield found
    for connections in found.values():
        connections.close()


def parties_in(homes: HomeConnections, watchers: Watchers) -> Parties:
    """A party in each home, which is emptied before; they know each other's keys and have agreed
    on nothing."""
    for name in homes:
        wipe(watchers[name], name)
    parties = {name: Party(connections, a_key(name)) for name, connections in homes.items()}
    for party in parties.values():
        for name in homes:
            party.agreements.learn_key(name, a_key(name).public_key, "a test")
    return parties
