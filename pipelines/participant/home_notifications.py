"""What a participant waits for: notifications of its own home, and news of its partners' lines."""

from __future__ import annotations

from functools import partial

from medusa_core.names import Participant
from pipelines.exchange.client.progress_listener import ProgressListener
from pipelines.exchange.notification_listener import (
    ListenerConnection,
    ListenerIO,
    NotificationListener,
    listening,
)
from pipelines.participant.home_session import HomeSession
from pipelines.platform.drills.fault_injected_links import FaultInjectedLinks


def notification_listener(
    home_session: HomeSession, links: FaultInjectedLinks
) -> NotificationListener:
    """A listener at the own home, and at each partner from which something is imported.

    A partner over a cut link is not heard. Raises Unavailable if the own home does not answer.
    """
    own = home_session.home.participant
    producers = {line.producer.participant for line in home_session.home.catalog.imports()}

    def listen(name: str) -> ListenerConnection:
        if name == own:
            return listening(home_session.url)
        return ProgressListener(partial(home_session.exchange.watch, Participant(name)))

    def is_heard(name: str) -> bool:
        return name == own or links.carries_notification(Participant(name))

    return NotificationListener(
        (own, *sorted(producers)), ListenerIO(listen=listen), is_heard=is_heard
    )
