"""Streams as Airflow's assets, by which DAGs of your own are scheduled.

    from pipelines.airflow.stream_assets import stream_asset

    with DAG(dag_id="report", schedule=[stream_asset("alpha", "busy_sources")]):
        ...

An asset has an event when the stable prefix of its stream has moved, at most one in 10 s. The
position is kept with the asset once the event is stored, at the next look: a triggerer that ends in
between repeats the event, and none is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Mapping
from typing import Any

from airflow.sdk import Asset, AssetWatcher
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from medusa_core.errors import MedusaError
from medusa_core.names import Participant, StreamName, check_name
from pipelines.airflow.hooks import DEFAULT, MedusaHook
from pipelines.base import clock
from pipelines.base.time_text import iso

EVERY_S = 10.0
MARK = "stable_through_us"

Prefixes = Mapping[StreamName, int]
"""Through which time each stream of a home is stable, in microseconds since 1970."""


def stream_asset(participant: str, stream: str, medusa_conn_id: str = DEFAULT) -> Asset:
    """The asset of a stream in a participant's home; Refused for what cannot be a name.

    `stream` may be a partner's, as it is called there: `beta/sums`.
    """
    check_name("participant", participant)
    for part in stream.split("/", 1):
        check_name("stream", part)
    trigger = StablePrefix(participant, stream, medusa_conn_id)
    return Asset(
        name=f"{participant}/{stream}",
        uri=f"medusa://streams/{participant}/{stream}",
        group="medusa",
        watchers=[AssetWatcher(name=f"{participant}/{stream}", trigger=trigger)],
    )


class StablePrefix(BaseEventTrigger):
    """An event whenever the stable prefix of a stream has moved.

    Its payload: `participant`, `stream`, and `stable_through`, the exclusive end of what is stable.
    All triggers of a home share one look at its catalog.
    """

    def __init__(
        self,
        participant: str,
        stream: str,
        medusa_conn_id: str = DEFAULT,
        every_s: float = EVERY_S,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.participant = participant
        self.stream = stream
        self.medusa_conn_id = medusa_conn_id
        self.every_s = every_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """How another triggerer makes the same one."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "participant": self.participant,
            "stream": self.stream,
            "medusa_conn_id": self.medusa_conn_id,
            "every_s": self.every_s,
        }

    def shared_stream_key(self) -> Hashable:
        """One look at a home serves all triggers of its streams."""
        return (type(self).__qualname__, self.medusa_conn_id, self.participant, self.every_s)

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Prefixes]:
        """Endless: how far the streams of the home are stable; a home that is away is waited for.

        Its answers are the same again and again while nothing moves.
        """
        one = cls(**kwargs)
        hook = MedusaHook(one.medusa_conn_id)
        while True:
            try:
                yield await asyncio.to_thread(stable_prefixes, hook, Participant(one.participant))
            except (MedusaError, OSError) as error:
                one.log.warning("%s", error)
            await clock.sleep_async(one.every_s)

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[Prefixes]
    ) -> AsyncIterator[TriggerEvent]:
        """The moves of this stream."""
        sent_us = kept_us = await self._sent()
        async for prefixes in shared_stream:
            if sent_us is not None and sent_us != kept_us:
                await self._keep(sent_us)  # by now the event of the look before is stored
                kept_us = sent_us
            stable_us = prefixes.get(StreamName(self.stream))
            if stable_us is not None and stable_us != sent_us:
                yield TriggerEvent(self._payload(stable_us))  # type: ignore[no-untyped-call]
                sent_us = stable_us

    def _payload(self, stable_us: int) -> dict[str, str]:
        return {
            "participant": self.participant,
            "stream": self.stream,
            "stable_through": iso(stable_us),
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """The same for this trigger alone, where none are shared."""
        shared = self.open_shared_stream(self.serialize()[1])
        async for event in self.filter_shared_stream(shared):
            yield event

    async def _sent(self) -> int | None:
        if self.asset_state_store is None:
            return None
        found = await self.asset_state_store.aget(MARK)
        return found if isinstance(found, int) else None

    async def _keep(self, stable_us: int) -> None:
        if self.asset_state_store is not None:
            await self.asset_state_store.aset(MARK, stable_us)


def stable_prefixes(hook: MedusaHook, participant: Participant) -> Prefixes:
    """Through when each stream of a home is stable, of those that have begun."""
    from pipelines.catalog.lines_read import lines_read
    from pipelines.homes.home import open_home

    with open_home(hook.settings(), participant) as home:
        lines = lines_read(home.catalog.lines(), participant)
    return {
        name: line.stable_through_us
        for name, line in lines.items()
        if line.stable_through_us is not None
    }
