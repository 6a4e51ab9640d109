"""Delivery of outgoing messages, to all partners at once.

Each partner has a thread for the time of a delivery, so that a slow one holds up no other. A
partner that cannot be reached, or accepts nothing, is left alone for a while, longer each time.
The pause is stored in the home, so it survives a restart.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby

from medusa_core.errors import MedusaError, Unavailable
from medusa_core.names import Participant
from pipelines.base.failpoints import reached
from pipelines.catalog.agreement_store import Agreements, Sealed
from pipelines.exchange.exchange_port import Transport

MESSAGES_MAX = 64
AT_ONCE_MAX = 32
TAKEN = "taken"

Answer = tuple[str, ...] | MedusaError


class Deliveries:
    """Delivers the messages of a home's outbox; `on_error` receives what a partner did not take.

    `to_all`: also to partners that are paused now. `draw_jitter` gives a number from 0 to 1, so
    that the participants that lost a partner do not all return to it at once.
    """

    def __init__(
        self,
        agreements: Agreements,
        transport: Transport,
        on_error: Callable[[Exception], None],
        *,
        to_all: bool = False,
        draw_jitter: Callable[[], float] = random.random,
    ) -> None:
        self._agreements = agreements
        self._transport = transport
        self._on_error = on_error
        self._to_all = to_all
        self._draw_jitter = draw_jitter

    def deliver(self) -> tuple[int, int]:
        """How many messages arrived, and how many did not."""
        waiting = self._agreements.to_deliver(MESSAGES_MAX, to_all=self._to_all)
        by_partner = [
            (partner, list(messages))
            for partner, messages in groupby(waiting, key=lambda one: one.envelope.receiver)
        ]
        sent = left = 0
        for (partner, messages), answer in zip(by_partner, self._answers(by_partner), strict=True):
            arrived = self._note(partner, messages, answer)
            sent += arrived
            left += len(messages) - arrived
        return sent, left

    def _answers(self, by_partner: list[tuple[Participant, list[Sealed]]]) -> Iterable[Answer]:
        if len(by_partner) < 2:
            return [self._ask(*one) for one in by_partner]
        with ThreadPoolExecutor(min(len(by_partner), AT_ONCE_MAX), "medusa-delivers") as several:
            return list(several.map(lambda one: self._ask(*one), by_partner))

    def _ask(self, partner: Participant, messages: list[Sealed]) -> Answer:
        try:
            return self._transport.deliver(partner, [one.envelope for one in messages])
        except MedusaError as error:
            return error

    def _note(self, partner: Participant, messages: list[Sealed], answer: Answer) -> int:
        """Write down what became of a partner's messages; how many arrived."""
        if isinstance(answer, Exception):
            self._on_error(answer)
            self._agreements.acknowledge([messages[0].message_id], str(answer))
            self._agreements.pause(partner, str(answer), self._draw_jitter())
            return 0
        reached("agreement.sent")
        # In order: what follows one that is not taken must not come before it.
        arrived = list(_taken(messages, answer))
        self._agreements.acknowledge([one.message_id for one in arrived])
        reached("agreement.acknowledged")
        if len(arrived) == len(messages):
            self._agreements.resume(partner)
            return len(arrived)
        problem = answer[len(arrived)]
        self._agreements.acknowledge([messages[len(arrived)].message_id], problem)
        self._agreements.pause(partner, problem, self._draw_jitter())
        self._on_error(Unavailable(f"{partner} does not take a message: {problem}"))
        return len(arrived)


def _taken(messages: list[Sealed], answers: tuple[str, ...]) -> Iterable[Sealed]:
    for message, answer in zip(messages, answers, strict=True):
        if answer != TAKEN:
            return
        yield message
