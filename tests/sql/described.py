"""Everything that a database says of a home, so that two homes can be compared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, create_engine, text

from pipelines.catalog.postgres.home_database import catalog_url
from pipelines.catalog.server.home_databases import HomeUrls
from tests.catalog.homes_under_test import rows_of

SCHEMAS = "'medusa'::regnamespace, 'medusa_market'::regnamespace, 'medusa_api'::regnamespace"
CATALOGS = {
    "relations": """
        SELECT c.oid::regclass, c.relkind, c.relpersistence, c.reloptions, c.relrowsecurity,
            pg_get_userbyid(c.relowner), c.relacl
        FROM pg_class AS c WHERE c.relnamespace IN ({schemas})""",
    "columns": """
        SELECT attrelid::regclass, row_number() OVER (PARTITION BY attrelid ORDER BY attnum),
            attname, format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated,
            pg_get_expr(adbin, adrelid), attcollation::regcollation, attstorage, attacl
        FROM pg_attribute
        JOIN pg_class AS c ON c.oid = attrelid
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE c.relnamespace IN ({schemas}) AND attnum > 0 AND NOT attisdropped""",
    "constraints": """
        SELECT conrelid::regclass, conname, contype, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace IN ({schemas})""",
    "indexes": """
        SELECT schemaname, indexname, indexdef FROM pg_indexes
        WHERE schemaname::regnamespace IN ({schemas})""",
    "triggers": """
        SELECT tgrelid::regclass, tgname, tgenabled, pg_get_triggerdef(t.oid)
        FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = tgrelid
        WHERE c.relnamespace IN ({schemas}) AND NOT tgisinternal""",
    "functions": """
        SELECT oid::regprocedure, pg_get_functiondef(oid), pg_get_userbyid(proowner), proacl
        FROM pg_proc WHERE pronamespace IN ({schemas})""",
    "views": """
        SELECT schemaname, viewname, definition, viewowner FROM pg_views
        WHERE schemaname::regnamespace IN ({schemas})""",
    "types": """
        SELECT t.typname, t.typtype, pg_get_userbyid(t.typowner), t.typacl,
            (SELECT array_agg(enumlabel ORDER BY enumsortorder) FROM pg_enum
             WHERE enumtypid = t.oid)
        FROM pg_type AS t WHERE t.typnamespace IN ({schemas})""",
    "policies": """
        SELECT schemaname, tablename, policyname, permissive, roles, cmd, qual, with_check
        FROM pg_policies WHERE schemaname::regnamespace IN ({schemas})""",
    "comments": """
        SELECT i.type, i.identity, d.description
        FROM pg_description AS d,
            pg_identify_object(d.classoid, d.objoid, d.objsubid) AS i
        WHERE i.schema IN ('medusa', 'medusa_market', 'medusa_api')
            OR i.identity IN ('medusa', 'medusa_market', 'medusa_api')
            OR i.identity LIKE '% on medusa%'""",
    "schemas": """
        SELECT nspname, pg_get_userbyid(nspowner), nspacl FROM pg_namespace
        WHERE oid IN ({schemas})""",
}


@contextmanager
def engine_of(url: str) -> Iterator[Engine]:
    """An engine whose statements are transactions of their own."""
    engine = create_engine(catalog_url(url), isolation_level="AUTOCOMMIT")
    try:
        yield engine
    finally:
        engine.dispose()


def described(home: HomeUrls) -> dict[str, list[str]]:
    """By kind of object, with the database's name taken out of the names of roles."""
    with engine_of(home.owner_role) as engine, engine.connect() as connection:
        return {
            kind: sorted(
                repr(tuple(row)).replace(home.database, "DATABASE")
                for row in connection.execute(text(sql.format(schemas=SCHEMAS).replace(":", r"\:")))
            )
            for kind, sql in CATALOGS.items()
        }


def rows_as_made(home: HomeUrls) -> dict[str, list[object]]:
    """The rows of a home in which nobody has worked yet, but for its name and its past."""
    own = ("medusa.home", "medusa.participant", "medusa.schema_version")
    with engine_of(home.owner_role) as engine:
        return {
            name: sorted(rows, key=repr)
            for name, rows in rows_of(engine).items()
            if name not in own
        }
