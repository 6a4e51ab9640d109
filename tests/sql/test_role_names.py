"""Roles are told apart by their whole names: nobody's name is like enough to another's."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import psycopg2
import pytest
from psycopg2.sql import SQL, Identifier
from sqlalchemy import Engine, text

from medusa_core.names import Participant
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import (
    OWNER_NOLOGIN,
    ROLES,
    HomeUrls,
    create_home,
    database_of,
    drop_home,
)
from pipelines.catalog.server.roles import role_name
from tests.catalog import building as a
from tests.catalog.homes_under_test import watcher_of
from tests.sweeps import IS_LONG

HOME = "medusa_like"
STRANGERS = (
    "medusa_lik", "medusa_lik_owner", "medusa_like", "medusa_like_", "medusa_like_owner_",
    "medusa_like_owne", "medusa_like_owner2", "medusa_like_OWNER", "MEDUSA_LIKE_owner",
    "medusa_like__owner", "medusa%owner", "medusa_like_%", "%", "medusa_lik__owner",
    'medusa_like_owner"', '"medusa_like_owner"', "medusa_like_owner' OR 'a' = 'a", "'", "_",
    " medusa_like_owner", "medusa_like_owner ", "medusa_like_job\n", "medusa_like_exchange_owner",
    "medusa_like_owner_owner", "medusa_like_ownér",
)  # fmt: skip
OTHERS = ("medusa_like_owner", "medusa_like2", "medusa_lik")[: 3 if IS_LONG else 1]
HIDDEN = ("contract_proposal", "contract_revision", "contract_signature")
PROPOSED = """
INSERT INTO medusa_market.contract_order (contract) VALUES ('spare');
INSERT INTO medusa_market.contract_revision (contract, number, kind, payer, provider, currency,
    validity, settlement_ms, notice_ms, stream, instead)
VALUES ('spare', 1, 'suggested', 'alpha', 'beta', 'EUR', '[2024-01-01,2096-01-01)',
    1, 1, 'sums', 'gamma');
INSERT INTO medusa_market.contract_proposal (contract, revision, proposed_by, because, expires_at)
SELECT 'spare', revision, 'alpha', 'a test', 'tomorrow' FROM medusa_market.contract_revision;
INSERT INTO medusa_market.contract_signature (revision, party, signature, public_key)
SELECT revision, 'alpha', sha512('a'), sha256('a') FROM medusa_market.contract_revision;
"""


@pytest.fixture(scope="module")
def home(postgres_server: EmbeddedServer) -> Iterator[tuple[HomeUrls, Engine]]:
    """A home in which something is only proposed."""
    admin_url = postgres_server.superuser_url()
    urls = create_home(admin_url, a.ALPHA, HOME)
    with watcher_of(postgres_server.superuser_url(HOME)) as watcher:
        with watcher.connect() as connection:
            connection.execute(text(PROPOSED))
        yield urls, watcher
    drop_home(admin_url, HOME)


def counted(connection: psycopg2.extensions.connection) -> set[int]:
    with connection.cursor() as cursor:
        found = set()
        for table in HIDDEN:
            cursor.execute(f"SELECT count(*) FROM medusa_market.{table}")
            found |= {count for (count,) in cursor.fetchall()}
        return found


@pytest.mark.long(quick=True)
def test_whose_name_is_only_like_the_owners_sees_nothing_that_is_only_proposed(
    home: tuple[HomeUrls, Engine], postgres_server: EmbeddedServer
) -> None:
    urls, _ = home
    superuser = psycopg2.connect(postgres_server.superuser_url(HOME).replace("+psycopg2", ""))
    superuser.autocommit = True
    parts = psycopg2.extensions.parse_dsn(urls.owner.replace("+psycopg2", ""))
    for name in STRANGERS:
        role = Identifier(name)
        with superuser.cursor() as cursor:
            cursor.execute(SQL("CREATE ROLE {} LOGIN PASSWORD 'secret'").format(role))
            try:
                # Even where somebody has let it in, and let it read.
                for right in (f"CONNECT ON DATABASE {HOME}",
                              "USAGE ON SCHEMA medusa, medusa_market",
                              "SELECT ON medusa.home",
                              *(f"SELECT ON medusa_market.{table}" for table in (*HIDDEN,
                                "contract_agreement"))):  # fmt: skip
                    cursor.execute(SQL(f"GRANT {right} TO {{}}").format(role))
                login = psycopg2.connect(**(parts | {"user": name, "password": "secret"}))
                try:
                    assert counted(login) == {0}, name
                finally:
                    login.close()
            finally:
                cursor.execute(SQL("DROP OWNED BY {}").format(role))
                cursor.execute(SQL("DROP ROLE {}").format(role))
    superuser.close()
    owner = psycopg2.connect(urls.owner.replace("+psycopg2", ""))
    assert counted(owner) == {1}, "the owner itself sees it"
    owner.close()


@pytest.mark.sweep
def test_no_login_of_one_home_reaches_another_whose_name_begins_alike(
    home: tuple[HomeUrls, Engine], postgres_server: EmbeddedServer
) -> None:
    urls, _ = home
    admin_url = postgres_server.superuser_url()
    for at, database in enumerate(OTHERS):
        other = create_home(admin_url, Participant(f"other_{at}"), database)
        try:
            for role in ROLES:
                for mine, theirs in ((urls, other), (other, urls)):
                    url = str(getattr(mine, role)).replace("+psycopg2", "")
                    with pytest.raises(psycopg2.OperationalError, match="permission denied"):
                        psycopg2.connect(url.removesuffix(mine.database) + theirs.database)
        finally:
            drop_home(admin_url, database)


def test_no_two_homes_have_a_role_in_common() -> None:
    stems = ("a", "a_owner", "a_owner_owner", "a_exchange", "a_home", "home", "owner", "job",
             "y" * 48, "x" * 63, "x" * 62, "x" * 61 + "_y")  # fmt: skip
    names = [
        role_name(database_of(Participant(stem)), role)
        for stem, role in product(stems, (*ROLES, OWNER_NOLOGIN))
    ]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= 63
