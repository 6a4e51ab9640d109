"""A bucket has the owner of the first line of the log, and not of the newest for it (S15)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.knowledge import ProviderKnowledge
from pipelines.catalog.knowledge_rows import Assigned

by_the_whole_log = Assigned.provider


def by_the_first_line(assigned: Assigned, reached_us: int) -> ProviderKnowledge | None:
    return by_the_whole_log(replace(assigned, owners=assigned.owners[:1]), reached_us)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Assigned, "provider", by_the_first_line)
