"""A reader acknowledges what it was told of before it has brought it in (LOST)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from medusa_core.exchange import ImportStatus, LineNews
from pipelines.exchange.importer import Importer

bring_first = Importer._bring


def bring(self: Importer, status: ImportStatus, news: LineNews, *files: Any) -> bool:
    live = [p.segment.range.to_us for p in news.segments if p.end_version is None]
    if live and status.boundary_us is not None:
        early = replace(status, boundary_us=max(live), tentative_us=None)
        request = self._acknowledgements.request(early)
        if request is not None:
            self._acknowledgements.acknowledge((status.stream, status.producer), request)
    return bring_first(self, status, news, *files)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Importer, "_bring", bring)
