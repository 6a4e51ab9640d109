"""The laws hold even against plain SQL of the owner, and against every other login."""

from __future__ import annotations

import psycopg2
import pytest

from medusa_core.errors import Conflict, MedusaError, Refused, Unavailable
from pipelines.catalog.postgres.database_errors import error_of
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from tests.catalog import building as a
from tests.sql.conftest import LogIn
from tests.sweeps import long_but
from tests.waiting import until

LINE = "(SELECT line_id FROM medusa.stream_producer WHERE stream = 'sums')"
COLUMNS = (
    "line_id, from_us, to_us, stability, version, begin_version, plan, commit_id, bucket_us, "
    "bucket_rows, sum_a, sum_b, file_ids"
)


FILE, OTHERS_FILE = (
    f"(SELECT array_agg(file_id) FROM medusa.file WHERE stream = '{stream}')"
    for stream in ("sums", "src")
)


def a_row(
    from_us: int, to_us: int, rest: str = "'{}', '{}', '{}', '{}', '{}'", more: str = ""
) -> str:
    """An INSERT of a segment, as the owner would write it."""
    return (
        f"INSERT INTO medusa.segment ({COLUMNS}{more}) SELECT {LINE}, {from_us}, {to_us}, "
        f"'stable', 9, 9, '{a.PLAN}', min(commit_id), {rest} FROM medusa.commit"
    )


NEXT_EPOCH = (
    "INSERT INTO medusa.assignment (fragment, partition, epoch, participant, replica, plan) "
    "SELECT fragment, partition, 2, participant, replica, plan FROM medusa.assignment"
)


def a_commit_row(lane: str | None, epoch: int | None = 1) -> str:
    """An INSERT of a commit, as the owner would write it."""
    lane_sql = f"'{lane}'" if lane else "NULL"
    return (
        "INSERT INTO medusa.commit (key, fragment, partition, participant, replica, lane, epoch, "
        "plan, cause, from_us, to_us, versions, committed_at) VALUES ('direct', 'example/main', 0, "
        f"'alpha', 0, {lane_sql}, {epoch or 'NULL'}, '{a.PLAN}', 'normal', "
        "50000000, 60000000, '{}', clock_timestamp())"
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
        "UPDATE medusa.segment SET plan = '{a.PLAN}', version = 0 WHERE stability = 'stable'",
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
    "S7 a segment is removed": ("DELETE FROM medusa.segment", "MDS07"),
    "S2 all segments are removed": ("TRUNCATE medusa.segment CASCADE", "MDLOG"),
    "S3 live rows overlap": (a_row(0, 10_000_000), "23P01"),
    "S3 live rows overlap in part": (a_row(20_000_000, 50_000_000), "23P01"),
    "a segment is empty": (a_row(50_000_000, 50_000_000), "23514"),
    "a segment is off its grid": (a_row(50_000_000, 50_000_001), "MD001"),
    "arrays do not agree": (
        a_row(50_000_000, 60_000_000, f"'{{50000000}}', '{{1}}', '{{1}}', '{{}}', {FILE}"),
        "23514",
    ),
    "rows without a file": (
        a_row(50_000_000, 60_000_000, "'{50000000}', '{1}', '{1}', '{1}', '{}'"),
        "23514",
    ),
    "S2 history is made up": (
        a_row(50_000_000, 60_000_000, "'{}', '{}', '{}', '{}', '{}', 10", ", end_version"),
        "MDS02",
    ),
    "a bucket list that begins at 5": (
        a_row(50_000_000, 70_000_000,
              f"'[5:6]={{50000000,60000000}}', '{{1,1}}', '{{1,1}}', '{{1,1}}', {FILE}"),
        "MD001",
    ),
    "a list of sums that begins at 0": (
        a_row(50_000_000, 60_000_000,
              f"'{{50000000}}', '{{1}}', '[0:0]={{1}}', '{{1}}', {FILE}"),
        "MD001",
    ),
    "a bucket list in two dimensions": (
        a_row(50_000_000, 70_000_000, "'{{60000000},{50000000}}', '{{1},{1}}', '{{1},{1}}', "
              f"'{{{{1}},{{1}}}}', {FILE}"),
        "MD001",
    ),
    "a sum that is no number": (
        a_row(50_000_000, 60_000_000,
              f"'{{50000000}}', '{{1}}', '{{NaN}}', '{{1}}', {FILE}"),
        "23514",
    ),
    "a file that is not known": (
        a_row(50_000_000, 60_000_000, "'{50000000}', '{1}', '{1}', '{1}', '{999999999}'"),
        "MD001",
    ),
    "no file at all": (
        a_row(50_000_000, 60_000_000, "'{50000000}', '{1}', '{1}', '{1}', '{NULL}'"),
        "MD001",
    ),
    "a file of another stream": (
        a_row(50_000_000, 60_000_000,
              f"'{{50000000}}', '{{1}}', '{{1}}', '{{1}}', {OTHERS_FILE}"),
        "MD001",
    ),
    "a gap with rows": (
        a_row(50_000_000, 60_000_000,
              f"'{{50000000}}', '{{1}}', '{{1}}', '{{1}}', {FILE}").replace("'stable'", "'gap'"),
        "23514",
    ),
    "S8 a commit without a lease": (a_commit_row("backlog"), "MDS08"),
    "S8 a commit under an epoch to come": (a_commit_row("live", 2), "MDS08"),
    "S8 a commit without a lane": (a_commit_row(None), "MDS08"),
    "S8 a commit under no epoch": (a_commit_row("live", None), "MDS08"),
    "S8 a commit with an expired lease": (
        f"UPDATE medusa.lease SET expires_at = clock_timestamp(); {a_commit_row('live')}",
        "MDS08",
    ),
    "S8 a commit under an older epoch": (
        f"{NEXT_EPOCH}; {a_commit_row('live')}",
        "MDS08",
    ),
    "a stream changes its width": ("UPDATE medusa.stream SET width_us = 1", "MDLOG"),
    "a stream is kept for no time": (
        "INSERT INTO medusa.stream_promise (stream, retention_ms) VALUES ('sums', 0)",
        "23514",
    ),
    "a stream that is not there is kept": (
        "INSERT INTO medusa.stream_promise (stream, retention_ms) VALUES ('none', 5)",
        "23503",
    ),
    "a home changes hands": (
        "UPDATE medusa.home SET participant = 'beta'",
        "MD001",
    ),
}  # fmt: skip
LOGS = (
    "assignment", "commit", "divergence", "file", "landed_batch", "landed_bucket", "line_version",
    "lineage", "plan", "quarantine", "step_metrics", "stream", "stream_order",
)  # fmt: skip


