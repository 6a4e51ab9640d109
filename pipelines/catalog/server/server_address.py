"""The address of a catalog server: a URL with host, port and options such as `sslmode`.

It has no database and nothing to log in with, so it may be written down and shown.
"""

from __future__ import annotations

from sqlalchemy.engine import URL

from pipelines.catalog.postgres.home_database import catalog_url
from pipelines.catalog.server.roles import role_name

_OF_A_LOGIN = (
    "dbname", "user", "password", "passfile", "require_auth", "service", "servicefile",
    "scram_client_key", "scram_server_key", "sslpassword", "oauth_client_id", "oauth_client_secret",
)  # fmt: skip


def server_address(url: str) -> str:
    """The address of the server that a URL names."""
    return _address(url).render_as_string(hide_password=False)


def login_url(server: str, database: str, role: str, password: str) -> str:
    """How a role of a home logs in; of the server's URL, only the address is used."""
    login = _address(server).set(
        username=role_name(database, role), password=password, database=database
    )
    return login.render_as_string(hide_password=False)


def _address(url: str) -> URL:
    found = catalog_url(url).difference_update_query(_OF_A_LOGIN)
    return URL.create(
        found.drivername, host=found.host, port=found.port, database="", query=found.query
    )
