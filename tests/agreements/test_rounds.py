"""Rounds of a home: whoever finds the time passed opens the next one, and only one does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from pipelines.catalog.postgres.agreements import PostgresAgreements
from tests.agreements.building import Party, agree

HOUR_MS = 3_600_000


def test_a_round_is_opened_when_its_time_has_passed(alpha: Party) -> None:
    assert alpha.agreements.last_round() is None
    assert alpha.agreements.open_round(HOUR_MS) == 1
    assert alpha.agreements.open_round(HOUR_MS) is None
    assert alpha.agreements.open_round(0, "asked for") == 2
    found = alpha.agreements.last_round()
    assert found is not None
    assert (found.number, found.because) == (2, "asked for")
    assert found.opened_by == f"{alpha.urls.database}_job"


def test_of_several_that_come_at_once_one_opens_the_round(alpha: Party) -> None:
    several = [PostgresAgreements(alpha.urls.job, alpha.name) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        opened = list(threads.map(lambda one: one.open_round(HOUR_MS), several))
    for one in several:
        one.close()
    assert sorted(opened, key=str) == [1, None, None, None]


def test_an_activation_names_its_round(alpha: Party, beta: Party) -> None:
    alpha.agreements.open_round(0, "before anything is agreed")
    agree(alpha, beta)
    alpha.agreements.open_round(0, "after")
    (here,), (there,) = alpha.agreements.in_force(), beta.agreements.in_force()
    assert (here.round, there.round) == (2, 1), "each home counts its own rounds"
