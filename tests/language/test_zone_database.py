"""The database of time zones: offsets as it has them, and networks that get them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from functools import cache
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.calendar_windows import zone_clock
from medusa_core.errors import Refused
from medusa_core.network import Aggregate, Network, Output, Source
from medusa_core.plans import Plan, network_document
from pipelines.homes.network_files import keep_file, network_of_plan
from pipelines.language.load import function_sources, load_network
from pipelines.language.zone_database import (
    VERSION,
    offsets_of,
    with_zone_offsets,
    zone_names,
)

ZONES = ("Europe/Berlin", "America/Sao_Paulo", "Asia/Beirut", "Pacific/Apia", "Africa/Casablanca")
DAILY = Aggregate(
    name="daily", input="s", every="day", zone="Europe/Berlin", columns={"n": "count(*)"}
)

WITH_FUNCTION = """
from medusa_core.network import Aggregate, Function, Network, Output, Source


def same(frame):
    return frame


network = Network(
    name="n",
    sources=(Source(name="s", columns={"at_us": "bigint"}, time="at_us"),),
    boxes=(
        Aggregate(
            name="daily", input="s", every="day", zone="Europe/Berlin", columns={"n": "count(*)"}
        ),
        Function(name="twice", input="s", function=same, columns={"at_us": "bigint"}),
    ),
    outputs=(Output(name="o", input="daily"), Output(name="p", input="twice")),
)
"""


def a_network(box: Aggregate) -> Network:
    return Network(
        name="n",
        sources=(Source(name="s", columns={"at_us": "bigint"}, time="at_us"),),
        boxes=(box,),
        outputs=(Output(name="o", input=box.name),),
    )


@cache
def zone_of(name: str) -> ZoneInfo:
    """A zone as the locked package has it: the machine's database may be of another release."""
    with resources.files("tzdata").joinpath("zoneinfo", name).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def offset_at(offsets: str, time_s: int) -> int:
    first, *later = offsets.split(" ")
    pairs = [one.split(":") for one in later]
    return [int(first), *(int(offset) for at, offset in pairs if int(at) <= time_s)][-1]


@given(st.sampled_from(ZONES), st.integers(-5_364_662_400, 4_102_444_799))
def test_the_offset_at_an_instant_is_that_of_the_database(zone: str, time_s: int) -> None:
    """Of the years 1800 to 2099."""
    offset = datetime.fromtimestamp(time_s, zone_of(zone)).utcoffset()
    assert offset is not None
    assert offset_at(offsets_of(zone), time_s) == offset.total_seconds()


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns", "Pacific/Apia"])
def test_the_offset_changes_at_the_very_second_of_the_database(zone: str) -> None:
    offsets = offsets_of(zone)
    for one in offsets.split(" ")[1:]:
        at_s = int(one.partition(":")[0])
        around = [datetime.fromtimestamp(s, zone_of(zone)).utcoffset() for s in (at_s - 1, at_s)]
        found = [offset_at(offsets, s) for s in (at_s - 1, at_s)]
        assert found == [offset.total_seconds() for offset in around if offset is not None]
        assert found[0] != found[1]


def test_a_fixed_offset_needs_no_database() -> None:
    assert (offsets_of("UTC"), offsets_of("+05:30"), offsets_of("-00:45")) == (
        "0",
        "19800",
        "-2700",
    )


def test_the_version_is_that_of_the_locked_package() -> None:
    year, _, number = version("tzdata").partition(".")
    assert f"{year}{chr(ord('a') + int(number) - 1)}" == VERSION


@pytest.mark.parametrize("zone", sorted(zone_names())[::40])
def test_no_date_of_a_zone_starts_behind_an_instant_of_it(zone: str) -> None:
    """The clock of each zone has dates that never go back, and each starts when it is shown."""
    clock = zone_clock(offsets_of(zone))
    for begin_us in clock.begins_us[1:]:
        for time_us in (begin_us + s * 1_000_000 for s in range(-90_000, 90_001, 1_800)):
            for at_us in (time_us - 1, time_us):
                day = clock.day_at(at_us)
                assert clock.start_us(day) <= at_us < clock.start_us(day + 1)


def test_a_network_is_loaded_with_the_offsets_of_its_zones(tmp_path: Path) -> None:
    path = tmp_path / "n.py"
    path.write_text(WITH_FUNCTION)
    box, _ = load_network(str(path)).boxes
    assert box == replace(DAILY, zone_offsets=offsets_of("Europe/Berlin"))


def test_offsets_that_a_network_has_are_those_of_its_plan() -> None:
    """A plan is the same under a database in which the zone is another."""
    older = a_network(replace(DAILY, zone_offsets="3600"))
    assert with_zone_offsets(older) is older
    newer = with_zone_offsets(a_network(DAILY))
    assert network_document(older) != network_document(newer)


def test_a_plan_with_a_function_runs_with_the_offsets_that_it_was_made_with(
    tmp_path: Path,
) -> None:
    """Its file is loaded again, under a database that may be a newer one."""
    path = tmp_path / "n.py"
    path.write_text(WITH_FUNCTION)
    network = load_network(str(path))
    daily, twice = network.boxes
    assert isinstance(daily, Aggregate)
    older = replace(network, boxes=(replace(daily, zone_offsets="3600"), twice))
    sources = function_sources(older)
    plan = Plan(network=older, widths_us={}, function_sources=sources, engine={})
    keep_file(tmp_path, plan.id, path)
    found = network_of_plan(json.loads(plan.document), tmp_path)
    assert found.boxes[0] == older.boxes[0] != daily


@pytest.mark.parametrize(
    ("zone", "hint"),
    [("Europe/Berlln", "did you mean 'Europe/Berlin'"), ("Berlin", "did you mean 'Europe/Berlin'"),
     ("Zzz", "write a name such as Europe/Berlin")],
)  # fmt: skip
def test_a_zone_that_the_database_has_not_is_refused(zone: str, hint: str) -> None:
    with pytest.raises(Refused, match=f"zone of aggregate daily of network n: '{zone}' .*{hint}"):
        with_zone_offsets(a_network(replace(DAILY, zone=zone)))
