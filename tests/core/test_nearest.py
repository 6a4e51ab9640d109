"""What is suggested for a name that is not known."""

from __future__ import annotations

from random import Random

import pytest

from medusa_core.columns import check_type
from medusa_core.errors import Refused
from medusa_core.grid import parse_duration_us
from medusa_core.names import NAME_LENGTH_MAX
from medusa_core.network import Box, Filter, Map, Network, Output, Source
from medusa_core.suggest import LENGTH_MAX, LOOKED_AT_MAX, did_you_mean, nearest

KNOWN = ("busy_sources", "scanning_sources", "connections", "--until-ended", "replay")


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("conections", "connections"),
        ("CONNECTIONS", "connections"),
        ("busy-sources", "busy_sources"),
        ("--until_ended", "--until-ended"),
        ("repaly", "replay"),
    ],
)
def test_a_slip_of_the_finger_is_understood(word: str, near: str) -> None:
    assert nearest(word, KNOWN) == near
    assert did_you_mean(word, KNOWN) == f"did you mean {near!r}?"


@pytest.mark.parametrize("word", ["", "x", "prices", "?", 3, None, ["replay"], "replay\0" * 9])
def test_where_nothing_is_near_nothing_is_suggested(word: object) -> None:
    assert nearest(word, KNOWN) is None
    assert did_you_mean(word, KNOWN, "write one") == "write one"


def test_what_is_suggested_cannot_break_the_line_it_stands_in() -> None:
    assert did_you_mean("duration", ["dura\x1b[31mtion\n"]) == r"did you mean 'dura\x1b[31mtion\n'?"


def test_a_hostile_word_or_list_costs_no_more_than_a_name_among_a_bounded_number() -> None:
    looked_at = 0

    def endless() -> object:
        nonlocal looked_at
        random = Random(1)
        while True:
            looked_at += 1
            yield "".join(random.choice("ab") for _ in range(NAME_LENGTH_MAX))

    nearest("b" * LENGTH_MAX, endless())  # type: ignore[arg-type]
    assert looked_at == LOOKED_AT_MAX
    looked_at = 0
    assert nearest("b" * (LENGTH_MAX + 1), endless()) is None  # type: ignore[arg-type]
    assert nearest("b" * 10_000_000, endless()) is None  # type: ignore[arg-type]
    assert looked_at == 0


@pytest.mark.parametrize(
    ("written", "meant"),
    [("10sec", "10s"), ("5 min", "5m"), ("2hours", "2h"), ("3Days", "3d"), ("7 usec", "7us")],
)
def test_a_unit_written_out_is_understood(written: str, meant: str) -> None:
    with pytest.raises(Refused, match=f"did you mean '{meant}'"):
        parse_duration_us(written)


def test_an_invalid_unit_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(Refused, match="write a number and us, ms, s, m, h or d"):
        parse_duration_us("1y")


def test_a_type_a_box_a_port_a_time_unit_and_an_output_are_suggested_too() -> None:
    with pytest.raises(Refused, match="did you mean 'timestamp'"):
        check_type("column 'at'", "timestmp")
    columns = {"at": "bigint"}
    source = Source(name="readings", columns=columns, time="at")
    with pytest.raises(Refused, match="neither a source nor a box: did you mean 'readings'"):
        network(source, Map(name="all", input="reading", columns=columns))
    with pytest.raises(Refused, match="not one of s, ms, us, ns; did you mean 's'"):
        network(
            Source(name="readings", columns=columns, time="at", time_unit="seconds"),
            Map(name="all", input="readings", columns={"at": "at"}),
        )
    good = network(source, Filter(name="all", input="readings", cases={"late": "at > 9"}))
    with pytest.raises(Refused, match="has no output 'resalt': did you mean 'result'"):
        good.output("resalt")
    with pytest.raises(Refused, match=r"reads 'all\.lat': did you mean 'all\.late'"):
        good.port("all.lat", "box b")


def network(source: Source, box: Box) -> Network:
    return Network(
        name="example",
        sources=(source,),
        boxes=(box,),
        outputs=(Output(name="result", input="all"),),
    )
