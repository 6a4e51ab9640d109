"""A drill on the federation as it runs: a fault, answers without it, its end, corrections, laws.

It judges the streams that the named participants compute, and those that others compute from
them: every answer since the drill began. A fault has its own end, so an interrupted drill leaves
no fault for longer than planned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from medusa_core.certificates import Suite
from medusa_core.errors import CheckFailed
from medusa_core.first_outputs import FirstOutput, first_outputs
from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import Participant, StreamName
from medusa_core.states import State
from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.homes.home import open_home
from pipelines.operations.certification import CertificationRequest, certify
from pipelines.operations.fault_injection import (
    CutRequest,
    FaultRequest,
    FaultResult,
    FreezeRequest,
    HealRequest,
    KillRequest,
    SlowRequest,
    inject_fault,
)
from pipelines.operations.own_lines import computed_line
from pipelines.report.answer_figures import Mark, read_answers
from pipelines.report.answer_page import write_answer_page

LOOK_S = 0.5
REPORTS = "reports"
LINKS, PROCESSES = ("cut", "one-way", "slow"), ("kill", "freeze")
SCENES = (*LINKS, *PROCESSES)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedStream:
    """A stream whose answers are judged from event time `from_us` on.

    `clock_ms`: the time of its home's clock when the drill began.
    """

    home: Participant
    stream: StreamName
    from_us: int
    clock_ms: int

    @property
    def name(self) -> str:
        """`beta/busy_sources`."""
        return f"{self.home}/{self.stream}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """A fault of one of `SCENES` between two participants or of one, and the streams to judge.

    `lasts_s`: how long the fault lasts. `by_ms`: the delay of a slow link. `recovers_s_max`: how
    long recovery may take after it. `must_be_in_time`: whether answers later than their bound (S6)
    fail the drill.
    """

    scene: str
    participants: tuple[Participant, ...]
    lasts_s: float
    by_ms: int
    recovers_s_max: float
    must_be_in_time: bool
    judged: tuple[JudgedStream, ...]

    @property
    def fault(self) -> FaultRequest:
        """The fault of the scene."""
        first, last = self.participants[0], self.participants[-1]
        match self.scene:
            case "cut" | "one-way":
                is_one_way = self.scene == "one-way"
                return CutRequest(one=first, other=last, one_way=is_one_way, lasts_s=self.lasts_s)
            case "slow":
                return SlowRequest(one=first, other=last, by_ms=self.by_ms, lasts_s=self.lasts_s)
            case "freeze":
                return FreezeRequest(participant=first, lasts_s=self.lasts_s)
            case _:
                return KillRequest(participant=first)


@dataclass(frozen=True, slots=True, kw_only=True)
class TentativeSeen:
    """A judged stream has `count` tentative answers; the last one lacks the inputs `missing`."""

    stream: JudgedStream
    count: int
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled:
    """Why judged streams have not recovered yet, a sentence each; none: all have recovered."""

    reasons: tuple[str, ...]


WatchObserver = Callable[[TentativeSeen], None]
RecoveryObserver = Callable[[Unsettled], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillJudgement:
    """A drill without a broken law.

    `late`: sentences about answers later than their bound. `pages`: a page of answers for each
    home. `certificates`: the first page of the checks, empty if there were none.
    """

    checks: int
    late: tuple[str, ...]
    pages: tuple[Path, ...]
    certificates: str


def document(drill: Drill) -> Mapping[str, Any]:
    """The drill for JSON; `drill_of` reads it."""
    found = asdict(drill)
    return {**found, "participants": list(drill.participants), "judged": list(found["judged"])}


def drill_of(found: Mapping[str, Any]) -> Drill:
    """The drill of such a document."""
    judged = tuple(JudgedStream(**one) for one in found["judged"])
    participants = tuple(map(Participant, found["participants"]))
    return Drill(**{**found, "participants": participants, "judged": judged})


def strike(settings: Settings, drill: Drill) -> FaultResult:
    """Inject the fault; returns when a freeze is over. Raises as `inject_fault` does."""
    return inject_fault(settings, drill.fault)


def heal(settings: Settings, drill: Drill) -> FaultResult:
    """End the fault, if it has not ended by itself."""
    return inject_fault(settings, HealRequest(participants=drill.participants))


def watch(settings: Settings, drill: Drill, observer: WatchObserver) -> Mapping[str, int]:
    """Wait while the fault lasts; the number of tentative answers of each judged stream.

    Returns early once every judged stream has several.
    """
    is_over = isinstance(drill.fault, FreezeRequest)  # injecting it took as long as it lasts
    ends_s = clock.monotonic_s() + (0 if is_over else drill.lasts_s)
    counts: dict[str, int] = {}
    while True:
        for one in drill.judged:
            answers = [a for a in _answers(settings, one) if a.is_tentative]
            if len(answers) > counts.get(one.name, 0):
                missing = tuple(answers[-1].event.missing)
                observer(TentativeSeen(stream=one, count=len(answers), missing=missing))
            counts[one.name] = len(answers)
        if clock.monotonic_s() >= ends_s or (counts and min(counts.values()) > 1):
            return counts
        clock.sleep_s(LOOK_S)


def recover(settings: Settings, drill: Drill, observer: RecoveryObserver) -> tuple[str, ...]:
    """Wait until nothing of the drill is tentative any more and answers continue.

    Returns the names of the judged streams. Raises CheckFailed (L1) if that takes longer than
    `recovers_s_max`.
    """
    ends_s = clock.monotonic_s() + drill.recovers_s_max
    reported: Unsettled | None = None
    while True:
        now = Unsettled(
            reasons=tuple(
                f"{one.name} {reason}"
                for one in drill.judged
                for reason in _unsettled(settings, one)
            )
        )
        if now != reported:
            observer(now)
            reported = now
        if not now.reasons:
            return tuple(one.name for one in drill.judged)
        if clock.monotonic_s() >= ends_s:
            raise CheckFailed(
                f"L1: {drill.recovers_s_max:g} s after the end of the fault "
                f"{'; '.join(now.reasons)}: see docs/recover.md, and the logs of these participants"
            )
        clock.sleep_s(LOOK_S)


def _unsettled(settings: Settings, one: JudgedStream) -> Iterator[str]:
    with open_home(settings, one.home) as home:
        line = computed_line(home, one.stream)
        if line.tentative_us is not None:
            yield "is tentative"
        elif (line.stable_through_us or 0) <= one.from_us and not line.has_ended:
            yield "has not gone on"
        else:
            for state in home.catalog.states():
                if state.state is not State.STABLE:
                    yield f"is {state.state.value}: {state.because}"


def judge(
    settings: Settings,
    drill: Drill,
    marks: Mapping[Participant, Sequence[Mark]],
    pages: Path,
    title: str,
) -> DrillJudgement:
    """Certify what was answered since the drill began, and write a page of each home to `pages`.

    `marks`: events to show on the pages. Raises CheckFailed, naming the laws that were broken; the
    pages exist all the same.
    """
    broken: list[str] = []
    late: list[str] = []
    written: list[Path] = []
    checks, docs = 0, ""
    ranges: dict[Participant, list[tuple[StreamName, int, int]]] = {}
    for one in drill.judged:
        with open_home(settings, one.home) as home:
            line = computed_line(home, one.stream)
            through_us = line.stable_through_us
        from_us = max(one.from_us, line.kept_from_us or 0)
        if through_us is None or through_us <= from_us:
            continue
        request = CertificationRequest(
            participant=one.home, stream=one.stream, from_us=from_us, to_us=through_us
        )
        result = certify(settings, request)
        for law, sentence in result.failures():
            (late if law == Suite.AVAILABILITY.law else broken).append(sentence)
        checks, docs = checks + len(result.found), str(result.page)
        ranges.setdefault(one.home, []).append((one.stream, from_us, through_us))
    pages.mkdir(parents=True, exist_ok=True)
    for name, streams in ranges.items():
        with open_home(settings, name) as home:
            figures = [read_answers(home, stream, a, b) for stream, a, b in streams]
            page = page_of(pages, title, name)
            write_answer_page(
                page, home=home, streams=figures, docs=Path(docs), marks=marks.get(name, ())
            )
            written.append(page)
    if drill.must_be_in_time:
        broken += late
    if broken:
        raise CheckFailed(f"{'; '.join(broken)}: see {', '.join(map(str, written))}")
    return DrillJudgement(checks=checks, late=tuple(late), pages=tuple(written), certificates=docs)


def page_of(pages: Path, title: str, home: Participant) -> Path:
    """The page that `judge` writes for a home."""
    return pages / f"{title}-{home}.html"


def mark(settings: Settings, drill: Drill, label: str) -> Mapping[Participant, Mark]:
    """A mark with the time of each judged home's clock."""
    found = {}
    for name in {one.home for one in drill.judged}:
        with open_home(settings, name) as home:
            found[name] = Mark(home.catalog.read_clock_ms(), label)
    return found


def _answers(settings: Settings, one: JudgedStream) -> list[FirstOutput]:
    with open_home(settings, one.home) as home:
        line = computed_line(home, one.stream)
        part = Range(one.from_us, FOREVER_US)
        events = home.catalog.history(line.stream.name, line.producer, part)
        answers = first_outputs(part, events)
    return [answer for answer in answers if answer.came_at_ms >= one.clock_ms]
