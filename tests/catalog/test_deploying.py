"""Deploying brings desired state in; laws of both catalogs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.errors import Conflict, Refused
from medusa_core.grid import BEGINNING_US
from medusa_core.knowledge import Limits
from medusa_core.names import Epoch, NetworkName, PlanId
from tests.catalog import building as a
from tests.catalog.homes_under_test import HomeUnderTest


def test_deploying_the_same_again_changes_nothing(home: HomeUnderTest) -> None:
    home.catalog.deploy(a.a_deployment())
    before = home.catalog.streams()
    home.catalog.deploy(a.a_deployment())
    assert home.catalog.streams() == before
    assert [status.stream.name for status in before] == [a.BIG, a.SRC, a.SUMS]


def test_a_stream_keeps_the_shape_it_was_deployed_with(home: HomeUnderTest) -> None:
    home.catalog.deploy(a.a_deployment())
    with pytest.raises(Refused, match=r"sums.*another shape"):
        home.catalog.deploy(a.a_deployment(widths_us={a.SUMS: 20_000_000, a.BIG: 20_000_000}))


def test_an_output_is_made_of_whole_buckets_of_its_inputs(home: HomeUnderTest) -> None:
    with pytest.raises(Refused, match="no multiple"):
        home.catalog.deploy(a.a_deployment(widths_us={a.SRC: 20_000_000}))


def test_a_stream_is_written_by_one_fragment_only(home: HomeUnderTest) -> None:
    twice = {a.LANDING: ((), (a.SRC,)), "example/one": ((a.SRC,), (a.SUMS,)),
             "example/two": ((a.SRC,), (a.SUMS,))}  # fmt: skip
    with pytest.raises(Refused, match="writes already"):
        home.catalog.deploy(a.a_deployment(fragments=twice, assignments=()))


def test_a_fragment_is_of_one_network(home: HomeUnderTest) -> None:
    home.catalog.deploy(a.a_deployment())
    other = replace(
        a.a_deployment(assignments=(), plan=PlanId("other")), network=NetworkName("two")
    )
    with pytest.raises(Refused, match=f"fragment {a.LANDING} belongs to network example"):
        home.catalog.deploy(other)


def test_a_fragment_names_declared_streams_only(home: HomeUnderTest) -> None:
    unknown = {a.MAIN: ((a.StreamName("elsewhere"),), (a.SUMS,))}
    with pytest.raises(Refused, match="elsewhere"):
        home.catalog.deploy(a.a_deployment(fragments=unknown, assignments=()))


def test_a_plan_is_named_by_its_content(home: HomeUnderTest) -> None:
    home.catalog.deploy(a.a_deployment())
    with pytest.raises(Refused, match="another document"):
        home.catalog.deploy(a.a_deployment(plan_document="[]"))


@pytest.mark.parametrize("epoch", [0, 3, 7])
def test_an_epoch_is_the_next_one_of_its_fragment(home: HomeUnderTest, epoch: int) -> None:
    home.catalog.deploy(a.a_deployment())
    with pytest.raises(Conflict, match="not the next one"):
        home.catalog.deploy(a.a_deployment(assignments=(a.an_assignment(a.MAIN, Epoch(epoch)),)))


def test_an_epoch_belongs_to_the_first_who_takes_it(home: HomeUnderTest) -> None:
    home.catalog.deploy(a.a_deployment())
    other = a.an_assignment(a.MAIN, a.FIRST, a.Producer(a.ALPHA, replica=1))
    with pytest.raises(Conflict, match="not the next one"):
        home.catalog.deploy(a.a_deployment(assignments=(other,)))


def test_an_assignment_names_a_deployed_fragment_and_plan(home: HomeUnderTest) -> None:
    unknown = a.an_assignment(a.MAIN, plan=PlanId("unheard of"))
    with pytest.raises(Refused, match="not deployed"):
        home.catalog.deploy(a.a_deployment(assignments=(unknown,)))


def test_of_a_refused_deployment_nothing_stays(home: HomeUnderTest) -> None:
    with pytest.raises(Conflict):
        home.catalog.deploy(a.a_deployment(assignments=(a.an_assignment(a.MAIN, Epoch(5)),)))
    assert home.catalog.streams() == ()


@pytest.mark.parametrize("name", ["x; DROP SCHEMA medusa", "Src", "a b", "", "1st", "x'--"])
def test_a_name_with_sql_in_it_is_refused_as_a_name(home: HomeUnderTest, name: str) -> None:
    stream = a.StreamName(name)
    fragments = {"landing/bad": ((), (stream,))}
    deployment = a.a_deployment(fragments=fragments, assignments=())
    bad = a.replace_streams(deployment, (a.a_stream(stream, "source"),))
    with pytest.raises(Refused):
        home.catalog.deploy(bad)
    assert home.catalog.streams() == ()


def test_a_fragment_starts_with_the_bucket_with_which_it_was_deployed(home: HomeUnderTest) -> None:
    late = replace(a.a_deployment(), starts_us={a.MAIN: 3 * a.WIDTH_US})
    home.catalog.deploy(late)
    home.catalog.deploy(late)
    knowledge = home.catalog.read_knowledge(a.some_fragments(), Limits())
    known = {its.fragment.id: its for its in knowledge.fragments}
    assert known[a.MAIN].starts_us == 3 * a.WIDTH_US
    assert known[a.TAIL].starts_us == BEGINNING_US
    for starts_us in ({}, {a.MAIN: 4 * a.WIDTH_US}, {a.MAIN: 3 * a.WIDTH_US, a.TAIL: 0}):
        with pytest.raises(Refused, match="starts at another bucket"):
            home.catalog.deploy(replace(late, starts_us=starts_us))


def test_a_fragment_starts_with_a_whole_bucket(home: HomeUnderTest) -> None:
    with pytest.raises(Refused, match="no bucket of"):
        home.catalog.deploy(replace(a.a_deployment(), starts_us={a.MAIN: a.WIDTH_US + 1}))
