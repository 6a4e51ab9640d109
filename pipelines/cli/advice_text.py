"""The advice about availability, as tables for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from medusa_core.availability.methods import AvailabilityOption
from medusa_core.availability.recommendation import Advice
from pipelines.base.text_table import table
from pipelines.base.time_text import duration, size_of
from pipelines.operations.availability_advice import NetworkAdvice

HEADING = (
    "method", "recovery", "cores", "link/s", "kept", "an hour", "recovered in", "lost",
    "rows repeated", "promise",
)  # fmt: skip


def render(advice: Advice, found: NetworkAdvice) -> str:
    """The table of a fragment, the recommendation, and what is assumed."""
    promise = advice.promise
    within = "" if promise.bound_ms is None else f" within {duration(promise.bound_ms * 1_000)}"
    rows = [_row(option, price, advice) for option, price in advice.options]
    heading = f"fragment {advice.figures.fragment}: {promise.recovery.value} recovery{within}"
    return "\n".join(
        [
            f"{heading} ({promise.source})",
            table(HEADING, rows),
            _recommendation(advice, found),
            *_assumptions(advice, found),
        ]
    )


def _row(option: AvailabilityOption, price: float, advice: Advice) -> tuple[object, ...]:
    cost, promise = option.cost, advice.promise
    meets = option.meets(promise.recovery, promise.bound_ms)
    return (
        option.method.value,
        option.recovery.value,
        f"{cost.cpu:.4f}",
        size_of(round(cost.link_bytes)),
        size_of(round(cost.kept_bytes)),
        f"{price:.3g}",
        _recovered(option),
        duration(option.lost_us) if option.lost_us else "",
        round(option.repeated_rows) or "",
        "met" if meets else "broken",
    )


def _recovered(option: AvailabilityOption) -> str:
    return "never" if option.recovery_ms is None else duration(option.recovery_ms * 1_000)


def _recommendation(advice: Advice, found: NetworkAdvice) -> str:
    chosen = advice.chosen
    if chosen is None:
        return (
            "no method meets the promise: promise a longer bound or a weaker recovery, or shorten "
            "the takeover with a standby (medusa run --standby)"
        )
    price = next(price for option, price in advice.options if option is chosen)
    return (
        f"recommended: {chosen.method.value} with {chosen.recovery.value} recovery, the cheapest "
        f"that meets the promise: {price:.3g} {found.currency} an hour"
    )


def _assumptions(advice: Advice, found: NetworkAdvice) -> Iterator[str]:
    for name, figure in advice.figures.assumptions:
        value = f"{name} is {_number(figure.value)}"
        yield f"assumed: {value}, since it is not measured: {figure.assumption}"
    for name in ("core_hour", "gib_sent", "gib_hour"):
        figure = getattr(found.prices, name)
        if figure.assumption is not None:
            yield f"assumed: {name} costs {_number(figure.value)}: {figure.assumption}"


def _number(value: float) -> str:
    return f"{value:,.4f}".rstrip("0").rstrip(".")


def document_of(found: NetworkAdvice) -> dict[str, Any]:
    """The same as JSON; figures with their assumptions."""
    return {
        "participant": found.participant,
        "network": found.network,
        "currency": found.currency,
        "prices": asdict(found.prices),
        "fragments": [_fragment_document(advice) for advice in found.fragments],
    }


def _fragment_document(advice: Advice) -> dict[str, Any]:
    promise = advice.promise
    return {
        "fragment": advice.figures.fragment,
        "promise": {
            "recovery": promise.recovery.value,
            "bound_ms": promise.bound_ms,
            "source": promise.source,
        },
        "figures": {k: v for k, v in asdict(advice.figures).items() if k != "fragment"},
        "options": [
            {
                "method": option.method.value,
                "recovery": option.recovery.value,
                **asdict(option.cost),
                "price_per_hour": price,
                "recovery_ms": option.recovery_ms,
                "lost_us": option.lost_us,
                "repeated_rows": option.repeated_rows,
                "meets_promise": option.meets(promise.recovery, promise.bound_ms),
                "is_recommended": option is advice.chosen,
            }
            for option, price in advice.options
        ],
    }
