"""The SQL files keep what `sql/README.md` says of them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import text

from pipelines.catalog.postgres.queries import SQL_FOLDER
from pipelines.catalog.schema_files import read_files
from pipelines.catalog.server.home_databases import HomeUrls
from tests.sql.described import SCHEMAS, engine_of

FILES = sorted(SQL_FOLDER.rglob("*.sql"))
LINES_MAX = 600
KNOWN = read_files(SQL_FOLDER)
STATELESS = re.compile(
    r"\b(CREATE|DROP|ALTER)\b[^;]{0,40}?\b(FUNCTION|TRIGGER|VIEW|PROCEDURE)\b|\b(GRANT|REVOKE)\b"
)


def code_of(path: Path) -> str:
    return re.sub(r"--.*", "", path.read_text(encoding="utf-8"))


def test_no_file_is_too_long() -> None:
    lengths = {str(path.relative_to(SQL_FOLDER)): len(path.read_text().splitlines())
               for path in FILES}  # fmt: skip
    assert {name: n for name, n in lengths.items() if n > LINES_MAX} == {}


def test_every_function_is_defined_in_one_file_that_bears_its_name() -> None:
    defined = Counter(name for file in KNOWN.functions for name in file.functions)
    assert len(defined) > 200
    assert [name for name, times in defined.items() if times > 1] == []
    for file in KNOWN.functions:
        assert file.name in {name.partition(".")[2] for name in file.functions}, file.path
    every = [
        name
        for path in FILES
        for name in re.findall(r"\bFUNCTION\s+([\w.]+)\s*\([^;]*?\bRETURNS\b", code_of(path))
    ]
    assert sorted(every) == sorted(defined)


@pytest.mark.parametrize("kind", ["schema", "migrations"])
def test_tables_and_migrations_hold_no_function_trigger_view_or_grant(kind: str) -> None:
    for path in (SQL_FOLDER / kind).glob("*.sql"):
        assert STATELESS.search(code_of(path)) is None, path.name


def test_streams_know_nothing_of_the_market() -> None:
    """It is a wing: it reads streams, and nothing of a stream reads it."""
    for path in (SQL_FOLDER / "functions").glob("*/*.sql"):
        if "FUNCTION medusa." in (sql := path.read_text()):
            assert "medusa_market" not in sql, path.name


def test_every_body_compiles(attacked_urls: HomeUrls) -> None:
    """A home is made without looking into them, so that their order does not matter."""
    with engine_of(attacked_urls.owner_role) as engine, engine.connect() as connection:
        connection.execute(text("BEGIN"))
        connection.execute(text("SET LOCAL check_function_bodies = on"))
        driver = connection.connection.cursor()
        for file in KNOWN.functions:
            driver.execute(file.sql)
        connection.execute(text("ROLLBACK"))


def test_everything_has_a_comment(attacked_urls: HomeUrls) -> None:
    without = f"""
        SELECT oid::regclass::text FROM pg_class
        WHERE relnamespace IN ({SCHEMAS}) AND relkind IN ('r', 'v')
            AND obj_description(oid, 'pg_class') IS NULL
        UNION ALL
        SELECT oid::regprocedure::text FROM pg_proc
        WHERE pronamespace IN ({SCHEMAS}) AND obj_description(oid, 'pg_proc') IS NULL
        UNION ALL
        SELECT polrelid::regclass::text || ' ' || polname FROM pg_policy
        WHERE obj_description(oid, 'pg_policy') IS NULL
    """
    with engine_of(attacked_urls.owner_role) as engine, engine.connect() as connection:
        assert connection.execute(text(without.replace("::", r"\:\:"))).scalars().all() == []


def test_nothing_is_everybodys(attacked_urls: HomeUrls) -> None:
    open_to_all = f"""
        SELECT found.what FROM (
            SELECT p.oid::regprocedure::text,
                coalesce(p.proacl, acldefault('f', p.proowner))
            FROM pg_proc AS p WHERE p.pronamespace IN ({SCHEMAS})
            UNION ALL
            SELECT c.oid::regclass::text, coalesce(c.relacl, acldefault('r', c.relowner))
            FROM pg_class AS c WHERE c.relnamespace IN ({SCHEMAS}) AND c.relkind IN ('r', 'v', 'p')
            UNION ALL
            SELECT n.nspname, coalesce(n.nspacl, acldefault('n', n.nspowner))
            FROM pg_namespace AS n WHERE n.oid IN ({SCHEMAS})
        ) AS found (what, acl), aclexplode(found.acl) AS granted WHERE granted.grantee = 0
    """
    with engine_of(attacked_urls.owner_role) as engine, engine.connect() as connection:
        found = connection.execute(text(open_to_all.replace("::", r"\:\:"))).scalars().all()
    assert found == []
