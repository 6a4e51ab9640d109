"""A home as Delta Sharing sees it: the login `exchange`, for the holder of a recipient's token.

Each call names the token, and the catalog decides what its holder may see. A stream that is not
shared and one that does not exist have the same answer: nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from medusa_core.names import StreamName, Version
from medusa_core.segments import Producer
from pipelines.catalog.postgres.home_database import HomeDatabase
from pipelines.catalog.postgres.rows import segment_of
from pipelines.catalog.sharing_records import (
    RecipientUsage,
    SharedSegment,
    SharedStream,
    SharedVersion,
    TokenHolder,
)


class SharedHome(HomeDatabase):
    """What a home shares with recipients.

    Raises Unavailable while the home cannot be reached.
    """

    def recipient_of(self, token_hash: bytes) -> TokenHolder | None:
        """The recipient of a token; None if it is over, revoked or unknown."""
        found = self._value("recipient_of", token_hash=token_hash)
        return None if found is None else TokenHolder(found["token_id"], found["recipient"])

    def is_shared(self, token_id: int, stream: StreamName) -> bool:
        """Whether the holder of a token may read a stream now."""
        return bool(self._value("is_shared", token_id=token_id, stream=stream))

    def shared_names(self, token_id: int) -> tuple[StreamName, ...]:
        """The streams that the holder of a token may read, in order."""
        return tuple(map(StreamName, self._value("shared_names", token_id=token_id)))

    def shared_stream(self, token_id: int, stream: StreamName) -> SharedStream | None:
        """A stream at its newest version; None: there is none for the holder of this token."""
        found = self._value("shared_table", token_id=token_id, stream=stream)
        if found is None:
            return None
        columns, key = dict(found["columns"]), tuple(found["key"])
        return SharedStream(name=stream, **{**found, "columns": columns, "key": key})

    def shared_segments(
        self, token_id: int, stream: StreamName, as_of: Version, from_us: int
    ) -> tuple[SharedSegment, ...]:
        """The segments that were live at a version and end after an event time, in its order."""
        found = self._value(
            "shared_segments", token_id=token_id, stream=stream, as_of=as_of, from_us=from_us
        )
        return self._segments(stream, found)

    def shared_changes(
        self, token_id: int, stream: StreamName, after: Version, until: Version
    ) -> tuple[SharedSegment, ...]:
        """The segments that became live or were superseded after one version, until another."""
        found = self._value(
            "shared_changes", token_id=token_id, stream=stream, after=after, until=until
        )
        return self._segments(stream, found)

    def shared_versions(
        self, token_id: int, stream: StreamName, after: Version, until: Version, versions_max: int
    ) -> tuple[SharedVersion, ...]:
        """The last version that is not after one, if there is one, and those that follow it."""
        found = self._value(
            "shared_versions", token_id=token_id, stream=stream, after=after, until=until,
            versions_max=versions_max,
        )  # fmt: skip
        return tuple(SharedVersion(**one) for one in found)

    def shared_version_at(
        self, token_id: int, stream: StreamName, at_ms: int, *, is_after: bool
    ) -> Version | None:
        """The version at a time of the home's clock, or the first from then on; None: none."""
        found = self._value(
            "shared_version_at", token_id=token_id, stream=stream, at_ms=at_ms, is_after=is_after
        )
        return None if found is None else Version(found)

    def note_recipient_usage(self, used: Sequence[RecipientUsage]) -> None:
        """Add what recipients used since the last call."""
        document = json.dumps([asdict(one) for one in used])
        self._rows("note_recipient_usage", committing=True, used=document)

    def _segments(
        self, stream: StreamName, found: Sequence[Mapping[str, Any]]
    ) -> tuple[SharedSegment, ...]:
        producer = Producer(self.participant)
        return tuple(
            SharedSegment(
                segment=segment_of(one, stream, producer),
                begin_version=one["begin_version"],
                end_version=one["end_version"],
            )
            for one in found
        )
