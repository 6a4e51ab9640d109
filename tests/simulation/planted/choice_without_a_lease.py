"""A choice is committed by whoever made it, with a lease or without (S8)."""

from __future__ import annotations

import pytest

from medusa_core.commits import Lease
from pipelines.catalog.memory import choices, commit
from pipelines.catalog.memory.store import Transaction

lease_checked = commit.check_lease


def check_lease(work: Transaction, lease: Lease) -> None:
    if not lease.key.producer.is_import:
        lease_checked(work, lease)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(choices, "check_lease", check_lease)
    patch.setattr(commit, "check_lease", check_lease)
