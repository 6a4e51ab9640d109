"""S13: a revision changes no bucket outside its ranges, whatever SQL is sent with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg2
import psycopg2.extensions
import pytest

from medusa_core.revisions import RevisedSegment, RevisionRequest
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.postgres.recalls import revision_document
from tests.catalog import building as a

LogIn = Callable[[str], psycopg2.extensions.connection]
NO_RIGHT = "42501"
WIDTH = a.WIDTH_US


@pytest.fixture
def closed(attacked: PostgresCatalog) -> PostgresCatalog:
    """With three closed buckets of the source, and one that its boundary has passed."""
    lease = a.a_lease(a.LANDING)
    attacked.promise(lease, a.SRC, origin_us=0, boundary_us=4 * WIDTH, end_us=None)
    source = a.a_segment(0, 3, stream=a.SRC, rows={0: 1, 1: 1, 2: 1})
    attacked.commit(a.a_commit(source, lease=lease))
    return attacked


def request() -> str:
    """A revision of the bucket in the middle."""
    segment = a.a_segment(1, 2, stream=a.SRC, rows={1: 5})
    return revision_document(
        RevisionRequest(
            stream=a.SRC,
            producer=a.ME,
            generation=1,
            segments=(RevisedSegment(segment=segment, plan=a.PLAN),),
            because="because",
            who="me",
        )
    )


def state(login: psycopg2.extensions.connection) -> Any:
    with login.cursor() as cursor:
        cursor.execute(
            "SELECT array_agg((s.line_id, s.from_us, s.to_us, s.version, s.end_version, "
            "s.generation)::text ORDER BY s.segment_id), max(p.generation) "
            "FROM medusa.segment AS s JOIN medusa.stream_producer AS p USING (line_id)"
        )
        return cursor.fetchone()


OF_SOURCE = "line_id = (SELECT line_id FROM medusa.stream_producer WHERE stream = 'src')"
PLAIN = {
    "a final row outside that is ended": "UPDATE medusa.segment SET end_version = 9 "
    f"WHERE {OF_SOURCE} AND from_us = 0 AND end_version IS NULL",
    "the new row that is ended": "UPDATE medusa.segment SET end_version = 9 "
    f"WHERE {OF_SOURCE} AND version = 2",
    "a boundary that goes back": "UPDATE medusa.stream_producer SET boundary_us = 0 "
    "WHERE stream = 'src'",
    "another generation": "UPDATE medusa.stream_producer SET generation = 3 WHERE stream = 'src'",
    "another line's generation": "UPDATE medusa.stream_producer SET generation = 2 "
    "WHERE stream = 'sums'",
    "wider ranges": "UPDATE medusa.recall SET ranges = '{[0,90000000)}'",
    "a revision by hand": "INSERT INTO medusa.recall (line_id, generation, from_us, because, who, "
    "version, ranges, changed) SELECT line_id, 3, 0, 'because', 'me', 9, '{[0,10000000)}', "
    "'{[0,10000000)}' FROM medusa.stream_producer WHERE stream = 'src'",
}


@pytest.mark.parametrize("statement", PLAIN.values(), ids=PLAIN.keys())
def test_plain_sql_changes_nothing_else_in_the_transaction_of_a_revision(
    statement: str, closed: PostgresCatalog, log_in: LogIn
) -> None:
    owner = log_in("owner")
    with owner.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT medusa.revise(%s)", (request(),))
        with pytest.raises(psycopg2.Error) as refused:
            cursor.execute(statement)
        cursor.execute("ROLLBACK")
    assert refused.value.pgcode in ("MDS01", "MDS02", "MDLOG")
    assert [s.version for s in closed.segments(a.SRC)] == [1]


def test_a_bucket_that_a_revision_does_not_name_fails_its_transaction(
    closed: PostgresCatalog, log_in: LogIn
) -> None:
    owner = log_in("owner")
    before = state(owner)
    more = (
        "INSERT INTO medusa.segment (line_id, from_us, to_us, stability, version, begin_version, "
        "plan, commit_id, bucket_us, bucket_rows, sum_a, sum_b, file_ids) "
        "SELECT line_id, 30000000, 40000000, 'stable', 2, 2, plan, commit_id, '{30000000}', "
        "'{1}', '{1}', '{1}', file_ids FROM medusa.segment "
        f"WHERE {OF_SOURCE} AND version = 1 LIMIT 1"
    )
    with owner.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT medusa.revise(%s)", (request(),))
        cursor.execute(more)
        with pytest.raises(psycopg2.Error, match="which it does not name") as refused:
            cursor.execute("COMMIT")
    assert refused.value.pgcode == "MDS13"
    assert state(owner) == before
    with owner.cursor() as cursor:
        cursor.execute("SELECT medusa.revise(%s)", (request(),))
    assert [s.version for s in closed.segments(a.SRC)] == [1, 2, 1]


@pytest.mark.parametrize("role", ["job", "airflow", "analyst", "exchange"])
def test_only_the_owner_revises(role: str, closed: PostgresCatalog, log_in: LogIn) -> None:
    with log_in(role).cursor() as cursor, pytest.raises(psycopg2.Error) as refused:
        cursor.execute("SELECT medusa.revise(%s)", (request(),))
    assert refused.value.pgcode == NO_RIGHT
    assert closed.recalls() == ()


@pytest.mark.parametrize("late", [None, [], [[]], [[], []], {}, "{}"])
def test_a_driver_revises_by_late_records_alone(
    late: object, closed: PostgresCatalog, log_in: LogIn
) -> None:
    written = json.loads(request()) | {"late": late}
    with log_in("job").cursor() as cursor, pytest.raises(psycopg2.Error):
        cursor.execute("SELECT medusa.admit_late(%s)", (json.dumps(written),))
    assert closed.recalls() == ()


def test_nobody_begins_a_revision_without_its_rows(closed: PostgresCatalog, log_in: LogIn) -> None:
    call = "SELECT medusa.revise_line(1, 2, '[]', 'because', 'me')"
    for role in ("owner", "job"):
        with log_in(role).cursor() as cursor, pytest.raises(psycopg2.Error) as refused:
            cursor.execute(call)
        assert refused.value.pgcode == NO_RIGHT, role
    assert closed.recalls() == ()
