"""A batch that comes again lands again, under another key (purity begins at the landed record)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.commits import LandedBatch, Lease
from pipelines.catalog.memory.memory_catalog import MemoryCatalog

land_once = MemoryCatalog.land


def land(self: MemoryCatalog, lease: Lease, batch: LandedBatch) -> bool:
    if batch.batch_id in self.landed_batches(batch.stream, batch.query_id):
        batch = replace(batch, query_id=f"{batch.query_id} again")
    return land_once(self, lease, batch)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryCatalog, "land", land)
