"""Leases in Postgres."""

from __future__ import annotations

from collections.abc import Sequence

from medusa_core.commits import Lease, LeaseKey
from medusa_core.errors import MedusaError
from medusa_core.names import Epoch
from pipelines.catalog.postgres import many, rows
from pipelines.catalog.postgres.home_database import HomeDatabase
from pipelines.catalog.processing_roles import Leases
from pipelines.catalog.records import LeaseRecord


class PostgresLeases(HomeDatabase, Leases):
    """Leases of fragments and sources."""

    def acquire_lease(self, key: LeaseKey, epoch: Epoch, holder: str, ttl_ms: int) -> Lease:
        """See `Leases.acquire_lease`."""
        ends_ms = self._value(
            "acquire_lease", **rows.key_fields(key), epoch=epoch, holder=holder, ttl_ms=ttl_ms
        )
        return Lease(key=key, epoch=epoch, holder=holder, expires_at_ms=ends_ms)

    def renew_lease(self, lease: Lease, ttl_ms: int) -> Lease:
        """See `Leases.renew_lease`."""
        ends_ms = self._value("renew_lease", **many.lease_fields(lease), ttl_ms=ttl_ms)
        return Lease(key=lease.key, epoch=lease.epoch, holder=lease.holder, expires_at_ms=ends_ms)

    def release_lease(self, lease: Lease) -> None:
        """See `Leases.release_lease`."""
        self._value("release_lease", **many.lease_fields(lease))

    def acquire_leases(
        self, requests: Sequence[tuple[LeaseKey, Epoch]], holder: str, ttl_ms: int
    ) -> tuple[Lease, ...]:
        """See `Leases.acquire_leases`."""
        document = many.lease_requests_document(requests)
        ends_ms = self._value("acquire_leases", requests=document, holder=holder, ttl_ms=ttl_ms)
        return tuple(
            Lease(key=key, epoch=epoch, holder=holder, expires_at_ms=end_ms)
            for (key, epoch), end_ms in zip(requests, ends_ms, strict=True)
        )

    def renew_leases(self, leases: Sequence[Lease], ttl_ms: int) -> tuple[Lease | MedusaError, ...]:
        """See `Leases.renew_leases`."""
        answers = self._value("renew_leases", requests=many.leases_document(leases), ttl_ms=ttl_ms)
        return tuple(map(many.renewed_of, leases, answers))

    def release_leases(self, leases: Sequence[Lease]) -> None:
        """See `Leases.release_leases`."""
        self._value("release_leases", requests=many.leases_document(leases))

    def leases(self) -> tuple[LeaseRecord, ...]:
        """See `Leases.leases`."""
        return tuple(rows.lease_of(row) for row in self._rows("leases"))
