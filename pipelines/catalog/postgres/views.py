"""Views of streams in Postgres."""

from __future__ import annotations

from medusa_core.views import StreamView
from pipelines.catalog.postgres.home_database import HomeDatabase
from pipelines.catalog.reading_roles import Views


class PostgresViews(HomeDatabase, Views):
    """Named parts of streams, and their holds."""

    def make_view(self, view: StreamView, *, limit_ms: int, grows: bool) -> None:
        """See `Views.make_view`."""
        self._value(
            "make_view",
            view=view.name,
            stream=view.stream,
            records=view.records,
            duration_us=view.duration_us,
            from_us=view.from_us,
            to_us=view.to_us,
            limit_ms=limit_ms,
            grows=grows,
        )

    def open_view(self, name: str, reader: str, limit_ms: int) -> int:
        """See `Views.open_view`."""
        return int(self._value("open_view", view=name, reader=reader, limit_ms=limit_ms))

    def close_view(self, name: str, reader: str) -> None:
        """See `Views.close_view`."""
        self._value("close_view", view=name, reader=reader)

    def remove_view(self, name: str) -> bool:
        """See `Views.remove_view`."""
        return bool(self._value("remove_view", view=name))

    def views(self) -> tuple[StreamView, ...]:
        """See `Views.views`."""
        return tuple(StreamView(**row) for row in self._rows("views"))
