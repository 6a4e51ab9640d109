"""S7 even against plain SQL of the owner: what is held stays, and only what is trimmed is removed.

`sums` has a stable, a tentative and a gap segment of a bucket each; a batch of `src` has landed.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import psycopg2
import pytest

from medusa_core.commits import Hold
from medusa_core.errors import Conflict, MedusaError, Refused, Unavailable
from medusa_core.grid import FOREVER_US
from pipelines.catalog.postgres.database_errors import error_of
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from tests.catalog import building as a
from tests.sql.conftest import LogIn
from tests.sql.test_laws_in_the_database import a_row, refusal
from tests.sweeps import long_but
from tests.waiting import until

NO_RIGHT, TIMED_OUT = "42501", "55P03"
SUMS_LINE = "WHERE stream = 'sums'"
FORGET = f"UPDATE medusa.stream_producer SET trimmed_us = NULL {SUMS_LINE}"
SUPERSEDE = "UPDATE medusa.segment SET end_version = 9 WHERE stability = 'tentative'"
PLACE = "INSERT INTO medusa.hold (stream, holder, purpose, from_us) VALUES ('sums', 'x', 'y', 0)"
WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND wait_event_type = 'Lock'"
)
PLACE_BACK = "UPDATE medusa.hold SET from_us = 0"


def trimmed_before(bucket: int) -> str:
    """What the owner would write to trim `sums` before a bucket."""
    at_us = bucket * a.WIDTH_US
    return f"UPDATE medusa.stream_producer SET trimmed_us = {at_us} {SUMS_LINE}"


def hold(from_bucket: int, limit_ms: int | None = None) -> Hold:
    return Hold(stream=a.SUMS, holder="beta", purpose="cursor",
                from_us=from_bucket * a.WIDTH_US, limit_ms=limit_ms)  # fmt: skip


def run(login: psycopg2.extensions.connection, *statements: str) -> None:
    with login.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def rows_of(login: psycopg2.extensions.connection, statement: str) -> Sequence[tuple[object, ...]]:
    with login.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


ATTACKS = {
    "a final row before it is trimmed": (
        "DELETE FROM medusa.segment WHERE stability = 'stable'",
        "MDS07",
    ),
    "over a tentative row": (trimmed_before(2), "MDS07"),
    "from a snapshot": (
        f"BEGIN ISOLATION LEVEL REPEATABLE READ; {trimmed_before(1)}",
        "MDS07",
    ),
    "past the boundary": (trimmed_before(4), "MDS07"),
    "of a line that has not begun": (
        "UPDATE medusa.stream_producer SET trimmed_us = 0 WHERE stream = 'big'",
        "MDS07",
    ),
    "off the grid": (
        f"UPDATE medusa.stream_producer SET trimmed_us = 7 {SUMS_LINE}",
        "MD001",
    ),
    "before the origin": (trimmed_before(-1), "23514"),
    "a tentative row": ("DELETE FROM medusa.segment WHERE stability = 'tentative'", "MDS07"),
    "a superseded row": (f"{SUPERSEDE}; DELETE FROM medusa.segment WHERE end_version = 9", "MDS07"),
    "a row behind the trim": (
        f"{trimmed_before(1)}; DELETE FROM medusa.segment WHERE stability = 'gap'",
        "MDS07",
    ),
    "a row written where all is trimmed": (
        f"{trimmed_before(1)}; DELETE FROM medusa.segment WHERE to_us = {a.WIDTH_US}; "
        + a_row(0, a.WIDTH_US),
        "MD002",
    ),
    "a file that a segment names": ("DELETE FROM medusa.file WHERE stream = 'sums'", "MDLOG"),
    "a file that a landed batch names": ("DELETE FROM medusa.file WHERE stream = 'src'", "MDLOG"),
    "a landed batch": ("DELETE FROM medusa.landed_batch", "MDLOG"),
}


@pytest.mark.parametrize(
    ("statement", "state"), long_but(7, ATTACKS.values(), quick=True), ids=list(ATTACKS)
)
def test_the_owner_cannot_trim_what_must_stay(log_in: LogIn, statement: str, state: str) -> None:
    """By medusa.check_trim, medusa.guard_trimmed_segment and medusa.guard_file."""
    error = refusal(log_in("owner"), statement)
    assert error.pgcode == state, error
    assert isinstance(error_of(error), MedusaError)


def test_a_batch_names_its_file_until_it_is_trimmed(log_in: LogIn) -> None:
    """By medusa.guard_landed_batch."""
    error = refusal(log_in("owner"), "UPDATE medusa.landed_batch SET file_id = NULL")
    assert error.pgcode == "MDLOG", error
    assert str(error_of(error)).startswith("batch 0 of src stays as it landed")


def test_the_owner_cannot_trim_under_a_hold(log_in: LogIn, attacked: PostgresCatalog) -> None:
    attacked.place_hold(hold(0, limit_ms=a.HOUR_MS))
    error = refusal(log_in("owner"), trimmed_before(1))
    assert error.pgcode == "MDS07"
    assert isinstance(error_of(error), Refused)
    assert str(error_of(error)) == "sums is held from 0 on by beta (cursor): trim no further"


def test_the_owner_cannot_trim_beyond_what_is_chosen_of_the_producers(log_in: LogIn) -> None:
    """By medusa.check_trim: nothing is chosen here yet."""
    owner = log_in("owner")
    run(
        owner,
        "INSERT INTO medusa.stream_producer (stream, participant, replica) "
        "VALUES ('sums', 'alpha', -1)",
    )
    error = refusal(owner, trimmed_before(1).replace(SUMS_LINE, f"{SUMS_LINE} AND replica = 0"))
    assert error.pgcode == "MDS07"
    assert "of its producers: trim no further" in str(error)


@pytest.mark.parametrize("limit_ms", [1, None])
def test_a_hold_further_on_or_run_out_does_not_stop_it(
    log_in: LogIn, attacked: PostgresCatalog, limit_ms: int | None
) -> None:
    """The attacks above fail for the law's sake, not because nothing is possible."""
    attacked.place_hold(hold(0 if limit_ms else 1, limit_ms=limit_ms))
    owner = log_in("owner")
    run(
        owner,
        "UPDATE medusa.hold SET placed_at = placed_at - interval '1 minute'",
        trimmed_before(1),
        f"DELETE FROM medusa.segment WHERE to_us = {a.WIDTH_US}",
        "DELETE FROM medusa.file AS f WHERE stream = 'sums' AND NOT EXISTS "
        "(SELECT FROM medusa.segment AS s WHERE f.file_id = ANY (s.file_ids))",
    )
    assert rows_of(owner, "SELECT stability FROM medusa.segment ORDER BY 1") == [
        ("tentative",),
        ("gap",),
    ]
    assert rows_of(owner, "SELECT count(*) FROM medusa.file WHERE stream = 'sums'") == [(1,)]
    for backwards in (trimmed_before(0), FORGET):
        assert refusal(owner, backwards).pgcode == "MDS07"


