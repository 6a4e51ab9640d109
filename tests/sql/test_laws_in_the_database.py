"""The laws hold even against plain SQL of the owner, and against every other login."""

from __future__ import annotations

import psycopg2
import pytest

from medusa_core.errors import Conflict, MedusaError, Refused
from pipelines.catalog.postgres import PostgresCatalog
from pipelines.catalog.postgres_errors import error_of
from tests.catalog import building as a
from tests.sql.conftest import LogIn

LINE = "(SELECT line_id FROM medusa.stream_producer WHERE stream = 'sums')"
COLUMNS = (
    "line_id, from_us, to_us, stability, version, begin_version, plan, commit_id, bucket_us, "
    "bucket_rows, sum_a, sum_b, file_ids"
)


def a_row(from_us: int, to_us: int, rest: str = "'{}', '{}', '{}', '{}', '{}'") -> str:
    """An INSERT of a segment, as the owner would write it."""
    return (
        f"INSERT INTO medusa.segment ({COLUMNS}) SELECT {LINE}, {from_us}, {to_us}, 'stable', 9, "
        f"9, 'plan-one', min(commit_id), {rest} FROM medusa.commit"
    )


ATTACKS = {
    "S1 a boundary goes back": (
        "UPDATE medusa.stream_producer SET boundary_us = boundary_us - 1 WHERE stream = 'sums'",
        "MDS01",
    ),
    "S1 a boundary is forgotten": (
        "UPDATE medusa.stream_producer SET boundary_us = NULL, origin_us = NULL",
        "MDS01",
    ),
    "S1 a promise goes back": (
        "UPDATE medusa.stream_producer SET promised_us = 0 WHERE stream = 'src'",
        "MDS01",
    ),
    "S1 a promise is forgotten": (
        "UPDATE medusa.stream_producer SET promised_us = NULL WHERE stream = 'src'",
        "MDS01",
    ),
    "S1 a version is given again": ("UPDATE medusa.stream_producer SET last_version = 0", "MDS01"),
    "S1 an origin moves": (
        "UPDATE medusa.stream_producer SET origin_us = -10000000 WHERE stream = 'sums'",
        "MDS01",
    ),
    "S1 a line becomes another": (
        "UPDATE medusa.stream_producer SET replica = 7 WHERE stream = 'sums'",
        "MDS01",
    ),
    "S1 a line is removed": ("DELETE FROM medusa.stream_producer", "MDLOG"),
    "S2 stable content changes": (
        "UPDATE medusa.segment SET sum_a = '{1}' WHERE stability = 'stable'",
        "MDS02",
    ),
    "S2 a stable plan changes": (
        "UPDATE medusa.segment SET plan = 'plan-one', version = 0 WHERE stability = 'stable'",
        "MDS02",
    ),
    "S2 a stable label changes": (
        "UPDATE medusa.segment SET stability = 'tentative' WHERE stability = 'stable'",
        "MDS02",
    ),
    "S2 a stable row is superseded": (
        "UPDATE medusa.segment SET end_version = 9 WHERE stability = 'stable'",
        "MDS02",
    ),
    "S2 a gap is superseded": (
        "UPDATE medusa.segment SET end_version = 9 WHERE stability = 'gap'",
        "MDS02",
    ),
    "S2 a gap becomes stable": (
        "UPDATE medusa.segment SET stability = 'stable' WHERE stability = 'gap'",
        "MDS02",
    ),
    "S2 a tentative row changes in place": (
        "UPDATE medusa.segment SET stability = 'stable' WHERE stability = 'tentative'",
        "MDS02",
    ),
    "S2 a segment is removed": ("DELETE FROM medusa.segment", "MDLOG"),
    "S2 all segments are removed": ("TRUNCATE medusa.segment CASCADE", "MDLOG"),
    "S3 live rows overlap": (a_row(0, 10_000_000), "23P01"),
    "S3 live rows overlap in part": (a_row(20_000_000, 50_000_000), "23P01"),
    "a segment is empty": (a_row(50_000_000, 50_000_000), "23514"),
    "a segment is off its grid": (a_row(50_000_000, 50_000_001), "MD001"),
    "arrays do not agree": (
        a_row(50_000_000, 60_000_000, "'{50000000}', '{1}', '{1}', '{}', '{1}'"),
        "23514",
    ),
    "rows without a file": (
        a_row(50_000_000, 60_000_000, "'{50000000}', '{1}', '{1}', '{1}', '{}'"),
        "23514",
    ),
    "buckets out of order": (
        a_row(50_000_000, 70_000_000,
              "'{60000000,50000000}', '{1,1}', '{1,1}', '{1,1}', '{1}'"),
        "MD001",
    ),
    "a bucket outside": (
        a_row(50_000_000, 60_000_000, "'{70000000}', '{1}', '{1}', '{1}', '{1}'"),
        "MD001",
    ),
    "a bucket without rows": (
        a_row(50_000_000, 60_000_000, "'{50000000}', '{0}', '{1}', '{1}', '{1}'"),
        "MD001",
    ),
    "a stream changes its width": ("UPDATE medusa.stream SET width_us = 1", "MDLOG"),
    "a home changes hands": (
        "UPDATE medusa.home SET participant = 'beta'",
        "MD001",
    ),
}  # fmt: skip
LOGS = (
    "assignment", "commit", "file", "landed_batch", "landed_bucket", "lineage", "plan",
    "quarantine", "step_metrics", "stream",
)  # fmt: skip


