"""Acknowledgements: how far this home's copies are final, for the partners that keep the rest.

An acknowledgement names the version of the copy: what the partner recalls or revises behind it is
kept by the partner, whatever is under way meanwhile.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Set

from medusa_core.errors import MedusaError
from medusa_core.exchange import READER_LIMIT_MS, ImportStatus
from medusa_core.grid import BEGINNING_US
from medusa_core.names import Participant, StreamName
from medusa_core.segments import Producer
from pipelines.base.failpoints import reached
from pipelines.exchange.exchange_port import Acknowledgement, Exchange

ANSWERS_S = 1.0
"""Time in a poll after which no further answers of a partner are waited for: one that is slow to
answer, and has many lines, holds up neither the loop nor the news of others. Its other lines are
first in the next poll."""

Line = tuple[StreamName, Producer]


class Acknowledgements:
    """What is to be acknowledged of each line, and what was.

    `paths_ms`: what the path behind each imported stream costs here.
    """

    def __init__(self, exchange: Exchange, *, now_s: Callable[[], float]) -> None:
        self.paths_ms: Mapping[StreamName, int] = {}
        self._exchange = exchange
        self._now_s = now_s
        self._due: dict[Line, ImportStatus] = {}
        self._sent: dict[Line, tuple[int, float]] = {}

    @property
    def are_due(self) -> bool:
        """Whether a line is to be acknowledged."""
        return bool(self._due)

    def drop(self, line: Line) -> None:
        """Do not acknowledge a line before it is noted again."""
        self._due.pop(line, None)

    def repeat(self, line: Line) -> None:
        """Acknowledge a line once more though its boundary is where it was: its version is not."""
        self._sent.pop(line, None)

    def note_due(self, statuses: Iterable[ImportStatus], after: Iterable[ImportStatus]) -> None:
        """Note to acknowledge the lines as they are `after` a poll that began with `statuses`."""
        before = {line_of(status): status for status in statuses}
        left_out, self._due = self._due, {}
        for status in sorted(after, key=lambda status: line_of(status) not in left_out):
            if status.reader.is_import:
                # What came just now is compared with other producers before it is called safe.
                earlier = before.get(line_of(status), status)
                status = min(status, earlier, key=_safe_us)
            self._due[line_of(status)] = status

    def send(self, away: Set[Participant], has_news: Callable[[Participant], bool]) -> None:
        """Acknowledge what is due, at least one line; the others later if a partner has news.

        Nothing is sent to those who are `away`: they keep more than they must.
        """
        due: list[tuple[Line, Acknowledgement]] = []
        for line, status in tuple(self._due.items()):
            request = self.request(status)
            if request is None or request.partner in away:
                del self._due[line]
            else:
                due.append((line, request))
        self._exchange.begin([request for _, request in due])
        spent_s: dict[Participant, float] = defaultdict(float)
        for line, request in due:
            if spent_s[request.partner] >= ANSWERS_S:
                continue
            del self._due[line]
            began_s = self._now_s()
            self.acknowledge(line, request)
            spent_s[request.partner] += self._now_s() - began_s
            if has_news(request.partner):
                return

    def request(self, status: ImportStatus) -> Acknowledgement | None:
        """How far the copy is final, for the partner; None if it need not know.

        The same again only when a part of the hold's limit is over: a stream may be idle for long,
        and who reads it is there all the same.
        """
        safe_us = status.safe_through_us
        sent_us, until_s = self._sent.get(line_of(status), (None, 0.0))
        if safe_us is None or (sent_us == safe_us and self._now_s() < until_s):
            return None
        return Acknowledgement(
            partner=status.producer.participant,
            stream=status.stream,
            through_us=safe_us,
            limit_ms=READER_LIMIT_MS,
            path_ms=self.paths_ms.get(status.stream, 0),
            replica=status.producer.replica,
            version=status.version,
        )

    def acknowledge(self, line: Line, request: Acknowledgement) -> None:
        """Tell the partner; while it is away, it keeps more than it must."""
        sent_s = self._now_s()
        with contextlib.suppress(MedusaError):
            self._exchange.acknowledge(
                request.partner, request.stream, request.through_us, request.limit_ms,
                request.path_ms, replica=request.replica, version=request.version,
            )  # fmt: skip
            self._sent[line] = request.through_us, sent_s + READER_LIMIT_MS / 4_000
            reached("import.acknowledged")


def line_of(status: ImportStatus) -> Line:
    """The line that is imported."""
    return status.stream, status.producer


def _safe_us(status: ImportStatus) -> int:
    safe_us = status.safe_through_us
    return BEGINNING_US if safe_us is None else safe_us
