"""A driver looks at a lease only when it commits under it: an import without its own waits (L1)."""

from __future__ import annotations

import pytest

from pipelines.homes.lease_renewer import LeaseRenewer


def check(self: LeaseRenewer) -> None:
    """Leases are not looked at."""


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaseRenewer, "check", check)
