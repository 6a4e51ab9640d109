"""What is said when the connection breaks: before, during and after a commit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg2
import pytest
from sqlalchemy import Engine, text

from medusa_core.errors import OutcomeUnknown, Unavailable
from pipelines.catalog.postgres.database_errors import error_of
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.postgres.snapshot_session import postgres_session
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls
from tests.catalog import building as a
from tests.catalog.homes_under_test import watcher_of
from tests.waiting import until

OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


def end_connections(watcher: Engine, which: str = "") -> int:
    with watcher.connect() as connection:
        ended = connection.execute(
            text(f"SELECT pg_terminate_backend(pid, 60000) {OTHERS} {which}")
        )
        return len(ended.all())


def test_a_commit_whose_connection_breaks_has_an_unknown_outcome_and_may_be_sent_again(
    attacked: PostgresCatalog, attacked_urls: HomeUrls, postgres_server: EmbeddedServer
) -> None:
    commit = a.a_commit(a.a_segment(3, 4))
    holder = postgres_session(attacked_urls.job, a.ALPHA)
    holder.begin()
    holder.catalog.renew_lease(a.a_lease(), a.HOUR_MS)
    with (
        watcher_of(postgres_server.superuser_url(attacked_urls.database)) as watcher,
        ThreadPoolExecutor() as threads,
    ):
        waiting = threads.submit(attacked.commit, commit)
        blocked = "AND cardinality(pg_blocking_pids(pid)) > 0"
        until(lambda: end_connections(watcher, blocked), "the commit waits for the lease")
        with pytest.raises(OutcomeUnknown, match="send the same commit again"):
            waiting.result()
    holder.end(keep=True)
    holder.close()
    assert not attacked.commit(commit).again
    assert attacked.commit(commit).again


@pytest.mark.parametrize(
    "kind", [psycopg2.DatabaseError, psycopg2.OperationalError, psycopg2.InternalError]
)
def test_an_error_without_a_state_says_that_the_session_was_lost(
    kind: type[psycopg2.Error],
) -> None:
    lost = kind("server closed the connection unexpectedly\n\tThis probably means …")
    assert type(error_of(lost)) is Unavailable
    assert type(error_of(lost, committing=True)) is OutcomeUnknown


def test_a_call_that_the_driver_itself_refuses_is_a_fault_of_ours() -> None:
    assert error_of(psycopg2.ProgrammingError("can't adapt type 'object'")) is None


def test_reading_over_a_broken_connection_is_unavailable_and_then_possible_again(
    attacked: PostgresCatalog, attacked_urls: HomeUrls, postgres_server: EmbeddedServer
) -> None:
    attacked.streams()
    with watcher_of(postgres_server.superuser_url(attacked_urls.database)) as watcher:
        assert end_connections(watcher) >= 1
    with pytest.raises(Unavailable):
        attacked.streams()
    assert len(attacked.streams()) == 3
