"""Which step reports a failed row: exactly one, and one that reads all of the row's records.

The expected steps are found by trying every window and every position, one microsecond at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from medusa_core.failure_rules import failure_rules
from medusa_core.fragments import Fragment, fragments_of
from medusa_core.grid import Range
from medusa_core.joins import KINDS, Join
from medusa_core.names import StreamName
from medusa_core.network import (
    Aggregate,
    Box,
    Deduplicate,
    Every,
    Lookup,
    Map,
    Network,
    Output,
    Rank,
    Running,
    Session,
    Source,
    Union,
)

S = 1_000_000
READINGS = StreamName("readings")
POSITIONS = range(20)
SIZE_MAX = 9
END = 60
"""Every row at one of the positions is needed before the end: by four windows or Joins at most."""


def windows(name: str, input_: str, size: str, advance: str | None = None) -> Aggregate:
    return Aggregate(name=name, input=input_, size=size, advance=advance, columns={"n": "sum(n)"})


def a_fragment(boxes: tuple[Box, ...], outputs: dict[str, str]) -> Fragment:
    network = Network(
        name="example",
        sources=(Source(name="readings", columns={"at_us": "bigint", "n": "int"}, time="at_us"),),
        boxes=boxes,
        outputs=tuple(Output(name=name, input=input_) for name, input_ in outputs.items()),
    )
    (fragment,) = fragments_of(network, {box.name for box in boxes})
    return fragment


def test_a_window_that_only_a_later_step_needs_is_reported_by_that_step() -> None:
    boxes = (windows("inner", "readings", "10s", "5s"), windows("outer", "inner", "20s"))
    fragment = a_fragment(boxes, {"result": "outer"})
    rule = failure_rules(fragment).of("inner", is_window=True)
    assert rule.positions(Range(10 * S, 20 * S)) == Range(0, 20 * S)
    assert rule.positions(Range(20 * S, 30 * S)) is None
    assert rule.positions(Range(30 * S, 40 * S)) == Range(20 * S, 40 * S)
    need = fragment.needed(StreamName("result"), Range(30 * S, 40 * S))
    assert need == {READINGS: Range(15 * S, 40 * S)}


def test_a_window_that_is_an_output_row_is_reported_by_the_step_that_holds_it() -> None:
    boxes = (windows("inner", "readings", "10s", "5s"), windows("outer", "inner", "20s"))
    fragment = a_fragment(boxes, {"result": "outer", "parts": "inner"})
    rule = failure_rules(fragment).of("inner", is_window=True)
    assert rule.positions(Range(20 * S, 30 * S)) == Range(20 * S, 30 * S)
    assert rule.output_at(25 * S - 1) == "parts"


def test_the_output_that_needs_a_row_first_reports_it_and_of_two_the_first_declared() -> None:
    boxes = (
        windows("inner", "readings", "5s"),
        windows("long", "inner", "30s"),
        windows("short", "inner", "20s"),
    )
    rule = failure_rules(a_fragment(boxes, {"longs": "long", "shorts": "short"})).of_windows[
        "inner"
    ]
    assert rule.output_at(5 * S - 1) == "shorts"
    assert rule.output_at(25 * S - 1) == "longs"
    assert rule.output_at(60 * S - 1) == "longs"


def test_a_record_before_every_window_is_reported_by_the_step_that_holds_it() -> None:
    boxes = (
        Map(name="read", input="readings", columns={"n": "1 / n"}),
        windows("outer", "read", "20s"),
    )
    fragment = a_fragment(boxes, {"result": "outer"})
    rule = failure_rules(fragment).of("read", is_window=False)
    part = Range(0, 10 * S)
    assert rule.positions(part) == part
    assert fragment.needed(StreamName("result"), part) == {READINGS: part}


def test_a_failure_names_all_outputs_behind_the_box_and_no_others() -> None:
    """Also those of other fragments; the first of its own fragment reports it."""
    boxes = (
        Map(name="share", input="readings", columns={"n": "1 / n"}),
        Map(name="other", input="readings", columns={"n": "1 / n"}),
        windows("summed", "share", "20s"),
        Union(name="both", inputs=("share", "other")),
        Map(name="far", input="summed", columns={"n": "n"}, fragment="later"),
    )
    outputs = {"others": "other", "far_ones": "far", "joined": "both", "shares": "share"}
    network = Network(
        name="example",
        sources=(Source(name="readings", columns={"at_us": "bigint", "n": "int"}, time="at_us"),),
        boxes=boxes,
        outputs=tuple(Output(name=name, input=input_) for name, input_ in outputs.items()),
    )
    fragment = fragments_of(network, {box.name for box in boxes})[0]
    rules = failure_rules(fragment)
    assert rules.of("share", is_window=False).outputs == ("far_ones", "joined", "shares")
    assert rules.of("other", is_window=False).outputs == ("others", "joined")
    assert rules.of("summed", is_window=True).outputs == ("far_ones",)
    assert rules.of("share", is_window=False).output_at(5 * S) == "joined"
    assert rules.of("other", is_window=False).output_at(5 * S) == "others"


@dataclass(frozen=True)
class Case:
    """A chain of boxes, its outputs, and steps over event time for one or more outputs each."""

    fragment: Fragment
    steps: tuple[tuple[frozenset[StreamName], Range], ...]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    boxes: list[Box] = []
    for at in range(draw(st.integers(2, 4))):
        input_ = boxes[-1].name if boxes else "readings"
        name = f"box{at}"
        kinds = ("window", "window", "map", "both", "join", "lookup", "rank", "first", "session")
        kind = draw(st.sampled_from(kinds))
        if kind == "window":
            size = draw(st.integers(1, SIZE_MAX))
            advance = draw(st.integers(1, size))
            boxes.append(windows(name, input_, f"{size}us", f"{advance}us"))
        elif kind == "rank":
            size = draw(st.integers(1, SIZE_MAX))
            boxes.append(Rank(name=name, input=input_, size=f"{size}us", order=("n",), k=1))
        elif kind == "first":
            within = f"{draw(st.integers(1, SIZE_MAX))}us"
            columns = {f"m{at}": "sum(n)"}
            boxes.append(
                draw(
                    st.sampled_from(
                        [
                            Deduplicate(name=name, input=input_, by=("n",), within=within),
                            Running(name=name, input=input_, within=within, columns=columns),
                            Every(name=name, input=input_, n=3, within=within,
                                  columns={"n": "sum(n)"}),
                        ]
                    )
                )
            )  # fmt: skip
        elif kind == "session":
            gap, more = draw(st.integers(1, 3)), draw(st.integers(1, 3))
            boxes.append(
                Session(name=name, input=input_, gap=f"{gap}us", length_max=f"{gap + more}us",
                        columns={"n": "sum(n)"})
            )  # fmt: skip
        elif kind == "both" and boxes:
            boxes.append(Union(name=name, inputs=(input_, "readings")))
        elif kind == "join" and boxes:
            within = sorted(draw(st.tuples(*2 * (st.integers(-4, 4),))))
            sides = draw(st.permutations([input_, draw(st.sampled_from([input_, "readings"]))]))
            boxes.append(
                Join(
                    name=name, left=sides[0], right=sides[1], on=("n",),
                    within=(f"{within[0]}us", f"{within[1]}us"),
                    how=draw(st.sampled_from(KINDS)),
                )
            )  # fmt: skip
        elif kind == "lookup" and boxes:
            sides = draw(st.permutations([input_, draw(st.sampled_from([input_, "readings"]))]))
            max_age = f"{draw(st.integers(1, 8))}us"
            boxes.append(
                Lookup(name=name, input=sides[0], table=sides[1], on=("n",), max_age=max_age)
            )
        else:
            boxes.append(Map(name=name, input=input_, columns={"n": "1 / n"}))
    names = [box.name for box in boxes]
    read = draw(st.lists(st.sampled_from(names), max_size=2))
    ends = draw(st.permutations([names[-1], *read]))
    outputs = {f"out{at}": name for at, name in enumerate(ends)}
    cuts = sorted({0, END, *draw(st.lists(st.integers(1, END - 1), max_size=8))})
    steps: list[tuple[frozenset[StreamName], Range]] = []
    for from_us, to_us in pairwise(cuts):
        apart = frozenset(draw(st.sets(st.sampled_from(sorted(outputs)))))
        for group in (apart, frozenset(outputs) - apart):
            if group:
                streams = frozenset(StreamName(name) for name in group)
                steps.append((streams, Range(from_us, to_us)))
    return Case(a_fragment(tuple(boxes), outputs), tuple(steps))


def windows_with(box: Aggregate | Rank, position: int) -> list[range]:
    """The windows that hold a position."""
    size, advance = box.size_us, box.advance_us
    return [
        range(start, start + size)
        for start in range(position - size, position + 1)
        if start % advance == 0 and position in range(start, start + size)
    ]


def inputs_of(box: Box) -> tuple[str, ...]:
    if isinstance(box, Join):
        return (box.left, box.right)
    if isinstance(box, Lookup):
        return (box.input, box.table)
    return box.inputs if isinstance(box, Union) else (box.input,)


def span_with(box: Deduplicate | Running | Every, position: int) -> range:
    """The positions of the span that holds one."""
    length = box.within_us
    first = position // length * length
    return range(first, first + length)


def records_of_session(box: Session, position: int) -> range:
    """Where records may be that decide on the row of a session at a position: to find where the run
    of its last record began, those from one length before the last multiple on, and one more."""
    last = position - box.gap_us + 1
    multiple = max(at for at in range(last - box.length_us_max, last + 1)
                   if at % box.length_us_max == 0)  # fmt: skip
    return range(multiple - box.length_us_max + 1 - (box.gap_us - 1), position + 1)


def rows_of_join(box: Join | Lookup, input_: str, position: int) -> set[int]:
    """Where the rows of a Join or Lookup may be that depend on a row of an input at a position."""
    found: set[int] = set()
    if isinstance(box, Lookup):
        found |= {position} if input_ == box.input else set()
        later = range(position, position + box.max_age_us + 1)
        return found | set(later if input_ == box.table else ())
    differences = range(box.lo_us, box.hi_us + 1)
    for left, right in [
        *([(position, position + d) for d in differences] if input_ == box.left else ()),
        *([(position - d, position) for d in differences] if input_ == box.right else ()),
    ]:
        found |= {max(left, right)} if box.how in ("inner", "left") else set()
        found |= {left + max(box.hi_us, 0)} if box.how != "inner" else set()
    return found


def needed_at(fragment: Fragment, name: str, positions: set[int]) -> set[tuple[int, int]]:
    """Every position of an output that needs a row that the box gives at one of the positions."""
    ports = enumerate(fragment.outputs.values())
    found = {(at, number) for number, port in ports if port.owner == name for at in positions}
    for box in fragment.boxes:
        if name not in inputs_of(box):
            continue
        own = positions
        if isinstance(box, Aggregate | Rank):
            own = {w[-1] for at in positions for w in windows_with(box, at)}
        if isinstance(box, Deduplicate | Running | Every):
            own = {p for at in positions for p in span_with(box, at) if p >= at}
        if isinstance(box, Session):
            # A record between a session's end and its row would be one of the session.
            later = range(min(positions), max(positions) + 20)
            own = {p for p in later if positions & set(records_of_session(box, p))}
        if isinstance(box, Join | Lookup):
            own = {p for at in positions for p in rows_of_join(box, name, at)}
        found |= needed_at(fragment, box.name, own)
    return found


def records_of(fragment: Fragment, name: str, positions: set[int]) -> set[int]:
    """The times of the records that the rows of a relation at the positions are computed from."""
    if name == READINGS:
        return positions
    box = fragment.network.box(name)
    if isinstance(box, Aggregate | Rank):
        ending = (w for at in positions for w in windows_with(box, at) if w[-1] == at)
        positions = {at for window in ending for at in window}
    if isinstance(box, Deduplicate | Running | Every):
        positions = {p for at in positions for p in span_with(box, at) if p <= at}
    if isinstance(box, Session):
        positions = {p for at in positions for p in records_of_session(box, at)}
    if isinstance(box, Join | Lookup):
        before = range(min(positions, default=0) - 9, max(positions, default=0) + 1)
        return {
            t
            for i in inputs_of(box)
            for t in records_of(
                fragment, i, {at for at in before if rows_of_join(box, i, at) & positions}
            )
        }
    return {t for i in inputs_of(box) for t in records_of(fragment, i, positions)}


def is_behind_windows(fragment: Fragment, name: str) -> bool:
    if name == READINGS:
        return False
    box = fragment.network.box(name)
    several = Aggregate | Session | Join | Lookup | Rank | Deduplicate | Running | Every
    return isinstance(box, several) or any(is_behind_windows(fragment, i) for i in inputs_of(box))


@given(case=cases())
def test_each_failed_row_is_reported_by_one_step_which_reads_all_of_its_records(case: Case) -> None:
    for box in case.fragment.boxes:
        for position in POSITIONS:
            check_failed_row(case, box, position, is_window=False)
            ends_one = isinstance(box, Aggregate) and any(
                window[-1] == position for window in windows_with(box, position)
            )
            if ends_one or isinstance(box, Session | Running | Every):
                check_failed_row(case, box, position, is_window=True)


@given(case=cases(), from_us=st.sampled_from(POSITIONS))
def test_no_row_is_needed_from_a_position_on_that_lies_before_the_first_needed_one(
    case: Case, from_us: int
) -> None:
    for box in case.fragment.boxes:
        rule = failure_rules(case.fragment).of(box.name, is_window=True)
        first_us = rule.first_needed_us(from_us)
        for position in range(-60, first_us):
            needed = needed_at(case.fragment, box.name, {position})
            assert all(at < from_us for at, _ in needed)


def test_windows_over_windows_need_rows_as_long_as_both_reach_back() -> None:
    boxes = (windows("inner", "readings", "10s", "5s"), windows("outer", "inner", "20s"))
    fragment = a_fragment(boxes, {"result": "outer"})
    rules = failure_rules(fragment)
    assert rules.of("outer", is_window=True).first_needed_us(60 * S) == 60 * S
    assert rules.of("inner", is_window=True).first_needed_us(60 * S) == 60 * S
    assert rules.of("inner", is_window=True).first_needed_us(60 * S - 1) == 40 * S


def check_failed_row(case: Case, box: Box, position: int, *, is_window: bool) -> None:
    fragment = case.fragment
    rule = failure_rules(fragment).of(box.name, is_window=is_window)
    reporting = [
        (outputs, part)
        for outputs, part in case.steps
        if (own := rule.positions(part)) and own.holds(position)
        and rule.output_at(position) in outputs
    ]  # fmt: skip
    assert len(reporting) == 1
    ((outputs, part),) = reporting

    relations = (box.name,) if is_window else inputs_of(box)
    for time in {t for r in relations for t in records_of(fragment, r, {position})}:
        assert any(fragment.needed(o, part)[READINGS].holds(time) for o in outputs)

    if not any(is_behind_windows(fragment, r) for r in relations):
        assert part.holds(position)
        return
    ends = {position}
    if isinstance(box, Aggregate | Rank) and not is_window:
        ends = {window[-1] for window in windows_with(box, position)}
    first, output = min(needed_at(fragment, box.name, ends))
    assert part.holds(first)
    assert tuple(fragment.outputs)[output] in outputs
