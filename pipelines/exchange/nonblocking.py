"""Calls to partners that never block: a silent partner delays no bound.

Each partner is called by its own thread. A partner that does not answer within a moment counts as
unavailable for now; the next call of the same request receives its late answer, whose age
includes the delay. A request is waited for once: while it is open, the next calls return at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from medusa_core.errors import Unavailable
from medusa_core.exchange import LineNews
from medusa_core.names import Participant, StreamName, Version
from medusa_core.segments import Producer, SegmentFile
from pipelines.base import clock
from pipelines.exchange.exchange_port import Awaited, Exchange, Transport

if TYPE_CHECKING:
    from medusa_core.market.envelopes import Envelope

MOMENT_S = 0.5
FETCH_S = 1.0
"""How long files are waited for; the copies continue, and are there with the next request."""

OVERDUE_S = 3.0
"""Time after which a partner that has not answered is a problem: a long link takes less."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class _PendingCall:
    question: object
    answer: Future[Any]
    at_s: float
    overdue_s: float


class Closing(Protocol):
    """What is given back in the end."""

    def close(self) -> None: ...


class NonBlocking:
    """Asks each partner in a thread of its own, one question at a time."""

    def __init__(
        self,
        closing: Closing,
        *,
        moment_s: float = MOMENT_S,
        now_s: Callable[[], float] = clock.monotonic_s,
    ) -> None:
        self._asks = closing
        self._moment_s = moment_s
        self._now_s = now_s
        self._askers: dict[Participant, ThreadPoolExecutor] = {}
        self._pending: dict[Participant, _PendingCall] = {}

    def close(self) -> None:
        """Make no further request, and close the connection to partners."""
        for asker in self._askers.values():
            asker.shutdown(wait=False, cancel_futures=True)
        self._asks.close()

    def _ask(
        self,
        partner: Participant,
        question: object,
        call: Callable[[], Answer],
        wait_s: float,
        overdue_s: float = OVERDUE_S,
    ) -> tuple[Answer, float]:
        """The answer, and when it was requested; Awaited while there is none, Unavailable when it
        is overdue."""
        pending = self._pending.get(partner)
        if pending is not None and pending.answer.done() and pending.question != question:
            self._pending.pop(partner)
            if pending.overdue_s == math.inf:
                pending.answer.result()  # nobody has reported yet why the copies have ended
            pending = None  # nobody waits for that answer any more
        if pending is None:
            asker = self._askers.setdefault(
                partner, ThreadPoolExecutor(1, f"medusa-asks-{partner}")
            )
            pending = _PendingCall(question, asker.submit(call), self._now_s(), overdue_s)
            self._pending[partner] = pending
        elif pending.question != question:
            raise self._silent(partner, pending)
        try:
            waited_s = self._now_s() - pending.at_s
            answer = pending.answer.result(timeout=max(wait_s - waited_s, 0.0))
        except TooLate:
            # The call itself may have ended with a time-out, which says as much.
            raise self._silent(partner, pending) from None
        finally:
            if pending.answer.done():
                self._pending.pop(partner, None)
        return answer, pending.at_s

    def _silent(self, partner: Participant, pending: _PendingCall) -> Unavailable:
        """The same words each time: it is one problem, however long it lasts."""
        if self._now_s() - pending.at_s < pending.overdue_s:
            return Awaited(f"partner {partner} has not answered yet: its answer is used later")
        return Unavailable(
            f"partner {partner} has not answered for {pending.overdue_s:g} s or more: its answer "
            "is used when it arrives"
        )


class NonBlockingExchange(NonBlocking):
    """An `Exchange` around another one, whose calls come back in a moment."""

    def __init__(
        self,
        exchange: Exchange,
        *,
        moment_s: float = MOMENT_S,
        now_s: Callable[[], float] = clock.monotonic_s,
    ) -> None:
        super().__init__(exchange, moment_s=moment_s, now_s=now_s)
        self._exchange = exchange

    def line_news(self, stream: StreamName, producer: Producer, after: Version, *,
                  segments_max: int) -> LineNews:  # fmt: skip
        """See `Exchange.line_news`."""
        asks_s = self._now_s()
        news, began_s = self._ask(
            producer.participant,
            # A request for another amount of it is the same request.
            ("news", stream, producer, after),
            lambda: self._exchange.line_news(stream, producer, after, segments_max=segments_max),
            self._moment_s,
        )
        late_ms = math.ceil((asks_s - began_s) * 1_000)  # an age is never too small
        return news if late_ms <= 0 else _aged(news, late_ms)

    def fetch_all(self, partner: Participant, files: Mapping[SegmentFile, Path]) -> None:
        """See `Exchange.fetch_all`."""
        self._ask(
            partner,
            ("files", tuple(files.items())),
            lambda: self._exchange.fetch_all(partner, files),
            max(self._moment_s, FETCH_S),
            # A copy that does not go on ends by itself, with its own reason.
            overdue_s=math.inf,
        )

    def acknowledge(self, partner: Participant, stream: StreamName, through_us: int,
                    limit_ms: int, path_ms: int) -> None:  # fmt: skip
        """See `Exchange.acknowledge`."""
        self._ask(
            partner,
            ("ack", stream, through_us, limit_ms, path_ms),
            lambda: self._exchange.acknowledge(partner, stream, through_us, limit_ms, path_ms),
            self._moment_s,
        )


class NonBlockingTransport(NonBlocking):
    """A `Transport` around another one, whose calls come back in a moment."""

    def __init__(
        self,
        transport: Transport,
        *,
        moment_s: float = MOMENT_S,
        now_s: Callable[[], float] = clock.monotonic_s,
    ) -> None:
        super().__init__(transport, moment_s=moment_s, now_s=now_s)
        self._transport = transport

    def deliver(self, partner: Participant, envelopes: Sequence[Envelope]) -> tuple[str, ...]:
        """See `Transport.deliver`."""
        answers, _ = self._ask(
            partner,
            ("envelopes", tuple(envelopes)),
            lambda: self._transport.deliver(partner, envelopes),
            self._moment_s,
        )
        return answers


def _aged(news: LineNews, late_ms: int) -> LineNews:
    """The news, its segments older by what the answer was late."""
    return replace(
        news,
        made_ago_ms=None if news.made_ago_ms is None else news.made_ago_ms + late_ms,
        segments=tuple(
            replace(p, segment=replace(p.segment, age_ms=p.segment.age_ms + late_ms))
            for p in news.segments
        ),
    )
