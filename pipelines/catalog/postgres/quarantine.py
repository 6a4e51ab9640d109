"""Quarantined records in Postgres."""

from __future__ import annotations

from collections.abc import Sequence

from medusa_core.commits import QuarantinedRecord
from medusa_core.names import StreamName
from pipelines.catalog.postgres import rows
from pipelines.catalog.postgres.home_database import HomeDatabase
from pipelines.catalog.reading_roles import Quarantine
from pipelines.catalog.records import QuarantineEntry, QuarantineReason


class PostgresQuarantine(HomeDatabase, Quarantine):
    """Records that were refused, with their reasons."""

    def quarantined(self, limit: int | None = None) -> tuple[QuarantinedRecord, ...]:
        """See `Quarantine.quarantined`."""
        return tuple(map(rows.quarantined_of, self._rows("quarantined", limit=limit)))

    def quarantine_entries(
        self, stream: StreamName | None = None, *, after: int = 0,
        numbers: Sequence[int] | None = None, limit: int | None = None,
    ) -> tuple[QuarantineEntry, ...]:  # fmt: skip
        """See `Quarantine.quarantine_entries`."""
        return tuple(
            rows.quarantine_entry_of(row)
            for row in self._rows(
                "quarantine_entries",
                stream=stream,
                after=after,
                numbers=None if numbers is None else list(numbers),
                limit=limit,
            )
        )

    def quarantine_count(self, stream: StreamName | None = None) -> int:
        """See `Quarantine.quarantine_count`."""
        return int(self._value("quarantine_count", stream=stream))

    def quarantine_reasons(self, limit: int | None = None) -> tuple[QuarantineReason, ...]:
        """See `Quarantine.quarantine_reasons`."""
        return tuple(QuarantineReason(**r) for r in self._rows("quarantine_reasons", limit=limit))
