"""Roles and databases of a server, created where they do not exist; existing ones remain.

The connection is an administrator's, autocommits and may create both. Names are checked by the
caller, and quoted here. Callers hold a lock so that two administrators do not write at once.
"""

from __future__ import annotations

import psycopg2.extensions
from psycopg2.sql import SQL, Composable, Identifier, Literal

from medusa_core.names import NAME_LENGTH_MAX


def role_name(database: str, kind: str) -> str:
    """How a role of a home is called: as long as Postgres lets a name be."""
    return f"{database}_{kind}"[:NAME_LENGTH_MAX]


def run(
    connection: psycopg2.extensions.connection,
    statement: SQL | Composable,
    *parts: Identifier | Literal,
) -> None:
    """Run a statement, with these in its places."""
    with connection.cursor() as cursor:
        cursor.execute(statement.format(*parts) if isinstance(statement, SQL) else statement)


def ask(
    connection: psycopg2.extensions.connection, statement: SQL, *parts: Identifier | Literal
) -> object:
    """The first value of a query's first row; None if there is no row."""
    with connection.cursor() as cursor:
        cursor.execute(statement.format(*parts))
        row = cursor.fetchone()
        return row[0] if row else None


def make_login(connection: psycopg2.extensions.connection, role: str, password: str) -> None:
    """A role that logs in with this password; of one that is there, it is set."""
    _make_role(connection, role, SQL("LOGIN"))
    secret = psycopg2.extensions.encrypt_password(password, role, connection, "scram-sha-256")
    run(connection, SQL("ALTER ROLE {} PASSWORD {}"), Identifier(role), Literal(secret))


def make_owner(connection: psycopg2.extensions.connection, role: str) -> None:
    """A role that nobody logs in as, and in which this administrator may act."""
    _make_role(connection, role, SQL("NOLOGIN"))
    join(connection, role)


def join(connection: psycopg2.extensions.connection, role: str) -> None:
    """Make the administrator a member: only a member or a superuser acts for a role."""
    if not ask(connection, SQL("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")):
        run(connection, SQL("GRANT {} TO CURRENT_USER"), Identifier(role))


def make_database(connection: psycopg2.extensions.connection, database: str, owner: str) -> None:
    """An empty database in UTF-8 of this owner."""
    there = SQL("SELECT 1 FROM pg_database WHERE datname = {}")
    if not ask(connection, there, Literal(database)):
        create = SQL("CREATE DATABASE {} OWNER {} ENCODING 'UTF8' TEMPLATE template0")
        run(connection, create, Identifier(database), Identifier(owner))


def close_to_public(connection: psycopg2.extensions.connection, database: str) -> None:
    """Nobody connects to a database but its owner, and who is granted it."""
    run(connection, SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC"), Identifier(database))


def role_exists(connection: psycopg2.extensions.connection, role: str) -> bool:
    """Whether the server has a role of this name."""
    there = SQL("SELECT 1 FROM pg_roles WHERE rolname = {}")
    return ask(connection, there, Literal(role)) is not None


def end_sessions(connection: psycopg2.extensions.connection, role: str) -> None:
    """End the sessions of a login, as a member of it or a superuser."""
    end = SQL("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = {}")
    run(connection, end, Literal(role))


def _make_role(connection: psycopg2.extensions.connection, role: str, kind: SQL) -> None:
    if not role_exists(connection, role):
        run(connection, SQL("CREATE ROLE {} {}").format(Identifier(role), kind))