def refusal(login: psycopg2.extensions.connection, statement: str) -> psycopg2.Error:
    with pytest.raises(psycopg2.Error) as refused, login.cursor() as cursor:
        cursor.execute(statement)
    return refused.value


@pytest.mark.parametrize(
    ("statement", "state"), long_but(14, ATTACKS.values(), quick=True), ids=list(ATTACKS)
)
def test_the_owner_cannot_break_it_by_plain_sql(log_in: LogIn, statement: str, state: str) -> None:
    error = refusal(log_in("owner"), statement)
    assert error.pgcode == state, error
    assert isinstance(error_of(error), MedusaError)


@pytest.mark.parametrize(
    ("buckets", "rows"),
    [
        ("60000000,50000000", "1,1"),
        ("70000000", "1"),
        ("50000000", "0"),
        ("50000001", "1"),
    ],
    ids=["out of order", "outside", "without rows", "off the grid"],
)
def test_a_segment_lists_its_buckets_in_order_and_with_rows(
    log_in: LogIn, buckets: str, rows: str
) -> None:
    """By medusa.guard_segment."""
    sums = ",".join("1" for _ in rows.split(","))
    lists = f"'{{{buckets}}}', '{{{rows}}}', '{{{sums}}}', '{{{sums}}}', {FILE}"
    error = refusal(log_in("owner"), a_row(50_000_000, 70_000_000, lists))
    assert error.pgcode == "MD001", error
    assert "lists a bucket off its grid, outside, out of order or without rows" in str(error)


def test_a_tentative_row_is_superseded_and_never_changes(log_in: LogIn) -> None:
    """By medusa.guard_segment (S2)."""
    owner, tentative = log_in("owner"), "WHERE stability = 'tentative'"
    change = f"UPDATE medusa.segment SET stability = 'stable' {tentative}"
    error = refusal(owner, change)
    assert error.pgcode == "MDS02", error
    assert "keeps its content: supersede it by a later version" in str(error_of(error))
    with owner.cursor() as cursor:
        cursor.execute(f"UPDATE medusa.segment SET end_version = 9 {tentative}")
    again = f"UPDATE medusa.segment SET end_version = 10 {tentative}"
    assert refusal(owner, again).pgcode == "MDS02"


