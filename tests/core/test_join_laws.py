"""I2 over generated chains of boxes that read wide ranges: a row is the same in any range.

A step may read of each input the range that `Fragment.needed` says and no more. The boxes are
evaluated here row by row, over everything and over what each step reads: event times are a few
microseconds around 0, so that most rows lie at a bound of something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import event, given
from hypothesis import strategies as st

from medusa_core.fragments import Fragment, fragments_of
from medusa_core.grid import Range
from medusa_core.joins import KINDS, Join
from medusa_core.lookups import KINDS as KINDS_OF_LOOKUP
from medusa_core.names import StreamName
from medusa_core.network import (
    Aggregate,
    Box,
    Deduplicate,
    Every,
    Filter,
    Lookup,
    Map,
    Network,
    Output,
    Rank,
    Resample,
    Running,
    Session,
    Source,
    Union,
)
from medusa_core.resamples import METHODS

FIRST, END = -20, 60
Row = tuple[int, str | None, int | None]
"""Event time, key, number."""
Rows = Sequence[Row]
Inputs = Mapping[StreamName, Rows]


@dataclass(frozen=True)
class Case:
    """A chain of boxes in one fragment, the records of its sources, and steps over event time."""

    fragment: Fragment
    records: Inputs
    steps: tuple[Range, ...]


ROWS = st.lists(
    st.tuples(st.integers(FIRST, 20), st.sampled_from(["a", "a", "b", None]), st.integers(0, 2)),
    max_size=12,
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    boxes: list[Box] = []
    for at in range(draw(st.integers(1, 4))):
        name, before = f"box{at}", ["a", "b", *(box.name for box in boxes)]
        input_ = boxes[-1].name if boxes else "a"
        other = draw(st.sampled_from(before))
        firsts = (
            "join",
            "join",
            "lookup",
            "resample",
            "rank",
            "first",
            "session",
            "running",
            "every",
        )
        kinds = firsts if not boxes else (*firsts[1:], "window", "filter", "both")
        kind = draw(st.sampled_from(kinds))
        match kind:
            case "join":
                left, right = draw(st.permutations([input_, other]))
                lo, hi = sorted(draw(st.tuples(*2 * (st.integers(-6, 6),))))
                how = draw(st.sampled_from(KINDS))
                boxes.append(
                    Join(
                        name=name,
                        left=left,
                        right=right,
                        on=("key",),
                        within=(f"{lo}us", f"{hi}us"),
                        how=how,
                        columns={
                            "key": "left.key",
                            "n": "right.n" if how in ("inner", "left") else "left.n",
                        },
                    )
                )
            case "lookup":
                boxes.append(
                    Lookup(
                        name=name,
                        input=input_,
                        table=other,
                        on=("key",),
                        max_age=f"{draw(st.integers(1, 9))}us",
                        how=draw(st.sampled_from(KINDS_OF_LOOKUP)),
                        columns={"key": "input.key", "n": "table.n"},
                    )
                )
            case "resample":
                boxes.append(
                    Resample(
                        name=name,
                        input=input_,
                        by=("key",),
                        step=f"{draw(st.integers(1, 6))}us",
                        max_age=f"{draw(st.integers(1, 9))}us",
                        method=draw(st.sampled_from(METHODS)),
                        columns=("n",),
                    )
                )
            case "window":
                size = draw(st.integers(1, 8))
                advance = draw(st.integers(1, size))
                boxes.append(
                    Aggregate(
                        name=name,
                        input=input_,
                        size=f"{size}us",
                        advance=f"{advance}us",
                        group_by=("key",),
                        columns={"n": "count(*)"},
                    )
                )
            case "rank":
                size = draw(st.integers(1, 8))
                boxes.append(
                    Rank(
                        name=name,
                        input=input_,
                        size=f"{size}us",
                        advance=f"{draw(st.integers(1, size))}us",
                        group_by=("key",),
                        order=("n desc",),
                        k=draw(st.integers(1, 3)),
                    )
                )
            case "first":
                within = f"{draw(st.integers(1, 9))}us"
                boxes.append(Deduplicate(name=name, input=input_, by=("key",), within=within))
            case "session":
                gap, more = draw(st.integers(1, 5)), draw(st.integers(1, 8))
                boxes.append(
                    Session(
                        name=name,
                        input=input_,
                        by=("key",),
                        gap=f"{gap}us",
                        length_max=f"{gap + more}us",
                        columns={"n": "count(*)"},
                    )
                )
            case "running":
                boxes.append(
                    Running(
                        name=name,
                        input=input_,
                        by=("key",),
                        within=f"{draw(st.integers(1, 9))}us",
                        columns={f"total{at}": "count(*)"},
                    )
                )
            case "every":
                boxes.append(
                    Every(
                        name=name,
                        input=input_,
                        by=("key",),
                        n=draw(st.integers(1, 3)),
                        within=f"{draw(st.integers(1, 9))}us",
                        columns={"n": "sum(n)"},
                    )
                )
            case "filter":
                boxes.append(Filter(name=name, input=input_, cases={"some": "n >= 1"}))
            case "both":
                boxes.append(Union(name=name, inputs=(input_, other)))
    outputs = {boxes[-1].name, *draw(st.sets(st.sampled_from([box.name for box in boxes])))}
    # Every source is read by something.
    boxes += [Map(name=f"all_{s}", input=s, columns={"key": "key", "n": "n"}) for s in ("a", "b")]
    outputs |= {"all_a", "all_b"} | {box.name for box in boxes}
    network = Network(
        name="drawn",
        sources=tuple(
            Source(name=name, columns={"at_us": "bigint", "key": "string", "n": "int"},
                   time="at_us")
            for name in ("a", "b")
        ),
        boxes=tuple(boxes),
        outputs=tuple(Output(name=f"out_{name}", input=name) for name in sorted(outputs)),
    )  # fmt: skip
    (fragment,) = fragments_of(network)
    records = {StreamName(name): tuple(draw(ROWS)) for name in ("a", "b")}
    cuts = sorted({FIRST, END, *draw(st.lists(st.integers(FIRST, END), max_size=8))})
    return Case(fragment, records, tuple(Range(a, b) for a, b in pairwise(cuts)))


def rows_of(fragment: Fragment, name: str, inputs: Inputs) -> list[Row]:
    """The rows of a source or box."""
    if name in ("a", "b"):
        return list(inputs[StreamName(name)])
    match box := fragment.network.box(name):
        case Map():
            return rows_of(fragment, box.input, inputs)
        case Filter():
            return [row for row in rows_of(fragment, box.input, inputs) if row[2]]
        case Union():
            return [row for input_ in box.inputs for row in rows_of(fragment, input_, inputs)]
        case Aggregate():
            return counted(box, rows_of(fragment, box.input, inputs))
        case Rank():
            return ranked(box, rows_of(fragment, box.input, inputs))
        case Deduplicate():
            found: dict[tuple[int, str | None], Row] = {}
            rows = rows_of(fragment, box.input, inputs)
            for row in sorted(rows, key=lambda r: (r[0], r[2] is not None, r[2] or 0)):
                found.setdefault((row[0] // box.within_us, row[1]), row)
            return list(found.values())
        case Session():
            return sessions(box, rows_of(fragment, box.input, inputs))
        case Running() | Every():
            return of_spans(box, rows_of(fragment, box.input, inputs))
        case Join():
            sides = (rows_of(fragment, input_, inputs) for input_ in (box.left, box.right))
            return joined(box, *sides)
        case Lookup():
            sides = (rows_of(fragment, input_, inputs) for input_ in (box.input, box.table))
            return looked_up(box, *sides)
        case Resample():
            return resampled(box, rows_of(fragment, box.input, inputs))
    raise AssertionError(box)


def counted(box: Aggregate, rows: Rows) -> list[Row]:
    found: Counter[tuple[int, str | None]] = Counter()
    for at, key, _ in rows:
        starts = range(at - box.size_us + 1, at + 1)
        found.update((start, key) for start in starts if start % box.advance_us == 0)
    return [(start + box.size_us - 1, key, n) for (start, key), n in found.items()]


def ranked(box: Rank, rows: Rows) -> list[Row]:
    """The first rows by number, the greatest first and NULL last, then by event time."""
    groups: dict[tuple[int, str | None], list[Row]] = {}
    for row in rows:
        for start in range(row[0] - box.size_us + 1, row[0] + 1):
            if start % box.advance_us == 0:
                groups.setdefault((start, row[1]), []).append(row)
    return [
        (start + box.size_us - 1, key, number)
        for (start, key), group in groups.items()
        for _, key, number in sorted(group, key=lambda r: (r[2] is None, -(r[2] or 0), r[0]))[
            : box.k
        ]
    ]


def sessions(box: Session, rows: Rows) -> list[Row]:
    """Each row is put behind the one before it, unless a gap or a cut lies between."""
    found: list[Row] = []
    for key in {row[1] for row in rows}:
        first = last = start = -1_000
        sizes: Counter[int] = Counter()
        ends: dict[int, int] = {}
        for at in sorted(row[0] for row in rows if row[1] == key):
            cuts = (t for t in range(first + box.length_us_max, at + 1)
                    if t == first + box.length_us_max or t % box.length_us_max == 0)  # fmt: skip
            if at - last >= box.gap_us:
                first = start = at
            elif any(last < cut for cut in cuts):
                start = at
            sizes[start] += 1
            last = ends[start] = at
        found += [(ends[start] + box.gap_us - 1, key, size) for start, size in sizes.items()]
    return found


def of_spans(box: Running | Every, rows: Rows) -> list[Row]:
    """The row of a Running has the number of its record and how many there are up to it."""
    found: list[Row] = []
    counts: Counter[tuple[int, str | None]] = Counter()
    sums: Counter[tuple[int, str | None]] = Counter()
    for at, key, n in sorted(rows, key=lambda r: (r[0], r[2] is not None, r[2] or 0)):
        span = (at // box.within_us, key)
        counts[span] += 1
        if isinstance(box, Running):
            found.append((at, key, 100 * (n or 0) + counts[span]))
            continue
        sums[span] += n or 0
        if counts[span] % box.n == 0:
            found.append((at, key, sums.pop(span)))
    return found


def joined(box: Join, left: Rows, right: Rows) -> list[Row]:
    found: list[Row] = []
    for at, key, n in left:
        met = [
            (other, number)
            for other, its, number in right
            if key is not None and key == its and box.lo_us <= other - at <= box.hi_us
        ]
        if box.how in ("inner", "left"):
            found += [(max(at, other), key, number) for other, number in met]
        certain = at + max(box.hi_us, 0)
        if box.how == "left" and not met:
            found.append((certain, key, None))
        if (box.how == "semi" and met) or (box.how == "anti" and not met):
            found.append((certain, key, n))
    return found


def looked_up(box: Lookup, rows: Rows, table: Rows) -> list[Row]:
    found: list[Row] = []
    for at, key, _ in rows:
        met = [
            (other, number is not None, number or 0)
            for other, its, number in table
            if key is not None and key == its and 0 <= at - other <= box.max_age_us
        ]
        if met:
            _, has_number, number = max(met)
            found.append((at, key, number if has_number else None))
        elif box.how == "left":
            found.append((at, key, None))
    return found


def resampled(box: Resample, rows: Rows) -> list[Row]:
    """A row that lies on a line has the numbers at both of its ends."""
    found: list[Row] = []
    for key in {row[1] for row in rows}:
        own = [(at, -1 if n is None else n) for at, its, n in rows if its == key]
        for sample in range(-200, 200):
            before = [row for row in own if 0 <= sample - row[0] <= box.max_age_us]
            after = [row for row in own if 0 <= row[0] - sample <= box.max_age_us]
            if sample % box.step_us or not before or (box.method == "linear" and not after):
                continue
            ends = max(before)[1] + (7 * min(after)[1] if box.method == "linear" else 0)
            found.append((sample + box.delay_us, key, ends))
    return found


@given(case=cases())
def test_i2_a_row_is_the_same_computed_from_no_more_than_its_step_needs(case: Case) -> None:
    fragment = case.fragment
    for output, port in fragment.outputs.items():
        whole = rows_of(fragment, port.owner, case.records)
        for part in case.steps:
            need = fragment.needed(output, part)
            read = {
                stream: [row for row in rows if stream in need and need[stream].holds(row[0])]
                for stream, rows in case.records.items()
            }
            made = rows_of(fragment, port.owner, read)
            expected = Counter(row for row in whole if part.holds(row[0]))
            assert Counter(row for row in made if part.holds(row[0])) == expected
            if expected and read != {s: list(rows) for s, rows in case.records.items()}:
                event("a step with rows that reads a part of the records")


@given(case=cases())
def test_no_row_lies_before_the_first_record_or_behind_the_end_of_its_output(case: Case) -> None:
    fragment, records = case.fragment, case.records
    ends = {
        stream: max((r[0] for r in rows), default=FIRST) + 1 for stream, rows in records.items()
    }
    first = min((row[0] for rows in records.values() for row in rows), default=FIRST)
    for output, port in fragment.outputs.items():
        end = fragment.ends_us(output, ends)
        assert all(first <= row[0] < end for row in rows_of(fragment, port.owner, records))
