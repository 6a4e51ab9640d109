"""A home as its own exchange server sees it: the login `exchange`, which calls a few functions.

Each call names the partner for which it is made, and the catalog decides what that partner may see.
What is not granted to it and what does not exist have the same answer: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from medusa_core.exchange import LineNews
from medusa_core.names import Participant, StreamName, Version
from medusa_core.protocol.call_documents import Acknowledgement, LineProgress, OfferedStream
from medusa_core.protocol.introductions import Introduction
from medusa_core.segments import Producer, SegmentFile
from pipelines.catalog.partner_records import LinkReport, LinkSide
from pipelines.catalog.postgres.home_database import HomeDatabase
from pipelines.catalog.postgres.introduction_values import introduction_values
from pipelines.catalog.postgres.link_rows import reports_document
from pipelines.catalog.postgres.news import news_of

if TYPE_CHECKING:
    from medusa_core.market.envelopes import Envelope


class ExchangeHome(HomeDatabase):
    """Access of partners to one home, and what the home publishes to each.

    Raises Unavailable while the home cannot be reached, and Refused for what its functions refuse.
    The sentences are read by partners, and by anybody who requests a token.
    """

    quotes_database: ClassVar[bool] = False

    def partner_keys(self, partner: Participant) -> tuple[bytes, ...]:
        """The keys that a partner's assertions are verified with, the newest first."""
        keys = map(bytes, self._value("partner_keys", partner=partner))
        return tuple(dict.fromkeys(keys))  # one may have come back

    def note_introduction(self, known_key: bytes, introduction: Introduction) -> None:
        """Store what a partner has signed with a known key: its present key, and its address."""
        self._value(
            "note_introduction",
            committing=True,
            known_key=known_key,
            **introduction_values(introduction),
        )

    def join_partner(self, secret_hash: bytes, introduction: Introduction) -> None:
        """Let an invited participant join; Refused if the invitation is not for it, or over."""
        self._value(
            "join_partner",
            committing=True,
            secret_hash=secret_hash,
            **introduction_values(introduction),
        )

    def issue_token(self, partner: Participant, public_key: bytes, nonce: str, *, keep_ms: int,
                    token_hash: bytes, lifetime_ms: int) -> bool:  # fmt: skip
        """Store the hash of a token; the nonce counts once. False: too many were requested."""
        return bool(
            self._value(
                "issue_token",
                committing=True,
                partner=partner,
                public_key=public_key,
                nonce=nonce,
                keep_ms=keep_ms,
                token_hash=token_hash,
                lifetime_ms=lifetime_ms,
            )
        )

    def token_holder(self, token_hash: bytes) -> Participant | None:
        """The partner that a token was issued to; None if it is over, revoked or unknown."""
        partner = self._value("token_holder", token_hash=token_hash)
        return None if partner is None else Participant(partner)

    def report_links(self, reports: Sequence[LinkReport]) -> None:
        """Add what the server has counted of the requests that it answers."""
        self._value(
            "report_links",
            committing=True,
            side=LinkSide.SERVER.value,
            reports=reports_document(reports),
        )

    def published_streams(self, partner: Participant) -> tuple[OfferedStream, ...]:
        """The streams that a partner may read and this home computes, in order of their names."""
        return tuple(
            OfferedStream(
                name=StreamName(one["name"]),
                kind=one["kind"],
                width_us=one["width_us"],
                columns=dict(one["columns"]),
                key=tuple(one["key"]),
                replicas=tuple(one["replicas"]),
                lineage=tuple((reads, writes) for reads, writes in one["lineage"]),
            )
            for one in self._value("published_streams", partner=partner)
        )

    def published_news(self, partner: Participant, stream: StreamName, replica: int,
                       after: Version, *, segments_max: int) -> LineNews | None:  # fmt: skip
        """What happened to a line of this home after a version; None: nothing for this partner."""
        document = self._value(
            "published_news",
            partner=partner,
            stream=stream,
            replica=replica,
            after=after,
            segments_max=segments_max,
        )
        if document is None:
            return None
        return news_of(document, stream, Producer(self.participant, replica), after)

    def published_progress(self, partner: Participant) -> tuple[LineProgress, ...]:
        """The lines of this home that a partner may read."""
        return tuple(
            LineProgress(stream=StreamName(one["stream"]), replica=one["replica"], mark=one["mark"])
            for one in self._value("published_progress", partner=partner)
        )

    def published_file(self, partner: Participant, sha256: str) -> SegmentFile | None:
        """The file with a hash, under this home's storage root; None: none for this partner."""
        found = self._value("published_file", partner=partner, sha256=sha256)
        return None if found is None else SegmentFile(**found)

    def published_files(
        self, partner: Participant, hashes: Sequence[str]
    ) -> tuple[SegmentFile, ...]:
        """The files with these hashes, in their order, that there are for this partner."""
        found = self._value("published_files", partner=partner, hashes=list(hashes))
        return tuple(SegmentFile(**one) for one in found or ())

    def acknowledge(self, partner: Participant, acknowledgement: Acknowledgement) -> bool:
        """Move the partner's hold; False: the stream is not there for this partner."""
        return bool(
            self._value(
                "acknowledge_as",
                partner=partner,
                stream=acknowledgement.stream,
                through_us=acknowledgement.through_us,
                limit_ms=acknowledgement.limit_ms,
                path_ms=acknowledgement.path_ms,
                replica=acknowledgement.replica,
                version=acknowledgement.version,
            )
        )

    def deliver(self, partner: Participant, envelopes: Sequence[Envelope]) -> tuple[str, ...]:
        """Put envelopes that the partner has sent itself into the inbox; an answer to each."""
        from pipelines.catalog.postgres.envelope_rows import answers_of, envelopes_document

        answers = self._value(
            "deliver_envelopes", partner=partner, envelopes=envelopes_document(envelopes)
        )
        return answers_of(answers, len(envelopes), self.participant)
