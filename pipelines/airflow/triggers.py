"""Triggers that wait for catalogs: LISTEN for notifications, and a query every few seconds.

A notification without a listener is lost, so each connection begins with a query, and a query
follows every few seconds: an event is an occasion to act, never the only one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from medusa_core.errors import MedusaError
from medusa_core.names import Participant
from pipelines.airflow.hooks import DEFAULT, MedusaHook
from pipelines.base import clock

if TYPE_CHECKING:
    from pipelines.base.settings import Settings

CHANNEL = "medusa_supervision"
LOOK_S = 10.0
TRY_AGAIN_S = 5.0
LISTENED_MAX = 20
"""So many homes are listened at; of others only the looks tell."""

Marks = Mapping[str, tuple[int, int]]


class CatalogEvents(BaseEventTrigger):
    """An event whenever what shall run has changed in a home, or a job has ended there."""

    def __init__(self, medusa_conn_id: str = DEFAULT) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.medusa_conn_id = medusa_conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """How another triggerer makes the same one."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "medusa_conn_id": self.medusa_conn_id
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """For ever: which participants have news."""
        hook = MedusaHook(self.medusa_conn_id)
        known: Marks = {}
        while True:
            try:
                settings = await asyncio.to_thread(hook.settings)
                async for marks in watched(settings):
                    news = sorted(name for name, mark in marks.items() if known.get(name) != mark)
                    known = marks
                    if news:
                        yield _event({"participants": news})
            except (MedusaError, OSError) as error:
                self.log.warning("%s", error)
            await clock.sleep_async(TRY_AGAIN_S)


class CorrectionsEnd(BaseTrigger):
    """One event, when the requested corrections are made or given up.

    `streams` (from when on each was owed) is handed back with the event.
    """

    def __init__(
        self,
        participant: str,
        desired: int,
        streams: Mapping[str, int],
        medusa_conn_id: str = DEFAULT,
        look_s: float = 2.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.participant = participant
        self.desired = desired
        self.streams = dict(streams)
        self.medusa_conn_id = medusa_conn_id
        self.look_s = look_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """How another triggerer makes the same one."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "participant": self.participant,
            "desired": self.desired,
            "streams": self.streams,
            "medusa_conn_id": self.medusa_conn_id,
            "look_s": self.look_s,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until it has ended; a catalog that is away is waited for."""
        hook = MedusaHook(self.medusa_conn_id)
        while True:
            ended = await asyncio.to_thread(self._ended, hook)
            if ended is not None:
                yield _event({**ended, "streams": self.streams})
                return
            await clock.sleep_async(self.look_s)

    def _ended(self, hook: MedusaHook) -> dict[str, Any] | None:
        from medusa_core.errors import CheckFailed
        from pipelines.operations.correcting import backlog_status

        try:
            sentence = backlog_status(hook.settings(), Participant(self.participant), self.desired)
        except CheckFailed as error:
            return {"said": None, "problem": str(error)}
        except MedusaError as error:
            self.log.warning("%s", error)
            return None
        return None if sentence is None else {"said": sentence, "problem": None}


def _event(payload: dict[str, Any]) -> TriggerEvent:
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]


async def watched(settings: Settings) -> AsyncIterator[Marks]:
    """The marks of all homes: at once, whenever one of them rings, and every `LOOK_S`.

    Ends when a connection breaks. Raises MedusaError while a catalog is away.
    """
    import psycopg

    rings = asyncio.Event()
    urls = await asyncio.to_thread(_urls, settings)
    async with AsyncExitStack() as stack:
        listeners = []
        try:
            for url in urls[:LISTENED_MAX]:
                connection = await psycopg.AsyncConnection.connect(
                    url, autocommit=True, application_name="medusa trigger", connect_timeout=5
                )
                stack.push_async_callback(connection.close)
                await connection.execute(f"LISTEN {CHANNEL}")
                listener = asyncio.create_task(_hear(connection, rings.set))
                listeners.append(listener)
                stack.callback(listener.cancel)
            while not any(listener.done() for listener in listeners):
                rings.clear()
                yield await asyncio.to_thread(_marks, settings)
                try:
                    await asyncio.wait_for(rings.wait(), LOOK_S)
                except TimeoutError:
                    continue
        except psycopg.Error as error:
            raise OSError(f"the catalog cannot be listened at: {error}") from None


async def _hear(connection: Any, ring: Callable[[], None]) -> None:
    try:
        async for _ in connection.notifies():
            ring()
    finally:
        ring()  # a dead line is found out at once


def _urls(settings: Settings) -> list[str]:
    """How the homes are logged in to, as psycopg wants it."""
    from pipelines.homes.home import known_homes, open_homes

    with open_homes(settings, alone=False) as homes:
        found = [homes.url(name, "airflow") for name in sorted(known_homes(settings.directory))]
    return [url.replace("+psycopg2", "") for url in found if url is not None]


def _marks(settings: Settings) -> Marks:
    from pipelines.homes.home import known_homes
    from pipelines.platform.jobs.supervised_homes import open_jobs

    with open_jobs(settings) as jobs:
        return {str(name): jobs.of(name).mark() for name in known_homes(settings.directory)}
