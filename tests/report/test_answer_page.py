"""The page of answers: its figures are the catalog's, its pictures say what was."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from medusa_core.bound_headroom import Headroom
from medusa_core.certificates import Certificate, Suite
from medusa_core.changes import ChangeType
from medusa_core.columns import Column
from medusa_core.errors import Refused, Unavailable
from medusa_core.first_outputs import first_outputs
from medusa_core.grid import Range
from medusa_core.names import Participant, StreamName, Version
from medusa_core.segments import Producer, Stability
from medusa_core.states import State, Transition
from medusa_core.step_costs import Cost
from pipelines.catalog.records import LineStatus, StreamRecord
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.headroom_file import fact_of
from pipelines.report.answer_charts import ANSWERS_MAX, draw_band, draw_delays
from pipelines.report.answer_figures import AnswerFigures, Mark, Outage, read_answers
from pipelines.report.answer_laws import laws_of
from pipelines.report.answer_page import write_answer_page
from pipelines.report.corrected_rows import Corrections, RowCorrected
from tests.changes.building import BIG, SUMS, TENTATIVE, WIDTH_US, Lines, some_lines
from tests.core.test_first_outputs import an_event
from tests.report.test_page import Seen

S = 1_000_000
BASE_MS = 1_795_219_880_000
OUT = StreamName("it's <b>out</b>")
STABLE = Stability.STABLE
ALPHA = Producer(Participant("alpha"))


def some_figures(
    buckets: int = 30, *, cut: range = range(10, 20), bound_ms: int | None = 5_000
) -> AnswerFigures:
    """A bucket a second; those of `cut` tentative first and corrected together later."""
    begin_us = BASE_MS * 1_000
    events = []
    for n in range(buckets):
        from_us = begin_us + n * S
        at_ms = BASE_MS + n * 1_000 + (4_700 if n in cut else 1_400)
        kind = TENTATIVE if n in cut else STABLE
        end = 1_000 if n in cut else None
        events.append(an_event(from_us, from_us + S, kind, n + 1, end, at_ms=at_ms,
                               inputs_at_ms=BASE_MS + n * 1_000 + 1_000))  # fmt: skip
    healed_ms = BASE_MS + cut.stop * 1_000 + 5_000
    events += [
        an_event(begin_us + n * S, begin_us + (n + 1) * S, STABLE, 1_000, at_ms=healed_ms)
        for n in cut
    ]
    window = Range(begin_us, begin_us + buckets * S)
    answers = tuple(first_outputs(window, events))
    record = StreamRecord(name=OUT, kind="derived", width_us=S, columns={"who": "string"})
    states = ((State.UP_FAILURE, cut.start + 4), (State.STABILIZATION, cut.stop + 1),
              (State.STABLE, cut.stop + 5))  # fmt: skip
    return AnswerFigures(
        line=LineStatus(stream=record, producer=ALPHA, version=Version(9), origin_us=begin_us,
                        boundary_us=window.to_us, promised_us=None, end_us=None),
        window=window,
        bound_ms=bound_ms,
        answers=answers,
        outages=(Outage(stream=StreamName("other"), from_ms=BASE_MS + cut.start * 1_000,
                        to_ms=BASE_MS + cut.stop * 1_000),),
        transitions=tuple(
            Transition(fragment="f", partition=0, producer=ALPHA, state=state,
                       because="<i>why</i>", changed_at_ms=BASE_MS + at * 1_000)
            for state, at in states
        ),
        corrections=Corrections(
            columns=(Column("who", "string"),), rows_before=3, rows_after=4, differing=2,
            changes=(RowCorrected(bucket_us=begin_us, before=("<script>",), after=None),
                     RowCorrected(bucket_us=begin_us, before=None, after=("new one",))),
        ),
        laws=laws_of(answers, events, bound_ms),
        certificates=(),
        clock_ms=healed_ms,
    )  # fmt: skip


def bars(picture: str, kind: str) -> int:
    return len(re.findall(rf'class="bars {kind}"', picture))


def test_each_answer_has_its_bar_and_its_stripe_and_what_was_corrected_has_two() -> None:
    figures = some_figures()
    delays, band = draw_delays(figures), draw_band(figures)
    assert delays is not None
    assert band is not None
    assert (bars(delays, "stable"), bars(delays, "tentative")) == (20, 10)
    assert (bars(band, "stable"), bars(band, "tentative"), bars(band, "corrected")) == (20, 10, 10)
    assert "3.7 s at most; bound: 5 s" in delays
    assert "10 buckets were tentative at first, 10 of them are corrected" in band
    for picture in (delays, band):
        assert "nothing of other" in picture
        assert [state.value for state in State if f">{state.value}<" in picture] == [
            state.value for state in State
        ]


def test_what_is_still_tentative_reaches_to_the_edge_and_breaks_the_law() -> None:
    figures = some_figures()
    left = tuple(replace(a, final_at_ms=None) if a.is_tentative else a for a in figures.answers)
    figures = replace(figures, answers=left, laws=laws_of(left, [], 5_000))
    band = draw_band(figures)
    assert band is not None
    assert (bars(band, "tentative"), bars(band, "corrected")) == (10, 0)
    assert [law.name for law in figures.laws if not law.holds] == ["L1"]


def test_everything_is_inside_the_pictures() -> None:
    marks = (Mark(BASE_MS + 9_500, "cut"), Mark(BASE_MS + 20_000, "heal"))
    for figures in (some_figures(), some_figures(1, cut=range(0)), some_figures(3_000),
                    some_figures(bound_ms=None)):  # fmt: skip
        for picture in (draw_delays(figures, marks), draw_band(figures, marks)):
            assert picture is not None
            size = re.search(r'viewBox="0 0 (\d+) (\d+)"', picture)
            assert size is not None
            width, height = int(size[1]), int(size[2])
            for x, y in re.findall(r'<(?:text|rect)[^>]* x="([-\d.]+)" y="([-\d.]+)"', picture):
                assert 0 <= float(x) <= width
                assert 0 <= float(y) <= height
            for x, y in re.findall(r"M([-\d.]+) ([-\d.]+)", picture):
                assert -2 <= float(x) <= width
                assert 0 <= float(y) <= height


def test_a_long_history_is_cut_to_what_can_be_drawn() -> None:
    figures = some_figures(ANSWERS_MAX + 500)
    band = draw_band(figures)
    assert band is not None
    assert bars(band, "stable") == ANSWERS_MAX
    assert bars(band, "tentative") == 0


def test_without_a_bound_none_is_drawn_and_without_answers_nothing() -> None:
    unbound = draw_delays(some_figures(bound_ms=None))
    assert unbound is not None
    assert 'class="bound"' not in unbound
    nothing = replace(some_figures(), answers=())
    assert draw_delays(nothing) is None
    assert draw_band(nothing) is None


@pytest.fixture
def lines(postgres_server: EmbeddedServer, tmp_path: Path) -> Iterator[Lines]:
    with some_lines(postgres_server, tmp_path / "home") as found:
        yield found


def page_of(lines: Lines, streams: Sequence[AnswerFigures], path: Path, **more: object) -> str:
    write_answer_page(path, home=lines.home, streams=streams, **more)  # type: ignore[arg-type]
    return path.read_text(encoding="utf-8")


def test_the_page_says_what_the_bound_leaves_now_and_when_it_cannot_be_kept(
    lines: Lines, tmp_path: Path
) -> None:
    cost = Cost(slow_step_ms=4_700, wake_ms=500, blocked_ms=400, gather_ms=600)
    busy = fact_of(
        Headroom(fragment="f", streams=(OUT,), bound_ms=5_000, cost=cost, rest_ms=0, wait_ms=600)
    )
    figures = replace(some_figures(), headroom={**busy, "load": 9.1, "cores": 2})
    words = "".join(Seen(page_of(lines, [figures], tmp_path / "busy.html")).words)
    assert (
        "it's <b>out</b>: the bound of 5 s may not be kept on this machine now: an answer without "
        "an input may take 6.2 s (a step up to 4.7 s,"
    ) in words
    assert "load 9.1 on 2 cores" in words
    kept = {**busy, "is_kept": True, "needed_ms": 1_100, "wait_ms": 3_900}
    quiet = replace(some_figures(), headroom=kept)
    words = "".join(Seen(page_of(lines, [quiet], tmp_path / "quiet.html")).words)
    assert "takes up to 1.1 s, and a missing input is waited for at most 3.9 s" in words
    unknown = "".join(Seen(page_of(lines, [some_figures()], tmp_path / "unknown.html")).words)
    assert "takes up to" not in unknown


def test_the_page_is_whole_fetches_nothing_and_runs_nothing(lines: Lines, tmp_path: Path) -> None:
    docs = lines.home.directory / "quality of it" / "index.html"
    page = page_of(lines, [some_figures()], tmp_path / "some where" / "page.html", docs=docs)
    seen = Seen(page)
    assert seen.tags["h1"] == 1
    assert seen.tags["svg"] >= 2
    assert not any(seen.tags[t] for t in ("script", "link", "img", "iframe", "b", "i") if t != "b")
    words = "".join(seen.words)
    assert "it's <b>out</b>" in words, "it is shown as it is"
    assert "<script>" in words
    assert "<i>why</i>" in words
    assert seen.tags["caption"] == seen.tags["table"]
    for element, name, value in seen.attributes:
        assert name not in ("src", "action", "srcset", "data", "style")
        assert "://" not in value
        assert name != "href", f"{element} would break when the file is sent on"
    assert not docs.exists()
    assert "No check has looked at this window yet" in words


def test_figures_rows_and_laws_are_those_of_the_catalog(lines: Lines, tmp_path: Path) -> None:
    lines.write(BIG, 0, 2, {0: [("a", 1)], 1: [("b", 1)]})
    lines.write(BIG, 2, 5, {2: [("a", 5), ("b", 2)], 3: [("c", 1)]}, TENTATIVE)
    lines.write(BIG, 2, 3, {2: [("a", 7), ("b", 2), ("d", 4)]})
    lines.write(BIG, 3, 5, {4: [("e", 9)]})
    lines.catalog.record_certificate(
        Certificate(stream=BIG, producer=ALPHA, version=Version(4), suite=Suite.COMPLETE,
                    range=Range(0, 5 * WIDTH_US), passed=True, figures={"final_rows": 6})
    )  # fmt: skip
    figures = read_answers(lines.home, BIG)
    assert (figures.buckets_tentative, figures.buckets_corrected) == (3, 3)
    found = figures.corrections
    assert (found.rows_before, found.rows_after, found.differing) == (3, 4, 4)
    assert {(c.bucket_us // WIDTH_US, c.before, c.after) for c in found.changes} == {
        (2, ("a", 5), ("a", 7)),
        (2, None, ("d", 4)),
        (3, ("c", 1), None),
        (4, None, ("e", 9)),
    }
    assert all(law.holds for law in figures.laws)
    assert next(law.found for law in figures.laws if law.name == "S12") == "2 times at most"
    text = "".join(Seen(page_of(lines, [figures], tmp_path / "page.html")).words)
    for shown in ("final rows 6", "3 rows before and have 4 now", "0 answers still tentative"):
        assert shown in text
    part = read_answers(lines.home, BIG, 2 * WIDTH_US, 3 * WIDTH_US)
    assert (part.buckets_tentative, part.corrections.differing) == (1, 2)


def test_a_broken_law_is_at_the_top_and_participants_and_network_follow(
    lines: Lines, tmp_path: Path
) -> None:
    whole = some_figures()
    whole = replace(whole, laws=laws_of(whole.answers, (), 5_000))
    late = some_figures(bound_ms=1_000)
    late = replace(late, laws=laws_of(late.answers, (), 1_000))
    words = "".join(Seen(page_of(lines, [whole, late], tmp_path / "page.html")).words)
    broken = words.index(f"1 law is broken:S6 of {OUT}: while some input is there")
    assert broken < words.index("Where streams are computed") < words.index(", by alpha")
    assert "participant" in words
    assert "laws are broken:" not in words
    kept = "".join(Seen(page_of(lines, [whole], tmp_path / "kept.html")).words)
    assert "law is broken" not in kept


def test_rows_that_a_correction_left_as_they_were_are_not_shown(lines: Lines) -> None:
    lines.write(SUMS, 0, 2, {0: [("a", 1)], 1: [("b", 2)]}, TENTATIVE)
    lines.write(SUMS, 0, 2, {0: [("a", 1)], 1: [("b", 3)]})
    (change,) = read_answers(lines.home, SUMS).corrections.changes
    assert (change.before, change.after) == (("b", 2), ("b", 3))
    assert ChangeType.PROMOTE.value not in repr(change)


def test_what_is_not_there_is_refused_in_a_sentence(lines: Lines, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no closed bucket"):
        read_answers(lines.home, BIG)
    lines.write(BIG, 0, 2)
    with pytest.raises(Refused, match="nothing in that window"):
        read_answers(lines.home, BIG, 5 * WIDTH_US, 6 * WIDTH_US)
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="cannot be written"):
        page_of(lines, [read_answers(lines.home, BIG)], tmp_path / "file" / "page.html")
