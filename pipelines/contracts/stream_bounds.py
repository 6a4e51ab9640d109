"""The bounds of every stream of a network, from its outputs' contracts.

A bound is declared of an output; every stream on a path to it is held to the strictest bound
behind it, so that each fragment knows how long it may wait. A source's lag is declared, or its
disorder; a computed stream is due as late as the latest of its inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from medusa_core.bounds import Bound, Policy, check_path, strictest
from medusa_core.errors import Refused
from medusa_core.fragments import Fragment
from medusa_core.names import Participant, StreamName
from medusa_core.paths import IMPORT_MS
from medusa_core.step_costs import Cost
from pipelines.contracts.fields import duration_us_of, text_of
from pipelines.contracts.yaml_values import Value

BOUND_FIELDS = ("bound", "during_failure", "during_stabilization", "failure_max", "lag")
UNKNOWN_COST = Cost(step_ms=200)
"""What a step of a fragment is taken to cost that has never run."""


@dataclass(frozen=True, slots=True)
class Promise:
    """What a stream's home receives: the bound it must keep, and its lag."""

    bound: Bound | None
    lag_ms: int

    def __str__(self) -> str:
        if self.bound is None:
            return f"no bound, lag {self.lag_ms} ms"
        policies = f"{self.bound.during_failure.value} & {self.bound.during_stabilization.value}"
        return f"within {self.bound.bound_ms} ms, {policies}, lag {self.lag_ms} ms"


NOTHING = Promise(None, 0)


def bound_of_fields(fields: Mapping[str, Value]) -> Bound | None:
    """The bound that a stream's contract declares; Refused, naming the field, if it is none."""
    if "bound" not in fields:
        for name in BOUND_FIELDS[1:4]:
            if name in fields:
                raise fields[name].refused("says how a bound is kept: declare bound, such as 10s")
        return None
    bound_ms = milliseconds_of(fields["bound"])
    failure_ms_max = milliseconds_of(fields["failure_max"]) if "failure_max" in fields else None
    during_failure = _policy_of(fields.get("during_failure"))
    during_stabilization = _policy_of(fields.get("during_stabilization"))
    try:
        return Bound(
            bound_ms=bound_ms,
            failure_ms_max=failure_ms_max,
            during_failure=during_failure,
            during_stabilization=during_stabilization,
        )
    except Refused as error:
        raise fields["bound"].refused(f"cannot be promised: {error}") from None


def milliseconds_of(value: Value) -> int:
    """A duration in whole milliseconds."""
    duration_us = duration_us_of(value)
    if duration_us % 1_000:
        raise value.refused("is no whole number of milliseconds: write one, such as 10s")
    return duration_us // 1_000


def _policy_of(value: Value | None) -> Policy:
    if value is None:
        return Policy.PROCESS
    written = text_of(value)
    try:
        return Policy(written)
    except ValueError:
        raise value.refused(
            f"is {written!r}: write {', '.join(policy.value for policy in Policy)}"
        ) from None


def promises_of(
    lags_ms: Mapping[StreamName, int],
    fragments: Iterable[Fragment],
    declared: Mapping[StreamName, Bound],
) -> dict[StreamName, Promise]:
    """Stream -> the bounds that its homes receive, of every stream of several networks.

    `lags_ms` are the lags of all streams that no fragment writes. `fragments` are those of all
    networks, each after those that it reads; `declared` are the bounds of contracts.
    """
    ordered = tuple(fragments)
    lags = dict(lags_ms)
    for fragment in ordered:
        lag_ms = max(lags[name] for name in fragment.input_streams)
        lags.update(dict.fromkeys(fragment.outputs, lag_ms))
    bounds: dict[StreamName, Bound | None] = {name: declared.get(name) for name in lags}
    for fragment in reversed(ordered):
        behind = strictest(bounds[name] for name in fragment.outputs)
        for name in fragment.input_streams:
            bounds[name] = strictest((bounds[name], behind))
    return {name: Promise(bounds[name], lags[name]) for name in lags}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedFragment:
    """A fragment, who computes it, the width of its buckets and what is promised of its streams."""

    fragment: Fragment
    owners: tuple[Participant, ...]
    width_us: int
    promises: Mapping[StreamName, Promise]


def check_paths(placed: Iterable[PlacedFragment], costs: Mapping[str, Cost]) -> None:
    """Refuse a bound below the width of its buckets or below twice what its path costs.

    Each fragment comes after those that it reads. `costs` are those that homes have measured, by
    fragment. Of several who compute one the way may lead over any.
    """
    writer: dict[StreamName, tuple[Participant, ...]] = {}
    reached: dict[StreamName, int] = {}
    for its in placed:
        fragment, by = its.fragment, its.owners
        longest_ms = max(
            reached.get(name, 0)
            + (IMPORT_MS if name in writer and len({*writer[name], *by}) > 1 else 0)
            for name in fragment.input_streams
        )
        path_ms = longest_ms + costs.get(fragment.id, UNKNOWN_COST).path_ms
        for name in fragment.outputs:
            reached[name], writer[name] = path_ms, by
            bound = its.promises[name].bound
            if bound is not None:
                check_path(name, bound, path_ms, its.width_us / 1_000)
