"""A home that is migrated becomes what a new home is, at once or not at all, or is refused."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest
from sqlalchemy import text

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant
from pipelines.catalog.postgres import rows
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.postgres.queries import SQL_FOLDER
from pipelines.catalog.schema_files import read_files
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls, create_home, drop_home, prepare_home
from pipelines.catalog.server.migrations import check_migrated, migrate
from tests.catalog import building as a
from tests.sql.described import described, engine_of, rows_as_made
from tests.sweeps import long_but
from tests.waiting import until

BASELINE = Path(__file__).parent / "baseline"
"""The files of `sql/schema` that migrations have changed, as they were before the first of them."""
BASELINE_SHA256 = "2638731bd7b76aea2281eb6023a471b749d2687d048df3254022c3876a303dbe"
NEW_TABLE = "CREATE TABLE medusa.note (n integer);"


def run(home: HomeUrls, *statements: str, **values: object) -> list[object]:
    """The first column of what the last statement answers with, sent by the owner role."""
    with engine_of(home.owner_role) as engine, engine.connect() as connection:
        for statement in statements:
            answer = connection.execute(text(statement), values)
        return list(answer.scalars()) if answer.returns_rows else []


@pytest.fixture
def fresh(postgres_server: EmbeddedServer) -> Iterator[HomeUrls]:
    """A new home that a test may spoil."""
    admin_url = postgres_server.superuser_url()
    yield create_home(admin_url, a.ALPHA, "medusa_fresh")
    drop_home(admin_url, "medusa_fresh")


@pytest.fixture
def empty(postgres_server: EmbeddedServer) -> Iterator[HomeUrls]:
    """The database and roles of a home, and nothing in them."""
    admin_url = postgres_server.superuser_url()
    yield prepare_home(admin_url, a.ALPHA, "medusa_older")
    drop_home(admin_url, "medusa_older")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the SQL files that a test may edit."""
    return Path(shutil.copytree(SQL_FOLDER, tmp_path / "sql"))


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    """The SQL files with the tables as they were before the first migration."""
    folder = Path(shutil.copytree(SQL_FOLDER, tmp_path / "baseline"))
    shutil.rmtree(folder / "migrations")
    shutil.copytree(BASELINE, folder, dirs_exist_ok=True)
    # Tables that a migration brings were nobody's.
    edit(folder / "grants/owner.sql", "medusa_market.access_token, ", "")
    edit(folder / "grants/owner.sql", ", medusa_market.used_assertion", "")
    edit(folder / "grants/owner.sql", ", medusa.stream_grant", "")
    for table in ("medusa.recipient_grant", "medusa_market.recipient_token",
                  "medusa_market.recipient_usage"):  # fmt: skip
        edit(folder / "grants/owner.sql", f" {table},", "")
    for view in ("recipient_grants", "recipient_tokens", "recipient_usage", "recipients"):
        edit(folder / "grants/owner.sql", f" medusa_api.{view},", "")
    for views in ("160_access", "170_sharing"):
        (folder / f"views/{views}.sql").unlink()
    edit(folder / "grants/owner.sql", "medusa_api.partners, ", "")
    edit(folder / "grants/owner.sql", "medusa_api.stream_grants, ", "")
    edit(folder / "grants/owner.sql", "medusa_api.links, ", "")
    for grants in ("owner", "job"):
        edit(folder / f"grants/{grants}.sql", "medusa_market.partner, ", "")
        edit(folder / f"grants/{grants}.sql", "medusa_market.last_word, medusa_market.link",
             "medusa_market.last_word")  # fmt: skip
    edit(folder / "grants/owner.sql", "    medusa.late_record, ", "    ")
    edit(folder / "grants/owner.sql", "medusa.placement, ", "")
    edit(folder / "grants/owner.sql", ", medusa.worker", "")
    edit(folder / "grants/owner.sql", "medusa.fragment_owner, ", "")
    edit(folder / "grants/owner.sql", " medusa_market.move, medusa_market.move_state,", "")
    edit(folder / "grants/job.sql", "\n    medusa_market.move, medusa_market.move_state,", "")
    edit(folder / "triggers/110_market.sql", ", 'medusa_market.move_state'", "")
    of_market = folder / "triggers/110_market.sql"
    of_market.write_text(of_market.read_text().partition("CREATE TRIGGER guard_state")[0])
    triggers = folder / "triggers/010_home.sql"
    edit(triggers, "'medusa.fragment_owner',", "")
    of_late = triggers.read_text().partition("CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE "
                                             "ON medusa.late_record")  # fmt: skip
    triggers.write_text(of_late[0] + of_late[2].partition("medusa.guard_late_record();\n")[2])
    # Books came with a migration: nobody had a right to them, no view and no guard was of them.
    for grants in ("owner", "job"):
        file = folder / f"grants/{grants}.sql"
        file.write_text(re.sub(r"(?:^-- The owner reads the books[^\n]*\n)?^GRANT SELECT ON "
                               r"medusa_market\.bill,.*\Z", "", file.read_text(),
                               flags=re.MULTILINE | re.DOTALL))  # fmt: skip
    (folder / "views/180_books.sql").unlink()
    (folder / "triggers/180_books.sql").unlink()
    # So did samples.
    (folder / "views/185_samples.sql").unlink()
    (folder / "triggers/185_samples.sql").unlink()
    shutil.rmtree(folder / "functions/market_samples")
    shutil.rmtree(folder / "functions/market_books")
    (folder / "functions/market_api/record_payment.sql").unlink()
    # A function of SQL is compiled when it is made.
    (folder / "functions/landing/keep_late_records.sql").unlink()
    # What reads a column that a migration brings had none.
    deploy = folder / "functions/networks/deploy.sql"
    edit(deploy, "f.starts_us IS DISTINCT FROM declared.starts_us", "false")
    edit(deploy, "inputs, outputs, starts_us)\n        VALUES", "inputs, outputs)\n        VALUES")
    edit(deploy, "declared.outputs,\n            declared.starts_us)", "declared.outputs)")
    edit(folder / "views/010_streams.sql", "size_bytes, sha256, outputs", "size_bytes, sha256")
    edit(folder / "views/010_streams.sql", "lag_ms,\n    qos\n", "lag_ms\n")
    write_quarantine = folder / "functions/landing/write_quarantine.sql"
    edit(write_quarantine, "size_bytes, sha256,\n        outputs)", "size_bytes, sha256)")
    edit(write_quarantine, "r.sha256,\n        coalesce(r.outputs, '{}')", "r.sha256")
    (folder / "grants/page.sql").unlink()  # nobody logged in as the page
    edit(folder / "grants/owner.sql", "medusa_market.invitation,\n", "")
    edit(folder / "grants/job.sql", "medusa_market.invitation, ", "")
    for grants in ("owner", "job"):
        edit(folder / f"grants/{grants}.sql", "medusa_market.definition, ", "")
    edit(folder / "grants/owner.sql", "    medusa.stream_view,\n", "")
    edit(folder / "grants/owner.sql", "medusa_api.views, medusa_api.definitions, ", "")
    edit(folder / "grants/analyst.sql", "medusa.stream_view, ", "")
    edit(folder / "grants/analyst.sql", ", medusa_api.views", "")
    edit(folder / "views/110_contracts.sql", " r.boxes, r.reads,", "")
    edit(folder / "views/110_contracts.sql", " r.reference, r.verify,", "")
    # The table that its argument or its result is a row of came with a migration.
    for name in ("put_move", "with_bounds", "has_lost"):
        (folder / f"functions/market_moves/{name}.sql").unlink()
    views = folder / "views/020_consumers.sql"
    of_views = views.read_text().partition("CREATE VIEW medusa_api.views")
    views.write_text(of_views[0] + of_views[2].partition("until when.';\n")[2])
    edit(views, "r.recalled_at, r.ranges, r.changed", "r.recalled_at")
    return folder


