"""Calls to partners that never block: a silent partner delays no bound.

Each partner is called by its own threads. A partner that does not answer within a moment counts as
unavailable for now; the next call of the same request receives its late answer, whose age
includes the delay. A request is waited for once: while it is open, the next calls return at once.
Requests that will be made can begin before, so that a long link delays all of them together by the
time of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, assert_never

from medusa_core.errors import Unavailable
from medusa_core.exchange import LineNews
from medusa_core.names import Participant, StreamName, Version
from medusa_core.segments import Producer, SegmentFile
from pipelines.base import clock
from pipelines.exchange.exchange_port import (
    REQUESTS_AT_ONCE,
    Acknowledgement,
    Awaited,
    ExchangeCalls,
    FilesRequest,
    NewsRequest,
    Request,
    Transport,
)

if TYPE_CHECKING:
    from medusa_core.market.envelopes import Envelope

MOMENT_S = 0.5
FETCH_S = 1.0
"""How long files are waited for; the copies continue, and are there with the next request."""

OVERDUE_S = 3.0
"""Time after which a partner that has not answered is a problem: a long link takes less."""

UNCLAIMED_S = 10.0
"""For how long an answer is kept of whose request the caller was told that it is used later."""

Answer = TypeVar("Answer")


@dataclass(slots=True)
class _PendingCall:
    """`was_awaited`: somebody waited in vain, and was told so."""

    answer: Future[Any]
    at_s: float
    overdue_s: float
    was_awaited: bool = False

    @property
    def is_silent(self) -> bool:
        """Whether somebody waited in vain, and there is no answer yet."""
        return self.was_awaited and not self.answer.done()

    def is_abandoned(self, now_s: float) -> bool:
        """Whether nobody comes for the answer, which is here."""
        is_expected = self.was_awaited and now_s - self.at_s < UNCLAIMED_S
        return self.answer.done() and not is_expected


class Closing(Protocol):
    """What is given back in the end."""

    def close(self) -> None: ...


class NonBlocking:
    """Asks each partner in threads of its own."""

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
        self._pending: dict[Participant, dict[object, _PendingCall]] = {}

    def close(self) -> None:
        """Make no further request, and close the connection to partners."""
        for asker in self._askers.values():
            asker.shutdown(wait=False, cancel_futures=True)
        self._asks.close()

    def _ask(
        self,
        partner: Participant,
        request: object,
        call: Callable[[], Answer],
        wait_s: float,
        overdue_s: float = OVERDUE_S,
    ) -> tuple[Answer, float]:
        """The answer, and when it was requested; Awaited while there is none, Unavailable when it
        is overdue."""
        open_calls = self._pending.setdefault(partner, {})
        pending = open_calls.get(request)
        if pending is None:
            self._forget_abandoned(open_calls)
            for earlier in open_calls.values():
                if earlier.is_silent:
                    raise self._silent(partner, earlier)
            pending = self._begun(partner, request, call, overdue_s)
        try:
            waited_s = self._now_s() - pending.at_s
            answer = pending.answer.result(timeout=max(wait_s - waited_s, 0.0))
        except TooLate:
            # The call itself may have ended with a time-out, which says as much.
            pending.was_awaited = True
            raise self._silent(partner, pending) from None
        finally:
            if pending.answer.done():
                open_calls.pop(request, None)
        return answer, pending.at_s

    def _begun(
        self, partner: Participant, request: object, call: Callable[[], Any], overdue_s: float
    ) -> _PendingCall:
        if partner not in self._askers:
            self._askers[partner] = ThreadPoolExecutor(REQUESTS_AT_ONCE, f"medusa-asks-{partner}")
        pending = _PendingCall(self._askers[partner].submit(call), self._now_s(), overdue_s)
        self._pending.setdefault(partner, {})[request] = pending
        return pending

    def _begin(
        self,
        partner: Participant,
        calls: Mapping[Request, tuple[Callable[[], object], float]],
    ) -> None:
        """Begin requests that come next, unless the partner is silent: what to call, and after how
        many seconds it is overdue."""
        open_calls = self._pending.setdefault(partner, {})
        self._forget_answered(open_calls, but=calls)
        if any(pending.is_silent for pending in open_calls.values()):
            return
        free = REQUESTS_AT_ONCE - sum(not one.answer.done() for one in open_calls.values())
        new = [request for request in calls if request not in open_calls]
        for request in new[: max(free, 0)]:
            self._begun(partner, request, *calls[request])

    def _forget_answered(
        self, open_calls: dict[object, _PendingCall], but: Collection[Request]
    ) -> None:
        """Nobody comes for these answers; why copies have failed is reported first."""
        for request, pending in tuple(open_calls.items()):
            is_unreported = pending.was_awaited and pending.overdue_s == math.inf
            is_abandoned = request not in but and pending.is_abandoned(self._now_s())
            if is_abandoned and not is_unreported:
                open_calls.pop(request)

    def _forget_abandoned(self, open_calls: dict[object, _PendingCall]) -> None:
        """Nobody waits for these answers any more. Raises what has ended copies."""
        for request, pending in tuple(open_calls.items()):
            if not (pending.was_awaited and pending.answer.done()):
                continue
            is_copy = pending.overdue_s == math.inf
            if is_copy or pending.is_abandoned(self._now_s()):
                open_calls.pop(request)
            if is_copy:
                pending.answer.result()

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
        exchange: ExchangeCalls,
        *,
        moment_s: float = MOMENT_S,
        now_s: Callable[[], float] = clock.monotonic_s,
    ) -> None:
        super().__init__(exchange, moment_s=moment_s, now_s=now_s)
        self._exchange = exchange

    def begin(self, requests: Iterable[Request]) -> None:
        """See `Exchange.begin`: `REQUESTS_AT_ONCE` of each partner, and the rest when called."""
        calls: dict[Participant, dict[Request, tuple[Callable[[], object], float]]] = {}
        for request in requests:
            partner, call, overdue_s = self._call_of(request)
            calls.setdefault(partner, {})[request] = call, overdue_s
        for partner, some in calls.items():
            self._begin(partner, some)

    def line_news(self, stream: StreamName, producer: Producer, after: Version, *,
                  segments_max: int) -> LineNews:  # fmt: skip
        """See `Exchange.line_news`."""
        asks_s = self._now_s()
        request = NewsRequest(
            stream=stream, producer=producer, after=after, segments_max=segments_max
        )
        news, began_s = self._answered(request, self._moment_s)
        late_ms = math.ceil((asks_s - began_s) * 1_000)  # an age is never too small
        return news if late_ms <= 0 else _aged(news, late_ms)

    def fetch_all(self, partner: Participant, files: Mapping[SegmentFile, Path]) -> None:
        """See `Exchange.fetch_all`."""
        request = FilesRequest(partner=partner, files=tuple(files.items()))
        self._answered(request, max(self._moment_s, FETCH_S))

    def acknowledge(self, partner: Participant, stream: StreamName, through_us: int,
                    limit_ms: int, path_ms: int, *, replica: int,
                    version: Version) -> None:  # fmt: skip
        """See `Exchange.acknowledge`."""
        request = Acknowledgement(
            partner=partner, stream=stream, through_us=through_us, limit_ms=limit_ms,
            path_ms=path_ms, replica=replica, version=version,
        )  # fmt: skip
        self._answered(request, self._moment_s)

    def _answered(self, request: Request, wait_s: float) -> tuple[Any, float]:
        partner, call, overdue_s = self._call_of(request)
        return self._ask(partner, request, call, wait_s, overdue_s)

    def _call_of(self, request: Request) -> tuple[Participant, Callable[[], object], float]:
        """Whom a request is for, the call that makes it, and after how long it is overdue."""
        exchange = self._exchange
        match request:
            case NewsRequest(stream=stream, producer=producer, after=after, segments_max=most):
                return (
                    producer.participant,
                    lambda: exchange.line_news(stream, producer, after, segments_max=most),
                    OVERDUE_S,
                )
            case FilesRequest(partner=partner, files=files):
                # A copy that does not go on ends by itself, with its own reason.
                return partner, lambda: exchange.fetch_all(partner, dict(files)), math.inf
            case Acknowledgement(partner=partner):
                return (
                    partner,
                    lambda: exchange.acknowledge(
                        partner, request.stream, request.through_us, request.limit_ms,
                        request.path_ms, replica=request.replica, version=request.version,
                    ),
                    OVERDUE_S,
                )  # fmt: skip
            case _:
                assert_never(request)


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
