"""A catalog that measures how long its calls take."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pipelines.catalog.interface import Catalog


class TimedCatalog:
    """Passes every call on; `spent_ms` sums the milliseconds by the call's name."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.spent_ms: dict[str, float] = {}

    def __getattr__(self, name: str) -> Any:
        there = getattr(self._catalog, name)
        return self._timed(name, there) if callable(there) else there

    def _timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **keywords: Any) -> Any:
            start = time.perf_counter()
            try:
                return call(*args, **keywords)
            finally:
                ms = (time.perf_counter() - start) * 1000
                self.spent_ms[name] = self.spent_ms.get(name, 0.0) + ms

        return timed
