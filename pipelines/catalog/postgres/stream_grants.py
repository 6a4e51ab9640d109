"""Which partners may read which streams of a home, as its owner decides it."""

from __future__ import annotations

from medusa_core.names import Participant, StreamName
from pipelines.catalog.postgres.statements import NamedStatements, engine_with_timeouts


class StreamGrants(NamedStatements):
    """The grants of the home at `url`, which logs in as its owner; one connection."""

    def __init__(self, url: str) -> None:
        super().__init__(engine_with_timeouts(url))

    def grant(self, stream: StreamName, partner: Participant) -> None:
        """Let a partner read a stream; Refused if there is no such stream."""
        self._value("grant_stream", stream=stream, partner=partner)
