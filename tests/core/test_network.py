"""The shape of a network: what a Network refuses to be, with the part named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from medusa_core.errors import Refused
from medusa_core.fragments import fragments_of
from medusa_core.network import (
    Aggregate,
    Arc,
    Box,
    Deduplicate,
    Filter,
    Function,
    Join,
    Lookup,
    Map,
    Network,
    Output,
    Port,
    Rank,
    Resample,
    Source,
    Union,
)
from medusa_core.plans import network_document, network_of_document

READINGS = Source(name="readings", columns={"at_us": "bigint", "key": "string"}, time="at_us")
PASS = Map(name="passed", input="readings", columns={"key": "key"})


def a_network(*boxes: Box, **parts: Any) -> Network:
    """Readings through the boxes; the last is the output, unless `outputs` says otherwise."""
    given: dict[str, Any] = {
        "name": "example",
        "sources": (READINGS,),
        "boxes": boxes or (PASS,),
        "outputs": (Output(name="result", input=(boxes or (PASS,))[-1].name),),
    }
    return Network(**(given | parts))


def per_key(**parts: Any) -> Aggregate:
    given: dict[str, Any] = {
        "name": "per_key",
        "input": "readings",
        "size": "60s",
        "columns": {"n": "count(*)"},
    }
    return Aggregate(**(given | parts))


def test_boxes_are_ordered_after_what_they_read_however_they_are_written() -> None:
    boxes: tuple[Box, ...] = (
        Union(name="both", inputs=("left", "right")),
        Map(name="right", input="passed", columns={"key": "key"}),
        PASS,
        Map(name="left", input="passed", columns={"key": "key"}),
    )
    network = a_network(*boxes, outputs=(Output(name="result", input="both"),))
    assert network.order[0] == "passed"
    assert network.order[-1] == "both"
    assert set(network.order) == {"passed", "left", "right", "both"}


def test_arcs_name_the_ports_they_begin_at() -> None:
    split = Filter(name="split", input="readings", cases={"big": "true"}, otherwise="rest")
    network = a_network(
        split,
        Map(name="m", input="split.big", columns={"key": "key"}),
        outputs=(Output(name="result", input="m"), Output(name="others", input="split.rest")),
    )
    assert network.box_arcs == (
        Arc(Port("readings"), "split"),
        Arc(Port("split", "big"), "m"),
    )
    assert network.output_arcs == (
        Arc(Port("m"), "result"),
        Arc(Port("split", "rest"), "others"),
    )
    assert str(Port("split", "big")) == "split.big"


def test_a_filter_with_one_port_is_named_by_the_box_alone() -> None:
    only = Filter(name="only", input="readings", cases={"yes": "true"})
    network = a_network(only)
    assert network.output_arcs[0].start == Port("only", "yes")


def test_a_network_is_a_value() -> None:
    assert a_network() == a_network()
    assert hash(a_network()) == hash(a_network())
    assert a_network() != a_network(bucket="20s")
    with pytest.raises(AttributeError):
        a_network().name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        PASS.columns["key"] = "other"  # type: ignore[index]


def test_windows_tumble_unless_they_advance_by_less() -> None:
    assert per_key().advance_us == per_key().size_us == 60_000_000
    assert per_key(advance="20s").advance_us == 20_000_000


MAP: dict[str, Any] = {"columns": {"key": "key"}}
REFUSALS: list[tuple[str, dict[str, Any], tuple[Box, ...]]] = [
    ("network 'Bad name' is not a name", {"name": "Bad name"}, ()),
    ("network example needs at least one source", {"sources": ()}, ()),
    ("network example has boxes and no output: name one", {"outputs": ()}, ()),
    ("reads 'nowhere', which is neither a source nor a box: there are readings, m",
     {}, (Map(name="m", input="nowhere", **MAP),)),
    ("output result of network example reads 'nowhere'",
     {"outputs": (Output(name="result", input="nowhere"),)}, ()),
    ("box m of network example reads 'split': name split.a or split.b", {},
     (Filter(name="split", input="readings", cases={"a": "x", "b": "y"}),
      Map(name="m", input="split", **MAP))),
    ("box m of network example reads 'split.c': name split.a", {},
     (Filter(name="split", input="readings", cases={"a": "x"}),
      Map(name="m", input="split.c", **MAP))),
    ("boxes of network example form a cycle: a -> b -> a", {},
     (Map(name="a", input="b", **MAP), Map(name="b", input="a", **MAP),
      Map(name="c", input="readings", **MAP))),
    ("boxes of network example form a cycle: a -> a", {},
     (Union(name="a", inputs=("readings", "a")),)),
    ("box m of network example is read by no box and no output: remove it, or read it",
     {"outputs": (Output(name="result", input="passed"),)},
     (PASS, Map(name="m", input="readings", **MAP))),
    ("source other of network example is read by no box and no output",
     {"sources": (READINGS, Source(name="other", columns={"t": "bigint"}, time="t"))}, ()),
    ("has its event time in 't', and a boolean is no time: name a column of numbers, texts, dates",
     {"sources": (READINGS, Source(name="other", columns={"t": "BOOLEAN "}, time="t"))}, ()),
    ("has its event time in 't', and a binary is no time: name a column of numbers, texts, dates",
     {"sources": (READINGS, Source(name="other", columns={"t": "binary"}, time="t"))}, ()),
    ("source 'other' of network example has a column twice in key t, t: name each once",
     {"sources": (READINGS, Source(name="other", columns={"t": "int"}, time="t", key=("t", "t")))},
     ()),
    ("output result of network example comes straight from source readings",
     {"outputs": (Output(name="result", input="readings"),)}, ()),
    ("two parts of network example are named 'passed': rename one", {}, (PASS, PASS)),
    ("two parts of network example are named 'readings'", {},
     (Map(name="readings", input="readings", **MAP),)),
    ("two streams of network example are named 'readings'",
     {"outputs": (Output(name="readings", input="passed"),)}, ()),
    ("source 'readings' of network example names 'when', no column of it",
     {"sources": (Source(name="readings", columns={"t": "bigint"}, time="when"),)}, ()),
    ("source 'readings' of network example names 'id', no column of it",
     {"sources": (Source(name="readings", columns={"t": "bigint"}, time="t", key=("id",)),)}, ()),
    ("time unit 'min' of source 'readings' of network example is not one of s, ms, us, ns",
     {"sources": (Source(name="readings", columns={"t": "bigint"}, time="t", time_unit="min"),)},
     ()),
    ("column 't' of source 'readings' of network example has type 'uint64', which is not one of",
     {"sources": (Source(name="readings", columns={"t": "uint64"}, time="t"),)}, ()),
    ("has a column 'stime', a word Medusa keeps",
     {"sources": (Source(name="readings", columns={"stime": "bigint"}, time="stime"),)}, ()),
    ("bucket of network example: duration '10 parsecs' is not one", {"bucket": "10 parsecs"}, ()),
    ("filter f has no cases", {}, (Filter(name="f", input="readings", cases={}),)),
    ("filter f has two ports named 'a'", {},
     (Filter(name="f", input="readings", cases={"a": "x"}, otherwise="a"),)),
    ("port of filter f, 'A' is not a name", {},
     (Filter(name="f", input="readings", cases={"A": "x"}),)),
    ("map m has no columns", {}, (Map(name="m", input="readings", columns={}),)),
    ("column of map m, 'a b' is not a name", {},
     (Map(name="m", input="readings", columns={"a b": "key"}),)),
    ("union u has fewer than two inputs", {}, (Union(name="u", inputs=("readings",)),)),
    ("inputs of box u is a text: write a tuple", {}, (Union(name="u", inputs="readings"),)),  # type: ignore[arg-type]
    ("group_by of box per_key is a text: write a tuple, as in ('x',)", {},
     (per_key(group_by="key"),)),
    ("size of aggregate per_key: duration '0s' is out of range", {}, (per_key(size="0s"),)),
    ("size of aggregate per_key: duration 'a minute' is not one", {}, (per_key(size="a minute"),)),
    ("advance of aggregate per_key: duration '' is not one", {}, (per_key(advance=""),)),
    ("aggregate per_key advances by 90s but its windows are 60s long: records between them", {},
     (per_key(advance="90s"),)),
    ("aggregate per_key has two columns 'n': rename one", {}, (per_key(group_by=("n",)),)),
    ("aggregate per_key has two columns 'window_start': rename one", {},
     (per_key(columns={"window_start": "count(*)"}),)),
    ("function f has 3 to call", {},
     (Function(name="f", input="readings", function=3, columns={"a": "int"}),)),  # type: ignore[arg-type]
    ("function 'f' has no columns", {},
     (Function(name="f", input="readings", function=len, columns={}),)),
    ("fragment of box m, 'Edge' is not a name", {},
     (Map(name="m", input="readings", fragment="Edge", **MAP),)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("sentence", "parts", "boxes"), REFUSALS, ids=[sentence[:60] for sentence, _, _ in REFUSALS]
)
def test_a_network_that_cannot_be_is_refused(
    sentence: str, parts: dict[str, Any], boxes: tuple[Box, ...]
) -> None:
    with pytest.raises(Refused) as refusal:
        a_network(*boxes, **parts)
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_an_unknown_output_is_refused_with_those_that_are_there() -> None:
    with pytest.raises(Refused, match="network example has no output 'x': it has result"):
        a_network().output("x")


SEEN = Source(name="seen", columns={"key": "string"}, stream="alpha/suspects")
OWN = Source(name="seen", columns={"key": "string"}, stream="suspects")


def test_a_source_reads_a_stream_by_its_name_or_by_its_writers() -> None:
    assert (SEEN.stream_name, SEEN.writer, SEEN.is_landed) == ("suspects", "alpha", False)
    assert (OWN.stream_name, OWN.writer, OWN.is_landed) == ("suspects", None, False)
    assert (READINGS.stream_name, READINGS.writer, READINGS.is_landed) == ("readings", None, True)


def test_a_fragment_reads_the_stream_that_its_source_names() -> None:
    network = a_network(Map(name="passed", input="seen", columns={"key": "key"}), sources=(SEEN,))
    (fragment,) = fragments_of(network)
    assert fragment.input_streams == ("suspects",)


@pytest.mark.parametrize("source", [READINGS, SEEN, OWN, replace(SEEN, time="key")])
def test_a_network_is_read_back_from_its_document(source: Source) -> None:
    network = a_network(
        Map(name="passed", input=source.name, columns={"key": "key"}), sources=(source,)
    )
    document = network_document(network)
    assert network_of_document(document) == network
    (written,) = document["sources"]  # type: ignore[misc]
    assert ("stream" in written) is not source.is_landed, "plans from before keep fingerprints"


def test_a_network_of_sources_alone_lands_them() -> None:
    network = a_network(boxes=(), outputs=())
    assert fragments_of(network) == ()
    assert not network.is_imported


def test_a_network_of_one_partners_stream_has_its_name() -> None:
    parts: dict[str, Any] = {"boxes": (), "outputs": ()}
    network = a_network(name="alpha/suspects", sources=(SEEN,), **parts)
    assert network.is_imported
    for sources in ((OWN,), (READINGS,), (replace(SEEN, stream="beta/suspects"),)):
        with pytest.raises(Refused, match="is not a name"):
            a_network(name="alpha/suspects", sources=sources, **parts)
    with pytest.raises(Refused, match="is read by no box"):
        a_network(sources=(SEEN,), **parts)


@pytest.mark.parametrize("stream", ["", "/", "/suspects", "alpha/", "alpha/beta/suspects", "A/s"])
def test_a_source_that_names_no_stream_is_refused(stream: str) -> None:
    with pytest.raises(Refused, match=r"that source 'seen' of network example reads, .* is not a"):
        a_network(
            Map(name="passed", input="seen", columns={"key": "key"}),
            sources=(replace(SEEN, stream=stream),),
        )


@pytest.mark.parametrize("zone", ["UTC", "+01:00", "-05:30", "Europe/Berlin", "Etc/GMT+5"])
def test_a_time_zone_is_a_name_or_an_offset(zone: str) -> None:
    source = Source(name="readings", columns={"t": "timestamp"}, time="t", time_zone=zone)
    network = Network(name="n", bucket="60s", sources=(source,), boxes=(), outputs=())
    again = network_of_document(network_document(network))
    assert again.sources[0].time_zone == zone


@pytest.mark.parametrize("zone", ["", "+1", "+25:00", "europe/berlin", "../UTC", "A" + "/B" * 3])
def test_what_is_no_time_zone_is_refused(zone: str) -> None:
    source = Source(name="readings", columns={"t": "timestamp"}, time="t", time_zone=zone)
    with pytest.raises(Refused, match="is not a valid zone: write UTC, an offset"):
        Network(name="n", bucket="60s", sources=(source,), boxes=(), outputs=())


def test_a_time_zone_that_is_no_text_is_refused() -> None:
    source = Source(name="s", columns={"t": "timestamp"}, time="t", time_zone=5)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="time_zone of source s is 5: write one text in quotes"):
        Network(name="n", bucket="60s", sources=(source,), boxes=(), outputs=())


IN_READINGS: dict[str, Any] = {"name": "b", "input": "readings"}
PAIR: dict[str, Any] = {"name": "b", "left": "readings", "right": "readings", "on": ("key",)}


FIVE: Any = 5


@pytest.mark.parametrize(
    ("box", "sentence"),
    [
        (per_key(size=5), "size of box per_key is 5"),
        (per_key(advance=5), "advance of box per_key is 5"),
        (Rank(**IN_READINGS, size=FIVE, k=1), "size of box b is 5"),
        (Deduplicate(**IN_READINGS, by=("key",), within=FIVE), "within of box b is 5"),
        (Resample(**IN_READINGS, step=FIVE, max_age="5s"), "step of box b is 5"),
        (Resample(**IN_READINGS, step="5s", max_age=FIVE), "max_age of box b is 5"),
        (Join(**PAIR, within=("-5s", FIVE)), "within of box b is 5"),
        (Lookup(name="b", input="readings", table="readings", on=("key",), max_age=FIVE),
         "max_age of box b is 5"),
    ],
)  # fmt: skip
def test_a_duration_without_a_unit_is_refused(box: Box, sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        a_network(box)
    assert str(refused.value) == (
        f'{sentence}, a number without a unit: write a text such as "5s" or "5m"'
    )


def test_a_bucket_or_disorder_without_a_unit_is_refused() -> None:
    with pytest.raises(Refused, match=r'bucket of network example is 60, .* such as "60s"'):
        a_network(bucket=60)
    with pytest.raises(Refused, match=r'disorder of source readings is 3, .* such as "3s"'):
        a_network(sources=(replace(READINGS, disorder=3),))  # type: ignore[arg-type]


def test_a_source_without_a_time_zone_keeps_the_plan_that_it_had() -> None:
    source = Source(name="readings", columns={"t": "timestamp"}, time="t")
    network = Network(name="n", bucket="60s", sources=(source,), boxes=(), outputs=())
    (document,) = network_document(network)["sources"]  # type: ignore[misc]
    assert "time_zone" not in document
