"""Samples of load, as Postgres takes and answers them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import RowMapping

from medusa_core.commits import Cause
from medusa_core.loads import ActivityKind, LoadKey, LoadSample, RecordedSample, Shares

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
