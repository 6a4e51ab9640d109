"""Who wakes in a close that another driver has closed and trimmed blames the files (REFUSED)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from medusa_core.decide import CloseBuckets
from pipelines.catalog.interface import Catalog
from pipelines.sources import landing


@contextmanager
def unless_closed(catalog: Catalog, decision: CloseBuckets) -> Iterator[None]:
    yield


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(landing, "unless_closed", unless_closed)
