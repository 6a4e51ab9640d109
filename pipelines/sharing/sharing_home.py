"""What the calls of Delta Sharing need of a home, for the holder of a recipient's token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from medusa_core.names import Participant, StreamName, Version
from pipelines.catalog.sharing_records import (
    RecipientUsage,
    SharedSegment,
    SharedStream,
    SharedVersion,
    TokenHolder,
)


class VersionedStreams(Protocol):
    """Shared streams with the versions that they had, for the holder of a token."""

    def read_clock_ms(self) -> int:
        """The home's clock."""

    def shared_segments(self, token_id: int, stream: StreamName, as_of: Version,
                        from_us: int) -> Sequence[SharedSegment]:  # fmt: skip
        """The segments that were live at a version and end after an event time, in its order."""

    def shared_changes(self, token_id: int, stream: StreamName, after: Version,
                       until: Version) -> Sequence[SharedSegment]:  # fmt: skip
        """The segments that became live or were superseded after one version, until another."""

    def shared_versions(self, token_id: int, stream: StreamName, after: Version, until: Version,
                        versions_max: int) -> Sequence[SharedVersion]:  # fmt: skip
        """The last version that is not after one, if there is one, and those that follow it."""

    def shared_version_at(self, token_id: int, stream: StreamName, at_ms: int, *,
                          is_after: bool) -> Version | None:  # fmt: skip
        """The version at a time of the home's clock, or the first from then on; None: none."""


class SharingHome(VersionedStreams, Protocol):
    """What the calls need of a home."""

    @property
    def participant(self) -> Participant:
        """Whose home this is."""

    def recipient_of(self, token_hash: bytes) -> TokenHolder | None:
        """The recipient of a token; None if it is over, revoked or unknown."""

    def is_shared(self, token_id: int, stream: StreamName) -> bool:
        """Whether the holder of a token may read a stream now."""

    def shared_names(self, token_id: int) -> Sequence[StreamName]:
        """The streams that the holder of a token may read, in order."""

    def shared_stream(self, token_id: int, stream: StreamName) -> SharedStream | None:
        """A stream at its newest version; None: there is none for the holder."""

    def note_recipient_usage(self, used: Sequence[RecipientUsage]) -> None:
        """Add what recipients used since the last call."""