def code(path: str) -> str:
    """A file as a statement that SQLAlchemy sends as it is."""
    return (SQL_FOLDER / path).read_text().replace(":", r"\:")


def edit(path: Path, old: str, new: str) -> None:
    before = path.read_text()
    assert old in before
    path.write_text(before.replace(old, new))


def older_functions(folder: Path) -> None:
    """Change functions, triggers, views and grants in every way in which they may differ."""
    leases, commits = folder / "functions/leases", folder / "functions/commits"
    edit(folder / "functions/networks/check_epoch.sql", "RAISE EXCEPTION", "RAISE WARNING")
    edit(leases / "renew_lease.sql", "ttl_ms bigint", "ttl_ms bigint, again boolean")
    edit(leases / "renew_lease.sql", "text, bigint) IS", "text, bigint, boolean) IS")
    edit(leases / "release_lease.sql", "RETURNS void", "RETURNS integer")
    edit(commits / "chain_at.sql", "version bigint", "wanted bigint")
    (commits / "gone.sql").write_text(
        "CREATE OR REPLACE FUNCTION medusa.gone(medusa.lane) RETURNS integer LANGUAGE sql AS "
        "'SELECT 1';"
    )
    (folder / "triggers/020_gone.sql").write_text(
        "CREATE TRIGGER gone BEFORE UPDATE ON medusa.lease FOR EACH ROW "
        "EXECUTE FUNCTION medusa.guard_home();"
    )
    edit(folder / "triggers/010_home.sql", "BEFORE INSERT OR UPDATE ON medusa.hold",
         "BEFORE INSERT ON medusa.hold")  # fmt: skip
    edit(
        folder / "views/010_streams.sql", "SELECT s.name AS stream,", "SELECT s.name, s.kind AS k,"
    )
    (folder / "views/020_gone.sql").write_text(
        "CREATE VIEW medusa_api.gone AS SELECT stream, medusa.gone('live') FROM medusa_api.holds;"
    )
    edit(
        folder / "grants/analyst.sql", "medusa.certificate,", "medusa.certificate, medusa.network,"
    )
    edit(folder / "grants/job.sql", "medusa.acquire_lease,", "")


