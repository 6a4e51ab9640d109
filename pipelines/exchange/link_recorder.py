"""What a process counts of its links with partners, and reports to its home from time to time.

A request costs some additions under a lock. Reports are made in a thread, at most once in 5 s, or
in 1 s when the state of a link has changed; a link over which nothing has happened is not written.
A report that fails is added to the next one. Partners are those of the home, so that their number
is bounded.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from statistics import median

from medusa_core.errors import MedusaError
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.catalog.partner_records import LinkReport, LinkState

REPORT_S, CHANGED_S = 5.0, 1.0
RECENT = 100
ERROR_CHARACTERS_MAX = 1_000

Report = Callable[[Sequence[LinkReport]], object]


@dataclass(slots=True)
class _Counts:
    """What was counted since the last report."""

    requests: int = 0
    failures: int = 0
    files: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0


@dataclass(slots=True)
class _Link:
    """The link with one partner; times are of the monotonic clock."""

    state_s: float
    state: LinkState = LinkState.REACHABLE
    error: str | None = None
    failed_s: float | None = None
    answered_s: float | None = None
    counts: _Counts = field(default_factory=_Counts)
    answers_ms: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    delays_ms: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    is_changed: bool = False


class LinkRecorder:
    """The links of one process; may be called from any thread."""

    def __init__(self, *, now_s: Callable[[], float] = clock.monotonic_s) -> None:
        self._now_s = now_s
        self._links: dict[Participant, _Link] = {}
        self._guard = threading.Lock()
        self._reported_s = -math.inf
        self._has_other_state = False

    def note_answer(self, partner: Participant, *, took_s: float | None = None) -> None:
        """A request was answered; `took_s` None: it was one that waits, or a file."""
        with self._guard:
            link = self._set_state(partner, LinkState.REACHABLE)
            link.answered_s = self._now_s()
            link.counts.requests += 1
            if took_s is not None:
                link.answers_ms.append(max(took_s, 0.0) * 1_000)

    def note_failure(
        self, partner: Participant, error: object, state: LinkState | None = None
    ) -> None:
        """A request failed; `state` None: that says nothing about whether the partner answers."""
        with self._guard:
            link = self._link(partner) if state is None else self._set_state(partner, state)
            link.error, link.failed_s = str(error)[:ERROR_CHARACTERS_MAX], self._now_s()
            link.counts.requests += 1
            link.counts.failures += 1
            link.is_changed = True

    def note_bytes(self, partner: Participant, *, received: int = 0, sent: int = 0) -> None:
        """Bytes of bodies arrived or were sent."""
        with self._guard:
            link = self._link(partner)
            link.counts.bytes_received += received
            link.counts.bytes_sent += sent
            link.is_changed = True

    def note_file(self, partner: Participant) -> None:
        """A file has arrived, or is sent."""
        with self._guard:
            link = self._link(partner)
            link.counts.files += 1
            link.is_changed = True

    def note_delay(self, partner: Participant, delay_ms: int) -> None:
        """News was committed here so long after its commit at the partner."""
        with self._guard:
            link = self._link(partner)
            link.delays_ms.append(delay_ms)
            link.is_changed = True

    def report(self, report: Report) -> None:
        """Report what has happened, if that is due; raises what `report` raises."""
        with self._guard:
            now_s = self._now_s()
            every_s = CHANGED_S if self._has_other_state else REPORT_S
            changed = [partner for partner, link in self._links.items() if link.is_changed]
            if not changed or now_s - self._reported_s < every_s:
                return
            self._reported_s, self._has_other_state = now_s, False
            reports = [_report(partner, self._links[partner], now_s) for partner in changed]
            for partner in changed:
                link = self._links[partner]
                link.counts, link.is_changed = _Counts(), False
        try:
            report(reports)
        except BaseException:
            with self._guard:
                for one in reports:
                    self._add(one)
            raise

    def _add(self, report: LinkReport) -> None:
        """Count again what could not be reported."""
        link = self._links[report.partner]
        link.is_changed = True
        link.counts.requests += report.requests
        link.counts.failures += report.failures
        link.counts.files += report.files
        link.counts.bytes_received += report.bytes_received
        link.counts.bytes_sent += report.bytes_sent

    def _link(self, partner: Participant) -> _Link:
        link = self._links.get(partner)
        if link is None:
            link = self._links[partner] = _Link(self._now_s())
            self._has_other_state = True
        return link

    def _set_state(self, partner: Participant, state: LinkState) -> _Link:
        link = self._link(partner)
        link.is_changed = True
        if link.state is not state:
            link.state, link.state_s = state, self._now_s()
            self._has_other_state = True
        return link


@contextmanager
def reported_links(recorder: LinkRecorder, report: Report) -> Iterator[None]:
    """Report in a thread meanwhile; failures are tried again."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(CHANGED_S):
            with suppress(MedusaError):
                recorder.report(report)

    thread = threading.Thread(target=repeat, name="medusa-links", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _report(partner: Participant, link: _Link, now_s: float) -> LinkReport:
    counts = link.counts
    return LinkReport(
        partner=partner,
        state=link.state,
        state_ago_ms=_ago_ms(link.state_s, now_s) or 0,
        error=link.error,
        failed_ago_ms=_ago_ms(link.failed_s, now_s),
        answered_ago_ms=_ago_ms(link.answered_s, now_s),
        requests=counts.requests,
        failures=counts.failures,
        files=counts.files,
        bytes_received=counts.bytes_received,
        bytes_sent=counts.bytes_sent,
        answer_ms=_median(link.answers_ms),
        answer_ms_max=_maximum(link.answers_ms),
        delay_ms=_median(link.delays_ms),
        delay_ms_max=_maximum(link.delays_ms),
    )


def _ago_ms(at_s: float | None, now_s: float) -> int | None:
    return None if at_s is None else max(round((now_s - at_s) * 1_000), 0)


def _median(values: Sequence[float]) -> int | None:
    return math.floor(median(values)) if values else None


def _maximum(values: Sequence[float]) -> int | None:
    return math.ceil(max(values)) if values else None