def test_a_limit_that_no_clock_reaches_never_runs_out(
    log_in: LogIn, attacked: PostgresCatalog
) -> None:
    attacked.place_hold(hold(0, limit_ms=FOREVER_US))
    assert refusal(log_in("owner"), trimmed_before(1)).pgcode == "MDS07"


@pytest.mark.parametrize("placing", [PLACE, PLACE_BACK], ids=["a new one", "one that moves back"])
def test_nothing_is_trimmed_while_a_hold_is_being_placed(
    log_in: LogIn, attacked: PostgresCatalog, placing: str
) -> None:
    """At once: who waited would hold the line's lock meanwhile, which a commit needs."""
    attacked.place_hold(hold(3))
    holder, trimmer = log_in("owner"), log_in("owner")
    run(holder, "BEGIN", placing)
    error = refusal(trimmer, trimmed_before(1))
    assert (error.pgcode, type(error_of(error))) == ("MD002", Conflict)
    run(holder, "COMMIT")
    assert refusal(trimmer, trimmed_before(1)).pgcode == "MDS07"


def test_no_hold_is_placed_while_something_is_being_trimmed(
    log_in: LogIn, attacked: PostgresCatalog
) -> None:
    holder, trimmer = log_in("owner"), log_in("owner")
    run(trimmer, "BEGIN", trimmed_before(1))
    assert refusal(holder, f"SET lock_timeout = '100ms'; {PLACE}").pgcode == TIMED_OUT
    run(trimmer, "ROLLBACK")
    run(holder, PLACE)


