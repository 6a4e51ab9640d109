"""A network of users and what they buy, whose main fragment can be partitioned."""

from __future__ import annotations

from dataclasses import replace

from medusa_core.network import (
    Aggregate,
    Box,
    Filter,
    Join,
    Map,
    Network,
    Output,
    Partitions,
    Source,
)
from pipelines.language.checked_partitions import with_checked_partitions

BY_USER = Partitions(by=("user",), n=3)

BUYS = Source(
    name="buys", columns={"at_us": "bigint", "user": "string", "eur": "bigint"}, time="at_us"
)
VISITS = Source(
    name="visits", columns={"at_us": "bigint", "user": "string", "page": "string"}, time="at_us"
)
BOXES: tuple[Box, ...] = (
    Filter(name="by_size", input="buys", cases={"big": "eur > 9", "small": "eur > 0"}),
    Aggregate(name="sums", input="by_size.big", size="30s", advance="10s", group_by=("user",),
              columns={"eur": "sum(eur)", "buys": "count(*)"}),
    Join(name="seen", left="by_size.small", right="visits", on=("user",), within=("-10s", "0s"),
         columns={"user": "left.user", "page": "right.page"}),
    Aggregate(name="of_all", input="sums", size="10s", columns={"eur": "sum(eur)"},
              fragment="whole"),
)  # fmt: skip
SHOP = Network(
    name="shop",
    sources=(BUYS, VISITS),
    boxes=BOXES,
    outputs=(
        Output(name="spent", input="sums"),
        Output(name="pages", input="seen"),
        Output(name="totals", input="of_all"),
        Output(name="small_buys", input="by_size.small"),
    ),
)


def with_box(box: Box, **changes: object) -> Network:
    """The network with another box in place of the one of its name."""
    boxes = tuple(box if one.name == box.name else one for one in BOXES)
    return replace(SHOP, boxes=boxes, **changes)  # type: ignore[arg-type]


def partitioned(network: Network = SHOP, partitions: Partitions = BY_USER) -> Network:
    """The network with its main fragment in partitions."""
    return with_checked_partitions(replace(network, partitions={"main": partitions}))


def mapped(columns: dict[str, str]) -> Network:
    """The network with a Map before its Aggregate."""
    boxes: tuple[Box, ...] = (
        Map(name="given", input="buys", columns=columns),
        Aggregate(name="sums", input="given", size="10s", group_by=(next(iter(columns)),),
                  columns={"buys": "count(*)"}),
    )  # fmt: skip
    outputs = (Output(name="spent", input="sums"),)
    return replace(SHOP, sources=(BUYS,), boxes=boxes, outputs=outputs)
