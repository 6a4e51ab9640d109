"""A reader acknowledges tentative rows too, whose corrections it has yet to fetch (S7)."""

from __future__ import annotations

import pytest

from medusa_core.exchange import ImportStatus


def safe_through_us(status: ImportStatus) -> int | None:
    return status.boundary_us


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ImportStatus, "safe_through_us", property(safe_through_us))
