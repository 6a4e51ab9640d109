"""Migrations make exactly what `schema.sql` says, once, and refuse what they do not know."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text

from medusa_core.errors import Refused, Unavailable
from medusa_core.grid import FOREVER_US
from medusa_core.names import Participant, Version
from pipelines.catalog.postgres import rows
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog, catalog_url
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls, create_home, drop_home
from pipelines.catalog.server.migrations import MIGRATIONS_FOLDER, check_migrated, migrate
from tests.catalog import building as a
from tests.catalog.homes_under_test import rows_of

# Everything that a database says of itself; {db} stands where a role's name carries it.
CATALOGS = {
    "relations": """
        SELECT c.oid::regclass, c.relkind, c.relpersistence, c.reloptions, c.relrowsecurity,
            pg_get_userbyid(c.relowner), c.relacl
        FROM pg_class AS c WHERE c.relnamespace IN ({schemas})""",
    "columns": """
        SELECT attrelid::regclass, attnum, attname, format_type(atttypid, atttypmod), attnotnull,
            attidentity, attgenerated, pg_get_expr(adbin, adrelid), attcollation::regcollation,
            attstorage, attacl
        FROM pg_attribute
        JOIN pg_class AS c ON c.oid = attrelid
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE c.relnamespace IN ({schemas}) AND attnum > 0""",
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
        WHERE i.schema IN ('medusa', 'medusa_api') OR i.identity IN ('medusa', 'medusa_api')
            OR i.identity LIKE '% on medusa%'""",
    "schemas": """
        SELECT nspname, pg_get_userbyid(nspowner), nspacl FROM pg_namespace
        WHERE oid IN ({schemas})""",
}


@contextmanager
def owners_engine(url: str) -> Iterator[Engine]:
    engine = create_engine(catalog_url(url), isolation_level="AUTOCOMMIT")
    try:
        yield engine
    finally:
        engine.dispose()


def described(url: str, database: str) -> dict[str, list[str]]:
    """What a database says of itself, with its own name taken out of its roles' names."""
    schemas = "'medusa'::regnamespace, 'medusa_api'::regnamespace"
    with owners_engine(url) as engine, engine.connect() as connection:
        return {
            kind: sorted(
                repr(tuple(row)).replace(database, "DATABASE")
                for row in connection.execute(text(sql.format(schemas=schemas).replace(":", r"\:")))
            )
            for kind, sql in CATALOGS.items()
        }


@pytest.fixture
def fresh(postgres_server: EmbeddedServer) -> Iterator[HomeUrls]:
    """A home that a test may spoil."""
    admin_url = postgres_server.superuser_url()
    yield create_home(admin_url, a.ALPHA, "medusa_fresh")
    drop_home(admin_url, "medusa_fresh")


@pytest.fixture
def migrations(tmp_path: Path) -> Path:
    """A copy of the migrations that a test may edit."""
    return Path(shutil.copytree(MIGRATIONS_FOLDER, tmp_path / "migrations"))


def test_migrations_make_what_the_schema_says(
    postgres_server: EmbeddedServer, fresh: HomeUrls, migrations: Path
) -> None:
    admin_url = postgres_server.superuser_url()
    stepwise = create_home(admin_url, Participant("beta"), "medusa_stepwise")
    try:
        with owners_engine(stepwise.keeper) as engine, engine.connect() as connection:
            connection.execute(text("DROP SCHEMA medusa, medusa_api CASCADE"))
        assert len(migrate(stepwise.keeper, folder=migrations)) > 1
        by_schema = described(fresh.keeper, fresh.database)
        by_migrations = described(stepwise.keeper, stepwise.database)
        assert rows_as_made(stepwise.keeper) == rows_as_made(fresh.keeper)
    finally:
        drop_home(admin_url, stepwise.database)
    for kind, wanted in by_schema.items():
        assert wanted, f"nothing was compared of {kind}"
        assert by_migrations[kind] == wanted, kind


def rows_as_made(url: str) -> dict[str, list[object]]:
    """What lies in the tables of a home before anybody lives there."""
    with owners_engine(url) as engine:
        lived_in = ("home", "participant")
        return {name: rows for name, rows in rows_of(engine).items() if name not in lived_in}


def test_nothing_is_everybodys(fresh: HomeUrls) -> None:
    open_to_all = """
        SELECT found.what FROM (
            SELECT p.oid::regprocedure::text,
                coalesce(p.proacl, acldefault('f', p.proowner))
            FROM pg_proc AS p WHERE p.pronamespace IN ({schemas})
            UNION ALL
            SELECT c.oid::regclass::text, coalesce(c.relacl, acldefault('r', c.relowner))
            FROM pg_class AS c WHERE c.relnamespace IN ({schemas}) AND c.relkind IN ('r', 'v', 'p')
            UNION ALL
            SELECT n.nspname, coalesce(n.nspacl, acldefault('n', n.nspowner))
            FROM pg_namespace AS n WHERE n.oid IN ({schemas})
        ) AS found (what, acl), aclexplode(found.acl) AS granted WHERE granted.grantee = 0
    """.format(schemas="'medusa'::regnamespace, 'medusa_api'::regnamespace")
    with owners_engine(fresh.keeper) as engine, engine.connect() as connection:
        found = connection.execute(text(open_to_all.replace("::", r"\:\:"))).scalars().all()
    assert found == []