def test_a_home_of_the_baseline_becomes_what_a_new_home_is(
    fresh: HomeUrls, empty: HomeUrls, baseline: Path
) -> None:
    older_functions(baseline)
    migrate(empty.owner_role, a.ALPHA, baseline)
    new, older = described(fresh), described(empty)
    assert all(older[kind] != new[kind] for kind in ("indexes", "functions", "triggers", "views"))

    applied = migrate(empty.owner_role)

    assert {f.name for f in read_files(SQL_FOLDER).migrations} < set(applied)
    older = described(empty)
    for kind, expected in new.items():
        assert expected, f"nothing was compared of {kind}"
        assert older[kind] == expected, kind
    assert rows_as_made(empty) == rows_as_made(fresh)


def test_tables_change_by_migrations_alone(baseline: Path) -> None:
    """Comments of SQL may change; whatever a home has of these files may not."""
    text_of_tables = "".join(file.sql for file in read_files(baseline).schema)
    bare = re.sub(r"\s+", "", re.sub(r"^\s*--.*$", "", text_of_tables, flags=re.MULTILINE))
    assert sha256(bare.encode()).hexdigest() == BASELINE_SHA256, (
        "a file of sql/schema has changed: write a migration that says the same to homes that are "
        "there, and copy the file as it was to tests/sql/baseline, unless it is there already"
    )


@pytest.mark.long(quick=True)
def test_what_a_home_holds_stays_there(empty: HomeUrls, baseline: Path) -> None:
    migrate(empty.owner_role, a.ALPHA, baseline)
    first = rows.commit_document(a.a_commit(a.a_segment(0, 2)))
    run(empty, "SELECT medusa.deploy(:it)", it=rows.deployment_document(a.a_deployment()))
    run(empty, f"SELECT medusa.acquire_lease('{a.MAIN}', 0, 'alpha', 0, 'live', 1, 'me', 99000)")
    run(empty, "SELECT medusa.commit_step(:it)", it=first)
    migrate(empty.owner_role)
    catalog = PostgresCatalog(empty.job, a.ALPHA)
    catalog.commit(a.a_commit(a.a_segment(2, 4)))
    assert len(catalog.steps(limit=9)) == 2
    assert a.MAIN in catalog.step_costs()
    catalog.close()


@pytest.mark.long(quick=True)
def test_a_home_that_is_up_to_date_is_left_alone(fresh: HomeUrls) -> None:
    assert migrate(fresh.owner_role) == []
    check_migrated(fresh.owner_role)


