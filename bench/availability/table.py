"""The six experiments as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from bench.availability.measuring import Outcome
from bench.availability.pair import PROMISES, Shape
from bench.availability.published import (
    ARBITRARY,
    CLASS_NAMES,
    GUARANTEES,
    ORDER,
    OVERHEAD,
    RECOVERY,
)
from medusa_core.market.terms import Method, Recovery
from pipelines.base.text_table import table


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A run: the load of each method's fragments before the move and in both homes after it, bytes
    over the links per second, and what the loss did."""

    shape: Shape
    before: Mapping[Method, float]
    payer: Mapping[Method, float]
    provider: Mapping[Method, float]
    sent_bytes_s: float
    outcomes: tuple[Outcome, ...]

    def of(self, method: Method) -> list[Outcome]:
        """The outcomes of a method."""
        return [one for one in self.outcomes if one.method is method]


def guarantee(outcome: Outcome) -> str:
    """What the loss did, in the words of the paper."""
    if outcome.missing_rows or outcome.repeated_rows:
        return f"{outcome.missing_rows} missing, {outcome.repeated_rows} repeated"
    return f"gap of {outcome.lost_s:g} s" if outcome.lost_s else "precise"


def is_kept(outcome: Outcome) -> bool:
    """Whether nothing was lost or repeated against the promise."""
    may_lose = PROMISES[outcome.method] is Recovery.GAP
    is_exact = not outcome.missing_rows and not outcome.repeated_rows
    return is_exact and (may_lose or not outcome.lost_s)


def lines_of(run: Measured, refused: str) -> Iterator[str]:
    """All tables of a run."""
    yield f"buckets of {run.shape.width}, windows of {run.shape.window}"
    yield ""
    yield "H1 guarantees: published -> measured"
    rows = [
        (
            method.value,
            *(
                f"{GUARANTEES[method][one.class_]} -> {guarantee(one)}"
                for one in run.of(method)
            ),
            f"{ARBITRARY[method]} -> refused",
        )
        for method in Method
    ]  # fmt: skip
    yield table(("method", *CLASS_NAMES.values(), "arbitrary"), rows)
    yield f"arbitrary operators are refused when the network is checked: {refused}"
    yield ""
    yield "H2 overhead and recovery, H4 all providers lost at once"
    yield table(
        ("method", "load before", "payer", "provider", "overhead %", "published", "usual s",
         "pause s", "recovered s", "published order"),
        [_costs(run, method) for method in Method],
    )  # fmt: skip
    yield f"links: {run.sent_bytes_s / 1000:.1f} kB/s for all methods together: the same streams"
    yield ""
    yield from _remarks(run)


def _costs(run: Measured, method: Method) -> Sequence[object]:
    before, payer, provider = (of[method] for of in (run.before, run.payer, run.provider))
    overhead = 100 * ((payer + provider) / before - 1) if before else 0.0
    return (
        method.value, f"{before:.3f}", f"{payer:.3f}", f"{provider:.3f}", f"{overhead:.0f}",
        OVERHEAD[method], f"{median(one.usual_s for one in run.of(method)):.2f}",
        f"{max(one.pause_s for one in run.of(method)):.2f}",
        f"{max(one.recovered_s for one in run.of(method)):.2f}", RECOVERY[method],
    )  # fmt: skip


def _remarks(run: Measured) -> Iterator[str]:
    times = {m: max(one.recovered_s for one in run.of(m)) for m in Method}
    active, passive, upstream = (times[method] for method in ORDER)
    repeated = sum(one.repeated_rows for one in run.outcomes)
    yield (
        f"H3 precise recovery: {repeated} rows were repeated: "
        "a bucket has one final version, and precise costs nothing beyond rollback "
        "(published: passive standby is cheapest)"
    )
    is_first = active <= min(passive, upstream)
    yield (
        f"H4 order: active standby is {'first, as published' if is_first else 'NOT first'}; "
        f"passive standby {passive:.2f} s and upstream backup {upstream:.2f} s differ by chance "
        "(published: passive standby is before it), since the payer of a moved fragment has the "
        "inputs and imports each bucket with both"
    )
    each = sorted(one.recovered_s for one in run.outcomes if one.method is not Method.AMNESIA)
    yield (
        f"H5 units in parallel: {len(run.outcomes)} fragments recovered at once, after "
        f"{each[0]:.2f} to {each[-1]:.2f} s (median {median(each):.2f}); each bucket is a unit, "
        "exported when it is computed, so that no schedule of checkpoints is left to choose"
    )
    latest = _most(run.of(Method.UPSTREAM_BACKUP))
    yield (
        f"H6 recovery by lineage: a late bucket is computed from its inputs {latest:.2f} "
        "s late at most, detection included (D-Streams with 2 s checkpoints: 0.15 s, with 30 s: "
        "3.5 s, without detection)"
    )


def _most(outcomes: Sequence[Outcome]) -> float:
    return max(one.pause_s for one in outcomes)
