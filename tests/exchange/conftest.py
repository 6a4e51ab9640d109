"""A home that publishes, for all tests of its server and of the client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls
from tests.exchange.published_home import ALPHA, published_home


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
