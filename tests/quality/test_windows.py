"""Which windows are looked at, and what is said of those that cannot be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.certificates import LineEvent
from medusa_core.errors import Refused
from medusa_core.first_outputs import first_arrivals
from medusa_core.fragments import fragments_of
from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import Participant, StreamName, Version
from medusa_core.segments import Producer, Stability
from pipelines.catalog.records import LineStatus, StreamRecord
from pipelines.quality.frames import boundaries
from pipelines.quality.windows import Subject, WindowRequest, subjects_of
from tests.catalog import building as a

BETA = Participant("beta")
FRAGMENTS = {f.id: f for f in fragments_of(a.a_network())}
S = 1_000_000


def a_line(name: str, through_s: int | None, *, of: Participant = a.ALPHA) -> LineStatus:
    record = StreamRecord(
        name=StreamName(name),
        kind="source" if name == a.SRC else "derived",
        width_us=10 * S,
        columns={"x": "bigint"},
    )
    return LineStatus(
        stream=record,
        producer=Producer(of),
        version=Version(3),
        origin_us=None if through_s is None else 0,
        boundary_us=-(2**63) if through_s is None else through_s * S,
        promised_us=None,
        end_us=None,
    )


def chosen(*lines: LineStatus, **asked: object) -> tuple[Subject, ...]:
    return subjects_of(WindowRequest(**asked), lines, FRAGMENTS, a.ALPHA)  # type: ignore[arg-type]


def test_without_a_question_all_that_has_closed_is_looked_at() -> None:
    found = chosen(a_line("src", 50), a_line("sums", 40), a_line("big", None))
    assert {s.stream: s.window for s in found} == {
        "src": Range(0, 50 * S),
        "sums": Range(0, 40 * S),
    }


def test_trimmed_ranges_are_not_checked_unless_requested() -> None:
    trimmed = replace(a_line("sums", 40), trimmed_us=20 * S)
    assert chosen(trimmed)[0].window == Range(20 * S, 40 * S)
    with pytest.raises(Refused, match="is trimmed before 1970-01-01T00:00:20Z: give --from that"):
        chosen(trimmed, stream="sums", from_us=0)


def test_a_window_that_is_open_is_refused_with_the_input_that_it_waits_for() -> None:
    with pytest.raises(Refused, match=r"closed up to .*40Z only, .*: its input src is closed up"):
        chosen(a_line("src", 40), a_line("sums", 40), stream="sums", to_us=60 * S)
    with pytest.raises(Refused, match="its input src has not begun"):
        chosen(a_line("src", None), a_line("sums", None), stream="sums")
    with pytest.raises(Refused, match="its inputs have come further, run the participant"):
        chosen(a_line("src", 90), a_line("sums", 40), stream="sums", to_us=60 * S)
    with pytest.raises(Refused, match="wait for its source to promise more"):
        chosen(a_line("src", 40), stream="src", to_us=60 * S)


def test_a_window_without_a_bucket_is_refused() -> None:
    with pytest.raises(Refused, match="--to is exclusive"):
        chosen(a_line("sums", 40), stream="sums", from_us=30 * S, to_us=30 * S)


def test_a_home_in_which_nothing_has_closed_is_refused() -> None:
    with pytest.raises(Refused, match="no bucket has closed"):
        chosen(a_line("src", None))


def test_an_own_line_precedes_a_partners() -> None:
    (found,) = chosen(a_line("sums", 60, of=BETA), a_line("sums", 40))
    assert found.status.producer.participant == a.ALPHA


def an_event(from_s: int, to_s: int, begin: int, end: int | None = None,
             stability: Stability = Stability.STABLE) -> LineEvent:  # fmt: skip
    return LineEvent(
        range=Range(from_s * S, to_s * S),
        stability=stability,
        begin_version=Version(begin),
        end_version=None if end is None else Version(end),
        committed_at_ms=begin * 100,
    )


T = Stability.TENTATIVE
WINDOW = Range(0, 40 * S)


def test_a_corrected_line_never_moves_back() -> None:
    events = [an_event(0, 10, 1), an_event(10, 30, 2, 3, T), an_event(10, 20, 3),
              an_event(20, 30, 3, 4, T), an_event(20, 30, 4), an_event(30, 40, 5)]  # fmt: skip
    reached = [(version, us // S, replaced) for version, us, replaced in boundaries(WINDOW, events)]
    assert reached == [(1, 10, 0), (2, 30, 0), (3, 30, 0), (4, 30, 0), (5, 40, 0)]


def test_a_line_that_lost_a_bucket_is_seen_to_go_back() -> None:
    events = [an_event(0, 10, 1), an_event(10, 20, 2, 3), an_event(20, 30, 2), an_event(10, 15, 3)]
    reached = [(version, us // S, replaced) for version, us, replaced in boundaries(WINDOW, events)]
    assert reached == [(1, 10, 0), (2, 30, 0), (3, 15, 1)]


def test_a_hole_that_is_filled_later_holds_the_boundary_until_then() -> None:
    events = [an_event(20, 40, 1), an_event(0, 10, 2), an_event(10, 20, 3)]
    assert [us // S for _, us, _ in boundaries(WINDOW, events)] == [0, 10, 40]


def test_a_correction_is_no_first_arrival() -> None:
    events = [an_event(0, 20, 1, 2, T), an_event(0, 20, 2), an_event(10, 40, 3),
              an_event(0, 40, 4, None, Stability.GAP)]  # fmt: skip
    first = [(e.begin_version, part.from_us // S, part.to_us // S)
             for e, part in first_arrivals(WINDOW, events)]  # fmt: skip
    assert first == [(1, 0, 20), (3, 20, 40)]


def test_a_line_that_has_ended_closes_at_its_end() -> None:
    ended = replace(a_line("sums", 40), boundary_us=FOREVER_US, end_us=30 * S)
    assert chosen(ended)[0].window == Range(0, 30 * S)
