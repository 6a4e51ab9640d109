"""What a job could send by hand that no program of ours sends: NULL and what is not exact."""

from __future__ import annotations

import json
from typing import Any

import psycopg2
import pytest

from medusa_core.errors import MedusaError
from pipelines.catalog.postgres import rows
from pipelines.catalog.postgres.database_errors import error_of
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from tests.catalog import building as a
from tests.sql.conftest import LogIn, Login
from tests.sweeps import long_but

LEASE_FIELDS = ("fragment", "partition", "participant", "replica", "lane", "epoch", "holder")
WRITES = (
    "commit_step", "land", "land_many", "promise", "promise_many", "renew_lease", "acquire_lease",
    "acquire_leases",
)  # fmt: skip
TYPES = {"lane": "::medusa.lane"}
LANES = {"a lease is held": "live", "there is no lease": "backlog"}


def a_write(name: str, **fields: Any) -> tuple[str, list[Any]]:
    """A call of a function with a lease that holds, but for the fields given."""
    fragment = a.MAIN if name == "commit_step" else a.LANDING
    lease = {**rows.key_fields(a.a_key(fragment)), "epoch": 1, "holder": "me"} | fields
    if name == "commit_step":
        document = json.loads(rows.commit_document(a.a_commit(a.a_segment(7, 8))))
        return "SELECT medusa.commit_step(%s)", [json.dumps(document | lease)]
    if name == "land":
        document = json.loads(rows.landing_document(lease, a.a_batch(7, {7: 1})))
        return "SELECT medusa.land(%s)", [json.dumps(document)]
    if name == "land_many":
        batch = a.a_batch(7, {7: 1})
        assert batch.file is not None
        (file,) = rows.files_document((batch.file,))
        batches = [rows.batch_fields(lease, batch)]
        document = {"batches": batches, "file": file, "file_of": a.SRC}
        return "SELECT medusa.land_many(%s)", [json.dumps(document)]
    if name == "promise_many":
        promise = {"stream": a.SRC, "origin_us": 0, "boundary_us": 2 * a.WIDTH_US}
        return "SELECT medusa.promise_many(%s)", [json.dumps([{**lease, **promise}])]
    if name == "acquire_leases":
        asked = json.dumps([lease])
        return "SELECT medusa.acquire_leases(%s, %s, %s)", [asked, lease["holder"], a.HOUR_MS]
    rest: list[Any] = {"promise": ["src", 0, 2 * a.WIDTH_US, None]}.get(name, [a.HOUR_MS])
    places = ", ".join(f"%s{TYPES.get(field, '')}" for field in LEASE_FIELDS)
    statement = f"SELECT medusa.{name}({places}{', %s' * len(rest)})"
    return statement, [*(lease[field] for field in LEASE_FIELDS), *rest]


def run(job: Login, statement: str, values: list[Any]) -> None:
    with job.cursor() as cursor:
        cursor.execute(statement, values)


def everything(catalog: PostgresCatalog, owner: Login) -> list[Any]:
    with owner.cursor() as cursor:
        cursor.execute("SELECT * FROM medusa.lease ORDER BY 1, 2, 3, 4, 5")
        leases = cursor.fetchall()
    return [catalog.steps(), catalog.streams(), catalog.landed_batches(a.SRC, "query"), leases]


@pytest.mark.parametrize("name", long_but(3, WRITES, quick=True))
def test_a_job_may_write_with_its_lease(log_in: LogIn, name: str) -> None:
    """The attacks below fail for what is NULL in them."""
    run(log_in("job"), *a_write(name))


@pytest.mark.parametrize("lane", LANES.values(), ids=list(LANES))
@pytest.mark.parametrize("name", long_but(2, WRITES, quick=True))
def test_nothing_is_written_under_a_lease_with_a_hole(
    attacked: PostgresCatalog, log_in: LogIn, name: str, lane: str
) -> None:
    job, owner = log_in("job"), log_in("owner")
    before = everything(attacked, owner)
    for field in LEASE_FIELDS:
        with pytest.raises(psycopg2.Error) as refused:
            run(job, *a_write(name, **{"lane": lane, field: None}))
        assert isinstance(error_of(refused.value), MedusaError), field
        assert everything(attacked, owner) == before, field


WITHOUT_A_LEASE: tuple[dict[str, Any], ...] = (
    {"lane": "backlog"},
    {"lane": "backlog", "holder": None, "epoch": None},
    {"epoch": 1},
    {"epoch": None},
    {"holder": None},
)


@pytest.mark.parametrize(
    "name",
    long_but(
        3,
        ["commit_step", "land", "land_many", "promise", "promise_many", "renew_lease"],
        quick=True,
    ),
)
def test_nothing_is_written_without_a_lease_under_the_newest_epoch(
    attacked: PostgresCatalog, log_in: LogIn, name: str
) -> None:
    newer = tuple(a.an_assignment(fragment, a.SECOND) for fragment in (a.LANDING, a.MAIN))
    attacked.deploy(a.a_deployment(assignments=newer))
    job, owner = log_in("job"), log_in("owner")
    before = everything(attacked, owner)
    for fields in WITHOUT_A_LEASE:
        with pytest.raises(psycopg2.Error) as refused:
            run(job, *a_write(name, **fields))
        hole = None in fields.values()
        assert refused.value.pgcode == ("MD001" if hole else "MDS08"), fields
        assert everything(attacked, owner) == before, fields


def a_document(**fields: Any) -> str:
    """A commit with two buckets, its one segment with other fields."""
    document = json.loads(rows.commit_document(a.a_commit(a.a_segment(5, 7, rows={5: 1, 6: 1}))))
    document["streams"]["sums"][0] |= fields
    return json.dumps(document)


NOT_EXACT: dict[str, tuple[dict[str, Any], str]] = {
    "a sum that would be rounded": ({"sum_a": [0.5, 1]}, "MD001"),
    "the other sum": ({"sum_b": [1, 1.0001]}, "MD001"),
    "a sum that is no number": ({"sum_a": ["NaN", 1]}, "23514"),
    "rows that would be rounded": ({"bucket_rows": [1.5, 1]}, "22P02"),
    "arrays in two dimensions, out of order": (
        {
            "bucket_us": [[6 * a.WIDTH_US], [5 * a.WIDTH_US]],
            "bucket_rows": [[1], [1]],
            "sum_a": [[1], [1]],
            "sum_b": [[1], [1]],
        },
        "MD001",
    ),
    "a gap with rows": ({"stability": "gap"}, "23514"),
    "no end": ({"to_us": None}, "23502"),
}


@pytest.mark.parametrize(
    ("fields", "state"), long_but(3, NOT_EXACT.values(), quick=True), ids=list(NOT_EXACT)
)
def test_a_commit_that_is_not_exact_is_refused(
    attacked: PostgresCatalog, log_in: LogIn, fields: dict[str, Any], state: str
) -> None:
    job, owner = log_in("job"), log_in("owner")
    before = everything(attacked, owner)
    with pytest.raises(psycopg2.Error) as refused:
        run(job, "SELECT medusa.commit_step(%s)", [a_document(**fields)])
    assert refused.value.pgcode == state, refused.value
    assert everything(attacked, owner) == before
