"""A partner's home as the exchange sees it: its reader's login, which may call some functions."""

from __future__ import annotations

from collections.abc import Sequence

from medusa_core.errors import Refused
from medusa_core.exchange import LineNews
from medusa_core.market.envelopes import Envelope
from medusa_core.names import Participant, StreamName, Version
from medusa_core.segments import Producer
from pipelines.catalog.postgres.database_errors import errors_of_catalog
from pipelines.catalog.postgres.envelope_rows import answers_of, envelopes_document
from pipelines.catalog.postgres.news import news_of
from pipelines.catalog.postgres.postgres_catalog import catalog_engine
from pipelines.catalog.postgres.queries import query

PATIENCE = {
    "connect_timeout": 3,
    "options": "-c jit=off -c statement_timeout=5000 -c lock_timeout=2000",
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "tcp_user_timeout": 8_000,
}
"""A partner that is frozen or cut off must not hold us up: it is asked again at the next tick."""


class PublishedHome:
    """What a home publishes; connections are made when they are needed.

    Raises Unavailable while the home cannot be reached.
    """

    def __init__(self, reader_url: str) -> None:
        self._engine = catalog_engine(reader_url, pool_size=1, connect_args=PATIENCE)

    def line_news(self, stream: StreamName, producer: Producer, after: Version, *,
                  segments_max: int) -> LineNews:  # fmt: skip
        """See `Catalog.line_news`."""
        values = {
            "stream": stream,
            "participant": producer.participant,
            "replica": producer.replica,
            "after": after,
            "segments_max": segments_max,
        }
        with errors_of_catalog(), self._engine.connect() as connection:
            document = connection.execute(query("line_news"), values).scalar_one()
        try:
            return news_of(document, stream, producer, after)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Refused(
                f"the home of {producer.participant} tells news of {stream} in a form that is not "
                f"Medusa's ({type(error).__name__}): call its operator"
            ) from error

    def acknowledge(self, stream: StreamName, reader: Participant, through_us: int,
                    limit_ms: int, path_ms: int = 0) -> None:  # fmt: skip
        """See `Catalog.acknowledge`."""
        values = {
            "stream": stream,
            "reader": reader,
            "through_us": through_us,
            "limit_ms": limit_ms,
            "path_ms": path_ms,
        }
        with errors_of_catalog(), self._engine.connect() as connection:
            connection.execute(query("acknowledge"), values)

    def deliver(self, partner: Participant, envelopes: Sequence[Envelope]) -> tuple[str, ...]:
        """See `Post.deliver`; `partner` is whose home this is."""
        document = envelopes_document(envelopes)
        with errors_of_catalog(), self._engine.connect() as connection:
            answers = connection.execute(query("take_envelopes"), {"envelopes": document})
            return answers_of(answers.scalar_one(), len(envelopes), partner)

    def close(self) -> None:
        """Give connections back."""
        self._engine.dispose()
