"""Limits of a home's logins: connections, and times of transactions and statements.

An open transaction keeps rows that others wait for, and an open connection is one that others
lack. Settings are a login's defaults, which it may change itself until the home is migrated again;
the number of connections it may not change. The role of jobs has no such limits here: its programs
set their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from psycopg2.sql import SQL, Composed, Identifier, Literal

from pipelines.catalog.server.roles import role_name

CONNECTIONS_MAX: Mapping[str, int] = MappingProxyType({
    "analyst": 24, "exchange": 24, "page": 8,
})  # fmt: skip
"""Of a server's 100, say; all partners and recipients share those of the exchange server."""

SETTINGS: Mapping[str, Mapping[str, str]] = MappingProxyType({
    "owner": {"idle_in_transaction_session_timeout": "2min", "lock_timeout": "10s"},
    "analyst": {
        "idle_in_transaction_session_timeout": "5min",
        "lock_timeout": "5s",
        "statement_timeout": "15min",
    },
    "exchange": {
        "idle_in_transaction_session_timeout": "10s",
        "lock_timeout": "3s",
        "statement_timeout": "30s",
    },
    "page": {
        "default_transaction_read_only": "on",
        "idle_in_transaction_session_timeout": "10s",
        "lock_timeout": "2s",
        "statement_timeout": "10s",
    },
})  # fmt: skip
"""An owner who thinks about an edit in psql has two minutes; then it is taken back."""


def bounds_of(database: str, kind: str) -> Iterator[Composed]:
    """The statements that bound a login of a home, as the administrator makes them."""
    role = Identifier(role_name(database, kind))
    # A login may have changed its own settings, and left them to the sessions after it.
    yield SQL("ALTER ROLE {} RESET ALL").format(role)
    yield SQL("ALTER ROLE {} IN DATABASE {} RESET ALL").format(role, Identifier(database))
    if kind in CONNECTIONS_MAX:
        connections = Literal(CONNECTIONS_MAX[kind])
        yield SQL("ALTER ROLE {} CONNECTION LIMIT {}").format(role, connections)
    for name, value in SETTINGS.get(kind, {}).items():
        yield SQL("ALTER ROLE {} IN DATABASE {} SET {} = {}").format(
            role, Identifier(database), Identifier(name), Literal(value)
        )
