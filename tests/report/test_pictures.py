"""The parts of the pictures: escaping, axes with pauses, layouts without overlap."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.columns import Column
from medusa_core.digest import Digest
from medusa_core.errors import Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US
from medusa_core.network import Network
from medusa_core.plans import network_of_document
from pipelines.base.time_text import duration, iso, parse_time_us, size_of
from pipelines.language.load import SHIPPED, load_network
from pipelines.report.charts import (
    BARS_MAX,
    EVEN_PX,
    Bar,
    Panel,
    draw_steps,
    draw_windows,
    grouped,
    rounded_up,
    rounded_up_ms,
)
from pipelines.report.drawing import Edge, Node, draw
from pipelines.report.lineage import short_digest
from pipelines.report.markup import Markup, tag, text
from pipelines.report.network_picture import draw_network
from pipelines.report.time_axis import axis_over
from pipelines.report.value_charts import draw_values, value_series
from pipelines.storage.stable_rows import Rows

MINUTE, DAY = 60_000_000, 86_400_000_000


@given(st.text())
def test_any_text_is_escaped_and_can_be_written(value: str) -> None:
    made = text(value)
    assert not re.search(r"[<>\"']", made)
    assert not re.search(r"&(?!(amp|lt|gt|quot|#x27);)", made)
    made.encode("utf-8")


def test_attributes_are_escaped_and_markup_is_kept() -> None:
    assert tag("a", Markup("<b>x</b>"), title='"><script>', class_="y") == (
        '<a title="&quot;&gt;&lt;script&gt;" class="y"><b>x</b></a>'
    )


@given(st.lists(st.integers(0, 40_000), min_size=1, unique=True).map(sorted))
def test_time_goes_from_left_to_right_inside_the_picture(minutes: list[int]) -> None:
    starts = [m * MINUTE for m in minutes]
    axis = axis_over(starts, MINUTE, 10.0, 500.0)
    xs = [axis.x(at) for at in starts]
    assert xs == sorted(xs)
    assert xs[0] == pytest.approx(10.0)
    assert axis.x(starts[-1] + MINUTE) == pytest.approx(510.0)
    covered = sum(s.to_us - s.from_us for s in axis.stretches) + sum(t for _, t in axis.cuts)
    assert covered == starts[-1] + MINUTE - starts[0], "no time is lost"


def test_a_quiet_night_stays_and_a_quiet_month_is_cut_with_its_length() -> None:
    day = [h * 60 * MINUTE for h in range(24) if not 1 <= h < 4]
    assert not list(axis_over(day, MINUTE, 0, 500).cuts)
    sessions = [*day, *(at + 30 * DAY for at in day)]
    ((_, left_out_us),) = axis_over(sessions, MINUTE, 0, 500).cuts
    assert left_out_us == 30 * DAY - day[-1] - MINUTE
    picture = draw_windows([Panel(name="s", kind="source", counts=dict.fromkeys(sessions, 1))],
                           MINUTE)  # fmt: skip
    assert picture is not None
    assert duration(left_out_us) in picture


def test_labels_of_the_axis_do_not_run_into_each_other() -> None:
    for length in (1, 7, 60, 1_440, 10_080, 1_000_000):
        axis = axis_over([0, length * MINUTE], MINUTE, 0, 808)
        xs = [tick.x for tick in axis.ticks()]
        assert xs
        assert all(b - a >= 60 for a, b in pairwise(xs))


def test_ten_thousand_windows_are_a_small_picture_that_shows_the_greatest() -> None:
    counts = {n * MINUTE: 1 for n in range(10_000)} | {5_000 * MINUTE: 77}
    picture = draw_windows([Panel(name="s", kind="source", counts=counts)], MINUTE)
    assert picture is not None
    assert len(picture) < 60_000
    assert "most 77 at 1970-01-04T11:20:00Z" in picture


def test_a_step_that_dwarfs_the_others_is_cut_off_and_labelled() -> None:
    bars = [Bar(label=str(n), phases_ms={"spark": 100.0}) for n in range(9)]
    picture = draw_steps([Bar(label="first", phases_ms={"plan": 9_000.0}), *bars],
                         ["plan", "spark"], "steps")  # fmt: skip
    assert ">9 s</text>" in picture


@given(st.integers(1, 2_000))
def test_many_steps_become_few_bars_with_the_same_sum(count: int) -> None:
    bars = [Bar(label=str(n), phases_ms={"spark": float(n)}) for n in range(count)]
    made = grouped(bars)
    assert 1 <= len(made) <= BARS_MAX
    assert made[0].label.startswith("0")


@st.composite
def graphs(draw_: st.DrawFn) -> tuple[list[Node], list[Edge]]:
    count = draw_(st.integers(1, 12))
    nodes = [Node(id=str(n), heading=f"node {n}", lines=("x" * n,)) for n in range(count)]
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    expected = draw_(st.sets(pairs.filter(lambda p: p[0] < p[1]), max_size=20)) if count > 1 else ()
    return nodes, [Edge(start=str(a), end=str(b)) for a, b in sorted(expected)]


@given(graphs())
def test_boxes_never_overlap_and_lie_inside(graph: tuple[list[Node], list[Edge]]) -> None:
    picture = draw(*graph, title="t", description="d")
    found = re.search(r'viewBox="0 0 (\d+) (\d+)"', picture)
    assert found
    width, height = map(int, found.groups())
    pattern = r'<rect x="([-\d.]+)" y="([-\d.]+)" width="([\d.]+)" height="([\d.]+)"'
    boxes = [tuple(map(float, m)) for m in re.findall(pattern, picture)]
    assert len(boxes) == len(graph[0])
    for at, (x, y, w, h) in enumerate(boxes):
        assert x >= 0
        assert x + w <= width
        assert y + h <= height
        for x2, y2, w2, h2 in boxes[:at]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


@pytest.mark.parametrize("name", SHIPPED)
def test_a_network_is_rebuilt_from_its_document(name: str) -> None:
    import json

    from medusa_core.plans import network_document

    network = load_network(name)
    document = json.loads(json.dumps(network_document(network)))
    again: Network = network_of_document(document)
    assert again == network
    assert draw_network(again) == draw_network(network)


def test_times_are_read_and_written_alike() -> None:
    for given_ in ("2024-04-19T08:00:00Z", "2024-04-19T08:00:00.000001Z", "0001-01-01T00:00:00Z"):
        assert iso(parse_time_us("--from", given_)) == given_
    assert parse_time_us("--from", "1.5") == 1_500_000
    assert parse_time_us("--from", "-1") == -1_000_000
    assert iso(2**62) == f"{2**62} us"
    assert iso(FOREVER_US) == "the end of time"
    assert iso(BEGINNING_US) == "before the first record"
    with pytest.raises(Refused, match="--to 'soon' is no time"):
        parse_time_us("--to", "soon")


def test_lengths_and_sizes_have_few_digits() -> None:
    lengths = {60_000_000: "60 s", 90_000_000: "90 s", 600_000_000: "10 min", 3 * DAY: "3 d",
               3 * DAY + 4 * 60 * MINUTE: "3 d 4 h", 1_500: "1.5 ms", 12: "12 us"}  # fmt: skip
    assert {us: duration(us) for us in lengths} == lengths
    sizes = {999: "999 B", 1_000: "1 kB", 2_345_678: "2.35 MB"}
    assert {b: size_of(b) for b in sizes} == sizes


def test_one_row_in_each_window_is_a_strip_and_no_block() -> None:
    counts = dict.fromkeys(range(0, 60 * MINUTE, MINUTE), 1)
    picture = draw_windows([Panel(name="bars", kind="output", counts=counts)], MINUTE)
    assert picture is not None
    assert "bars: 60 rows, 1 row in each of 60 windows" in picture
    heights = {float(h) for h in re.findall(r"v-([0-9.]+)h", picture)}
    assert heights == {EVEN_PX}


def ticks_by_minute(rows: int) -> Rows:
    """A VWAP, a count that is always the same, and the window's start as a number."""
    columns = (Column("window_start", "bigint"), Column("vwap", "double"), Column("n", "int"))
    values = tuple((60 * n, 100.0 + (n * 7) % 13, 5) for n in range(rows))
    times = tuple((n + 1) * MINUTE - 1 for n in range(rows))
    return Rows(columns=columns, stimes_us=times, values=values, has_more=False)


