"""Who may do what: each role logs in over TCP and tries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg2.errors
import pytest
from sqlalchemy import make_url

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import (
    OWNER_NOLOGIN,
    HomeUrls,
    create_home,
    database_of,
    drop_home,
)
from pipelines.catalog.server.migrations import check_migrated, migrate
from tests.catalog import building as a
from tests.earlier_homes import make_reader
from tests.home_pool import PASSWORDS
from tests.sql.conftest import LogIn
from tests.sweeps import long_but
from tests.waiting import until

OTHERS = ("job", "airflow", "analyst", "exchange", "page")
AGREED = {"contract", "contract_history", "contract_in_force", "contract_notices", "rounds",
          "desired_jobs", "jobs"}  # fmt: skip
VIEWS = {
    "job": {*AGREED, "contract_proposals", "contract_voids", "partners", "party_keys", "inbox",
            "audit", "outbox", "stream_grants", "links", "recipient_grants",
            "assignments", "certificates", "holds", "leases", "lineage", "published_boundaries",
            "published_files", "published_segments", "quarantine", "segments", "sinks", "steps",
            "streams", "transitions", "bounds", "cursors", "divergences", "disputed", "recalls",
            "views", "definitions",
            "accounts", "bill_disputes", "bills", "books", "payments", "samples",
            "cost", "load_samples", "offers", "answers", "agreed_moves", "trading"},
    "analyst": {*AGREED, "assignments", "certificates", "holds", "leases", "lineage",
                "published_boundaries",
                "published_files", "published_segments", "quarantine", "segments", "sinks",
                "steps", "streams", "transitions", "bounds", "cursors", "divergences", "disputed",
                "recalls", "views"},
    "airflow": {*AGREED, "assignments", "certificates", "holds", "leases", "sinks", "steps",
                "streams",
                "transitions", "bounds", "divergences", "disputed", "recalls"},
    "exchange": set(),
    "page": {*AGREED, "contract_proposals", "contract_voids", "party_keys", "inbox", "outbox",
             "stream_grants", "links", "assignments", "certificates", "holds", "leases", "lineage",
             "published_boundaries", "published_files", "published_segments", "quarantine",
             "segments", "sinks", "steps", "streams", "transitions", "bounds", "cursors",
             "divergences", "disputed", "recalls", "views", "accounts", "bill_disputes", "bills",
             "books", "payments", "cost", "load_samples", "offers", "answers", "agreed_moves",
             "trading"},
}  # fmt: skip
NO_RIGHT = "42501"
OWNERS = """
SELECT DISTINCT pg_get_userbyid(owner) FROM (
    SELECT relowner AS owner FROM pg_class
    WHERE relnamespace IN ('medusa'::regnamespace, 'medusa_market'::regnamespace,
        'medusa_api'::regnamespace)
    UNION SELECT proowner FROM pg_proc
    WHERE pronamespace IN ('medusa'::regnamespace, 'medusa_market'::regnamespace,
        'medusa_api'::regnamespace)
    UNION SELECT nspowner FROM pg_namespace
    WHERE nspname IN ('medusa', 'medusa_market', 'medusa_api')
    UNION SELECT datdba FROM pg_database WHERE datname = current_database()) AS owners
