"""Samples of load, as Postgres takes and answers them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sqlalchemy import RowMapping

from medusa_core.commits import Cause
from medusa_core.loads import WINDOW_MS, ActivityKind, LoadKey, LoadSample, RecordedSample, Shares
from pipelines.catalog.postgres.home_database import HomeDatabase
from pipelines.catalog.reading_roles import LoadLog

if TYPE_CHECKING:
    from medusa_core.market.declared import DeclaredCost

BY_FRAGMENT = "work"


def sample_document(sample: LoadSample) -> str:
    """What `medusa_market.record_load` takes; what is nothing is no part."""
    shares = sample.shares
    parts: list[dict[str, Any]] = [
        {
            "kind": BY_FRAGMENT,
            "fragment": key.fragment,
            "partition": key.partition,
            "cause": key.cause.value,
            "cpu_us": spent_us,
        }
        for key, spent_us in shares.by_key.items()
        if spent_us
    ]
    parts += [{"kind": k.value, "cpu_us": spent} for k, spent in shares.kinds.items() if spent]
    document = {
        "driver": sample.driver,
        "number": sample.number,
        "lane": sample.lane.value,
        "length_ms": sample.length_ms,
        "ended_ago_ms": sample.ended_ago_ms,
        "total_us": shares.total_us,
        "parts": parts,
    }
    return json.dumps(document)


def recorded_of(rows: Iterable[RowMapping]) -> tuple[RecordedSample, ...]:
    """The samples whose parts are given, in order; one without parts spent nothing."""
    periods: dict[int, tuple[int, int]] = {}
    by_key: dict[int, dict[LoadKey, int]] = {}
    kinds: dict[int, dict[ActivityKind, int]] = {}
    for row in rows:
        of = row["sample_id"]
        periods[of] = (row["from_ms"], row["to_ms"])
        if row["kind"] == BY_FRAGMENT:
            key = LoadKey(row["fragment"], row["partition"], Cause(row["cause"]))
            by_key.setdefault(of, {})[key] = row["cpu_us"]
        elif row["kind"] is not None:
            kinds.setdefault(of, {})[ActivityKind(row["kind"])] = row["cpu_us"]
    return tuple(
        RecordedSample(
            from_ms=from_ms,
            to_ms=to_ms,
            shares=Shares(by_key=by_key.get(of, {}), kinds=kinds.get(of, {})),
        )
        for of, (from_ms, to_ms) in periods.items()
    )


class PostgresLoadLog(HomeDatabase, LoadLog):
    """Metered load."""

    def record_load(self, sample: LoadSample) -> bool:
        """See `LoadLog.record_load`."""
        made: bool = self._value("record_load", committing=True, request=sample_document(sample))
        return made

    def loads_since(self, window_ms: int = WINDOW_MS) -> tuple[RecordedSample, ...]:
        """See `LoadLog.loads_since`."""
        return recorded_of(self._rows("loads_since", window_ms=window_ms))

    def declared_cost(self) -> DeclaredCost | None:
        """See `LoadLog.declared_cost`."""
        from pipelines.catalog.postgres.declared_costs import declared_of

        found = self._rows("declared_cost")
        return declared_of(found[0]) if found else None
