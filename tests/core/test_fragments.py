"""Fragments: which streams they read and write, and which ranges of them an output needs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.errors import Refused
from medusa_core.fragments import (
    check_width,
    crossing_name,
    end_of,
    fragments_of,
    origin_of,
    windows_within,
)
from medusa_core.grid import Range
from medusa_core.names import StreamName
from medusa_core.network import (
    Aggregate,
    Box,
    Filter,
    Map,
    Network,
    Output,
    Port,
    Source,
    Union,
)

READINGS, OTHERS = StreamName("readings"), StreamName("others")
S = 1_000_000


def a_source(name: str) -> Source:
    return Source(name=name, columns={"at_us": "bigint", "n": "int"}, time="at_us")


def a_map(name: str, input_: str, fragment: str = "main") -> Map:
    return Map(name=name, input=input_, columns={"n": "n"}, fragment=fragment)


def an_aggregate(size: str, advance: str | None = None, input_: str = "readings") -> Aggregate:
    return Aggregate(
        name="windows", input=input_, size=size, advance=advance, columns={"n": "count(*)"}
    )


def a_network(
    *boxes: Box, outputs: dict[str, str], sources: tuple[str, ...] = ("readings",)
) -> Network:
    return Network(
        name="example",
        sources=tuple(a_source(name) for name in sources),
        boxes=boxes,
        outputs=tuple(Output(name=name, input=input_) for name, input_ in outputs.items()),
    )


def test_boxes_of_one_name_are_one_fragment() -> None:
    network = a_network(a_map("a", "readings"), a_map("b", "a"), outputs={"result": "b"})
    (fragment,) = fragments_of(network)
    assert fragment.id == "example/main"
    assert [box.name for box in fragment.boxes] == ["a", "b"]
    assert dict(fragment.inputs) == {Port("readings"): "readings"}
    assert dict(fragment.outputs) == {"result": Port("b")}


def test_what_crosses_between_fragments_is_a_stream_with_a_name() -> None:
    split = Filter(
        name="split", input="readings", cases={"big": "n > 1"}, otherwise="rest", fragment="edge"
    )
    network = a_network(
        a_map("last", "split.big", "core"),
        split,
        a_map("more", "split.rest", "core"),
        outputs={"result": "last", "others": "more", "rest": "split.rest"},
    )
    edge, core = fragments_of(network)
    assert (edge.name, core.name) == ("edge", "core")
    # split.rest crosses under the name of the output that it already is.
    assert dict(edge.outputs) == {
        "rest": Port("split", "rest"),
        "split_big": Port("split", "big"),
    }
    assert set(core.input_streams) == {"split_big", "rest"}
    assert crossing_name(Port("split", "big")) == "split_big"


def test_fragments_that_read_each_other_are_refused() -> None:
    network = a_network(
        a_map("a", "readings", "x"),
        a_map("b", "a", "y"),
        a_map("c", "b", "x"),
        outputs={"result": "c"},
    )
    with pytest.raises(Refused, match="fragments x, y of network example read each other"):
        fragments_of(network)


def test_two_streams_of_one_name_are_refused() -> None:
    network = a_network(
        a_map("result", "readings", "x"),
        a_map("b", "result", "y"),
        outputs={"result": "b"},
    )
    with pytest.raises(Refused, match="two streams of network example share one name"):
        fragments_of(network)


@given(
    size=st.integers(1, 12),
    advance=st.integers(1, 12),
    start=st.integers(-30, 30),
    length=st.integers(1, 30),
)
def test_the_windows_of_a_range_are_those_whose_records_lie_in_it(
    size: int, advance: int, start: int, length: int
) -> None:
    """A window's record lies at its end - 1 us: found by trying every window."""
    box = an_aggregate(f"{size}us", f"{min(advance, size)}us")
    part = Range(start, start + length)
    windows = [
        (k * box.advance_us, k * box.advance_us + size)
        for k in range(-100, 100)
        if part.holds(k * box.advance_us + size - 1)
    ]
    expected = Range(windows[0][0], windows[-1][1]) if windows else None
    assert windows_within(box, part) == expected


def test_an_output_needs_the_windows_behind_it_and_nothing_for_none() -> None:
    network = a_network(an_aggregate("60s", "20s"), outputs={"result": "windows"})
    (fragment,) = fragments_of(network)
    result = StreamName("result")
    assert fragment.needed(result, Range(60 * S, 80 * S)) == {READINGS: Range(20 * S, 80 * S)}
    assert fragment.needed(result, Range(65 * S, 70 * S)) == {}


def test_a_union_needs_the_same_range_of_all_inputs() -> None:
    network = a_network(
        Union(name="both", inputs=("readings", "others")),
        a_map("out", "both"),
        an_aggregate("60s", input_="both"),
        outputs={"result": "out", "counts": "windows"},
        sources=("readings", "others"),
    )
    (fragment,) = fragments_of(network)
    part = Range(60 * S, 70 * S)
    assert fragment.needed(StreamName("result"), part) == {READINGS: part, OTHERS: part}
    assert fragment.needed_by_all(part) == {READINGS: part, OTHERS: part}
    wider = Range(60 * S, 120 * S)
    assert fragment.needed_by_all(wider) == {READINGS: wider, OTHERS: wider}


def test_windows_upon_windows_need_what_lies_behind_both() -> None:
    inner = an_aggregate("10s")
    outer = Aggregate(name="outer", input="windows", size="60s", columns={"n": "sum(n)"})
    (fragment,) = fragments_of(a_network(inner, outer, outputs={"result": "outer"}))
    need = fragment.needed(StreamName("result"), Range(0, 60 * S))
    assert need == {READINGS: Range(0, 60 * S)}


@given(last=st.integers(0, 500), size=st.integers(1, 20), advance=st.integers(1, 20))
def test_an_output_ends_after_the_last_window_that_holds_a_record(
    last: int, size: int, advance: int
) -> None:
    """The stream ends just behind its last record: found by trying every window."""
    box = an_aggregate(f"{size}us", f"{min(advance, size)}us")
    (fragment,) = fragments_of(a_network(box, outputs={"result": "windows"}))
    result = StreamName("result")
    starts = range(-40 * box.advance_us, last + 1, box.advance_us)
    holding = [start for start in starts if start <= last < start + size]
    assert fragment.ends_us(result, {READINGS: last + 1}) >= max(s + size for s in holding)
    width = 7
    end = end_of(fragment, result, {READINGS: last + 1}, width)
    assert end % width == 0
    assert end - width < fragment.ends_us(result, {READINGS: last + 1}) <= end


def test_widths_must_be_whole_buckets_of_every_input() -> None:
    check_width("result", 60 * S, "readings", 20 * S)
    with pytest.raises(
        Refused, match="output result has buckets of 50000000 us, no multiple of the 20000000 us"
    ):
        check_width("result", 50 * S, "readings", 20 * S)


def test_an_output_begins_with_the_first_of_its_inputs() -> None:
    assert origin_of({READINGS: 25 * S, OTHERS: 47 * S}, 20 * S) == 20 * S
