"""Which partners may read which streams of a home, as its owner decides it."""

from __future__ import annotations

from collections.abc import Collection

from medusa_core.names import Participant, StreamName
from pipelines.catalog.postgres.statements import NamedStatements, engine_with_timeouts


class StreamGrants(NamedStatements):
    """The grants of the home at `url`, which logs in as its owner; one connection."""

    def __init__(self, url: str) -> None:
        super().__init__(engine_with_timeouts(url))

    def declare(self, stream: StreamName, reason: str, partners: Collection[Participant]) -> None:
        """Let just these partners read a stream for this reason; Refused if there is no stream."""
        self._value("declare_readers", stream=stream, reason=reason, partners=sorted(partners))
