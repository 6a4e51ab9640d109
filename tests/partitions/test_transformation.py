"""A partitioned fragment is several ordinary fragments, and the union of what they give."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from medusa_core.errors import Refused
from medusa_core.fragments import fragments_of
from medusa_core.network import (
    Aggregate,
    Box,
    Deduplicate,
    Filter,
    Network,
    Partitions,
    Running,
    Source,
    Union,
)
from medusa_core.plans import network_document, network_of_document
from pipelines.language.checked_partitions import with_checked_partitions
from tests.partitions.shop import BOXES, BUYS, BY_USER, SHOP, mapped, partitioned, with_box


def refusal_of(network: Network, partitions: Partitions = BY_USER) -> str:
    with pytest.raises(Refused) as raised:
        partitioned(network, partitions)
    return str(raised.value)


def test_each_partition_has_a_copy_of_each_box_behind_its_share_of_each_input() -> None:
    fragments = {f.name: f for f in fragments_of(partitioned())}
    assert sorted(fragments) == ["main", "main_p0", "main_p1", "main_p2", "whole"]
    one = fragments["main_p1"]
    assert {box.name for box in one.boxes} == {
        "main_buys_p1", "main_visits_p1", "by_size_p1", "sums_p1", "seen_p1",
    }  # fmt: skip
    assert set(one.input_streams) == {"buys", "visits"}
    assert set(one.outputs) == {"sums_p1", "seen_p1", "by_size_p1_small"}


def test_the_fragment_gives_the_union_of_its_partitions_under_the_names_it_had() -> None:
    before = {f.name: f for f in fragments_of(SHOP)}
    after = {f.name: f for f in fragments_of(partitioned())}
    assert set(after["main"].outputs) == set(before["main"].outputs)
    assert all(isinstance(box, Union) for box in after["main"].boxes)
    assert after["whole"].input_streams == before["whole"].input_streams


def test_with_cut_a_partition_reads_streams_of_its_own() -> None:
    network = partitioned(partitions=replace(BY_USER, cut=True))
    fragments = {f.name: f for f in fragments_of(network)}
    assert set(fragments["main_cut"].input_streams) == {"buys", "visits"}
    assert set(fragments["main_p2"].input_streams) == {"main_buys_cut_p2", "main_visits_cut_p2"}


def test_the_plan_of_a_network_has_its_partitions_and_one_without_keeps_its_fingerprint() -> None:
    network = partitioned()
    document = json.loads(json.dumps(network_document(network)))
    assert network_of_document(document) == network
    assert with_checked_partitions(network) is network
    assert "partitions" not in network_document(SHOP)


def test_two_fragments_in_a_row_can_be_partitioned_by_different_keys() -> None:
    by_user = replace(SHOP, boxes=(
        *BOXES[:3],
        Aggregate(name="of_all", input="sums", size="10s", group_by=("buys",),
                  columns={"eur": "sum(eur)"}, fragment="whole"),
    ))  # fmt: skip
    keys = {"main": BY_USER, "whole": Partitions(by=("buys",), n=2)}
    network = with_checked_partitions(replace(by_user, partitions=keys))
    fragments = {f.name: f for f in fragments_of(network)}
    assert set(fragments["whole_p1"].input_streams) == {"spent"}


@pytest.mark.parametrize(
    ("box", "field"),
    [
        (replace(BOXES[1], group_by=("at_us",)), "group_by (at_us)"),
        (replace(BOXES[2], on=("at_us",)), "on (at_us)"),
        (
            Running(name="sums", input="by_size.big", within="1h", columns={"all": "sum(eur)"}),
            "by (no column)",
        ),
        (Deduplicate(name="sums", input="by_size.big", by=("eur",), within="1h"), "by (eur)"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_box_that_brings_together_records_of_several_partitions_is_refused(
    box: Box, field: str
) -> None:
    network = with_box(box)
    if isinstance(box, Running | Deduplicate):
        network = replace(
            network,
            boxes=tuple(b for b in network.boxes if b.name != "of_all"),
            outputs=tuple(o for o in network.outputs if o.input != "of_all"),
        )
    assert refusal_of(network) == (
        f"{type(box).__name__.lower()} {box.name} cannot be partitioned: its {field} does not "
        "contain the partition key user; add it, or put the box into another fragment"
    )


def test_windows_without_records_that_have_rows_are_refused() -> None:
    box = replace(BOXES[1], empty="emit", keys={"user": ("ann",)})
    assert refusal_of(with_box(box)).startswith(
        "aggregate sums has rows of windows without records, and each partition would make them"
    )


def test_the_key_may_have_another_name_behind_a_map() -> None:
    assert partitioned(mapped({"who": "user", "eur": "eur"})).partitions["main"].is_applied


def test_a_key_that_a_map_has_changed_is_refused_where_a_box_needs_it() -> None:
    assert refusal_of(mapped({"who": "upper(user)"})) == (
        "aggregate sums cannot be partitioned: the partition key user is not a column of its input "
        "any more; pass it on in each box before it, or put the box into another fragment"
    )


def test_a_key_without_one_text_in_all_engines_is_refused() -> None:
    source = Source(name="buys", columns={**BUYS.columns, "user": "double"}, time="at_us")
    network = replace(mapped({"who": "cast(eur as string)"}), sources=(source,))
    without = replace(network, boxes=(
        Filter(name="sums", input="buys", cases={"x": "eur > 0"}),))  # fmt: skip
    assert refusal_of(without).startswith(
        "column user is a double, by which records cannot be partitioned"
    )


def test_a_key_of_two_types_is_refused() -> None:
    visits = Source(name="visits", columns={"at_us": "bigint", "user": "int"}, time="at_us")
    boxes = (
        Filter(name="sums", input="buys", cases={"x": "eur > 0"}),
        Filter(name="seen", input="visits", cases={"x": "user > 0"}),
        Filter(name="of_all", input="buys", cases={"x": "eur > 0"}),
        Filter(name="by_size", input="buys", cases={"small": "eur > 0"}),
    )
    network = replace(SHOP, sources=(BUYS, visits), boxes=boxes)
    assert "whose type differs (string in buys, int in visits)" in refusal_of(network)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Partitions(by=("users",), n=2), "is partitioned by users, which is not a column of"),
        (Partitions(by=(), n=2), "write a tuple of columns, as in ('user',)"),
        (Partitions(by=("user", "user"), n=2), "has a column twice"),
        (Partitions(by=("user",), n=1), "write a number from 2 to 64"),
        (Partitions(by=("user",), n=65), "write a number from 2 to 64"),
    ],
)
def test_a_declaration_that_is_not_valid_is_refused(given: Partitions, said: str) -> None:
    assert said in refusal_of(SHOP, given)


def test_partitions_of_an_unknown_fragment_or_with_a_name_that_is_taken_are_refused() -> None:
    with pytest.raises(Refused, match="name fragment 'mian', which no box has"):
        replace(SHOP, partitions={"mian": BY_USER})
    taken = with_box(replace(BOXES[3], fragment="main_p1"))
    assert "fragment main_p1 of network shop has the name of a part" in refusal_of(taken)
