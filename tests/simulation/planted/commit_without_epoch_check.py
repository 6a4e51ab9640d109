"""A lease is looked at, but not whether its fragment has been assigned anew meanwhile (S8)."""

from __future__ import annotations

import pytest

from medusa_core.commits import Lease
from medusa_core.errors import Conflict
from pipelines.catalog.memory import commit, tables
from pipelines.catalog.memory.store import Transaction


def check_lease(work: Transaction, lease: Lease) -> None:
    held = work.lock_row(tables.LEASES, lease.key)
    if held is None or (held.holder, held.epoch) != (lease.holder, lease.epoch):
        raise Conflict(f"the lease of {lease.key} is not held by {lease.holder}: acquire it")
    if held.expires_at_ms <= work.store.clock.now_ms:
        raise Conflict(f"the lease of {lease.key} expired: acquire it again and decide again")


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit, "check_lease", check_lease)
