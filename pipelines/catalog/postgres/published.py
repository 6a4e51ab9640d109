"""A partner's home as the exchange sees it: its reader's login, which may call some functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from medusa_core.exchange import LineNews
from medusa_core.names import Participant, StreamName, Version
from medusa_core.protocol.news_documents import checked_news
from medusa_core.segments import Producer
from pipelines.base.foreign_documents import foreign_form, of_declared_types
from pipelines.catalog.postgres.database_errors import errors_of_partner
from pipelines.catalog.postgres.home_database import catalog_engine
from pipelines.catalog.postgres.news import news_of
from pipelines.catalog.postgres.queries import query

if TYPE_CHECKING:
    from medusa_core.market.envelopes import Envelope

TIMEOUTS = {
    "connect_timeout": 3,
    "options": "-c jit=off -c statement_timeout=5000 -c lock_timeout=2000",
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "tcp_user_timeout": 8_000,
}
"""A partner that is frozen or cut off must not hold us up: the next tick tries again."""


class PublishedHome:
    """What the home of a partner publishes; connections are made when they are needed.

    Raises Unavailable while the home cannot be reached or its functions fail, Refused for what they
    refuse, and for answers of a form that is not Medusa's.
    """

    def __init__(self, partner: Participant, reader_url: str) -> None:
        self._partner = partner
        self._engine = catalog_engine(reader_url, pool_size=1, connect_args=TIMEOUTS)

    def line_news(self, stream: StreamName, producer: Producer, after: Version, *,
                  segments_max: int) -> LineNews:  # fmt: skip
        """See `Readers.line_news`."""
        values = {
            "stream": stream,
            "participant": producer.participant,
            "replica": producer.replica,
            "after": after,
            "segments_max": segments_max,
        }
        document = self._answer("line_news", values)
        with foreign_form(
            f"the home of {self._partner} tells news of {stream}", "call its operator"
        ):
            return checked_news(of_declared_types(news_of(document, stream, producer, after)))

    def acknowledge(self, stream: StreamName, reader: Participant, through_us: int,
                    limit_ms: int, path_ms: int = 0) -> None:  # fmt: skip
        """See `Readers.acknowledge`."""
        values = {
            "stream": stream,
            "reader": reader,
            "through_us": through_us,
            "limit_ms": limit_ms,
            "path_ms": path_ms,
        }
        self._answer("acknowledge", values)

    def deliver(self, envelopes: Sequence[Envelope]) -> tuple[str, ...]:
        """See `Post.deliver`."""
        from pipelines.catalog.postgres.envelope_rows import answers_of, envelopes_document

        answers = self._answer("take_envelopes", {"envelopes": envelopes_document(envelopes)})
        return answers_of(answers, len(envelopes), self._partner)

    def close(self) -> None:
        """Give connections back."""
        self._engine.dispose()

    def _answer(self, name: str, values: Mapping[str, object]) -> Any:
        """The first value that a query answers with; None if there is none."""
        with errors_of_partner(self._partner), self._engine.connect() as connection:
            return connection.execute(query(name), values).scalar()
