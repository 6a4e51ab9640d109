"""What the home keeps of jobs, whoever writes: the roles, and even who owns the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg2
import pytest

from medusa_core.commits import Lane
from medusa_core.errors import Refused
from medusa_core.names import Participant
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import known_homes, open_homes
from pipelines.platform.jobs.job_processes import own_process
from tests.supervising.conftest import ALPHA, Supervised

NO_RIGHT, LOG = "42501", "MDLOG"
Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def sql(supervised: Supervised, postgres_server: EmbeddedServer) -> Iterator[Sql]:
    """A statement as one of the home's roles; the owner role owns the tables."""
    opened = {}
    with open_homes(supervised.settings, alone=False) as homes:
        participant = Participant(ALPHA)
        database = known_homes(supervised.settings.directory)[participant]

        def run(role: str, statement: str) -> list[tuple[Any, ...]]:
            if role not in opened:
                is_owner_role = role == "keeper"
                url = (
                    postgres_server.superuser_url(database)
                    if is_owner_role
                    else homes.url(participant, role) or ""
                )
                opened[role] = psycopg2.connect(url.replace("+psycopg2", ""))
                opened[role].autocommit = True
            with opened[role].cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall() if cursor.description else []

        yield run
    for connection in opened.values():
        connection.close()


def refused_by(sql: Sql, role: str, statement: str) -> str | None:
    with pytest.raises(psycopg2.Error) as error:
        sql(role, statement)
    return error.value.pgcode


def test_what_was_desired_and_what_became_of_it_stays_written(
    supervised: Supervised, sql: Sql
) -> None:
    number = supervised.wants()
    job = supervised.store().intend(number, "a test")
    supervised.store().end(job, 4, "it was away")
    for change in (
        f"UPDATE medusa.desired_job SET is_desired = false WHERE number = {number}",
        "DELETE FROM medusa.desired_job",
        "DELETE FROM medusa.job",
        f"UPDATE medusa.job SET ended_at = NULL, exit_code = NULL WHERE job_id = {job}",
        f"UPDATE medusa.job SET exit_code = 0 WHERE job_id = {job}",
    ):
        assert refused_by(sql, "keeper", change) == LOG, change
        assert refused_by(sql, "owner", change) == NO_RIGHT, change


@pytest.mark.long
def test_a_job_has_one_process(supervised: Supervised, sql: Sql) -> None:
    job = supervised.store().intend(supervised.wants(), "a test")
    own = own_process()
    assert supervised.store().take_up(job, own.host, own.pid, "a start", begins=True)
    assert not supervised.store().take_up(job, own.host, own.pid, "another", begins=True)
    assert not supervised.store().take_up(job, "elsewhere", own.pid, "a start", begins=True)
    change = f"UPDATE medusa.job SET pid = 99, started = 'x' WHERE job_id = {job}"
    assert refused_by(sql, "keeper", change) == LOG
    supervised.store().stop(job, "a test")
    assert not supervised.store().take_up(job, own.host, own.pid, "a start", begins=True)
    supervised.store().end(job, None, "a test")


def test_a_lane_has_one_open_job_even_by_plain_sql(supervised: Supervised, sql: Sql) -> None:
    number = supervised.wants()
    job = supervised.store().intend(number, "a test")
    second = (
        "INSERT INTO medusa.job (lane, desired, intended_by) "
        f"VALUES ('live', {number}, 'somebody else')"
    )
    assert refused_by(sql, "keeper", second) == "23505"
    supervised.store().end(job, None, "a test")


@pytest.mark.long
def test_what_is_desired_says_who_and_why_and_the_backlog_ends(supervised: Supervised) -> None:
    asked = (
        ("", "why", Lane.LIVE),
        ("who", "", Lane.LIVE),
        ("who" * 99, "why", Lane.LIVE),
        ("who", "why", Lane.BACKLOG),
    )
    for who, because, lane in asked:
        with pytest.raises(Refused):
            supervised.store().desire(
                lane, is_desired=True, is_lasting=True, because=because, who=who, renews=True
            )


def test_the_same_again_is_not_written_twice_unless_it_is_to_be_tried_again(
    supervised: Supervised,
) -> None:
    first = supervised.wants()
    assert supervised.wants() == first
    again = supervised.store().desire(
        Lane.LIVE, is_desired=True, is_lasting=True, because="mended", who="ann", renews=True
    )
    assert again > first


def test_analysts_look_on_and_partners_see_nothing(supervised: Supervised, sql: Sql) -> None:
    supervised.wants()
    desires = "SELECT medusa.desire_job('live', true, true, 'why', 'who', true)"
    assert sql("analyst", "SELECT is_desired FROM medusa_api.desired_jobs WHERE lane = 'live'")
    assert refused_by(sql, "analyst", desires) == NO_RIGHT
    assert refused_by(sql, "exchange", "SELECT * FROM medusa_api.jobs") == NO_RIGHT
    assert refused_by(sql, "exchange", desires) == NO_RIGHT
    for role in ("owner", "airflow", "job"):
        assert sql(role, desires)