@pytest.mark.parametrize("table", LOGS)
@pytest.mark.parametrize("verb", long_but(1, ["UPDATE", "DELETE", "TRUNCATE"], quick=True))
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
    if verb == "TRUNCATE" and table == "stream":  # the books refer to it, and the owner has no
        assert "permission denied for table billed_line" in str(error)  # right to empty them
    else:
        assert error.pgcode == "MDLOG", error
        assert "insert-only" in str(error)


def test_the_owner_may_do_what_the_law_allows(log_in: LogIn) -> None:
    """The attacks above fail for the law's sake, not because nothing is possible."""
    with log_in("owner").cursor() as cursor:
        cursor.execute("UPDATE medusa.stream_producer SET boundary_us = boundary_us + 10000000")
        cursor.execute("UPDATE medusa.segment SET end_version = 9 WHERE stability = 'tentative'")
        assert cursor.rowcount == 1
        cursor.execute(a_row(10_000_000, 20_000_000))
        cursor.execute(a_row(50_000_000, 60_000_000,
                             f"'{{50000000}}', '{{1}}', '{{1}}', '{{1}}', {FILE}"))  # fmt: skip
        cursor.execute("SELECT count(*) FROM medusa.segment WHERE end_version IS NULL")
        assert cursor.fetchone() == (4,)
        cursor.execute(a_commit_row("live"))


def test_a_message_is_one_sentence_that_says_what_to_do(log_in: LogIn) -> None:
    error = refusal(log_in("owner"), ATTACKS["S1 a boundary goes back"][0])
    assert str(error_of(error)) == (
        "the boundary of sums is at 30000000 and never goes back: give 30000000 or later"
    )


@pytest.mark.parametrize(
    ("state", "kind"), [("MD001", Refused), ("MD002", Conflict), ("MDS08", Conflict)]
)
def test_our_own_states_are_our_own_errors(
    log_in: LogIn, state: str, kind: type[MedusaError]
) -> None:
    raising = f"DO $$ BEGIN RAISE EXCEPTION 'why: what to do' USING ERRCODE = '{state}'; END $$"
    assert type(error_of(refusal(log_in("owner"), raising))) is kind


@pytest.mark.parametrize(
    ("state", "kind"),
    long_but(
        5,
        [
            ("22012", Refused),  # the values of a request
            ("23514", Refused),
            ("40001", Conflict),
            ("42501", Refused),
            ("3F000", Unavailable),  # what else a database may say, of which nobody has a list
            ("42P01", Unavailable),
            ("53200", Unavailable),
            ("54000", Unavailable),
            ("54001", Unavailable),
            ("55000", Unavailable),
            ("57P01", Unavailable),
            ("58030", Unavailable),
            ("P0001", Unavailable),
            ("XX000", Unavailable),
            ("ZZ999", Unavailable),
        ],
        quick=True,
    ),
)
def test_states_of_the_database_are_judged_by_their_class(
    log_in: LogIn, state: str, kind: type[MedusaError]
) -> None:
    raising = f"DO $$ BEGIN RAISE EXCEPTION 'it\ncannot' USING ERRCODE = '{state}'; END $$"
    error = error_of(refusal(log_in("owner"), raising))
    assert type(error) is kind
    assert "(it cannot)" in str(error)


def test_a_commit_a_landing_and_a_promise_are_heard_by_who_listens(
    log_in: LogIn, attacked: PostgresCatalog
) -> None:
    listener = log_in("job")
    with listener.cursor() as cursor:
        cursor.execute("LISTEN medusa_progress")
    lease = a.a_lease(a.LANDING)
    batch = a.a_batch(1, {2: 1})
    writes = (
        lambda: attacked.commit(a.a_commit(a.a_segment(3, 4))),
        lambda: attacked.land(lease, batch),
        lambda: attacked.promise(lease, a.SRC, origin_us=0, boundary_us=a.WIDTH_US, end_us=None),
    )
    for write in writes:
        write()
        until(lambda: (listener.poll(), listener.notifies)[1], "the bell is heard")
        assert [(n.channel, n.payload) for n in listener.notifies] == [("medusa_progress", "")]
        listener.notifies.clear()
    assert not attacked.land(lease, batch)
    listener.poll()
    assert listener.notifies == [], "what had landed before is no news"
