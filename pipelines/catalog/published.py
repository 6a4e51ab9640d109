"""A partner's home as the exchange sees it: logged in as its reader, who may call two functions."""

from __future__ import annotations

from medusa_core.exchange import LineNews
from medusa_core.names import Participant, StreamName, Version
from medusa_core.segments import Producer
from pipelines.catalog.postgres import catalog_engine
from pipelines.catalog.postgres_errors import errors_of_catalog
from pipelines.catalog.postgres_news import news_of
from pipelines.catalog.queries import query


class PublishedHome:
    """What a home publishes; connections are made when they are needed.

    Raises Unavailable while the home cannot be reached.
    """

    def __init__(self, reader_url: str) -> None:
        self._engine = catalog_engine(reader_url, pool_size=1)

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
        return news_of(document, stream, producer, after)

    def acknowledge(
        self, stream: StreamName, reader: Participant, through_us: int, limit_ms: int
    ) -> None:
        """See `Catalog.acknowledge`."""
        values = {
            "stream": stream,
            "reader": reader,
            "through_us": through_us,
            "limit_ms": limit_ms,
        }
        with errors_of_catalog(), self._engine.connect() as connection:
            connection.execute(query("acknowledge"), values)

    def close(self) -> None:
        """Give connections back."""
        self._engine.dispose()