def test_a_function_is_applied_again_when_its_file_changes_and_no_other_is(
    fresh: HomeUrls, folder: Path
) -> None:
    by_hand = code("functions/home/to_ms.sql").replace("* 1000", "* 1")
    run(fresh, by_hand)
    edit(folder / "functions/in_tables/total.sql", "coalesce(sum(n), 0)", "coalesce(sum(n), 7)")
    assert migrate(fresh.owner_role, folder=folder) == ["functions/in_tables/total"]
    assert run(fresh, "SELECT medusa.total('{}')") == [7]
    assert run(fresh, "SELECT medusa.to_ms('1970-01-01 00:00:05Z')") == [5], (
        "by its hash it is ours"
    )
    edit(folder / "functions/home/to_ms.sql", "Milliseconds", "All milliseconds")
    assert migrate(fresh.owner_role, folder=folder) == ["functions/home/to_ms"]
    assert run(fresh, "SELECT medusa.to_ms('1970-01-01 00:00:05Z')") == [5_000]
    assert migrate(fresh.owner_role, folder=folder) == []


@pytest.mark.long(quick=True)
def test_a_program_does_not_open_a_home_with_other_functions(empty: HomeUrls, folder: Path) -> None:
    edit(folder / "functions/in_tables/total.sql", "coalesce(sum(n), 0)", "coalesce(sum(n), 7)")
    migrate(empty.owner_role, a.ALPHA, folder)
    with pytest.raises(Unavailable, match="functions/in_tables/total: run medusa migrate"):
        PostgresCatalog(empty.job, a.ALPHA)
    migrate(empty.owner_role)
    PostgresCatalog(empty.job, a.ALPHA).close()


@pytest.mark.long(quick=True)
def test_a_new_migration_is_applied_once(fresh: HomeUrls, folder: Path) -> None:
    (folder / "migrations/0999_note.sql").write_text(NEW_TABLE)
    assert migrate(fresh.owner_role, folder=folder) == ["0999_note"]
    assert migrate(fresh.owner_role, folder=folder) == []


FAILING = (
    "functions/home/note.sql",
    "migrations/0999_note.sql",
    "views/999_note.sql",
    "grants/owner.sql",
)


@pytest.mark.long(quick=True)
@pytest.mark.parametrize("place", long_but(1, FAILING))
def test_a_file_that_fails_leaves_the_home_as_it_was(
    fresh: HomeUrls, folder: Path, place: str
) -> None:
    (folder / "migrations/0998_note.sql").write_text(NEW_TABLE)
    before = described(fresh)
    whole = (folder / place).read_text() if (folder / place).exists() else ""
    (folder / place).write_text(f"{whole}CREATE TABLE medusa.other (n integer); SELECT 1/0;")
    with pytest.raises(Refused, match="division by zero"):
        migrate(fresh.owner_role, folder=folder)
    assert described(fresh) == before
    if whole:
        (folder / place).write_text(whole)
    else:
        (folder / place).unlink()
    assert migrate(fresh.owner_role, folder=folder) == ["0998_note"]


@pytest.mark.parametrize(
    "is_new",
    long_but(0, [True, False]),
    ids=["a new home", "an older one"],
)
def test_a_migration_that_is_killed_half_way_has_done_nothing(
    fresh: HomeUrls, empty: HomeUrls, folder: Path, postgres_server: EmbeddedServer, is_new: bool
) -> None:
    home = empty if is_new else fresh
    blocker = "views/999_blocked.sql"
    (folder / blocker).write_text("SELECT pg_sleep(600);")
    (folder / "migrations/0999_note.sql").write_text(NEW_TABLE)
    before = None if is_new else described(home)
    kill = (
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
        f"WHERE datname = '{home.database}' AND wait_event = 'PgSleep'"
    )
    with (
        engine_of(postgres_server.superuser_url(home.database)) as engine,
        engine.connect() as killer,
        ThreadPoolExecutor() as pool,
    ):
        migrating = pool.submit(migrate, home.owner_role, a.ALPHA, folder)
        until(lambda: killer.execute(text(kill)).all(), "it is half way", seconds_max=120)
        with pytest.raises(Unavailable):
            migrating.result()
    there = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'medusa%'"
    assert run(home, there) == [] if is_new else described(home) == before
    (folder / blocker).unlink()
    assert migrate(home.owner_role, a.ALPHA, folder) == (["schema"] if is_new else ["0999_note"])


