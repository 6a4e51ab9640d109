"""A network checked as a whole: the columns of every port, and the box that a refusal names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from medusa_core.errors import Refused
from medusa_core.network import (
    Aggregate,
    Box,
    Deduplicate,
    Every,
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
    Running,
    Session,
    Source,
    Union,
)
from pipelines.language.check import CheckedAggregate, CheckedFilter, check_network, fallible_boxes

TICKS = Source(
    name="ticks",
    columns={"ts_us": "bigint", "symbol": "string", "price": "double", "size": "int"},
    time="ts_us",
)


def a_network(*boxes: Box, out: str = "") -> Network:
    """Ticks through some boxes; the last of them, or `out`, is the output."""
    return Network(
        name="n",
        sources=(TICKS,),
        boxes=boxes,
        outputs=(Output(name="result", input=out or boxes[-1].name),),
    )


def columns_of(network: Network, port: str, name: str = "") -> dict[str, str]:
    return {c.name: c.type for c in check_network(network).columns[Port(port, name)]}


def test_every_port_gets_its_columns() -> None:
    network = Network(
        name="n",
        sources=(TICKS,),
        boxes=(
            Filter(name="split", input="ticks", cases={"big": "size > 100"}, otherwise="small"),
            Map(name="worth", input="split.big", columns={"symbol": "symbol", "n": "size * 2L"}),
            Aggregate(
                name="bars",
                input="worth",
                size="60s",
                group_by=("symbol",),
                columns={"trades": "count(*)", "most": "max(n)"},
            ),
        ),
        outputs=(
            Output(name="bar", input="bars"),
            Output(name="rest", input="split.small"),
        ),
    )
    checked = check_network(network)
    ticks = {"ts_us": "bigint", "symbol": "string", "price": "double", "size": "int"}
    assert columns_of(network, "ticks") == ticks
    assert columns_of(network, "split", "big") == columns_of(network, "split", "small") == ticks
    assert columns_of(network, "worth") == {"symbol": "string", "n": "bigint"}
    assert [(c.name, c.type) for c in checked.columns_of_output("bar")] == [
        ("window_start", "timestamp"),
        ("symbol", "string"),
        ("trades", "bigint"),
        ("most", "bigint"),
    ]
    split, bars = checked.boxes["split"], checked.boxes["bars"]
    assert isinstance(split, CheckedFilter)
    assert [(port, case.sql) for port, case in split.cases] == [("big", "(`size` > 100)")]
    assert isinstance(bars, CheckedAggregate)
    assert [(name, column.sql) for name, column in bars.columns] == [
        ("trades", "count(*)"),
        ("most", "max(`n`)"),
    ]


def same(frame: Any) -> Any:
    return frame


AVERAGE = Aggregate(
    name="mean", input="ticks", size="60s", group_by=("symbol",), columns={"price": "avg(price)"}
)
ESTIMATED = Aggregate(
    name="seen", input="ticks", size="60s", columns={"kinds": "approx_count_distinct(symbol)"}
)
REFUSALS: list[tuple[Network, str]] = [
    (
        a_network(ESTIMATED),
        "has kinds, estimates that may differ from run to run: use count(distinct x)",
    ),
    (
        a_network(ESTIMATED, Filter(name="f", input="seen", cases={"yes": "kinds > 1"})),
        "decides by an estimate, which may differ from run to run: use count(distinct x)",
    ),
    (
        a_network(
            ESTIMATED,
            Aggregate(
                name="g", input="seen", size="60s", group_by=("kinds",), columns={"c": "count(*)"}
            ),
        ),
        "aggregate g of network n groups by kinds, estimates that may differ",
    ),
    (
        a_network(Filter(name="big", input="ticks", cases={"yes": "sise > 1"})),
        "filter big of network n, port 'yes': `sise > 1` names column 'sise', which is not there",
    ),
    (
        a_network(Filter(name="big", input="ticks", cases={"yes": "size"})),
        "filter big of network n, port 'yes': `size` is an int, not a condition",
    ),
    (
        a_network(Map(name="m", input="ticks", columns={"at": "now()"})),
        "map m of network n, column 'at': `now()` uses now, which is refused",
    ),
    (
        a_network(Map(name="m", input="ticks", columns={"stime": "ts_us"})),
        "map m of network n has a column 'stime', a word Medusa keeps",
    ),
    (
        a_network(Map(name="m", input="ticks", columns={"a": "_stime"})),
        "event time is not a column",
    ),
    (
        a_network(
            Aggregate(
                name="bars",
                input="ticks",
                size="60s",
                group_by=("symbl",),
                columns={"c": "count(*)"},
            )
        ),
        "aggregate bars of network n groups by 'symbl', which is not a column; did",
    ),
    (
        a_network(Aggregate(name="bars", input="ticks", size="60s", columns={"c": "sum(symbol)"})),
        "aggregate bars of network n, column 'c': `sum(symbol)` gives sum a string",
    ),
    (a_network(AVERAGE), "output result of network n has price, whose last digits may differ"),
    (
        a_network(AVERAGE, Filter(name="f", input="mean", cases={"yes": "price > 1"})),
        "filter f of network n, port 'yes': `price > 1` decides by a value whose last digits",
    ),
    (
        a_network(
            AVERAGE,
            Aggregate(
                name="g", input="mean", size="60s", group_by=("price",), columns={"c": "count(*)"}
            ),
        ),
        "aggregate g of network n groups by price, whose last digits may differ",
    ),
    (
        a_network(AVERAGE, Function(name="f", input="mean", function=same, columns={"a": "int"})),
        "function f of network n reads price, whose last digits may differ",
    ),
    (
        a_network(
            Map(name="a", input="ticks", columns={"x": "size", "y": "price"}),
            Map(name="b", input="ticks", columns={"x": "size", "y": "symbol"}),
            Union(name="u", inputs=("a", "b")),
        ),
        "union u of network n joins a with column y double and b with y string in its place",
    ),
    (
        a_network(
            Map(name="a", input="ticks", columns={"x": "size"}),
            Map(name="b", input="ticks", columns={"x": "size", "y": "symbol"}),
            Union(name="u", inputs=("a", "b")),
        ),
        "union u of network n joins inputs of which only b has column 'y'",
    ),
]


@pytest.mark.parametrize(("network", "sentence"), REFUSALS, ids=[s[:50] for _, s in REFUSALS])
def test_a_refusal_names_network_box_and_column(network: Network, sentence: str) -> None:
    with pytest.raises(Refused) as refusal:
        check_network(network)
    assert sentence in str(refusal.value)


def test_a_box_that_rounds_makes_an_average_exact() -> None:
    rounded = Map(
        name="rounded", input="mean", columns={"symbol": "symbol", "price": "round(price, 2)"}
    )
    assert columns_of(a_network(AVERAGE, rounded), "rounded")["price"] == "double"


def test_a_union_of_equal_columns_passes_them_on() -> None:
    network = a_network(
        Map(name="a", input="ticks", columns={"x": "size"}),
        Map(name="b", input="ticks", columns={"x": "size + 1"}),
        Union(name="u", inputs=("a", "b")),
    )
    assert columns_of(network, "u") == {"x": "int"}


def test_a_function_has_the_columns_it_declares() -> None:
    box = Function(
        name="f", input="ticks", function=same, columns={"a": "INT", "b": "decimal(5, 2)"}
    )
    assert columns_of(a_network(box), "f") == {"a": "int", "b": "decimal(5,2)"}


QUOTES = Source(
    name="quotes",
    columns={"ts_us": "bigint", "symbol": "string", "code": "string", "size": "bigint",
             "bid": "double"},
    time="ts_us",
)  # fmt: skip
MEANS = Aggregate(
    name="means", input="ticks", size="10s", group_by=("symbol",), columns={"mean": "avg(price)"}
)


def a_joined_network(*before: Box, **given: Any) -> Network:
    """Ticks, or what comes out of the boxes before, with quotes of the same symbol."""
    parts: dict[str, Any] = {"left": "ticks", "on": ("symbol",), "within": ("-5s", "0s")}
    join = Join(name="quoted", right="quotes", **(parts | given))
    return Network(
        name="n",
        sources=(TICKS, QUOTES),
        boxes=(*before, join),
        outputs=(Output(name="result", input="quoted"),),
    )


def test_a_join_has_the_columns_of_left_and_those_of_right_with_other_names() -> None:
    assert list(columns_of(a_joined_network(), "quoted").items()) == [
        *TICKS.columns.items(), ("code", "string"), ("bid", "double"),
    ]  # fmt: skip
    on = ("symbol = code",)
    assert columns_of(a_joined_network(on=on), "quoted") == {**TICKS.columns, "bid": "double"}
    for how in ("semi", "anti"):
        assert columns_of(a_joined_network(how=how), "quoted") == TICKS.columns


def test_a_join_that_names_its_columns_has_these() -> None:
    columns = {"worth": "left.price", "size": "right.size", "symbol": "right.symbol"}
    found = columns_of(a_joined_network(columns=columns, how="left"), "quoted")
    assert found == {"worth": "double", "size": "bigint", "symbol": "string"}


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (a_joined_network(on=("symbl",)),
         ("join quoted of network n has the key 'symbl', which is not a column of left; did you "
         "mean 'symbol'?")),
        (a_joined_network(on=("symbol = cod",)), "the key 'cod', which is not a column of right"),
        (a_joined_network(on=("size",)),
         "the key 'size', which is int in left and bigint in right: cast one of them in a map"),
        (a_joined_network(on=("size = code",)),
         "the key 'size', which is int in left and string in right.code: cast"),
        (a_joined_network(on=("price = bid",)),
         "the key 'price' of type double in left, and doubles that look equal may differ: cast it"),
        (a_joined_network(MEANS, left="means", on=("mean = bid",)),
         "has a key of mean, whose last digits may differ from run to run: round it in a map"),
        (a_joined_network(columns={"x": "right.volume"}),
         "join quoted of network n, column 'x': right.volume is not a column of quotes; there are"),
        (a_joined_network(columns={"stime": "left.size"}),
         "has a column 'stime', a word Medusa keeps"),
        (a_joined_network(MEANS, left="means"), "output result of network n has mean, whose last"),
    ],
)  # fmt: skip
def test_a_join_of_columns_that_do_not_fit_is_refused(network: Network, sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        check_network(network)
    assert sentence in str(refused.value)


def a_network_with_a_lookup(*before: Box, **given: Any) -> Network:
    """Ticks, or what comes out of the boxes before, with the newest quote of the same symbol."""
    parts: dict[str, Any] = {"input": "ticks", "table": "quotes", "on": ("symbol",)}
    lookup = Lookup(name="quoted", max_age="5s", **(parts | given))
    return Network(
        name="n",
        sources=(TICKS, QUOTES),
        boxes=(*before, lookup),
        outputs=(Output(name="result", input="quoted"),),
    )


def test_a_lookup_has_the_columns_of_its_input_and_those_of_its_table_with_other_names() -> None:
    assert list(columns_of(a_network_with_a_lookup(), "quoted").items()) == [
        *TICKS.columns.items(), ("code", "string"), ("bid", "double"),
    ]  # fmt: skip
    columns = {"worth": "input.price", "size": "table.size", "symbol": "table.symbol"}
    found = columns_of(a_network_with_a_lookup(columns=columns, on=("symbol = code",)), "quoted")
    assert found == {"worth": "double", "size": "bigint", "symbol": "string"}


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (a_network_with_a_lookup(on=("symbl",)),
         ("lookup quoted of network n has the key 'symbl', which is not a column of input; did you "
          "mean 'symbol'?")),
        (a_network_with_a_lookup(on=("symbol = cod",)), "'cod', which is not a column of table"),
        (a_network_with_a_lookup(on=("size",)),
         "the key 'size', which is int in input and bigint in table: cast one of them in a map"),
        (a_network_with_a_lookup(on=("size = code",)),
         "the key 'size', which is int in input and string in table.code: cast"),
        (a_network_with_a_lookup(on=("price = bid",)),
         "the key 'price' of type double in input, and doubles that look equal may differ"),
        (a_network_with_a_lookup(columns={"x": "table.volume"}),
         "lookup quoted of network n, column 'x': table.volume is not a column of quotes; there"),
        (a_network_with_a_lookup(MEANS, input="quotes", table="means", columns={"x": "input.bid"}),
         ("lookup quoted of network n takes the last record of means by all of its columns, and it "
          "has mean, whose last digits may differ from run to run: round it in a map before it")),
        (a_network_with_a_lookup(MEANS, input="means"),
         "output result of network n has mean, whose last"),
    ],
)  # fmt: skip
def test_a_lookup_of_columns_that_do_not_fit_is_refused(network: Network, sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        check_network(network)
    assert sentence in str(refused.value)


def a_resampled_network(*before: Box, **given: Any) -> Network:
    parts: dict[str, Any] = {"input": "ticks", "by": ("symbol",), "step": "1s", "max_age": "5s"}
    even = Resample(name="even", **(parts | given))
    return Network(
        name="n",
        sources=(TICKS,),
        boxes=(*before, even),
        outputs=(Output(name="result", input="even"),),
    )


def test_a_resample_has_the_time_the_key_and_the_other_columns_of_its_input() -> None:
    others = {name: type_ for name, type_ in TICKS.columns.items() if name != "symbol"}
    assert list(columns_of(a_resampled_network(), "even").items()) == [
        ("sample_time", "timestamp"), ("symbol", "string"), *others.items(),
    ]  # fmt: skip
    linear = a_resampled_network(method="linear", by=(), columns=("size", "symbol", "price"))
    assert list(columns_of(linear, "even").items()) == [
        ("sample_time", "timestamp"), ("size", "double"), ("symbol", "string"),
        ("price", "double"),
    ]  # fmt: skip


CHEAP = Map(name="cheap", input="ticks", columns={"worth": "CAST(price AS DECIMAL(10, 2))"})


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (a_resampled_network(by=("symbl",)),
         ("resample even of network n names 'symbl', which is not a column of its input; did you "
          "mean 'symbol'?")),
        (a_resampled_network(columns=("volume",)), "names 'volume', which is not a column of"),
        (a_resampled_network(by=("price",)),
         "the key 'price' of type double, and doubles that look equal may differ: cast it"),
        (a_resampled_network(CHEAP, input="cheap", by=(), method="linear"),
         "would interpolate 'worth', which is decimal(10,2): cast it to double in a map before it"),
        (a_resampled_network(MEANS, input="means"),
         ("resample even of network n orders the records of means by all of its columns, and it "
          "has mean, whose last digits may differ from run to run: round it in a map before it")),
    ],
)  # fmt: skip
def test_a_resample_of_columns_that_do_not_fit_is_refused(network: Network, sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        check_network(network)
    assert sentence in str(refused.value)


def a_network_of_sessions(*before: Box, **given: Any) -> Network:
    """The sessions of each symbol in the ticks, or in what comes out of the boxes before."""
    parts: dict[str, Any] = {
        "input": "ticks", "by": ("symbol",), "gap": "5m", "length_max": "4h",
        "columns": {"n": "count(*)"},
    }  # fmt: skip
    outputs = (Output(name="result", input="visits"),)
    boxes = (*before, Session(name="visits", **(parts | given)))
    return Network(name="n", sources=(TICKS,), boxes=boxes, outputs=outputs)


def test_a_session_has_its_bounds_and_its_key_before_its_columns() -> None:
    network = a_network_of_sessions(columns={"n": "count(*)", "last": "last(symbol)"})
    assert list(columns_of(network, "visits").items()) == [
        ("window_start", "timestamp"), ("window_end", "timestamp"), ("symbol", "string"),
        ("n", "bigint"), ("last", "string"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (a_network_of_sessions(by=("symbl",)),
         ("session visits of network n groups by 'symbl', which is not a column; did you mean "
          "'symbol'?")),
        (a_network_of_sessions(MEANS, input="means", by=("mean",)),
         "visits of network n groups by mean, whose last digits may differ from run to run: round"),
        (a_network_of_sessions(columns={"n": "cuont(*)"}),
         "visits of network n, column 'n': `cuont(*)` uses cuont, not on the list of functions"),
        (a_network_of_sessions(columns={"n": "price"}),
         "visits of network n, column 'n': `price` names column 'price' outside an aggregate"),
        (a_network_of_sessions(columns={"n": "avg(price)"}),
         "output result of network n has n, whose last digits may differ from run to run: round"),
        (a_network_of_sessions(columns={"n": "max(window_start)"}),
         "column 'n': `max(window_start)` names column 'window_start', which is not there"),
    ],
)  # fmt: skip
def test_a_session_of_columns_that_do_not_fit_is_refused(network: Network, sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        check_network(network)
    assert sentence in str(refused.value)


def a_running_network(*before: Box, **given: Any) -> Network:
    """Each tick, or what comes out of the boxes before, with aggregates up to it."""
    parts: dict[str, Any] = {
        "input": "ticks", "by": ("symbol",), "within": "1d", "columns": {"n": "count(*)"},
    }  # fmt: skip
    outputs = (Output(name="result", input="totals"),)
    boxes = (*before, Running(name="totals", **(parts | given)))
    return Network(name="n", sources=(TICKS,), boxes=boxes, outputs=outputs)


def an_every_network(*before: Box, **given: Any) -> Network:
    """Groups of ten ticks, or of what comes out of the boxes before."""
    parts: dict[str, Any] = {
        "input": "ticks", "by": ("symbol",), "n": 10, "within": "1d", "columns": {"n": "count(*)"},
    }  # fmt: skip
    outputs = (Output(name="result", input="tens"),)
    boxes = (*before, Every(name="tens", **(parts | given)))
    return Network(name="n", sources=(TICKS,), boxes=boxes, outputs=outputs)


def test_a_running_has_the_columns_of_its_input_and_its_aggregates() -> None:
    columns = {"total": "sum(size)", "highest": "max(price)"}
    found = columns_of(a_running_network(columns=columns), "totals")
    assert found == {**TICKS.columns, "total": "bigint", "highest": "double"}


def test_an_every_has_its_keys_and_its_aggregates() -> None:
    columns = {"total": "sum(size)", "prices": "count(distinct price)"}
    found = columns_of(an_every_network(columns=columns), "tens")
    assert found == {"symbol": "string", "total": "bigint", "prices": "bigint"}


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (a_running_network(by=("symbl",)),
         ("running totals of network n has the key 'symbl', which is not a column; did you mean "
          "'symbol'?")),
        (a_running_network(columns={"price": "max(price)"}),
         ("running totals of network n has two columns named 'price', one of its input and an "
          "aggregate: give the aggregate another name")),
        (a_running_network(columns={"n": "count(distinct price)"}),
         ("column 'n': `count(distinct price)` has DISTINCT in count, which a running does not "
          "compute: put a deduplicate with the key and these columns in `by` before it")),
        (a_running_network(columns={"n": "max(distinct price)"}),
         "has DISTINCT in max, which changes nothing: leave it out"),
        (a_running_network(columns={"all": "array_join(collect_list(symbol), ' ')"}),
         "uses collect_list, whose lists would grow with each record: write collect_list in an "),
        (a_running_network(columns={"mid": "median(price)"}),
         "uses median, which a running does not compute: write median in an aggregate or an every"),
        (a_running_network(columns={"up": "price - first(price)"}),
         "names column 'price' outside an aggregate function"),
        (a_running_network(columns={"n": "sum(symbol)"}), "gives sum a string, but it takes"),
        (a_running_network(columns={"total": "sum(price)"}),
         "output result of network n has total, whose last digits may differ from run to run"),
        (a_running_network(columns={"n": "row_number() over (order by price)"}), "over"),
        (a_running_network(MEANS, input="means", columns={"n": "count(*)"}),
         "reads mean, whose last digits may differ from run to run, and ties are decided by every"),
        (an_every_network(by=("symbl",)),
         ("every tens of network n has the key 'symbl', which is not a column; did you mean "
          "'symbol'?")),
        (an_every_network(MEANS, input="means"),
         "every tens of network n reads mean, whose last digits may differ from run to run"),
        (an_every_network(columns={"last_price": "price"}),
         "names column 'price' outside an aggregate function: write, for instance, max(price)"),
        (an_every_network(columns={"mean": "avg(price)"}),
         "output result of network n has mean, whose last digits may differ from run to run"),
        (an_every_network(columns={"prices": "collect_list(price)"}),
         "is an array, which no column can be: use array_join or size"),
    ],
)  # fmt: skip
def test_a_box_over_spans_whose_columns_do_not_fit_is_refused(
    network: Network, sentence: str
) -> None:
    with pytest.raises(Refused) as refused:
        check_network(network)
    assert sentence in str(refused.value)


def test_a_zone_that_no_database_knows_is_refused_with_the_nearest_name() -> None:
    source = Source(name="s", columns={"t": "timestamp"}, time="t", time_zone="Europe/Berlln")
    network = Network(name="n", sources=(source,), boxes=(), outputs=())
    with pytest.raises(Refused, match=r"not a known zone: did you mean 'Europe/Berlin'\?"):
        check_network(network)
    for zone in ("Europe/Berlin", "UTC", "-03:00"):
        check_network(replace(network, sources=(replace(source, time_zone=zone),)))


def a_ranked_network(*before: Box, **given: Any) -> Network:
    """The ticks of each symbol, or what comes out of the boxes before, by size."""
    parts: dict[str, Any] = {"input": "ticks", "size": "10s", "order": ("size desc",), "k": 3}
    rank = Rank(name="best", **(parts | given))
    outputs = (Output(name="result", input="best"),)
    return Network(name="n", sources=(TICKS,), boxes=(*before, rank), outputs=outputs)


def test_a_rank_has_the_columns_of_its_input_with_the_window_and_the_rank() -> None:
    found = columns_of(a_ranked_network(column="place"), "best")
    assert list(found.items()) == [
        ("window_start", "timestamp"), *TICKS.columns.items(), ("place", "bigint"),
    ]  # fmt: skip


def test_a_rank_of_windows_keeps_the_start_of_these() -> None:
    counts = Aggregate(name="counts", input="ticks", size="10s", columns={"n": "count(*)"})
    network = a_ranked_network(counts, input="counts", order=("n",))
    assert columns_of(network, "best") == {
        "window_start": "timestamp", "n": "bigint", "rank": "bigint",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (a_ranked_network(order=("sise desc",)),
         ("rank best of network n orders by 'sise', which is not a column; did you mean 'size'?")),
        (a_ranked_network(group_by=("symbl",)), "n groups by 'symbl', which is not"),
        (a_ranked_network(column="size"),
         ("rank best of network n has two columns named 'size', one of its input and the rank: "
          "write column='…' with another name")),
        (a_ranked_network(MEANS, input="means", order=("mean",)),
         ("rank best of network n orders by mean, whose last digits may differ from run to run: "
          "round it in a map before it")),
        (a_ranked_network(MEANS, input="means", order=("symbol",)),
         ("rank best of network n reads mean, whose last digits may differ from run to run, and "
          "ties are decided by every column: round it in a map before it")),
    ],
)  # fmt: skip
def test_a_rank_of_columns_that_do_not_fit_is_refused(network: Network, sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        check_network(network)
    assert sentence in str(refused.value)


def a_deduplicated_network(*before: Box, **given: Any) -> Network:
    """The first tick of each symbol, or what comes out of the boxes before, in an hour."""
    parts: dict[str, Any] = {"input": "ticks", "by": ("symbol",), "within": "1h"}
    outputs = (Output(name="result", input="once"),)
    boxes = (*before, Deduplicate(name="once", **(parts | given)))
    return Network(name="n", sources=(TICKS,), boxes=boxes, outputs=outputs)


def test_a_deduplicate_has_the_columns_of_its_input() -> None:
    assert columns_of(a_deduplicated_network(), "once") == TICKS.columns


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (a_deduplicated_network(by=("symbl",)),
         ("deduplicate once of network n has the key 'symbl', which is not a column; did you mean "
          "'symbol'?")),
        (a_deduplicated_network(MEANS, input="means", by=("mean",)),
         "once of network n has the key mean, whose last digits may differ from run to run: round"),
        (a_deduplicated_network(MEANS, input="means"),
         "reads mean, whose last digits may differ from run to run, and ties are decided by every"),
    ],
)  # fmt: skip
def test_a_deduplicate_of_columns_that_do_not_fit_is_refused(
    network: Network, sentence: str
) -> None:
    with pytest.raises(Refused) as refused:
        check_network(network)
    assert sentence in str(refused.value)


def an_emitting_network(key: str, *values: Any, columns: str = "count(*)") -> Network:
    """Ticks of declared keys in minutes, with rows for all of them in each minute."""
    box = Aggregate(
        name="each", input="ticks", size="1m", group_by=(key,), columns={"n": columns},
        empty="emit", keys={key: values},
    )  # fmt: skip
    outputs = (Output(name="result", input="each"),)
    return Network(name="n", sources=(TICKS,), boxes=(box,), outputs=outputs)


def test_values_of_a_group_without_records_have_the_types_of_the_others() -> None:
    for text in (
        "sum(size)",
        "coalesce(max(price), 0D)",
        "array_join(collect_list(symbol), ',')",
        "concat(symbol, count(*))",
        "size(collect_set(symbol))",
        "min_by(symbol, price)",
    ):
        checked = check_network(an_emitting_network("symbol", "a", None, columns=text))
        aggregate = checked.boxes["each"]
        assert isinstance(aggregate, CheckedAggregate)
        (of_empty,) = aggregate.of_empty
        assert of_empty.type == checked.columns_of_output("result")[-1].type


def test_an_expression_that_fails_on_no_record_makes_its_box_fallible() -> None:
    fails = an_emitting_network("symbol", "a", columns="1 div count(*)")
    assert fallible_boxes(check_network(fails)) == {"each"}
    assert fallible_boxes(check_network(an_emitting_network("symbol", "a"))) == set()


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (an_emitting_network("symbol", 5), ("aggregate each of network n has the key 5 for "
         "'symbol', which is not a value of type string: write one, or None for NULL")),
        (an_emitting_network("ts_us", "5"), ("has the key '5' for 'ts_us', which is not a value "
         "of type bigint: write one")),
        (an_emitting_network("ts_us", 2**63), "for 'ts_us', which is not a value of type bigint"),
        (an_emitting_network("ts_us", True), "has the key True for 'ts_us', which is not a value"),
        (an_emitting_network("price", 5), ("has keys for 'price', a double: keys can be declared "
         "for string, int, bigint, boolean; cast it in a map before it")),
    ],
)  # fmt: skip
def test_declared_keys_that_are_no_values_of_their_columns_are_refused(
    network: Network, sentence: str
) -> None:
    with pytest.raises(Refused) as refused:
        check_network(network)
    assert sentence in str(refused.value)
