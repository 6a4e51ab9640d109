"""The owner may do what is listed, and nothing that somebody forgot to think about."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, text

from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls, create_home, drop_home
from pipelines.catalog.server.migrations import migrate
from tests.catalog import building as a
from tests.catalog.homes_under_test import watcher_of
from tests.sql.conftest import LogIn
from tests.sql.test_roles import is_refused, run

WITHOUT = """
    SELECT c.oid::regclass::text, array_remove(ARRAY[
        CASE WHEN has_table_privilege(:role, c.oid, 'SELECT') THEN 'SELECT' END,
        CASE WHEN has_any_column_privilege(:role, c.oid, 'UPDATE') THEN 'UPDATE' END], NULL)
    FROM pg_class AS c
    WHERE c.relkind IN ('r', 'v')
        AND c.relnamespace IN ('medusa'::regnamespace, 'medusa_market'::regnamespace,
            'medusa_api'::regnamespace)
    ORDER BY 1"""
OUT_OF_REACH: frozenset[str] = frozenset()
"""Tables that the owner is not to see; there are none."""

PROGRAMS = (
    "sign_contract", "take_document", "take_notice", "take_want", "take_let_go", "take_withdrawal",
    "note_signature", "note_notice", "agree", "verify_envelope", "handle_envelope",
    "refuse_envelope", "end_envelope", "seal_message", "put_message", "put_out", "put_document",
    "take_envelopes", "take_envelope", "write_audit", "take_offer", "take_answer", "apply_round",
    "make_offer", "give_answer", "tidy_partners", "resume_delivery", "begin_market",
    "charge", "found_home", "issue_token", "token_holder",
    "deliver_envelopes", "published_news", "published_file", "published_files", "acknowledge_as",
    "add_recipient", "note_recipient_usage", "recipient_of", "shared_segments", "shared_table",
)  # fmt: skip
"""What a participant's program does: by hand it would be forged."""

MAY_CALL = """
    SELECT p.proname, has_function_privilege(current_user, p.oid, 'EXECUTE') FROM pg_proc AS p
    WHERE p.pronamespace IN ('medusa'::regnamespace, 'medusa_market'::regnamespace)"""


def unlisted(watcher: Engine, database: str) -> list[str]:
    """What the owner has no right to at all, in a sentence each."""
    statement = text(WITHOUT.replace("::", r"\:\:"))
    with watcher.connect() as connection:
        rows = connection.execute(statement, {"role": f"{database}_owner"}).all()
    assert len(rows) > 80
    return [
        f"{name} is not named in sql/grants/owner.sql: say there what the owner may do with it, or "
        "here that it is out of its reach"
        for name, rights in rows
        if not rights and name not in OUT_OF_REACH
    ]


@pytest.fixture
def spoilt(postgres_server: EmbeddedServer) -> Iterator[tuple[HomeUrls, Engine]]:
    """A home that a test may change, and a superuser there."""
    admin_url = postgres_server.superuser_url()
    urls = create_home(admin_url, a.ALPHA, "medusa_spoilt")
    with watcher_of(postgres_server.superuser_url(urls.database)) as watcher:
        yield urls, watcher
    drop_home(admin_url, urls.database)


def test_every_table_is_in_the_owners_list(spoilt: tuple[HomeUrls, Engine]) -> None:
    urls, watcher = spoilt
    assert unlisted(watcher, urls.database) == []


def test_an_unlisted_table_is_inaccessible_and_named(
    spoilt: tuple[HomeUrls, Engine],
) -> None:
    urls, watcher = spoilt
    owner_role = f"{urls.database}_home"
    with watcher.connect() as connection:
        connection.execute(text(f"SET ROLE {owner_role}"))
        connection.execute(text("CREATE TABLE medusa.forgotten (n integer)"))
        connection.execute(text("TRUNCATE medusa.schema_version"))
        connection.execute(text("DELETE FROM medusa.schema_file WHERE path = 'grants/owner'"))
        connection.execute(text("RESET ROLE"))
    assert migrate(urls.owner_role) == ["grants/owner"]
    (sentence,) = unlisted(watcher, urls.database)
    assert sentence.startswith("medusa.forgotten is not named in sql/grants/owner.sql")


def test_the_owner_does_by_hand_nothing_that_is_its_programs(session_of: LogIn) -> None:
    may = dict(run(session_of, "owner", MAY_CALL))
    assert [name for name in PROGRAMS if may[name]] == []
    for call in ("sign_contract('', '', '')", "verify_envelope(1)", "apply_round('{}')"):
        assert is_refused(session_of, "owner", f"SELECT medusa_market.{call}")


def test_the_owner_sees_all_and_writes_what_is_its_own(session_of: LogIn) -> None:
    for view in run(session_of, "owner", "SELECT viewname FROM pg_views WHERE schemaname = "
                    "'medusa_api'"):  # fmt: skip
        run(session_of, "owner", f"SELECT * FROM medusa_api.{view[0]}")
    run(session_of, "owner", "UPDATE medusa_market.message_retention SET keep = '2 days'")
    run(session_of, "owner", "UPDATE medusa_api.trading SET round_ms = 30000")
    for table in ("inbox", "audit", "offer", "delivery_pause", "partner_share", "audit_entry"):
        assert is_refused(session_of, "owner", f"DELETE FROM medusa_market.{table}"), table
