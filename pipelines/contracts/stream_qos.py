"""The quality of service (QoS) that a stream's contract declares: graphs of utility.

`delay` has points [duration, utility], `loss` points [share that is dropped, utility].
"""

from __future__ import annotations

from collections.abc import Callable

from medusa_core.drops.utility import AfterDrop, Point, Qos, UtilityGraph, loss_graph
from medusa_core.errors import Refused
from pipelines.contracts.fields import duration_us_of, fields_of, items_of, text_of
from pipelines.contracts.yaml_values import Value, plain


def qos_of(value: Value) -> Qos:
    """The QoS of a contract's field; Refused, naming the graph and its point, if it is none."""
    fields = fields_of(value, required=("delay", "loss"), optional=("after",))
    delay = _graph(fields["delay"], _delay_ms, lambda points: UtilityGraph(points))
    loss = _graph(fields["loss"], _number, loss_graph)
    after = _after(fields["after"]) if "after" in fields else AfterDrop.CORRECT
    try:
        return Qos(delay=delay, loss=loss, after=after)
    except Refused as error:
        raise fields["delay"].refused(f"is no use: {error}") from None


def _graph(
    value: Value, x_of: Callable[[Value], float],
    make: Callable[[tuple[Point, ...]], UtilityGraph],
) -> UtilityGraph:  # fmt: skip
    points: list[Point] = []
    for item in items_of(value):
        pair = items_of(item)
        if len(pair) != 2:
            raise item.refused("is not a point: write two values, such as [10s, 1]")
        points.append((x_of(pair[0]), _number(pair[1])))
    try:
        return make(tuple(points))
    except Refused as error:
        raise value.refused(f"is not a graph of utility: {error}") from None


def _delay_ms(value: Value) -> float:
    return 0.0 if plain(value) in (0, "0s") else duration_us_of(value) / 1_000


def _number(value: Value) -> float:
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise value.refused("must be a number from 0 to 1")
    return float(number)


def _after(value: Value) -> AfterDrop:
    written = text_of(value)
    try:
        return AfterDrop(written)
    except ValueError:
        raise value.refused(
            f"is {written!r}: write {' or '.join(after.value for after in AfterDrop)}"
        ) from None
