"""Corrections are opened beside the live lane, with the surroundings of who asks for them."""

from __future__ import annotations

import pytest

from medusa_core.commits import Lane
from medusa_core.errors import CheckFailed, Refused, Unavailable
from medusa_core.supervising import GiveUp, lane_of
from pipelines.base.settings import SPARK_MASTER
from pipelines.homes.home import open_home
from pipelines.operations.correcting import BacklogRequest, backlog_status, open_backlog
from pipelines.operations.own_lines import computed_line
from pipelines.platform.jobs.job_processes import own_process
from tests.supervising.conftest import ALPHA, Supervised
from tests.waiting import until

SOON_S = 180
ALWAYS = BacklogRequest(participant=ALPHA, who="a test", always=True)


def give_up(supervised: Supervised, lane: Lane, number: int) -> None:
    """As a job does that is refused: it is not tried again."""
    store, own = supervised.store(), own_process()
    intent = store.intend(number, "a test")
    assert store.take_up(intent, own.host, own.pid, "another start", begins=True)
    store.end(intent, Refused.exit_code, "a test refuses it")
    given_up = [lane_of(one) for one in supervised.tick().pending if isinstance(one, GiveUp)]
    assert lane in given_up


@pytest.mark.long
def test_corrections_are_made_where_the_live_lane_is_given_up(supervised: Supervised) -> None:
    settings = supervised.settings
    give_up(supervised, Lane.LIVE, supervised.wants())
    opened = open_backlog(settings, ALWAYS, {})
    assert opened.because == "requested"
    desired = opened.desired
    assert desired is not None

    def is_corrected() -> bool:
        supervised.tick()  # as supervision does, should the job have to be made anew
        return backlog_status(settings, ALPHA, desired) is not None

    until(is_corrected, "the corrections end", SOON_S)
    output = backlog_status(settings, ALPHA, desired)
    assert output == "what was owed is corrected"
    lanes = [lane_of(one) for one in supervised.tick().given_up]
    assert lanes == [Lane.LIVE], "the live lane still wants a person"


@pytest.mark.long
def test_corrections_that_are_given_up_are_reported_with_the_log(supervised: Supervised) -> None:
    number = supervised.wants(lane=Lane.BACKLOG, lasting=False)
    assert backlog_status(supervised.settings, ALPHA, number) is None
    give_up(supervised, Lane.BACKLOG, number)
    with pytest.raises(CheckFailed, match=r"\(backlog\) is given up.*job-alpha-backlog\.out"):
        backlog_status(supervised.settings, ALPHA, number)


def test_corrections_run_on_the_master_of_who_asks_and_nothing_is_desired_for_one_that_is_none(
    supervised: Supervised,
) -> None:
    before = supervised.store().read().desired
    with pytest.raises(Refused, match="not the master of a cluster"):
        open_backlog(supervised.settings, ALWAYS, {SPARK_MASTER: "elsewhere"})
    assert supervised.store().read().desired == before


def test_a_stream_that_is_not_computed_here_is_refused_in_one_sentence(
    supervised: Supervised,
) -> None:
    with open_home(supervised.settings, ALPHA) as home, pytest.raises(Unavailable, match="lower"):
        computed_line(home, "lower")
