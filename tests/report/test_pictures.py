"""The parts of the pictures: escaping, axes with pauses, layouts without overlap."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.errors import Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US
from medusa_core.network import Network
from medusa_core.plans import network_of_document
from pipelines.base.time_text import duration, iso, parse_time_us, size_of
from pipelines.language.load import SHIPPED, load_network
from pipelines.report.charts import BARS_MAX, Bar, Panel, draw_steps, draw_windows, grouped
from pipelines.report.drawing import Edge, Node, draw
from pipelines.report.markup import Markup, tag, text
from pipelines.report.network_picture import draw_network
from pipelines.report.time_axis import axis_over

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
