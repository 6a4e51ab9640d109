"""Figures of a stream's answers over a window: everything that the page of answers shows of it.

All of them are read from one home: the rows that the line has or had, the versions of its inputs,
the transitions of its fragment, certificates. Times of arrival are milliseconds of the home's
clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from medusa_core.certificates import Certificate, Suite
from medusa_core.errors import Refused
from medusa_core.first_outputs import FirstOutput, first_outputs
from medusa_core.grid import Range
from medusa_core.names import StreamName, Version
from medusa_core.states import Transition
from pipelines.catalog.processing_roles import Deployments
from pipelines.catalog.reading_roles import Certificates, StepHistory
from pipelines.catalog.records import LineStatus
from pipelines.changes.line_versions import VersionedLines, line_of
from pipelines.homes.deployed_fragments import fragments_in_force
from pipelines.homes.headroom_file import Fact, bound_facts
from pipelines.homes.home import Home
from pipelines.report.answer_laws import Law, laws_of
from pipelines.report.corrected_rows import Corrections, read_corrections

VERSIONS_READ_MAX = 20_000
TRANSITIONS_READ_MAX = 10_000
BEHIND_MS = 10_000
"""So long after the last answer a change of state is still about it: it is noted after a commit."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that was done at a time, in a word."""

    at_ms: int
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A time in which nothing came of an input that answers lacked; `to_ms` None: until now."""

    stream: StreamName
    from_ms: int
    to_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFigures:
    """A window of a line: answers in the order of event time, and what else is known of them.

    `bound_ms` is None where none is declared; `certificates` are the newest of each suite that are
    about a part of the window. `headroom` is what the bound leaves now, if a driver runs.
    """

    line: LineStatus
    window: Range
    bound_ms: int | None
    answers: tuple[FirstOutput, ...]
    outages: tuple[Outage, ...]
    transitions: tuple[Transition, ...]
    corrections: Corrections
    laws: tuple[Law, ...]
    certificates: tuple[Certificate, ...]
    clock_ms: int
    headroom: Fact | None = None

    @property
    def stream(self) -> StreamName:
        """Its name."""
        return self.line.stream.name

    @property
    def delay_ms_max(self) -> int | None:
        """The greatest delay of a first answer; None if none is known."""
        return max((a.delay_ms for a in self.answers if a.delay_ms is not None), default=None)

    @property
    def buckets_tentative(self) -> int:
        """How many buckets were answered without something at first."""
        return self._buckets([a for a in self.answers if a.is_tentative])

    @property
    def buckets_corrected(self) -> int:
        """How many of these are final now."""
        return self._buckets([a for a in self.answers if a.is_corrected])

    def _buckets(self, answers: Sequence[FirstOutput]) -> int:
        length_us = sum(a.range.to_us - a.range.from_us for a in answers)
        return length_us // self.line.stream.width_us


def read_answers(
    home: Home, stream: StreamName, from_us: int | None = None, to_us: int | None = None
) -> AnswerFigures:
    """Read how a stream was answered, over all that is kept unless a window is given.

    Raises Refused if there is no such stream here or nothing of it in the window, Unavailable if a
    file is gone or damaged.
    """
    catalog = home.catalog
    line = line_of(catalog, stream)
    window = _window(line, from_us, to_us)
    events = catalog.history(line.stream.name, line.producer, window)
    answers = tuple(first_outputs(window, events))
    bound, _ = catalog.bounds().get(line.stream.name, (None, 0))
    bound_ms = None if bound is None else bound.bound_ms
    return AnswerFigures(
        line=line,
        window=window,
        bound_ms=bound_ms,
        answers=answers,
        outages=tuple(_outages(catalog, answers)),
        transitions=_transitions(catalog, line, answers),
        corrections=read_corrections(home, line, window, events),
        laws=laws_of(answers, events, bound_ms),
        certificates=_certificates(catalog, line, window),
        clock_ms=catalog.read_clock_ms(),
        headroom=_headroom(home, line.stream.name),
    )


def _headroom(home: Home, stream: StreamName) -> Fact | None:
    is_driven = any(record.is_held for record in home.catalog.leases())
    facts = bound_facts(home, is_driven=is_driven)
    return next((fact for fact in facts if stream in fact["streams"]), None)


def _window(line: LineStatus, from_us: int | None, to_us: int | None) -> Range:
    kept_us, through_us = line.kept_from_us, line.live_through_us
    if kept_us is None or through_us is None or kept_us >= through_us:
        raise Refused(f"{line.stream.name} has no closed bucket yet: let it be computed first")
    from_us = kept_us if from_us is None else max(from_us, kept_us)
    to_us = through_us if to_us is None else min(to_us, through_us)
    if from_us >= to_us:
        raise Refused(f"{line.stream.name} has nothing in that window: choose another")
    return Range(from_us, to_us)


class StateHistory(Deployments, StepHistory, Protocol):
    """Which fragments are deployed, and the states that they went through."""


def _transitions(
    catalog: StateHistory, line: LineStatus, answers: Sequence[FirstOutput]
) -> tuple[Transition, ...]:
    """Those of the stream's fragment while these answers and their corrections came, behind the one
    that it was in before."""
    span = _span(answers)
    if span is None:
        return ()
    makers = {
        id_ for id_, f in fragments_in_force(catalog).items() if line.stream.name in f.outputs
    }
    found = [
        (change.changed_at_ms, change)
        for change in catalog.transitions(TRANSITIONS_READ_MAX)
        if change.fragment in makers
        and change.producer == line.producer
        and change.changed_at_ms is not None
        and change.changed_at_ms <= span[1] + BEHIND_MS
    ]
    before = sum(at_ms < span[0] for at_ms, _ in found)
    return tuple(change for _, change in found[max(before - 1, 0) :])


def _span(answers: Sequence[FirstOutput]) -> tuple[int, int] | None:
    """When the first of the answers came, and when the last answer or correction did."""
    if not answers:
        return None
    last_ms = max(max(a.came_at_ms, a.final_at_ms or 0) for a in answers)
    return min(a.came_at_ms for a in answers), last_ms


def _outages(catalog: VersionedLines, answers: Sequence[FirstOutput]) -> list[Outage]:
    """Of each input that answers lacked, when nothing came of it."""
    found: dict[tuple[StreamName, int], Outage] = {}
    for name in sorted({m for a in answers for m in a.event.missing}):
        lacking = sorted(a.came_at_ms for a in answers if name in a.event.missing)
        times = _news_ms(catalog, name, lacking[0])
        for at_ms in lacking:
            from_ms = max((t for t in times if t <= at_ms), default=None)
            if from_ms is None:
                continue
            to_ms = min((t for t in times if t > at_ms), default=None)
            found[name, from_ms] = Outage(stream=name, from_ms=from_ms, to_ms=to_ms)
    return list(found.values())


def _news_ms(catalog: VersionedLines, name: StreamName, before_ms: int) -> list[int]:
    """When something came of a stream, from the last time before one on; nothing if unknown here
    (an input of an input, in another home)."""
    lines = catalog.lines(name)
    if not lines:
        return []
    producer = lines[0].producer
    last = catalog.version_at(name, producer, before_ms)
    versions = catalog.line_versions(
        name, producer, after=Version(max(last - 1, 0)), limit=VERSIONS_READ_MAX
    )
    return sorted(v.made_at_ms for v in versions if v.made_at_ms is not None)


def _certificates(
    catalog: Certificates, line: LineStatus, window: Range
) -> tuple[Certificate, ...]:
    newest: dict[Suite, Certificate] = {}
    for certificate in catalog.certificates(line.stream.name, limit=100):
        is_about = certificate.producer == line.producer and certificate.range.overlaps(window)
        if is_about:
            newest.setdefault(certificate.suite, certificate)
    return tuple(newest[suite] for suite in Suite if suite in newest)