def test_everything_has_a_comment(fresh: HomeUrls) -> None:
    without = """
        SELECT oid::regclass::text FROM pg_class
        WHERE relnamespace IN ('medusa'::regnamespace, 'medusa_api'::regnamespace)
            AND relkind IN ('r', 'v') AND obj_description(oid, 'pg_class') IS NULL
        UNION ALL
        SELECT oid::regprocedure::text FROM pg_proc
        WHERE pronamespace IN ('medusa'::regnamespace, 'medusa_api'::regnamespace)
            AND obj_description(oid, 'pg_proc') IS NULL
        UNION ALL
        SELECT polrelid::regclass::text || ' ' || polname FROM pg_policy
        WHERE obj_description(oid, 'pg_policy') IS NULL
    """
    with owners_engine(fresh.keeper) as engine, engine.connect() as connection:
        assert connection.execute(text(without.replace("::", r"\:\:"))).scalars().all() == []


def test_a_home_that_is_up_to_date_is_left_alone(fresh: HomeUrls) -> None:
    assert migrate(fresh.keeper) == []
    check_migrated(fresh.keeper)


def test_a_new_migration_is_applied_once(fresh: HomeUrls, migrations: Path) -> None:
    (migrations / "0999_note.sql").write_text("CREATE TABLE medusa.note (n integer);")
    assert migrate(fresh.keeper, folder=migrations) == ["0999_note"]
    assert migrate(fresh.keeper, folder=migrations) == []


def test_a_migration_that_fails_leaves_nothing(fresh: HomeUrls, migrations: Path) -> None:
    (migrations / "0999_note.sql").write_text("CREATE TABLE medusa.note (n integer); SELECT 1/0;")
    with pytest.raises(Refused):
        migrate(fresh.keeper, folder=migrations)
    (migrations / "0999_note.sql").write_text("CREATE TABLE medusa.note (n integer);")
    assert migrate(fresh.keeper, folder=migrations) == ["0999_note"]


def test_a_home_from_before_holds_had_an_order_and_lines_a_chain_goes_on(
    fresh: HomeUrls, migrations: Path
) -> None:
    later = "0005_promises"
    for path in migrations.glob("*.sql"):
        if path.stem >= later:
            path.unlink()
    first = rows.commit_document(a.a_commit(a.a_segment(0, 2))).replace("fresh_ms", "age_ms")
    first = first.replace('"age_ms": null', '"age_ms": 0')
    with owners_engine(fresh.keeper) as engine, engine.connect() as connection:
        connection.execute(text("DROP SCHEMA medusa, medusa_api CASCADE"))
        migrate(fresh.keeper, a.ALPHA, migrations)
        for call, document in (
            ("SELECT medusa.deploy(:document)", rows.deployment_document(a.a_deployment())),
            (f"SELECT medusa.acquire_lease('{a.MAIN}', 0, 'alpha', 0, 'live', 1, 'me', 99000)", ""),
            ("SELECT medusa.commit_step(:document)", first),
        ):
            connection.execute(text(call), {"document": document} if document else {})
    assert later in migrate(fresh.keeper)
    catalog = PostgresCatalog(fresh.job, a.ALPHA)
    catalog.commit(a.a_commit(a.a_segment(2, 4)))
    news = catalog.line_news(a.SUMS, a.ME, Version(1), segments_max=9)
    assert news.chain_after is None, "what was written before is not compared"
    assert news.chain is not None
    catalog.acknowledge(a.SUMS, Participant("beta"), a.WIDTH_US, a.HOUR_MS)
    trimmed = catalog.trim(
        a.SUMS, a.ME, 3 * a.WIDTH_US, needed={a.TAIL: FOREVER_US}, segments_max=9
    )
    assert trimmed.trimmed_us == a.WIDTH_US
    catalog.close()


def test_an_edited_migration_is_refused(fresh: HomeUrls, migrations: Path) -> None:
    first = min(migrations.glob("*.sql"))
    first.write_text(first.read_text() + "-- edited\n")
    with pytest.raises(Refused, match="edited"):
        migrate(fresh.keeper, folder=migrations)


def test_a_home_of_a_newer_medusa_is_refused(fresh: HomeUrls, migrations: Path) -> None:
    (migrations / "9999_later.sql").write_text("SELECT 1;")
    migrate(fresh.keeper, folder=migrations)
    with pytest.raises(Refused, match="newer Medusa"):
        migrate(fresh.keeper)
    with pytest.raises(Refused, match="newer Medusa"):
        PostgresCatalog(fresh.job, a.ALPHA)


def test_a_home_without_tables_is_unavailable_and_says_what_to_run(fresh: HomeUrls) -> None:
    with owners_engine(fresh.keeper) as engine, engine.connect() as connection:
        connection.execute(text("DROP SCHEMA medusa, medusa_api CASCADE"))
    with pytest.raises(Unavailable, match="run medusa migrate"):
        check_migrated(fresh.keeper)
    with pytest.raises(Unavailable, match="run medusa migrate"):
        PostgresCatalog(fresh.job, a.ALPHA)


def test_a_home_that_is_nobodys_yet_is_unavailable(fresh: HomeUrls) -> None:
    with owners_engine(fresh.keeper) as engine, engine.connect() as connection:
        connection.execute(text("DELETE FROM medusa.home"))
    with pytest.raises(Unavailable, match="nobody"):
        PostgresCatalog(fresh.job, a.ALPHA)
