"""What homes of an earlier Medusa have, and are rid of when they are brought up to date."""

from __future__ import annotations

import psycopg2
from psycopg2.sql import SQL, Identifier

from pipelines.catalog.server.home_databases import OWNER_NOLOGIN
from pipelines.catalog.server.roles import role_name
from pipelines.catalog.server.server_address import login_url

_RIGHTS = (
    "GRANT CONNECT ON DATABASE {database} TO {reader}",
    "GRANT USAGE ON SCHEMA medusa, medusa_market, medusa_api TO {reader}",
    "GRANT EXECUTE ON FUNCTION medusa.line_news, medusa_market.take_envelopes TO {reader}",
    "GRANT SELECT (file_id, path, rows, sha256, size_bytes, stream) ON medusa.file TO {reader}",
    "GRANT SELECT ON medusa_api.published_files TO {reader}",
)


def make_reader(admin_url: str, database: str, password: str) -> str:
    """Make the login that partners had in a home; its URL."""
    names = {
        "database": Identifier(database),
        "home": Identifier(role_name(database, OWNER_NOLOGIN)),
        "reader": Identifier(role_name(database, "reader")),
    }
    inside = psycopg2.connect(admin_url.replace("+psycopg2", ""), dbname=database)
    inside.autocommit = True
    with inside.cursor() as cursor:
        cursor.execute(SQL("CREATE ROLE {reader} LOGIN PASSWORD %s").format(**names), (password,))
        setting = "ALTER ROLE {reader} IN DATABASE {database} SET lock_timeout = '3s'"
        for statement in (setting, "GRANT {reader} TO {home}", "SET ROLE {home}", *_RIGHTS):
            cursor.execute(SQL(statement).format(**names))
    inside.close()
    return login_url(admin_url, database, "reader", password)
