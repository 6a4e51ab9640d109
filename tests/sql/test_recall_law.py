"""S1 and S2 give way to `medusa.recall` alone: not to plain SQL, and to the owner's login only."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg2
import psycopg2.extensions
import pytest

from medusa_core.errors import Refused
from medusa_core.names import Version
from medusa_core.recalls import RecallRequest
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.home_databases import HomeUrls
from tests.catalog import building as a
from tests.sweeps import long_but

LogIn = Callable[[str], psycopg2.extensions.connection]
ROLES = ("owner", "job", "airflow", "analyst", "exchange")
WIDTH = a.WIDTH_US

INSERT = (
    "INSERT INTO medusa.recall (line_id, generation, from_us, because, who, version) "
    "SELECT line_id, 2, 0, 'because', 'me', last_version + 1 FROM medusa.stream_producer "
    "WHERE stream = 'sums'"
)
PLAIN = {
    "a recall by hand": INSERT,
    "a recall by hand in a block": f"DO $$ BEGIN {INSERT}; END $$",
    "a final row that is ended": "UPDATE medusa.segment SET end_version = 9 WHERE version = 1",
    "a gap that is ended": "UPDATE medusa.segment SET end_version = 9 WHERE stability = 'gap'",
    "a boundary that goes back": "UPDATE medusa.stream_producer SET boundary_us = 0 "
    "WHERE stream = 'sums'",
    "a generation of nobody": "UPDATE medusa.stream_producer SET generation = 2 "
    "WHERE stream = 'sums'",
    "both at once": "UPDATE medusa.stream_producer SET generation = 2, boundary_us = 0 "
    "WHERE stream = 'sums'",
    "an agreement that is taken back": "DELETE FROM medusa.recall_follow",
    "a recall that is taken back": "DELETE FROM medusa.recall",
    "a recall that says something else": "UPDATE medusa.recall SET because = 'no reason'",
    "all of them at once": "TRUNCATE medusa.recall CASCADE",
    "a divergence that is settled by nobody": "UPDATE medusa.divergence_settled SET recall_id = 1",
}
OURS = ("MDS01", "MDS02", "MDLOG")
NO_RIGHT = "42501"


def status(login: psycopg2.extensions.connection) -> Any:
    with login.cursor() as cursor:
        cursor.execute(
            "SELECT array_agg((s.from_us, s.to_us, s.end_version, s.generation)::text "
            "ORDER BY s.segment_id), max(p.boundary_us), max(p.generation) "
            "FROM medusa.segment AS s JOIN medusa.stream_producer AS p USING (line_id)"
        )
        return cursor.fetchone()


@pytest.mark.parametrize("role", long_but(1, ROLES, quick=True))
@pytest.mark.parametrize("statement", PLAIN.values(), ids=PLAIN.keys())
def test_plain_sql_recalls_nothing_under_any_login(
    statement: str, role: str, log_in: LogIn
) -> None:
    owner = log_in("owner")
    before = status(owner)
    with log_in(role).cursor() as cursor, pytest.raises(psycopg2.Error) as refused:
        cursor.execute(statement)
    assert refused.value.pgcode in (OURS if role == "owner" else (NO_RIGHT,))
    assert status(owner) == before


@pytest.mark.parametrize(
    "role", long_but(2, [role for role in ROLES if role != "owner"], quick=True)
)
def test_only_the_owner_calls_the_functions_of_a_recall(role: str, log_in: LogIn) -> None:
    calls = (
        "SELECT medusa.recall('{}')",
        "SELECT medusa.recall_line(1, 0, 'because', 'me')",
        "SELECT medusa.follow_recalls(1, '[]', 9, '[]', 'no')",
        "SELECT medusa.settle(NULL)",
    )
    for call in calls:
        with log_in(role).cursor() as cursor, pytest.raises(psycopg2.Error) as refused:
            cursor.execute(call)
        assert refused.value.pgcode == NO_RIGHT, call


def recall(**said: Any) -> dict[str, Any]:
    known = {"stream": "sums", "participant": "alpha", "replica": 0, "from_us": 0,
             "because": "because", "who": "me"}  # fmt: skip
    return {**known, **said}


def test_what_was_not_recalled_in_this_transaction_stays_final_in_it(
    attacked: PostgresCatalog, log_in: LogIn
) -> None:
    owner = log_in("owner")
    with owner.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT medusa.recall(%s)", (json.dumps(recall(from_us=2 * WIDTH)),))
        cursor.execute("SAVEPOINT here")
        for statement in (
            "UPDATE medusa.segment SET end_version = 9 WHERE version = 1 AND end_version IS NULL",
            "UPDATE medusa.stream_producer SET boundary_us = 0 WHERE stream = 'sums'",
            "UPDATE medusa.stream_producer SET generation = 3 WHERE stream = 'sums'",
            INSERT.replace("2, 0,", "3, 0,"),
        ):
            with pytest.raises(psycopg2.Error) as refused:
                cursor.execute(statement)
            assert refused.value.pgcode in OURS
            cursor.execute("ROLLBACK TO here")
        cursor.execute("COMMIT")
    assert [s.version for s in attacked.segments(a.SUMS)] == [1, 2]
    assert len(attacked.recalls()) == 1
    with log_in("owner").cursor() as cursor, pytest.raises(psycopg2.Error):
        cursor.execute("UPDATE medusa.segment SET end_version = 9 WHERE version = 1")


def test_a_recall_of_one_line_begins_no_generation_of_another(log_in: LogIn) -> None:
    """medusa.guard_line looks for a recall of the same line."""
    with log_in("owner").cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT medusa.recall(%s)", (json.dumps(recall(from_us=2 * WIDTH)),))
        cursor.execute("SELECT stream, generation FROM medusa.stream_producer ORDER BY 1")
        assert cursor.fetchall() == [("big", 1), ("src", 1), ("sums", 2)]
        with pytest.raises(psycopg2.Error, match=r"only medusa\.recall begins another"):
            cursor.execute("UPDATE medusa.stream_producer SET generation = 2 WHERE stream = 'big'")


@pytest.mark.parametrize(
    "said",
    long_but(
        5,
        [
            {"because": None},
            {"because": ""},
            {"because": "x" * 1_001},
            {"because": "a\nb"},
            {"because": "a\x1b[2J"},
            {"who": "y" * 201},
            {"who": None},
            {"from_us": None},
            {"from_us": 1},
            {"from_us": -WIDTH},
            {"from_us": 3 * WIDTH},
            {"from_us": 2**62 - 2**62 % WIDTH},
            {"stream": "nobody"},
            {"follows": 2},
            {"participant": "beta"},
        ],
        quick=True,
    ),
    ids=str,
)
def test_a_recall_that_is_not_whole_is_refused(said: dict[str, Any], log_in: LogIn) -> None:
    owner = log_in("owner")
    before = status(owner)
    with owner.cursor() as cursor, pytest.raises(psycopg2.Error) as refused:
        cursor.execute("SELECT medusa.recall(%s)", (json.dumps(recall(**said)),))
    assert refused.value.pgcode == "MD001"
    assert status(owner) == before


def test_a_row_knows_its_generation_and_a_cut_one_keeps_its_own(
    attacked: PostgresCatalog, attacked_urls: HomeUrls, log_in: LogIn
) -> None:
    attacked.commit(a.a_commit(a.a_segment(3, 6, rows={3: 1, 5: 1})))
    owner = PostgresCatalog(attacked_urls.owner, a.ALPHA)
    expected = RecallRequest(
        stream=a.SUMS, producer=a.ME, from_us=4 * WIDTH, because="why", who="me"
    )
    try:
        owner.recall(expected)
    finally:
        owner.close()
    attacked.commit(a.a_commit(a.a_segment(4, 5, rows={4: 1})))
    with log_in("owner").cursor() as cursor:
        cursor.execute(
            "SELECT from_us / 10000000, to_us / 10000000, generation, version FROM medusa.segment "
            "WHERE end_version IS NULL ORDER BY from_us"
        )
        assert cursor.fetchall()[-2:] == [(3, 4, 1, 4), (4, 5, 2, 6)]
    assert attacked.segments(a.SUMS, as_of=Version(4))[-1].range == a.buckets(3, 6)


def test_a_job_is_refused_in_a_sentence(attacked: PostgresCatalog) -> None:
    expected = RecallRequest(stream=a.SUMS, producer=a.ME, from_us=0, because="why", who="me")
    with pytest.raises(Refused, match="no right"):
        attacked.recall(expected)