GRANT = "SELECT medusa_api.grant_stream('sums', '{}')"
ACKNOWLEDGE = "SELECT medusa.acknowledge_as('{}', 'sums', {}, 1000, 0)"


@pytest.mark.long(quick=True)
def test_a_reader_that_never_ends_its_transaction_delays_only_trims_and_those_not_for_ever(
    log_in: LogIn, attacked: PostgresCatalog
) -> None:
    run(log_in("owner"), GRANT.format("beta"), GRANT.format("gamma"))
    # It has taken back the setting that would end its session after a while.
    forever = "SET idle_in_transaction_session_timeout = 0"
    run(log_in("exchange"), forever, "BEGIN", ACKNOWLEDGE.format("beta", 0))
    attacked.commit(a.a_commit(a.a_segment(3, 4)))
    attacked.land(a.a_lease(a.LANDING), a.a_batch(1, {2: 1}))
    run(log_in("exchange"), ACKNOWLEDGE.format("gamma", 0))
    attacked.place_hold(hold(1))
    trim = "SELECT medusa.trim_line('sums', 'alpha', 0, 10000000, '{}', 9, false)"
    trimmer, renewer = log_in("job"), log_in("exchange")
    with ThreadPoolExecutor() as threads:
        refused = [
            threads.submit(refusal, trimmer, trim),
            threads.submit(refusal, renewer, ACKNOWLEDGE.format("beta", 0)),
        ]
        errors = [error_of(future.result(timeout=60)) for future in refused]
    assert list(map(type, errors)) == [Conflict, Unavailable]
    assert str(errors[0]) == ("a hold on sums is being placed: trim again when that has ended")


def test_what_two_revisions_need_at_once_is_held_for_both(
    log_in: LogIn, attacked: PostgresCatalog
) -> None:
    first, second = log_in("owner"), log_in("owner")
    needs = 'SELECT medusa.hold_again(\'{{"net/{}": {{"sums": {}}}}}\')'
    run(first, "BEGIN", needs.format("one", a.WIDTH_US))
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(run, second, needs.format("other", 3 * a.WIDTH_US))
        until(lambda: rows_of(first, WAITING) == [(1,)], "the second one waits for the first")
        run(first, "COMMIT")
        waiting.result(timeout=60)
    held = rows_of(first, "SELECT min(from_us) FROM medusa.hold WHERE purpose = 'recall'")
    assert held == [(a.WIDTH_US,)]


def test_a_stream_keeps_its_place_in_the_order(log_in: LogIn) -> None:
    owner = log_in("owner")
    ordered = rows_of(owner, "SELECT stream FROM medusa.stream_order ORDER BY 1")
    assert ordered == rows_of(owner, "SELECT name FROM medusa.stream ORDER BY 1")


def test_a_file_that_is_about_to_be_named_is_not_removed(
    log_in: LogIn, attacked: PostgresCatalog
) -> None:
    """By medusa.guard_file."""
    writer, remover = log_in("owner"), log_in("owner")
    ids = rows_of(
        writer,
        "INSERT INTO medusa.file (stream, path, size_bytes, sha256, rows) "
        "VALUES ('sums', 'files/new', 1, 'ab', 1) RETURNING file_id",
    )
    rest = f"'{{50000000}}', '{{1}}', '{{1}}', '{{1}}', '{{{ids[0][0]}}}'"
    run(writer, "BEGIN", a_row(5 * a.WIDTH_US, 6 * a.WIDTH_US, rest))
    removal = "DELETE FROM medusa.file WHERE path = 'files/new'"
    assert refusal(remover, f"SET lock_timeout = '100ms'; {removal}").pgcode == TIMED_OUT
    run(writer, "COMMIT")
    assert refusal(remover, removal).pgcode == "MDLOG"


