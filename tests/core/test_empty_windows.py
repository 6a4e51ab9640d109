"""Windows that have rows without records: which they are, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.decide import frontier_step
from medusa_core.emitted_windows import emitted_windows, emitted_within_us
from medusa_core.errors import Refused
from medusa_core.fragments import Fragment, fragments_of
from medusa_core.grid import FOREVER_US, Range
from medusa_core.knowledge import Limits
from medusa_core.names import StreamName
from medusa_core.network import Aggregate, Box, Join, Lookup, Map, Network, Output, Source, Union
from medusa_core.plans import network_document, network_of_document
from tests.core.builders import a_fragment_knowledge, a_segment, an_input, seconds

READINGS, LEVELS, RESULT = StreamName("readings"), StreamName("levels"), StreamName("result")


def counted(**given: Any) -> Aggregate:
    parts: dict[str, Any] = {
        "name": "counted", "input": "readings", "size": "60s", "columns": {"n": "count(*)"},
        "empty": "emit",
    }  # fmt: skip
    return Aggregate(**(parts | given))


def a_network(*boxes: Box, sources: tuple[str, ...] = ("readings",)) -> Network:
    columns = {"at_us": "bigint", "k": "string", "i": "int"}
    return Network(
        name="example",
        sources=tuple(Source(name=name, columns=columns, time="at_us") for name in sources),
        boxes=boxes,
        outputs=(Output(name="result", input=boxes[-1].name),),
    )


def a_fragment(*boxes: Box, sources: tuple[str, ...] = ("readings",)) -> Fragment:
    (fragment,) = fragments_of(a_network(*boxes, sources=sources))
    return fragment


def windows(
    fragment: Fragment, part: Range, box: str = "counted", **lives: Range | None
) -> list[Range]:
    given = {StreamName(name): life for name, life in lives.items()}
    return list(emitted_windows(fragment, [RESULT], part, given)[box])


LIFE = seconds(90, 200)
EVERYTHING = seconds(0, 1_000)


def test_the_worked_example() -> None:
    expected = [seconds(60, 120), seconds(120, 180), seconds(180, 240)]
    assert windows(a_fragment(counted()), EVERYTHING, readings=LIFE) == expected
    sliding = windows(a_fragment(counted(advance="30s")), EVERYTHING, readings=LIFE)
    assert sliding == [seconds(at, at + 60) for at in (60, 90, 120, 150, 180)]


def test_calendar_windows_have_rows_too() -> None:
    days = counted(size=None, every="day", zone="UTC", zone_offsets="0")
    life = seconds(90_000, 180_000)
    found = windows(a_fragment(days), seconds(0, 10 * 86_400), readings=life)
    assert found == [seconds(at * 86_400, (at + 1) * 86_400) for at in (1, 2)]


@given(
    size=st.sampled_from((10, 20, 30, 60, 7)),
    advances=st.integers(1, 4),
    cut=st.integers(1, 399),
    end=st.one_of(st.none(), st.integers(91, 300)),
)
def test_i2_a_cut_into_steps_changes_no_window(
    size: int, advances: int, cut: int, end: int | None
) -> None:
    box = counted(size=f"{size}s", advance=f"{-(-size // advances)}s")
    life = Range(LIFE.from_us, FOREVER_US if end is None else seconds(0, end).to_us)
    found = windows(a_fragment(box), seconds(0, 400), readings=life)
    parts = [
        window
        for part in (seconds(0, cut), seconds(cut, 400))
        for window in windows(a_fragment(box), part, readings=life)
    ]
    assert parts == found
    assert len(set(found)) == len(found)
    assert all(window.overlaps(life) for window in found)


def test_an_end_that_becomes_known_later_changes_no_window_before_it() -> None:
    fragment = a_fragment(counted(advance="20s"))
    known, open_ = LIFE, Range(LIFE.from_us, FOREVER_US)
    done = seconds(0, 200)
    assert windows(fragment, done, readings=known) == windows(fragment, done, readings=open_)


def test_windows_over_windows_have_rows_until_the_last_of_those_ends() -> None:
    inner = counted(name="inner", size="50s", empty="skip")
    fragment = a_fragment(inner, counted(input="inner", size="30s"))
    found = windows(fragment, EVERYTHING, readings=seconds(90, 110))
    # The last window with records ends at 150 s; the row that it could give is just before.
    assert found == [seconds(at, at + 30) for at in (90, 120)]


def test_the_windows_that_a_later_box_needs_are_those_of_its_own_windows() -> None:
    fragment = a_fragment(
        counted(size="10s"),
        Aggregate(name="most", input="counted", size="60s", columns={"n": "max(n)"}),
    )
    found = windows(fragment, seconds(170, 180), readings=LIFE)
    assert found == [seconds(at, at + 10) for at in range(120, 180, 10)]
    assert windows(fragment, seconds(160, 170), readings=LIFE) == []


def test_rows_begin_with_the_first_input_and_end_with_the_last_that_makes_rows() -> None:
    pair = Join(name="pair", left="readings", right="levels", on=("k",), within=("0s", "20s"))
    both = ("readings", "levels")
    fragment = a_fragment(pair, counted(input="pair", size="10s"), sources=both)
    found = windows(fragment, EVERYTHING, readings=seconds(100, 130), levels=seconds(80, 110))
    assert (found[0], found[-1]) == (seconds(80, 90), seconds(140, 150))
    looked_up = Lookup(name="pair", input="readings", table="levels", on=("k",), max_age="1h")
    fragment = a_fragment(looked_up, counted(input="pair", size="10s"), sources=both)
    endless = Range(seconds(80, 90).from_us, FOREVER_US)
    found = windows(fragment, EVERYTHING, readings=seconds(100, 130), levels=endless)
    assert (found[0], found[-1]) == (seconds(80, 90), seconds(120, 130))


def test_a_stream_that_ended_without_a_bucket_has_no_windows() -> None:
    assert windows(a_fragment(counted()), EVERYTHING, readings=None) == []
    both = Union(name="both", inputs=("readings", "levels"))
    fragment = a_fragment(both, counted(input="both"), sources=("readings", "levels"))
    found = windows(fragment, EVERYTHING, readings=None, levels=LIFE)
    assert found == windows(a_fragment(counted()), EVERYTHING, readings=LIFE)


def test_a_step_ends_before_it_emits_too_many_rows_unless_its_inputs_have_ended() -> None:
    box = counted(size="10s", group_by=("k",), keys={"k": ("a", "b", "c")})
    network = replace(a_network(box), outputs=(Output(name="totals", input="counted"),))
    limits = Limits(records_per_step_max=30)

    def step(computed_s: int, end_s: int | None = None) -> Range:
        input_ = an_input(a_segment(seconds(0, 400)), end_s=end_s)
        known = a_fragment_knowledge(input_, network=network, computed_s=computed_s)
        found = frontier_step(known, seconds(computed_s, 1_000), limits)
        assert found is not None
        return found.range

    assert step(0) == seconds(0, 100)
    assert step(300, end_s=400) == seconds(300, 400)
    assert step(400, end_s=400) == seconds(400, 1_000)


def test_a_step_emits_no_more_rows_than_it_reads_records() -> None:
    box = counted(size="10s", group_by=("k",), keys={"k": ("a", "b", "c", "d")})
    assert emitted_within_us(a_fragment(box), 1_000) == 2_500 * 1_000_000
    assert emitted_within_us(a_fragment(counted(empty="skip")), 1_000) is None


def test_only_boxes_that_emit_have_such_windows() -> None:
    assert emitted_windows(a_fragment(counted(empty="skip")), [RESULT], EVERYTHING, {}) == {}


KEYED: dict[str, Any] = {"group_by": ("k", "i"), "keys": {"k": ("a", None), "i": (1, 2)}}


def test_a_network_with_declared_keys_is_what_its_document_says() -> None:
    network = a_network(counted(**KEYED))
    assert network_of_document(network_document(network)) == network
    assert hash(network) == hash(a_network(counted(**KEYED)))
    assert counted(**KEYED, advance="20s").windows_shown == "60s by 20s, also empty ones"


def test_a_plan_without_empty_windows_is_the_one_that_it_was() -> None:
    (box,) = network_document(a_network(counted(empty="skip")))["boxes"]  # type: ignore[misc]
    assert {"empty", "keys"}.isdisjoint(box)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"empty": "emitt"}, ("empty of aggregate counted is 'emitt', which is not what windows can "
     "be: did you mean 'emit'?")),
    ({"empty": "skip", "keys": {"k": ("a",)}}, ("aggregate counted has keys, and rows for windows "
     "with records alone: write empty='emit', or leave keys out")),
    ({"group_by": ("k",)}, ("aggregate counted emits empty windows and has no keys for 'k': write "
     "keys={'k': ('…',)} with the values that have a row in each window")),
    ({"group_by": ("k",), "keys": {"kk": ("a",)}}, ("aggregate counted has keys for 'kk', which it "
     "does not group by: did you mean 'k'?")),
    ({"group_by": ("k",), "keys": {"k": "ab"}}, ("keys of aggregate counted has 'k': 'ab': write a "
     "tuple of values, {'k': ('…',)}")),
    ({"group_by": ("k",), "keys": {"k": ()}}, ("keys of aggregate counted has 'k': (): write a "
     "tuple of values, {'k': ('…',)}")),
    ({"group_by": ("k",), "keys": {"k": (1.5,)}}, ("keys of aggregate counted has the value 1.5 "
     "for 'k': write a text, a whole number, True, False or None")),
    ({"group_by": ("k",), "keys": {"k": ("a", "b\0")}}, ("keys of aggregate counted has the value "
     "'b\\x00' for 'k', which no catalog can hold: write a text without NUL and halves of "
     "surrogate pairs")),
    ({"group_by": ("k",), "keys": {"k": ("\ud800",)}}, ("keys of aggregate counted has the value "
     "'\\ud800' for 'k', which no catalog can hold: write a text without NUL and halves of "
     "surrogate pairs")),
    ({"group_by": ("k",), "keys": {"k": ("a", "b", "a")}}, ("keys of aggregate counted has 'a' "
     "twice for 'k': write it once")),
    ({"group_by": ("k", "i"), "keys": {"k": tuple(map(str, range(101))), "i": tuple(range(100))}},
     ("aggregate counted declares 10,100 combinations of keys, more than 10,000: declare fewer, or "
     "group by fewer columns")),
]  # fmt: skip


@pytest.mark.parametrize(("given", "sentence"), REFUSED)
def test_keys_that_do_not_fit_the_group_are_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        a_network(counted(**given))
    assert str(refused.value) == sentence


def test_keys_that_are_no_dictionary_are_refused() -> None:
    with pytest.raises(Refused, match="keys of Aggregate counted is a value of type tuple: write"):
        counted(group_by=("k",), keys=("k",))


def test_a_map_between_changes_nothing() -> None:
    passed = Map(name="passed", input="readings", columns={"k": "k"})
    fragment = a_fragment(passed, counted(input="passed"))
    plain = a_fragment(counted())
    assert windows(fragment, EVERYTHING, readings=LIFE) == windows(plain, EVERYTHING, readings=LIFE)
