"""Leases in memory: taken, renewed and given back (S8)."""

from __future__ import annotations

from dataclasses import replace

from medusa_core.commits import Lease, LeaseKey
from medusa_core.errors import Conflict, Refused
from medusa_core.names import Epoch
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.commit import check_epoch, check_lease
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.tables import LeaseRow


def acquire(
    transaction: Transaction, key: LeaseKey, epoch: Epoch, holder: str, ttl_ms: int
) -> Lease:
    """See `Leases.acquire_lease`."""
    if transaction.get(tables.FRAGMENTS, key.fragment) is None:
        raise Refused(f"fragment {key.fragment} is not deployed here: deploy it first")
    transaction.lock_name(tables.LEASES, key)
    check_epoch(transaction, key, epoch)
    held, now_ms = transaction.get(tables.LEASES, key), transaction.store.clock.now_ms
    if held and held.holder != holder and held.expires_at_ms > now_ms:
        raise Conflict(f"the lease of {key} is held by {held.holder}: wait for its end")
    row = LeaseRow(epoch, holder, now_ms + ttl_ms)
    transaction.put(tables.LEASES, key, row)
    return Lease(key=key, epoch=epoch, holder=holder, expires_at_ms=row.expires_at_ms)


def renew(transaction: Transaction, lease: Lease, ttl_ms: int) -> Lease:
    """See `Leases.renew_lease`."""
    check_lease(transaction, lease)
    row = LeaseRow(lease.epoch, lease.holder, transaction.store.clock.now_ms + ttl_ms)
    transaction.put(tables.LEASES, lease.key, row)
    return replace(lease, expires_at_ms=row.expires_at_ms)


def release(transaction: Transaction, lease: Lease) -> None:
    """See `Leases.release_lease`."""
    held = transaction.lock_row(tables.LEASES, lease.key)
    if held and (held.holder, held.epoch) == (lease.holder, lease.epoch):
        ends_ms = min(held.expires_at_ms, transaction.store.clock.now_ms)
        transaction.put(tables.LEASES, lease.key, replace(held, expires_at_ms=ends_ms))