# ------------------------------------------------------------ compaction

NEW_FILE = (
    "INSERT INTO medusa.file (stream, path, size_bytes, sha256, rows) "
    "VALUES ('{}', 'files/whole', 1, 'ab', {})"
)
NEW_ID = "(SELECT array_agg(file_id) FROM medusa.file WHERE path = 'files/whole')"
SWAP = f"UPDATE medusa.segment SET file_ids = {NEW_ID}"
STABLE = " WHERE stability = 'stable'"
COMPACTIONS = {
    "a file with more rows": (NEW_FILE.format("sums", 2), SWAP + STABLE, "MDS02"),
    "a file with fewer rows": (NEW_FILE.format("sums", 0), SWAP + STABLE, "MDS02"),
    "a file of another stream": (NEW_FILE.format("src", 1), SWAP + STABLE, "MD001"),
    "a file that is not known": (
        "SELECT 1",
        "UPDATE medusa.segment SET file_ids = '{999999}'" + STABLE,
        "MD001",
    ),
    "another digest with it": (
        NEW_FILE.format("sums", 1),
        f"{SWAP}, sum_a = '{{1}}'{STABLE}",
        "MDS02",
    ),
    "another version with it": (
        NEW_FILE.format("sums", 1),
        f"{SWAP}, version = 0{STABLE}",
        "MDS02",
    ),
    "no file at all": (
        "SELECT 1",
        "UPDATE medusa.segment SET file_ids = '{}'" + STABLE,
        "MDS02",
    ),
    "a gap": (
        NEW_FILE.format("sums", 0),
        f"{SWAP} WHERE stability = 'gap'",
        "MDS02",
    ),
    "a tentative row": (
        NEW_FILE.format("sums", 1),
        f"{SWAP} WHERE stability = 'tentative'",
        "MDS02",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("before", "statement", "state"),
    long_but(3, COMPACTIONS.values(), quick=True),
    ids=list(COMPACTIONS),
)
def test_no_file_takes_a_place_that_is_not_its_own(
    log_in: LogIn, before: str, statement: str, state: str
) -> None:
    """By medusa.guard_segment and medusa.guard_compaction."""
    owner = log_in("owner")
    run(owner, before)
    error = refusal(owner, statement)
    assert error.pgcode == state, error
    assert isinstance(error_of(error), MedusaError)


def test_a_file_with_the_same_rows_takes_the_place_of_another(log_in: LogIn) -> None:
    owner = log_in("owner")
    run(owner, NEW_FILE.format("sums", 1), SWAP + STABLE)
    assert rows_of(owner, f"SELECT file_ids = {NEW_ID} FROM medusa.segment{STABLE}") == [(True,)]


# ------------------------------------------------------------ who may


def test_a_job_trims_and_compacts_by_functions_alone(
    log_in: LogIn, attacked: PostgresCatalog
) -> None:
    job = log_in("job")
    for statement in (
        trimmed_before(1),
        "SELECT medusa.remove_trimmed(p, 9) FROM medusa.stream_producer AS p",
        "SELECT medusa.check_trim(p, p) FROM medusa.stream_producer AS p",
        "DELETE FROM medusa.hold",
    ):
        assert refusal(job, statement).pgcode == NO_RIGHT, statement
    trimmed = attacked.trim(a.SUMS, a.ME, a.WIDTH_US, needed={a.TAIL: FOREVER_US}, segments_max=9)
    assert (trimmed.trimmed_us, trimmed.rows, trimmed.has_more) == (a.WIDTH_US, 1, False)


@pytest.mark.parametrize("role", long_but(1, ["airflow", "analyst", "exchange"], quick=True))
def test_nobody_else_trims(log_in: LogIn, role: str) -> None:
    for call in (
        "medusa.trim_line('sums', 'alpha', 0, 0, '{}', 9, false)",
        "medusa.compact_line('sums', 'alpha', 0, '[]', '{}')",
    ):
        assert refusal(log_in(role), f"SELECT {call}").pgcode == NO_RIGHT