"""

TABLES = """
    SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
    WHERE schemaname IN ('medusa', 'medusa_market')"""


def run(session_of: LogIn, role: str, statement: str) -> list[tuple[object, ...]]:
    with session_of(role).cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def is_refused(session_of: LogIn, role: str, statement: str) -> bool:
    try:
        run(session_of, role, statement)
    except psycopg2.errors.InsufficientPrivilege:
        return True
    return False


@pytest.mark.parametrize("role", OTHERS)
def test_only_the_owner_writes_a_table(session_of: LogIn, role: str) -> None:
    tables = run(session_of, "owner", TABLES)
    login = session_of(role)
    assert len(tables) > 15
    for (table,) in tables:
        for verb in (f"DELETE FROM {table}", f"INSERT INTO {table} DEFAULT VALUES",
                     f"TRUNCATE {table}"):  # fmt: skip
            with pytest.raises(psycopg2.Error) as refused, login.cursor() as cursor:
                cursor.execute(verb)
            assert refused.value.pgcode == NO_RIGHT, verb


@pytest.mark.parametrize("role", OTHERS)
def test_each_role_sees_its_own_views_and_no_other(session_of: LogIn, role: str) -> None:
    names = run(
        session_of, "owner", "SELECT viewname FROM pg_views WHERE schemaname = 'medusa_api'"
    )
    seen = {
        str(name)
        for (name,) in names
        if not is_refused(session_of, role, f"SELECT * FROM medusa_api.{name}")
    }
    assert seen == VIEWS[role]


@pytest.mark.parametrize("role", long_but(1, OTHERS, quick=True))
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE medusa.mine (n integer)",
        "CREATE TABLE public.mine (n integer)",
        "CREATE TEMP TABLE mine (n integer)",
        "CREATE SCHEMA mine",
        "ALTER TABLE medusa.segment DISABLE TRIGGER ALL",
        "DROP VIEW medusa_api.streams",
        "SELECT medusa.found_home('beta')",
        "INSERT INTO medusa.schema_version (digest) VALUES ('x')",
        "SELECT medusa.supersede(1, 2, '[]')",
        "SELECT medusa.write_quarantine('[]', NULL, NULL)",
        "SET session_replication_role = replica",
    ],
)
def test_nobody_but_the_owner_changes_what_there_is(
    session_of: LogIn, role: str, statement: str
) -> None:
    assert is_refused(session_of, role, statement)


def test_the_sessions_of_the_page_are_read_only_by_themselves(attacked_urls: HomeUrls) -> None:
    login = psycopg2.connect(attacked_urls.page.replace("+psycopg2", ""))
    with closing(login), login.cursor() as cursor:
        cursor.execute("SHOW default_transaction_read_only")
        assert cursor.fetchone() == ("on",)
        with pytest.raises(psycopg2.errors.ReadOnlySqlTransaction):
            cursor.execute("CREATE TEMP TABLE mine (n integer)")


@pytest.mark.parametrize("table", ["inbox", "outbox"])
@pytest.mark.parametrize("column", ["body", "signature"])
def test_the_page_sees_that_there_are_envelopes_and_not_what_is_in_them(
    session_of: LogIn, table: str, column: str
) -> None:
    assert run(session_of, "page", f"SELECT kind FROM medusa_market.{table}") is not None
    assert is_refused(session_of, "page", f"SELECT {column} FROM medusa_market.{table}")


@pytest.mark.parametrize("role", ["airflow", "analyst", "exchange", "page"])
def test_only_a_job_commits(session_of: LogIn, role: str) -> None:
    assert is_refused(session_of, role, "SELECT medusa.commit_step('{}')")
    assert is_refused(session_of, role, "SELECT medusa.land('{}')")


def test_a_partner_sees_nothing_of_how_it_was_computed(session_of: LogIn) -> None:
    for table in ("lineage", "commit", "quarantine", "plan", "lease", "landed_batch", "hold"):
        assert is_refused(session_of, "exchange", f"SELECT * FROM medusa.{table}")
    assert is_refused(session_of, "exchange", "SELECT promised_us FROM medusa.stream_producer")
    assert is_refused(session_of, "exchange", "SELECT commit_id FROM medusa.segment")
    run(session_of, "owner", "SELECT medusa_api.grant_stream('sums', 'beta')")
    (((stream,),),) = run(session_of, "exchange", "SELECT medusa.published_streams('beta')")
    assert set(stream) == {"name", "kind", "width_us", "columns", "key", "replicas", "lineage"}
    analyst = "SELECT DISTINCT stream FROM medusa_api.published_segments"
    assert run(session_of, "analyst", analyst) == [(stream["name"],)] == [("sums",)]


@pytest.mark.parametrize("role", ["airflow", "analyst", "exchange"])
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT medusa.acknowledge('sums', 'gamma', 0, 1, 0)",
        "SELECT medusa.line_news('sums', 'alpha', 0, 0, 10)",
        "SELECT medusa.place_hold('sums', 'gamma', 'import', 0, 1)",
    ],
)
def test_who_speaks_for_partners_reads_and_acknowledges_through_what_is_granted_alone(
    session_of: LogIn, role: str, statement: str
) -> None:
    assert is_refused(session_of, role, statement)


def test_a_login_of_one_home_does_not_reach_another(
    postgres_server: EmbeddedServer, attacked_urls: HomeUrls
) -> None:
    admin_url = postgres_server.superuser_url()
    other = create_home(admin_url, Participant("beta"), "medusa_other")
    try:
        own = attacked_urls.owner.replace("+psycopg2", "")
        with pytest.raises(psycopg2.OperationalError, match="permission denied"):
            psycopg2.connect(own.removesuffix(attacked_urls.database) + other.database)
    finally:
        drop_home(admin_url, other.database)


@pytest.mark.parametrize("role", long_but(1, [*OTHERS, "owner"], quick=True))
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT pg_advisory_lock(n) FROM generate_series(1, 20000) AS n",
        "SELECT pg_try_advisory_lock_shared(n) FROM generate_series(1, 20000) AS n",
        "SELECT pg_advisory_xact_lock(n, n) FROM generate_series(1, 20000) AS n",
        "SELECT lo_create(0) FROM generate_series(1, 20000)",
        "SELECT lo_from_bytea(0, 'x')",
    ],
)
def test_no_login_fills_the_lock_table_of_the_server(
    session_of: LogIn, role: str, statement: str
) -> None:
    assert is_refused(session_of, role, statement)


@pytest.mark.parametrize("database", ["postgres", "template1"])
@pytest.mark.parametrize("role", ["owner", *OTHERS])
def test_no_login_enters_a_database_that_is_nobodys_home(
    attacked_urls: HomeUrls, role: str, database: str
) -> None:
    url = make_url(getattr(attacked_urls, role)).set(drivername="postgresql", database=database)
    with pytest.raises(psycopg2.OperationalError, match="rejects connection"):
        psycopg2.connect(url.render_as_string(hide_password=False))


def test_a_login_keeps_no_settings_of_its_own_when_the_home_is_made_again(
    postgres_server: EmbeddedServer, attacked_urls: HomeUrls, session_of: LogIn
) -> None:
    lifted = "statement_timeout = 0"
    run(session_of, "analyst", f"ALTER ROLE CURRENT_USER SET {lifted}")
    name = attacked_urls.database
    run(session_of, "analyst", f"ALTER ROLE CURRENT_USER IN DATABASE {name} SET {lifted}")
    run(session_of, "analyst", "ALTER ROLE CURRENT_USER PASSWORD 'mine'")
    create_home(postgres_server.superuser_url(), a.ALPHA, attacked_urls.database, PASSWORDS)
    again = psycopg2.connect(attacked_urls.analyst.replace("+psycopg2", ""))
    with closing(again), again.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        assert cursor.fetchone() == ("15min",)


def test_creating_a_home_again_changes_nothing(
    postgres_server: EmbeddedServer, attacked_urls: HomeUrls
) -> None:
    admin_url = postgres_server.superuser_url()
    again = create_home(admin_url, a.ALPHA, attacked_urls.database, PASSWORDS)
    assert again == attacked_urls
    assert migrate(again.owner_role) == []


@pytest.mark.parametrize("role", ["owner", *OTHERS])
def test_no_login_owns_anything_or_passes_by_a_rule(
    attacked_urls: HomeUrls, session_of: LogIn, role: str
) -> None:
    name = f"{attacked_urls.database}_{role}"
    owner_role = f"{attacked_urls.database}_{OWNER_NOLOGIN}"
    assert name not in {owner for (owner,) in run(session_of, "owner", OWNERS)}
    ((is_above,),) = run(
        session_of, role, "SELECT rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb "
        f"OR pg_has_role('{name}', '{owner_role}', 'MEMBER') FROM pg_roles "
        f"WHERE rolname = '{name}'"
    )  # fmt: skip
    assert is_above is False
    assert is_refused(session_of, role, f"SET ROLE {owner_role}")
    for change in ("DISABLE TRIGGER ALL", "DISABLE ROW LEVEL SECURITY", "OWNER TO CURRENT_USER"):
        assert is_refused(session_of, role, f"ALTER TABLE medusa_market.contract_proposal {change}")
    assert is_refused(session_of, role, "CREATE TABLE medusa.mine (n integer)")
    assert is_refused(session_of, role, "CREATE TEMP TABLE mine (n integer)")


def test_the_owner_role_has_no_login(attacked_urls: HomeUrls) -> None:
    owner = make_url(attacked_urls.owner)
    owner_role = owner.set(username=f"{attacked_urls.database}_{OWNER_NOLOGIN}")
    with pytest.raises(Unavailable):
        check_migrated(owner_role.render_as_string(hide_password=False))


INLINED = {
    "answer", "at_ms", "is_fragment", "is_fragment_of", "is_held", "is_name", "json_list",
    "subject_range", "to_ms", "total",
}  # fmt: skip
"""With a setting of their own these would not be; they name in full what is not built in."""

WAIT_LONGER = ("learn_first_key", "record_load", "trim_loads")
"""Functions of the market that write and have no limit of their own on how long they wait."""


def test_views_run_as_who_asks_and_functions_find_only_what_is_named(session_of: LogIn) -> None:
    assert run(session_of, "owner", """
        SELECT c.oid::regclass::text FROM pg_class AS c
        WHERE c.relkind = 'v' AND c.relnamespace = 'medusa_api'::regnamespace
            AND NOT c.reloptions @> ARRAY['security_invoker=true']
    """) == []  # fmt: skip
    found = run(session_of, "owner", """
        SELECT p.proname FROM pg_proc AS p
        WHERE p.pronamespace IN ('medusa'::regnamespace, 'medusa_market'::regnamespace,
                'medusa_api'::regnamespace)
            AND NOT coalesce(p.proconfig, '{}') @> ARRAY['search_path=pg_catalog, pg_temp']
    """)  # fmt: skip
    assert {name for (name,) in found} == INLINED
    found = run(session_of, "owner", """
        SELECT p.proname FROM pg_proc AS p
        WHERE p.pronamespace IN ('medusa'::regnamespace, 'medusa_market'::regnamespace,
                'medusa_api'::regnamespace)
            AND NOT coalesce(p.proconfig, '{}') @> ARRAY['search_path=pg_catalog, pg_temp']
            -- A function with a setting is not inlined; these name what is not built in in full.
            AND p.oid::regproc::text NOT IN ('medusa.answer', 'medusa.is_held',
                'medusa_market.at_ms', 'medusa_market.json_list', 'medusa_market.subject_range')
    """) == []  # fmt: skip
    assert run(session_of, "owner", """
        SELECT p.oid::regproc::text FROM pg_proc AS p
        WHERE p.pronamespace = 'medusa_market'::regnamespace AND p.prosecdef
            AND p.provolatile = 'v'
            AND NOT p.proconfig @> ARRAY['lock_timeout=3s'] ORDER BY 1
    """) == [(f"medusa_market.{name}",) for name in WAIT_LONGER]  # fmt: skip


@pytest.fixture
def creator_url(postgres_server: EmbeddedServer) -> Iterator[str]:
    """A login that may create databases and roles, and is no superuser."""
    with _superuser(postgres_server) as cursor:
        cursor.execute("CREATE ROLE medusa_creator LOGIN CREATEDB CREATEROLE PASSWORD 'secret'")
        cursor.execute("CREATE DATABASE medusa_creators")
        try:
            yield postgres_server.url("medusa_creators", "medusa_creator", "secret")
        finally:
            drop_home(postgres_server.superuser_url(), "medusa_created")
            cursor.execute("DROP DATABASE medusa_creators WITH (FORCE)")
            cursor.execute("DROP ROLE medusa_creator")


@pytest.mark.long(quick=True)
def test_a_creator_need_not_be_a_superuser(
    postgres_server: EmbeddedServer, creator_url: str
) -> None:
    urls = create_home(creator_url, a.ALPHA, "medusa_created")
    again = create_home(creator_url, a.ALPHA, "medusa_created")
    assert again != urls, "other passwords"
    reader = make_reader(creator_url, "medusa_created", "secret")
    psycopg2.connect(reader.replace("+psycopg2", "")).close()
    in_home = postgres_server.url("medusa_created", "medusa_creator", "secret")
    urls = create_home(in_home, a.ALPHA, "medusa_created")
    with _superuser(postgres_server) as cursor:
        cursor.execute("SELECT FROM pg_roles WHERE rolname = 'medusa_created_reader'")
        assert cursor.fetchall() == []
    make_reader(creator_url, "medusa_created", "secret")  # drop_home drops it, too
    PostgresCatalog(urls.job, a.ALPHA).close()
    with closing(psycopg2.connect(urls.job.replace("+psycopg2", ""))) as left_open:
        drop_home(creator_url, "medusa_created")
        with pytest.raises(psycopg2.OperationalError), left_open.cursor() as of_job:
            of_job.execute("SELECT 1")
    with _superuser(postgres_server) as cursor:
        cursor.execute("SELECT FROM pg_roles WHERE rolname LIKE 'medusa\\_created%'")
        assert cursor.fetchall() == []


@pytest.mark.long
def test_a_creator_drops_a_home_that_is_being_vacuumed(
    postgres_server: EmbeddedServer, creator_url: str
) -> None:
    """Nobody but a superuser may end a worker of autovacuum, which comes to any database."""
    urls = create_home(creator_url, a.ALPHA, "medusa_created")
    with _superuser(postgres_server) as cursor, _vacuumed_slowly(cursor):
        with _superuser(postgres_server, "medusa_created") as in_home:
            in_home.execute(
                "CREATE TABLE public.dead WITH (autovacuum_vacuum_threshold = 1) AS"
                " SELECT repeat('x', 1000) FROM generate_series(1, 20000)"
            )
            in_home.execute("DELETE FROM public.dead")
        with closing(psycopg2.connect(urls.job.replace("+psycopg2", ""))):
            until(lambda: _workers_in(cursor, "medusa_created") > 0, "a worker of autovacuum")
            drop_home(creator_url, "medusa_created")
        cursor.execute("SELECT FROM pg_database WHERE datname = 'medusa_created'")
        assert cursor.fetchall() == []


@contextmanager
def _superuser(
    server: EmbeddedServer, database: str | None = None
) -> Iterator[psycopg2.extensions.cursor]:
    url = make_url(server.superuser_url()).set(drivername="postgresql")
    url = url.set(database=database or url.database)
    with closing(psycopg2.connect(url.render_as_string(hide_password=False))) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            yield cursor


@contextmanager
def _vacuumed_slowly(cursor: psycopg2.extensions.cursor) -> Iterator[None]:
    """Workers of autovacuum begin each second and take minutes."""
    settings = {
        "autovacuum_naptime": "1s",
        "autovacuum_vacuum_cost_delay": "100ms",
        "autovacuum_vacuum_cost_limit": "1",
    }
    try:
        for name, value in settings.items():
            cursor.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        cursor.execute("SELECT pg_reload_conf()")
        yield
    finally:
        for name in settings:
            cursor.execute(f"ALTER SYSTEM RESET {name}")
        cursor.execute("SELECT pg_reload_conf()")


def _workers_in(cursor: psycopg2.extensions.cursor, database: str) -> int:
    cursor.execute(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = %s AND backend_type = 'autovacuum worker'",
        [database],
    )
    (count,) = cursor.fetchone() or (0,)
    return int(count)


def test_a_home_belongs_to_one_participant(
    postgres_server: EmbeddedServer, attacked_urls: HomeUrls
) -> None:
    admin_url = postgres_server.superuser_url()
    with pytest.raises(Refused, match="home of alpha"):
        create_home(admin_url, Participant("beta"), attacked_urls.database, PASSWORDS)
    with pytest.raises(Refused, match="home of alpha"):
        PostgresCatalog(attacked_urls.job, Participant("beta"))


@pytest.mark.parametrize("name", ['x"; DROP DATABASE postgres; --', "Beta", "", "a" * 64, "a-b"])
def test_a_name_with_sql_in_it_is_no_name_of_a_home(
    postgres_server: EmbeddedServer, name: str
) -> None:
    with pytest.raises(Refused, match="is not a name"):
        create_home(postgres_server.superuser_url(), Participant(name))
    with pytest.raises(Refused, match="is not a name"):
        drop_home(postgres_server.superuser_url(), name)


def test_a_long_name_has_a_database_of_its_own() -> None:
    names = {database_of(Participant("a" * length)) for length in (40, 50, 62, 63)}
    assert len(names) == 4
    assert max(map(len, names)) + len("_analyst") <= 63


def test_a_server_that_is_not_there_is_unavailable(attacked_urls: HomeUrls) -> None:
    nowhere = "postgresql://nobody:x@127.0.0.1:1/none"
    with pytest.raises(Unavailable, match="cannot be reached"):
        PostgresCatalog(nowhere, a.ALPHA)
    with pytest.raises(Unavailable, match="cannot be reached"):
        check_migrated(nowhere)
    wrong = attacked_urls.job.replace(":", ":x", 2).replace("postgresql+psycopg2:x", "postgresql:")
    with pytest.raises(Unavailable):
        PostgresCatalog(wrong, a.ALPHA)
