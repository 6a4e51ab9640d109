"""A home as it was: all of its tables saved, and restored as a restored backup would."""

from __future__ import annotations

from sqlalchemy import Engine, text

from medusa_core.names import Participant

TABLES = """
    SELECT c.oid::regclass AS name, replace(c.oid::regclass::text, '.', '__') AS copy,
        string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) AS columns
    FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
    WHERE c.relnamespace IN ('medusa'::regnamespace, 'medusa_market'::regnamespace)
        AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
        AND c.relname NOT LIKE 'schema%'
    GROUP BY c.oid ORDER BY 1
"""
UNGUARDED = "SET LOCAL session_replication_role = replica"
"""A superuser's: no trigger guards the tables."""
BACK_UP = f"""
DO $$
DECLARE
    one record;
BEGIN
    DROP SCHEMA IF EXISTS backup CASCADE;
    CREATE SCHEMA backup;
    FOR one IN {TABLES} LOOP
        EXECUTE format('CREATE TABLE backup.%I AS SELECT %s FROM %s', one.copy, one.columns,
            one.name);
    END LOOP;
    CREATE TABLE backup.numbers AS
        SELECT format('%I.%I', schemaname, sequencename) AS name, last_value FROM pg_sequences
        WHERE schemaname IN ('medusa', 'medusa_market') AND sequencename NOT LIKE 'schema%';
END $$
"""
RESTORE = f"""
DO $$
DECLARE
    one record;
BEGIN
    {UNGUARDED};
    FOR one IN {TABLES} LOOP
        EXECUTE format('DELETE FROM %s', one.name);
        EXECUTE format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM backup.%I',
            one.name, one.columns, one.columns, one.copy);
    END LOOP;
    PERFORM setval(n.name, coalesce(n.last_value, 1), n.last_value IS NOT NULL)
    FROM backup.numbers AS n;
END $$
"""


def in_time(watcher: Engine, statement: str) -> None:
    """Let time pass for rows, or lose some: what no role of the home may do and no trigger stops.

    `watcher` is a superuser's.
    """
    with watcher.begin() as connection:
        connection.execute(text(f"DO $$ BEGIN {UNGUARDED}; {statement}; END $$"))


class Backups:
    """Of the homes that these superusers are in."""

    def __init__(self, watchers: dict[Participant, Engine]) -> None:
        self._watchers = watchers
        self._made: set[Participant] = set()

    def back_up(self, name: Participant) -> None:
        with self._watchers[name].begin() as connection:
            connection.execute(text(BACK_UP))
        self._made.add(name)

    def restore(self, name: Participant) -> bool:
        """Put a home back to its backup; False if there is none."""
        if name not in self._made:
            return False
        with self._watchers[name].begin() as connection:
            connection.execute(text(RESTORE))
        return True
