"""A home of its own for the attacks, and a login for each role."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psycopg2.extensions
import pytest

from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls, create_home, drop_home
from tests.catalog import building as a
from tests.catalog.homes_under_test import watcher_of, wipe

LogIn = Callable[[str], psycopg2.extensions.connection]


@pytest.fixture(scope="session")
def attacked_urls(postgres_server: EmbeddedServer) -> Iterator[HomeUrls]:
    """A home in Postgres."""
    admin_url = postgres_server.superuser_url()
    yield create_home(admin_url, a.ALPHA, "medusa_attacked")
    drop_home(admin_url, "medusa_attacked")


@pytest.fixture
def attacked(postgres_server: EmbeddedServer, attacked_urls: HomeUrls) -> Iterator[PostgresCatalog]:
    """Its catalog with a stable, a tentative and a gap segment of `sums`, in that order."""
    with watcher_of(postgres_server.superuser_url(attacked_urls.database)) as watcher:
        wipe(watcher)
    catalog = PostgresCatalog(attacked_urls.job, a.ALPHA)
    catalog.deploy(a.a_deployment())
    for fragment in (a.LANDING, a.MAIN):
        catalog.acquire_lease(a.a_key(fragment), a.FIRST, "me", a.HOUR_MS)
    catalog.land(a.a_lease(a.LANDING), a.a_batch(0, {0: 1}, quarantine=(a.a_bad_record(),)))
    catalog.promise(a.a_lease(a.LANDING), a.SRC, origin_us=0, boundary_us=a.WIDTH_US, end_us=None)
    kinds = (a.Stability.STABLE, a.Stability.TENTATIVE, a.Stability.GAP)
    for at, stability in enumerate(kinds):
        rows = {} if stability is a.Stability.GAP else {at: 1}
        segment = a.a_segment(at, at + 1, stability, rows=rows)
        catalog.commit(a.a_commit(segment, lineage=(a.a_read(),)))
    yield catalog
    catalog.close()


@pytest.fixture
def log_in(attacked: PostgresCatalog, attacked_urls: HomeUrls) -> Iterator[LogIn]:
    """Log in over TCP as a role of the home."""
    with ExitStack() as stack:

        def connect(role: str) -> psycopg2.extensions.connection:
            url = str(getattr(attacked_urls, role)).replace("+psycopg2", "")
            login = psycopg2.connect(url)
            login.autocommit = True
            stack.callback(login.close)
            return login

        yield connect