@pytest.mark.long(quick=True)
def test_of_two_migrations_at_once_the_second_waits_and_finds_nothing_to_do(
    empty: HomeUrls,
) -> None:
    both = threading.Barrier(2)

    def together() -> list[str]:
        both.wait()
        return migrate(empty.owner_role, a.ALPHA)

    with ThreadPoolExecutor() as pool:
        first, second = pool.submit(together), pool.submit(together)
        assert sorted([first.result(), second.result()]) == [[], ["schema"]]
    check_migrated(empty.owner_role)


@pytest.mark.long(quick=True)
def test_an_edited_migration_is_refused(fresh: HomeUrls, folder: Path) -> None:
    first = min((folder / "migrations").glob("*.sql"))
    first.write_text(first.read_text() + "-- edited\n")
    with pytest.raises(Refused, match="edited"):
        migrate(fresh.owner_role, folder=folder)


@pytest.mark.long(quick=True)
def test_a_home_with_a_newer_migration_is_refused(fresh: HomeUrls, folder: Path) -> None:
    (folder / "migrations/9999_later.sql").write_text("SELECT 1;")
    migrate(fresh.owner_role, folder=folder)
    with pytest.raises(Refused, match="newer Medusa"):
        migrate(fresh.owner_role)
    with pytest.raises(Refused, match="newer Medusa"):
        PostgresCatalog(fresh.job, a.ALPHA)


def test_a_home_with_newer_functions_is_refused(fresh: HomeUrls, folder: Path) -> None:
    edit(folder / "functions/in_tables/total.sql", "coalesce(sum(n), 0)", "coalesce(sum(n), 7)")
    migrate(fresh.owner_role, folder=folder)
    with pytest.raises(Refused, match="newer Medusa"):
        migrate(fresh.owner_role)
    with pytest.raises(Refused, match="newer Medusa"):
        PostgresCatalog(fresh.job, a.ALPHA)
    assert migrate(fresh.owner_role, folder=folder) == []


@pytest.mark.long(quick=True)
def test_a_home_of_the_first_migrations_is_refused_in_a_sentence_that_says_what_to_do(
    fresh: HomeUrls,
) -> None:
    run(fresh, "DROP TABLE medusa.schema_file, medusa.schema_version")
    sentence = "catalog of alpha was made by an earlier Medusa.* drop the database medusa_fresh"
    for url in (fresh.owner_role, fresh.owner):
        with pytest.raises(Refused, match=sentence) as refused:
            migrate(url)
        assert "\n" not in str(refused.value)
    with pytest.raises(Refused, match=sentence):
        PostgresCatalog(fresh.job, a.ALPHA)


def test_a_home_without_tables_is_unavailable_and_says_what_to_run(empty: HomeUrls) -> None:
    with pytest.raises(Unavailable, match="run medusa migrate"):
        check_migrated(empty.owner_role)
    with pytest.raises(Unavailable, match="run medusa migrate"):
        PostgresCatalog(empty.job, a.ALPHA)


@pytest.mark.long(quick=True)
def test_a_home_that_is_nobodys_yet_is_unavailable(fresh: HomeUrls) -> None:
    run(fresh, "DELETE FROM medusa.home")
    with pytest.raises(Unavailable, match="not been initialised"):
        PostgresCatalog(fresh.job, a.ALPHA)


@pytest.mark.long(quick=True)
def test_what_a_stranger_built_on_a_view_is_named_and_nothing_is_dropped(
    fresh: HomeUrls, folder: Path, postgres_server: EmbeddedServer
) -> None:
    edit(folder / "functions/in_tables/total.sql", "coalesce(sum(n), 0)", "coalesce(sum(n), 7)")
    with engine_of(postgres_server.superuser_url(fresh.database)) as engine, engine.begin() as own:
        own.execute(text("CREATE VIEW public.mine AS SELECT stream FROM medusa_api.streams"))
    with pytest.raises(Refused, match=r"drop them first \(view mine depends"):
        migrate(fresh.owner_role, folder=folder)
    check_migrated(fresh.owner_role)


@pytest.mark.long(quick=True)
def test_another_participants_home_stays_its_own(fresh: HomeUrls) -> None:
    with pytest.raises(Refused, match="home of alpha"):
        migrate(fresh.owner_role, Participant("beta"))
