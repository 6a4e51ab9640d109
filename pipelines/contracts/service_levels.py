"""The service levels of an Open Data Contract: the promises of a stream, each with its unit."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from medusa_core.market.terms import Content, Terms
from medusa_core.suggest import counted
from pipelines.contracts.stream_bounds import Promise


def promised_levels(
    *, width_us: int, promise: Promise, retention_ms: int | None, verified: int
) -> list[Mapping[str, Any]]:
    """What the contracts promise of a stream: width, bound, lag, retention, agreement."""
    promises = [
        _length("frequency", width_us, "The width of a bucket, the unit in which rows close.")
    ]
    if promise.bound is not None:
        bound = promise.bound
        promises.append(
            _length(
                "latency",
                bound.bound_ms * 1_000,
                "The availability bound: within what time an answer comes, tentative if an input "
                "is missing.",
            )
        )
    promises.append(
        _length("lag", promise.lag_ms * 1_000, "How far behind event time the inputs are due.")
    )
    if retention_ms is not None:
        promises.append(
            _length("retention", retention_ms * 1_000, "For how long buckets are kept, at least.")
        )
    promises.append(
        {
            "property": "verify",
            "value": verified,
            "unit": "producers",
            "description": "How many producers have the same rows before these are final.",
        }
    )
    return promises


def sold_levels(terms: Terms) -> list[Mapping[str, Any]]:
    """What else a content contract guarantees its buyer."""
    content = terms.subject
    assert isinstance(content, Content), "only what sells a stream has a price"
    available = content.availability
    promises: list[Mapping[str, Any]] = [
        {
            "property": "availability",
            "value": available.recovery.value,
            "description": "What a failure may do to the results: "
            f"{available.recovery.value} recovery by {available.method.value}; it is computed by "
            f"{counted(available.replicas, 'replica')} at all times.",
        }
    ]
    if available.bound_ms is not None:
        promises.append(
            _length(
                "guaranteedLatency",
                available.bound_ms * 1_000,
                "The bound that the buyer is promised.",
            )
        )
    promises.append(
        _length("notice", terms.notice_ms * 1_000, "How long ahead either party ends the contract.")
    )
    return promises


def _length(name: str, length_us: int, says: str) -> Mapping[str, Any]:
    whole, rest = divmod(length_us, 1_000_000)
    seconds = Decimal(length_us) / 1_000_000 if rest else whole
    return {"property": name, "value": seconds, "unit": "s", "description": says}
