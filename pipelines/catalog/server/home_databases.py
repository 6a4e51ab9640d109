"""Homes: a database per participant, with roles that own as little as possible.

One server may hold many homes, so everything that the server knows by name begins with the name
of the database. Database and tables belong to a role without login, as which the administrator
migrates; the owner and the others log in as themselves, own nothing, and may do what `sql/grants`
lets them. Names are checked and quoted before they reach SQL.

The password of each login is the caller's to draw and to keep: nothing follows from another
password. Creating a home again sets the passwords that are given.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256

import psycopg2.extensions
from psycopg2.sql import SQL, Identifier
from sqlalchemy import create_engine
from sqlalchemy.engine import URL

from medusa_core.errors import Refused
from medusa_core.names import NAME_LENGTH_MAX, Participant, check_name
from pipelines.catalog.postgres.database_errors import errors_of_catalog
from pipelines.catalog.postgres.home_database import catalog_url
from pipelines.catalog.postgres.queries import query
from pipelines.catalog.server.migrations import migrate
from pipelines.catalog.server.role_bounds import bounds_of
from pipelines.catalog.server.roles import (
    close_to_public,
    end_sessions,
    join,
    make_database,
    make_login,
    make_owner,
    role_exists,
    role_name,
    run,
)
from pipelines.catalog.server.server_address import login_url

ROLES = ("owner", "job", "airflow", "analyst", "exchange", "page")
FORMER_ROLES = ("reader",)
"""Logins of homes that an earlier Medusa made, which `prepare_home` drops: partners had `reader`
before they were reached through exchange servers."""
PASSWORD_BYTES = 24
OWNER_NOLOGIN = "home"
"""Owns the database and all that is in it, and cannot log in."""

_ADVISORY_LOCK = 0x686F6D65  # "home": one administrator of homes at a time on a server
_SUFFIX = "_analyst"
"""What the name of a database leaves room for; that of a longer role loses its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeUrls:
    """A home and how each role logs in: owner for people, and for `medusa apply` where it grants
    streams, job for drivers, exchange for its server, page for the operator's page.

    `owner_role` is for migrations: the administrator's login, in the role that owns the tables.
    """

    participant: Participant
    database: str
    owner: str
    job: str
    airflow: str
    analyst: str
    exchange: str
    page: str
    owner_role: str = field(repr=False)


def database_of(participant: Participant) -> str:
    """The name of a participant's database, short enough for its roles' names to fit."""
    check_name("participant", participant)
    name = f"medusa_{participant}"
    if len(name) + len(_SUFFIX) > NAME_LENGTH_MAX:
        name = f"{name[:40]}_{sha256(participant.encode()).hexdigest()[:12]}"
    return name


def new_password() -> str:
    """A password for a login, drawn at random."""
    return secrets.token_urlsafe(PASSWORD_BYTES)


def create_home(
    admin_url: str,
    participant: Participant,
    database: str | None = None,
    passwords: Mapping[str, str] | None = None,
) -> HomeUrls:
    """Create a participant's database and roles and migrate it; what is there already stays.

    `admin_url` is a superuser's, or of a login that may create databases and roles. The logins get
    the `passwords` of their roles, which are random if not given. Raises Unavailable if it cannot
    be reached and Refused if it may not, or if somebody else lives there.
    """
    urls = prepare_home(admin_url, participant, database, passwords)
    migrate(urls.owner_role, participant)
    return urls


def prepare_home(
    admin_url: str,
    participant: Participant,
    database: str | None = None,
    passwords: Mapping[str, str] | None = None,
) -> HomeUrls:
    """Create a participant's database and roles, for `migrate` to fill; what is there stays."""
    check_name("participant", participant)
    database = check_name("database", database) if database else database_of(participant)
    check_name("role", f"{database}{_SUFFIX}")
    passwords = passwords or {role: new_password() for role in ROLES}
    with _administrator(catalog_url(admin_url)) as connection:
        for role in ROLES:
            make_login(connection, role_name(database, role), passwords[role])
        make_owner(connection, role_name(database, OWNER_NOLOGIN))
        make_database(connection, database, role_name(database, OWNER_NOLOGIN))
        _admit(connection, database)
        _bound(connection, database)
        for role in FORMER_ROLES:
            _drop_login(connection, role_name(database, role), admin_url, database)
    return home_urls(admin_url, participant, database, passwords)