def refusal(login: psycopg2.extensions.connection, statement: str) -> psycopg2.Error:
    with pytest.raises(psycopg2.Error) as refused, login.cursor() as cursor:
        cursor.execute(statement)
    return refused.value


@pytest.mark.parametrize(("statement", "state"), ATTACKS.values(), ids=list(ATTACKS))
def test_the_owner_cannot_break_it_by_plain_sql(log_in: LogIn, statement: str, state: str) -> None:
    error = refusal(log_in("owner"), statement)
    assert error.pgcode == state, error
    assert isinstance(error_of(error), MedusaError)


@pytest.mark.parametrize("table", LOGS)
@pytest.mark.parametrize("verb", ["UPDATE", "DELETE", "TRUNCATE"])
def test_what_is_written_in_a_log_stays_there(log_in: LogIn, table: str, verb: str) -> None:
    owner = log_in("owner")
    with owner.cursor() as cursor:
        cursor.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 "
            "AND attidentity = '' ORDER BY attnum LIMIT 1",
            (f"medusa.{table}",),
        )
        (column,) = cursor.fetchone() or ("",)
    statement = {
        "UPDATE": f"UPDATE medusa.{table} SET {column} = {column}",
        "DELETE": f"DELETE FROM medusa.{table}",
        "TRUNCATE": f"TRUNCATE medusa.{table} CASCADE",
    }[verb]
    error = refusal(owner, statement)
    assert error.pgcode == "MDLOG"
    assert "insert-only" in str(error)


def test_the_owner_may_do_what_the_law_allows(log_in: LogIn) -> None:
    """The attacks above fail for the law's sake, not because nothing is possible."""
    with log_in("owner").cursor() as cursor:
        cursor.execute("UPDATE medusa.stream_producer SET boundary_us = boundary_us + 10000000")
        cursor.execute("UPDATE medusa.segment SET end_version = 9 WHERE stability = 'tentative'")
        assert cursor.rowcount == 1
        cursor.execute(a_row(10_000_000, 20_000_000))
        cursor.execute(a_row(50_000_000, 60_000_000,
                             "'{50000000}', '{1}', '{1}', '{1}', '{1}'"))  # fmt: skip
        cursor.execute("SELECT count(*) FROM medusa.segment WHERE end_version IS NULL")
        assert cursor.fetchone() == (4,)


def test_a_message_is_one_sentence_that_says_what_to_do(log_in: LogIn) -> None:
    error = refusal(log_in("owner"), ATTACKS["S1 a boundary goes back"][0])
    assert str(error_of(error)) == (
        "the boundary of sums stands at 30000000 and never goes back: give 30000000 or later"
    )


@pytest.mark.parametrize(
    ("state", "kind"), [("MD001", Refused), ("MD002", Conflict), ("MDS08", Conflict)]
)
def test_our_own_states_are_our_own_errors(
    log_in: LogIn, state: str, kind: type[MedusaError]
) -> None:
    raising = f"DO $$ BEGIN RAISE EXCEPTION 'why: what to do' USING ERRCODE = '{state}'; END $$"
    assert type(error_of(refusal(log_in("owner"), raising))) is kind


def test_a_commit_is_heard_by_who_listens(log_in: LogIn, attacked: PostgresCatalog) -> None:
    listener = log_in("job")
    with listener.cursor() as cursor:
        cursor.execute("LISTEN medusa_progress")
    attacked.commit(a.a_commit(a.a_segment(3, 4)))
    listener.poll()
    assert [(n.channel, n.payload) for n in listener.notifies] == [("medusa_progress", "")]