def test_values_are_drawn_between_their_smallest_and_greatest() -> None:
    series = value_series(ticks_by_minute(30), MINUTE)
    assert [one.name for one in series] == ["vwap"], "times and what never differs are left out"
    picture = draw_values("bars", series, MINUTE)
    assert picture is not None
    assert "vwap: from 100 to 112" in picture
    assert picture.count("h3v") == 30
    assert draw_values("bars", value_series(ticks_by_minute(1), MINUTE), MINUTE) is None


def test_several_values_of_a_window_are_one_bar_and_what_is_no_number_is_left_out() -> None:
    rows = Rows(
        columns=(Column("x", "double"),),
        stimes_us=(1, 2, 3, MINUTE),
        values=((1.0,), (float("nan"),), (4.0,), (None,)),
        has_more=False,
    )
    (series,) = value_series(rows, MINUTE)
    assert series.spans == {0: (1.0, 4.0)}


def test_the_first_mark_of_a_day_that_is_not_midnight_has_its_time_and_its_day_below() -> None:
    begin = 1_514_890_800_000_000  # 2018-01-02T11:00:00Z
    axis = axis_over([begin + n * 60 * MINUTE for n in range(40)], 60 * MINUTE, 0, 808)
    first, *others = axis.ticks()
    assert (first.label, first.day) == ("12:00", "2018-01-02")
    assert [tick.label for tick in others if "-" in tick.label] == ["2018-01-03", "2018-01-04"]
    assert not any(tick.day for tick in others)


def test_scales_end_at_short_numbers() -> None:
    assert [rounded_up(n) for n in (1, 3, 7, 12, 999, 1_001)] == [1, 4, 8, 20, 1_000, 2_000]
    tops = [rounded_up_ms(ms) for ms in (37, 800, 1_200, 7_990, 61_000, 130_000, 5_000_000)]
    assert [duration(top * 1_000) for top in tops] == [
        "40 ms", "800 ms", "2 s", "8 s", "80 s", "4 min", "2 h",
    ]  # fmt: skip


def test_a_digest_is_cut_only_where_something_is_left_out() -> None:
    assert short_digest(Digest()) == "no rows"
    assert short_digest(Digest(2, 0xAB, 0x1234567890)) == "2:ab:12345678…"


def test_a_box_shows_all_of_its_columns() -> None:
    lines = tuple(f"column_{n} = price * {n}" for n in range(30))
    picture = draw([Node(id="m", heading="Map m", lines=lines)], [], title="t", description="d")
    assert all(f"column_{n} = " in picture for n in range(30))
