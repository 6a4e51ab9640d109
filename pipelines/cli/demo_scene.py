"""The demo's second scene: a partner is cut off, answers keep their bound, and are corrected.

Three participants each log a third of the connections, and one of them looks for scanners in all.
Every printed line is read from a catalog: what arrived, how late, and without which inputs.
Nothing waits for a fixed time: each action follows when the one before is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from medusa_core.certificates import LineEvent
from medusa_core.first_outputs import FirstOutput, first_outputs
from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import StreamName
from medusa_core.segments import Producer
from medusa_core.states import State
from medusa_core.suggest import counted
from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.base.time_text import time_of_day
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.records import LineStatus
from pipelines.cli.demo_federation import (
    COMPUTES,
    CUT,
    OTHERS,
    START_S_MAX,
    DemoFederation,
    demo_federation,
    wait_until,
)
from pipelines.cli.demo_verdict import show_verdict
from pipelines.homes.headroom_file import headroom_sentence, read_headroom
from pipelines.homes.home import open_home
from pipelines.quality.check_run import run_checks
from pipelines.quality.windows import WindowRequest
from pipelines.report.answer_figures import Mark, read_answers
from pipelines.report.answer_page import write_answer_page
from pipelines.report.next_steps import near

STREAM = StreamName("scanning_sources")
INPUTS = 3
STABLE_FIRST = 6
"""So many answers in time in a row, before the link is cut."""
TENTATIVE_NEEDED = 10
SHOWN_EVERY = 5
STABLE_AFTER = 3
IN_TIME_S_MAX, ANSWER_S_MAX = 60.0, 180.0


@dataclass(slots=True)
class _Story:
    """What has been shown, and since when."""

    federation: DemoFederation
    catalog: PostgresCatalog
    bound_ms: int
    began_s: float
    say: Callable[[str], None]
    shown: set[int] = field(default_factory=set)
    states: int = 0
    from_us: int = 0
    _seen: tuple[LineEvent, ...] = ()
    _version: int = 0

    def report(self, text: str) -> None:
        """A line with the seconds since the scene began."""
        self.say(f"{clock.monotonic_s() - self.began_s:6.1f} s  {text}")

    def answers(self) -> Sequence[FirstOutput]:
        """All first answers until now, from where the story begins."""
        return first_outputs(Range(self.from_us, FOREVER_US), self.events())

    def events(self) -> tuple[LineEvent, ...]:
        """Every row that the stream has or had there."""
        version = self.line().version
        if version != self._version:
            part = Range(self.from_us, FOREVER_US)
            self._seen = self.catalog.history(STREAM, Producer(COMPUTES), part)
            self._version = version
        return self._seen

    def line(self) -> LineStatus:
        """How the stream stands."""
        return next(ln for ln in self.catalog.lines(STREAM) if ln.producer == Producer(COMPUTES))

    def show_answer(self, answer: FirstOutput) -> None:
        """One answer in a line: which bucket, what it lacked, how late it was."""
        delay_s = (answer.delay_ms or 0) / 1_000
        missing = answer.event.missing
        there = f"all {INPUTS} inputs there"
        if missing:
            there = f"without {', '.join(missing)} ({INPUTS - len(missing)} of {INPUTS} inputs)"
        at = time_of_day(answer.range.from_us)
        self.report(
            f"{STREAM} {at} {answer.event.stability.value}, {there}, "
            f"{delay_s:.1f} s of {self.bound_ms / 1_000:g} s"
        )

    def show_headroom(self) -> None:
        """That the machine is too busy for the bound, if it is, before an answer shows it."""
        for fact in read_headroom(self.federation.settings[COMPUTES].directory, COMPUTES):
            if not fact["is_kept"]:
                self.report(headroom_sentence(fact))

    def show_states(self) -> None:
        """Each change of state that has come since the last look."""
        changes = self.catalog.transitions()
        for change in changes[self.states :]:
            self.report(f"{change.producer.participant}: {change.state.value}, {change.because}")
        self.states = len(changes)

    def until(self, is_so: Callable[[], bool], what: str, seconds_max: float) -> None:
        """Wait for it; see `wait_until`."""
        wait_until(self.federation, is_so, what, seconds_max)


def show_scene(settings: Settings, folder: Path, page: Path, *, say: Callable[[str], None]) -> bool:
    """Play the scene in a new folder and write its page; whether everything was as promised.

    Raises Unavailable if a participant ends, or nothing goes on, with the place of the logs.
    """
    began_s = clock.monotonic_s()
    with demo_federation(settings, folder) as federation:
        say(
            f"   {near(folder)} has a folder for each, with contracts and a Postgres of its own; "
            f"{COMPUTES} has joined {' and '.join(OTHERS)} (medusa partner); each is a process, "
            "`medusa run`"
        )
        with open_home(federation.settings[COMPUTES], COMPUTES) as home:
            bound, _ = home.catalog.bounds()[STREAM]
            assert bound is not None, "its contract declares one"
            story = _Story(federation, home.catalog, bound.bound_ms, began_s, say)
            from_us, marks = _play(story)
            federation.stop()
            story.report("all three have ended; checking the result (DuckDB computes it again)")
            through_us = story.line().stable_through_us
            request = WindowRequest(stream=STREAM, from_us=from_us, to_us=through_us)
            outcome = run_checks(home, request)
            figures = read_answers(home, STREAM, request.from_us, request.to_us)
            write_answer_page(page, home=home, streams=(figures,), docs=outcome.page, marks=marks)
            return show_verdict(outcome, figures, say)


def _play(story: _Story) -> tuple[int, tuple[Mark, ...]]:
    """The scene itself; from which bucket on answers came in time, and when the link was cut."""
    federation = story.federation
    # Streams begin together, once their reader has Spark running and its plans made.
    federation.start(COMPUTES, "--standby")
    story.until(lambda: federation.drives(COMPUTES), f"{COMPUTES} has Spark ready", START_S_MAX)
    for participant in OTHERS:
        federation.start(participant)
    story.until(
        lambda: all(federation.drives(p) for p in OTHERS), "all participants work", START_S_MAX
    )
    story.report(
        f"{COMPUTES}, {' and '.join(OTHERS)} run: each logs a third of the connections, {COMPUTES} "
        "computes"
    )
    first = _first_in_time(story)
    story.from_us, story.states = first.range.from_us, len(story.catalog.transitions())
    story.show_answer(story.answers()[-1])
    story.show_headroom()
    story.report(f"medusa fault cut {COMPUTES} {CUT}: {federation.cut(COMPUTES, CUT)}")
    cut = Mark(story.catalog.read_clock_ms(), "cut")
    _show_tentative(story, cut.at_ms)
    story.report(f"medusa fault heal {COMPUTES} {CUT}: {federation.heal(COMPUTES, CUT)}")
    healed = Mark(story.catalog.read_clock_ms(), "heal")
    _show_corrections(story, healed.at_ms)
    return story.from_us, (cut, healed)


def _first_in_time(story: _Story) -> FirstOutput:
    """The first of some whole answers in a row that came within half the bound.

    On a machine that does not come to that, of whole ones: better a demo whose answers are late.
    """
    began_s, found = clock.monotonic_s(), list[FirstOutput]()

    def look() -> bool:
        is_in_time = clock.monotonic_s() - began_s < IN_TIME_S_MAX
        found.clear()
        for answer in reversed(story.answers()):
            is_late = (answer.delay_ms or 0) * 2 > story.bound_ms
            if answer.is_tentative or (is_late and is_in_time):
                break
            found.append(answer)
        return len(found) >= STABLE_FIRST

    story.until(look, "answers come in time", ANSWER_S_MAX)
    return found[-1]


def _show_tentative(story: _Story, since_ms: int) -> None:
    """Tell of tentative answers as they come, until there are enough."""

    def look() -> bool:
        story.show_states()
        found = [a for a in story.answers() if a.is_tentative and a.came_at_ms >= since_ms]
        for number, answer in enumerate(found):
            if number % SHOWN_EVERY == 0 and answer.range.from_us not in story.shown:
                story.shown.add(answer.range.from_us)
                story.show_answer(answer)
        return len(found) >= TENTATIVE_NEEDED

    story.until(look, f"{TENTATIVE_NEEDED} tentative answers came", ANSWER_S_MAX)


def _show_corrections(story: _Story, since_ms: int) -> None:
    """Tell how the state changes back, until all is corrected and new answers are whole again."""

    def look() -> bool:
        story.show_states()
        answers = story.answers()
        if any(a.final_at_ms is None for a in answers):
            return False
        new = [a for a in answers if not a.is_tentative and a.came_at_ms >= since_ms]
        last = story.catalog.states()
        return len(new) >= STABLE_AFTER and all(s.state is State.STABLE for s in last)

    story.until(look, "every tentative answer is corrected", ANSWER_S_MAX)
    line, corrected = story.line(), [a for a in story.answers() if a.is_corrected]
    assert line.corrected_through_us is not None
    assert line.stable_through_us is not None
    story.report(
        f"{STREAM} corrected through {time_of_day(line.corrected_through_us)}, "
        f"{counted(len(corrected), 'answer')}; stable through {time_of_day(line.stable_through_us)}"
    )