def home_urls(
    admin_url: str, participant: Participant, database: str, passwords: Mapping[str, str]
) -> HomeUrls:
    """How each role logs in to a home that is there, with its password."""
    owner = catalog_url(admin_url).set(database=database)
    owner = owner.update_query_dict({"options": f"-c role={database}_{OWNER_NOLOGIN}"})
    return HomeUrls(
        participant=participant,
        database=database,
        owner_role=owner.render_as_string(hide_password=False),
        **{role: login_url(admin_url, database, role, passwords[role]) for role in ROLES},
    )


def drop_home(admin_url: str, database: str) -> None:
    """Remove a home with all that is in it, and its roles; nothing if there is none.

    Sessions that are still open in it are ended.
    """
    check_name("database", database)
    roles = [role_name(database, role) for role in (*ROLES, *FORMER_ROLES, OWNER_NOLOGIN)]
    with _administrator(catalog_url(admin_url)) as connection:
        for role in roles:
            if role_exists(connection, role):
                join(connection, role)
        _drop_database(connection, database, roles)
        for role in roles:
            run(connection, SQL("DROP ROLE IF EXISTS {}"), Identifier(role))


def _drop_database(
    connection: psycopg2.extensions.connection, database: str, roles: Iterable[str]
) -> None:
    """Drop a database, if it is there, and end the sessions that these roles have in it.

    FORCE needs the right to end each process that is in the database. Only a superuser may end a
    worker of autovacuum; without FORCE Postgres ends the worker by itself.
    """
    try:
        with errors_of_catalog():
            run(connection, SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)"), Identifier(database))
    except Refused:
        for role in roles:
            end_sessions(connection, role)
        run(connection, SQL("DROP DATABASE IF EXISTS {}"), Identifier(database))


def _admit(connection: psycopg2.extensions.connection, database: str) -> None:
    """Nobody but the home's own logins connects to its database."""
    close_to_public(connection, database)
    for role in ROLES:
        run(connection, SQL("GRANT CONNECT ON DATABASE {} TO {}"), Identifier(database),
            Identifier(role_name(database, role)))  # fmt: skip


def _bound(connection: psycopg2.extensions.connection, database: str) -> None:
    """What each login may hold."""
    for role in ROLES:
        for statement in bounds_of(database, role):
            run(connection, statement)


def _drop_login(
    connection: psycopg2.extensions.connection, role: str, admin_url: str, database: str
) -> None:
    """Drop a login, if it is there: first its rights, so that no new session begins."""
    if not role_exists(connection, role):
        return
    join(connection, role)
    # What it was granted in the home is revoked from within the home's database; the lock is held
    # by `connection`, which may be in the same database.
    with _administrator(catalog_url(admin_url).set(database=database), alone=False) as inside:
        run(inside, SQL("DROP OWNED BY {}"), Identifier(role))
    end_sessions(connection, role)
    run(connection, SQL("DROP ROLE {}"), Identifier(role))


@contextmanager
def _administrator(url: URL, *, alone: bool = True) -> Iterator[psycopg2.extensions.connection]:
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    try:
        with errors_of_catalog(), engine.connect() as connection:
            if alone:
                # Roles are rows that two administrators must not write at once; gone with the
                # session.
                connection.execute(query("hold_lock"), {"key": _ADVISORY_LOCK})
            driver = connection.connection.driver_connection
            assert isinstance(driver, psycopg2.extensions.connection)
            yield driver
    finally:
        engine.dispose()
