"""A home that publishes, for all tests of its server and of the client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls
from pipelines.exchange.client import partner_link
from pipelines.exchange.server import connections
from pipelines.exchange.server.https_server import HttpsServer, ListenAddress
from pipelines.exchange.server_certificates import make_certificate, server_context
from tests.exchange.published_home import ALPHA, published_home
from tests.exchange.served import LIMITS, served


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection is made, and TLS agreed on, however long this machine stands still meanwhile."""
    monkeypatch.setattr(partner_link, "CONNECT_S", 60.0)
    monkeypatch.setattr(connections, "HANDSHAKE_S", 60.0)


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the files of the home lie."""
    return tmp_path_factory.mktemp("storage")


@pytest.fixture(scope="module")
def urls(postgres_server: EmbeddedServer, storage: Path) -> Iterator[HomeUrls]:
    """The logins of the home."""
    with published_home(postgres_server, storage) as urls:
        yield urls


@pytest.fixture(scope="module")
def home(urls: HomeUrls) -> Iterator[ExchangeHome]:
    """The home as its exchange server sees it."""
    with closing(ExchangeHome(urls.exchange, ALPHA)) as home:
        yield home


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls") / "server.pem", ALPHA)


@pytest.fixture(scope="module")
def server(home: ExchangeHome, storage: Path, urls: HomeUrls) -> Iterator[HttpsServer]:
    """On loopback, without TLS."""
    with served(home, storage, urls.exchange, limits=LIMITS) as server:
        yield server


@pytest.fixture(scope="module")
def hasty(home: ExchangeHome, storage: Path, urls: HomeUrls) -> Iterator[HttpsServer]:
    """The same, but it waits for nothing."""
    limits = replace(LIMITS, header_s_max=0.2, idle_s_max=1.0)
    with served(home, storage, urls.exchange, limits=limits) as server:
        yield server


@pytest.fixture(scope="module")
def tls_server(
    home: ExchangeHome, storage: Path, urls: HomeUrls, certificate: Path
) -> Iterator[HttpsServer]:
    address = ListenAddress(tls=server_context(certificate))
    with served(home, storage, urls.exchange, address, LIMITS) as server:
        yield server
