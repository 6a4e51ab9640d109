"""Homes for the catalog's tests: in memory, and in Postgres, emptied before each test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import Engine

from pipelines.catalog.interface import Catalog
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls
from tests.catalog.building import ALPHA, FIRST, HOUR_MS, LANDING, MAIN, TAIL, a_deployment, a_key
from tests.catalog.homes_under_test import (
    HomeUnderTest,
    MemoryHome,
    PostgresHome,
    watcher_of,
    wipe,
)
from tests.home_pool import lent_homes


@pytest.fixture(scope="package")
def home_urls(postgres_server: EmbeddedServer) -> Iterator[HomeUrls]:
    """A home in Postgres for the whole run."""
    with lent_homes(postgres_server, ALPHA) as homes:
        yield homes[ALPHA]


@pytest.fixture(scope="package")
def watcher(postgres_server: EmbeddedServer, home_urls: HomeUrls) -> Iterator[Engine]:
    """A superuser on that home."""
    with watcher_of(postgres_server.superuser_url(home_urls.database)) as engine:
        yield engine


@pytest.fixture(scope="package")
def suite_catalog(watcher: Engine, home_urls: HomeUrls) -> Iterator[PostgresCatalog]:
    """The catalog of that home; a new session would compile each function that a test calls."""
    wipe(watcher)
    with closing(PostgresCatalog(home_urls.job, ALPHA)) as catalog:
        yield catalog


@pytest.fixture
def postgres_home(
    watcher: Engine, home_urls: HomeUrls, suite_catalog: PostgresCatalog
) -> Iterator[PostgresHome]:
    """A home where nothing is deployed, in Postgres: for roles that are not in memory."""
    wipe(watcher)
    found = PostgresHome(home_urls, watcher, catalog=suite_catalog)
    yield found
    found.close()


@pytest.fixture(params=["memory", "postgres"])
def home(request: pytest.FixtureRequest) -> HomeUnderTest:
    """A home where nothing is deployed, in memory and in Postgres."""
    if request.param == "memory":
        return MemoryHome()
    found: PostgresHome = request.getfixturevalue("postgres_home")
    return found


@pytest.fixture
def catalog(home: HomeUnderTest) -> Catalog:
    """The catalog of a home where the example is deployed and `me` holds its live leases."""
    home.catalog.deploy(a_deployment())
    for fragment in (LANDING, MAIN, TAIL):
        home.catalog.acquire_lease(a_key(fragment), FIRST, "me", HOUR_MS)
    return home.catalog


@pytest.fixture
def owner(home: HomeUnderTest, request: pytest.FixtureRequest) -> Iterator[Catalog]:
    """The catalog of the home as its owner logs in."""
    if isinstance(home, MemoryHome):
        yield home.catalog
        return
    with closing(PostgresCatalog(request.getfixturevalue("home_urls").owner, ALPHA)) as catalog:
        yield catalog
