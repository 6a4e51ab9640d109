"""A lease counts as held until somebody else takes it, expired or not (S8)."""

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
    commit.check_epoch(work, lease.key, lease.epoch)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit, "check_lease", check_lease)
