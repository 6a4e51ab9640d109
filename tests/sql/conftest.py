"""A home of its own for the attacks, and a login for each role.

Sessions are kept from test to test: what a new one costs Postgres is to compile every function that
it calls, which is more than a test does with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache

import psycopg2.extensions
import pytest
from sqlalchemy import Engine

from medusa_core.errors import MedusaError
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls
from tests.catalog import building as a
from tests.catalog.homes_under_test import watcher_of, wipe
from tests.home_pool import lent_homes

Login = psycopg2.extensions.connection
LogIn = Callable[[str], Login]


@pytest.fixture(scope="package")
def attacked_urls(postgres_server: EmbeddedServer) -> Iterator[HomeUrls]:
    """A home in Postgres."""
    with lent_homes(postgres_server, a.ALPHA) as homes:
        yield homes[a.ALPHA]


@pytest.fixture(scope="package")
def attacked_watcher(postgres_server: EmbeddedServer, attacked_urls: HomeUrls) -> Iterator[Engine]:
    """A superuser on that home."""
    with watcher_of(postgres_server.superuser_url(attacked_urls.database)) as watcher:
        yield watcher


@pytest.fixture(scope="package")
def attacked_catalog(
    attacked_watcher: Engine, attacked_urls: HomeUrls
) -> Iterator[PostgresCatalog]:
    """Its catalog, with whatever the last test has left in it."""
    wipe(attacked_watcher)
    with closing(PostgresCatalog(attacked_urls.job, a.ALPHA)) as catalog:
        yield catalog


@pytest.fixture
def attacked(
    attacked_watcher: Engine, attacked_catalog: PostgresCatalog
) -> Iterator[PostgresCatalog]:
    """The catalog with a stable, a tentative and a gap segment of `sums`, in that order."""
    wipe(attacked_watcher)
    catalog = attacked_catalog
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
    try:
        catalog.read_clock_ms()
    except MedusaError:
        catalog.engine.dispose()  # the test has ended its sessions


RESET = (
    "ROLLBACK", "CLOSE ALL", "SET SESSION AUTHORIZATION DEFAULT", "RESET ALL", "DEALLOCATE ALL",
    "UNLISTEN *", "SELECT pg_advisory_unlock_all()", "DISCARD TEMP", "DISCARD SEQUENCES",
)  # fmt: skip
"""DISCARD ALL but for the plans; psycopg2's rollback() does not end a BEGIN that a test wrote."""


@pytest.fixture(scope="package")
def spare_logins(attacked_urls: HomeUrls) -> Iterator[dict[str, list[Login]]]:
    """Sessions by role that no test uses."""
    spare: dict[str, list[Login]] = {}
    yield spare
    for login in (login for logins in spare.values() for login in logins):
        login.close()


@pytest.fixture
def log_in(
    attacked: PostgresCatalog, attacked_urls: HomeUrls, spare_logins: dict[str, list[Login]]
) -> Iterator[LogIn]:
    """Log in over TCP as a role of the home, into a session that is as if new."""
    used: list[tuple[str, Login]] = []

    def connect(role: str) -> Login:
        spare = spare_logins.setdefault(role, [])
        url = str(getattr(attacked_urls, role)).replace("+psycopg2", "")
        while spare and not renew(spare[-1]):
            spare.pop().close()
        login = spare.pop() if spare else psycopg2.connect(url)
        login.autocommit = True
        if role == "page":
            with login.cursor() as cursor:  # its rights alone are tried: its setting refuses all
                cursor.execute("SET default_transaction_read_only = off")
        used.append((role, login))
        return login

    yield connect
    for role, login in used:
        if renew(login):
            spare_logins[role].append(login)
        else:
            login.close()


@pytest.fixture
def session_of(log_in: LogIn) -> LogIn:
    """One session of the test for each role, however often it is asked for.

    A role has only so many connections, and one that is closed counts until the server's process
    for it has ended, which on a busy machine takes a while.
    """
    return cache(log_in)


def renew(login: Login) -> bool:
    """Make the session as it was when it began, its functions excepted; False if it has ended."""
    try:
        login.autocommit = True
        with login.cursor() as cursor:
            for statement in RESET:
                cursor.execute(statement)
    except psycopg2.Error:
        return False
    login.notifies.clear()
    return True
