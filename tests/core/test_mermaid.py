"""The drawing of a network: every part and arrow once, and nothing in a label that ends it."""

from __future__ import annotations

from medusa_core.mermaid import describe_box, draw
from medusa_core.network import (
    Aggregate,
    Deduplicate,
    Every,
    Filter,
    Function,
    Join,
    Lookup,
    Map,
    Network,
    Output,
    Rank,
    Resample,
    Running,
    Session,
    Source,
    Union,
)

NETWORK = Network(
    name="example",
    sources=(Source(name="readings", columns={"at_us": "bigint", "n": "int"}, time="at_us"),),
    boxes=(
        Filter(name="split", input="readings", cases={"big": "n > 10"}, otherwise="rest"),
        Aggregate(name="totals", input="split.big", size="60s", columns={"sum": "sum(n)"}),
        Map(name="small", input="split.rest", columns={"sum": "n"}),
    ),
    outputs=(Output(name="result", input="totals"), Output(name="others", input="small")),
)


def test_a_source_that_reads_a_stream_names_it() -> None:
    reads = Source(name="seen", columns={"n": "int"}, stream="alpha/suspects")
    network = Network(
        name="example",
        sources=(reads,),
        boxes=(Map(name="small", input="seen", columns={"n": "n"}),),
        outputs=(Output(name="result", input="small"),),
    )
    assert '  source_seen[("seen: alpha/suspects")]' in draw(network).splitlines()


def test_a_network_is_drawn_with_every_part_and_arrow() -> None:
    assert draw(NETWORK).splitlines() == [
        "flowchart LR",
        '  source_readings[("readings")]',
        '  box_split["<b>split</b><br>Filter n #gt; 10"]',
        '  box_totals["<b>totals</b><br>Aggregate 60s: sum"]',
        '  box_small["<b>small</b><br>Map sum"]',
        '  output_result(["result"])',
        '  output_others(["others"])',
        "  source_readings --> box_split",
        "  box_split -->|big| box_totals",
        "  box_split -->|rest| box_small",
        "  box_totals --> output_result",
        "  box_small --> output_others",
    ]


def test_every_kind_of_box_says_what_it_does() -> None:
    columns = {"a": "1", "b": "2"}
    assert describe_box(Map(name="m", input="x", columns=columns)) == "Map a, b"
    assert describe_box(Union(name="u", inputs=("x", "y"))) == "Union"
    join = Join(name="j", left="x", right="y", on=("k", "a = b"), within=("-5s", "0s"), how="anti")
    even = Resample(name="r", input="x", by=("k",), step="10s", max_age="1m")
    assert describe_box(even) == "Resample previous every 10s per k, at most 1m old"
    lookup = Lookup(name="l", input="x", table="y", on=("k", "a = b"), max_age="1h")
    assert describe_box(lookup) == "Lookup left on k, a = b, at most 1h old"
    assert describe_box(join) == "Join anti on k, a = b, within -5s to 0s"
    sliding = Aggregate(
        name="g", input="x", size="60s", advance="10s", group_by=("k",), columns=columns
    )
    assert describe_box(sliding) == "Aggregate 60s by 10s per k: a, b"
    rank = Rank(name="r", input="x", size="60s", group_by=("k",), order=("p desc", "t"), k=3)
    assert describe_box(rank) == "Rank 60s per k: first 3 by p desc, t"
    first = Deduplicate(name="d", input="x", by=("k", "a"), within="1h")
    assert describe_box(first) == "Deduplicate first per k, a within 1h"
    visits = Session(name="s", input="x", by=("k",), gap="5m", length_max="4h", columns=columns)
    assert describe_box(visits) == "Session 5m apart, shorter than 4h per k: a, b"
    running = Running(name="r", input="x", by=("k",), within="1d", columns=columns)
    assert describe_box(running) == "Running per k within 1d: a, b"
    every = Every(name="e", input="x", n=10, within="1h", columns=columns)
    assert describe_box(every) == "Every 10 within 1h: a, b"
    assert describe_box(Function(name="f", input="x", function=len, columns=columns)) == "Function"


def test_no_text_of_an_expression_can_end_its_label() -> None:
    odd = "text = \"]\" or text like '<b>|&#%' or\n text = ''"
    box = Filter(name="odd", input="readings", cases={"yes": odd})
    network = Network(
        name="example",
        sources=NETWORK.sources,
        boxes=(box,),
        outputs=(Output(name="result", input="odd"),),
    )
    (line,) = [line for line in draw(network).splitlines() if "box_odd[" in line]
    label = line.removeprefix('  box_odd["<b>odd</b><br>').removesuffix('"]')
    assert not set(label) & set('"<>|&\n')
    assert line.count('"') == 2
