"""Aggregate functions of the user's own: in Spark, in certificates, and what is refused."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from medusa_core.columns import Column
from medusa_core.errors import Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.knowledge import Limits
from medusa_core.names import StreamName
from medusa_core.network import Aggregate, Map, Network, Output, Port, Source, UserAggregate
from medusa_core.plans import network_document, network_of_document
from pipelines.language.check import check_network
from pipelines.language.user_calls import sql_name
from pipelines.quality.differences import differences
from pipelines.quality.recompute import DUCKDB, Recomputation
from pipelines.quality.spark_boxes import spark_batch
from pipelines.quality.stored_rows import STIME, row_schema
from pipelines.storage.segment_rows import read_segments
from tests.replaying import SECOND_US, Replayer, digests, parquet_files
from tests.sweeps import IS_LONG, long_but

pytestmark = pytest.mark.usefixtures("interpreted")
ALL = Range(BEGINNING_US, FOREVER_US)
COLUMNS = {
    "at_us": "bigint", "who": "string", "fee": "decimal(10,2)", "x": "double", "day": "date",
    "at": "timestamp",
}  # fmt: skip


def two_of(*fees: Decimal | None) -> tuple[Decimal | None, Decimal | None]:
    largest = sorted((fee for fee in fees if fee is not None), reverse=True)
    return (*largest, None, None)[:2]


largest_two = UserAggregate(
    name="largest_two",
    takes=("decimal(10,2)",),
    state=("decimal(10,2)", "decimal(10,2)"),
    gives="decimal(11,2)",
    init=lambda: (None, None),
    add=lambda state, fee: two_of(*state, fee),
    merge=lambda one, other: two_of(*one, *other),
    result=lambda state: sum(fee for fee in state if fee is not None) if state[0] else None,
)
"""The sum of the two largest fees; NULL without one, or with a largest of 0."""

longest_stay = UserAggregate(
    name="longest_stay",
    takes=("timestamp", "date"),
    state=("bigint",),
    gives="timestamp",
    init=lambda: (0,),
    add=lambda state, at, day: (max(state[0], abs((at.date() - day).days)),),
    merge=lambda one, other: max(one, other),
    result=lambda state: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=state[0]),
)
nearest_zero = UserAggregate(
    name="nearest_zero",
    takes=("double",),
    state=("double",),
    gives="double",
    init=lambda: (None,),
    add=lambda state, x: (x,) if state[0] is None or abs(x) < abs(state[0]) else state,
    merge=lambda one, other: min(
        (s for s in (one, other) if s[0] is not None), key=lambda s: abs(s[0]), default=one
    ),
    result=lambda state: None if state[0] is None else abs(state[0]),
)
OWN = (largest_two, longest_stay, nearest_zero)


def fees(**given: Any) -> Aggregate:
    """The aggregate under test."""
    parts: dict[str, Any] = {
        "input": "events",
        "size": "20s",
        "group_by": ("who",),
        "columns": {
            "n": "count(*)",
            "two": "largest_two(fee)",
            "paid": "largest_two(fee) filter (where fee > 0)",
            "stay": "longest_stay(at, day)",
            "near": "nearest_zero(x + 1)",
            "kinds": "count(distinct fee)",
        },
        "aggregates": OWN,
    }
    return Aggregate(name="fees", **(parts | given))


def a_network(box: Aggregate) -> Network:
    return Network(
        name="own",
        sources=(Source(name="events", columns=COLUMNS, time="at_us"),),
        boxes=(box,),
        outputs=(Output(name="out", input="fees"),),
    )


def records(number: int = 300, seed: int = 5) -> pa.Table:
    """Records of a minute and a half, with values that are NULL."""
    chosen = random.Random(seed)
    rows = [
        (
            chosen.randrange(90 * SECOND_US),
            chosen.choice(["a", "b", None]),
            chosen.choice([None, *(Decimal(chosen.randrange(-500, 900)) / 100 for _ in range(6))]),
            chosen.choice([None, 0.5, -0.0, -1.0, -2.5]),
            chosen.choice([None, date(1969, 12, 30), date(2024, 2, 29)]),
            chosen.choice([None, datetime(1969, 12, 31, 23, 59, 59, 1, UTC)]),
        )
        for _ in range(number)
    ]
    schema = pa.schema(
        [
            ("at_us", pa.int64()), ("who", pa.string()), ("fee", pa.decimal128(10, 2)),
            ("x", pa.float64()), ("day", pa.date32()), ("at", pa.timestamp("us", tz="UTC")),
        ]
    )  # fmt: skip
    return pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows], schema)


def expected_twos(table: pa.Table, size_us: int, advance_us: int) -> dict[Any, Any]:
    """(window, who) -> the sum of the two largest fees, as a person would compute it."""
    groups: dict[Any, list[Decimal]] = defaultdict(list)
    for row in table.to_pylist():
        start = row["at_us"] // advance_us * advance_us
        while start + size_us > row["at_us"]:
            groups[start, row["who"]] += [] if row["fee"] is None else [row["fee"]]
            start -= advance_us
    return {
        key: sum(sorted(listed)[-2:], Decimal(0)) if any(listed) else None
        for key, listed in groups.items()
    }


@pytest.mark.sweep
@pytest.mark.parametrize("advance_s", long_but(1, [20, 5]))
def test_a_function_of_the_users_own_has_its_value_in_every_window_and_cut(
    replayer: Replayer, advance_s: int
) -> None:
    table, network = records(), a_network(fees(advance=f"{advance_s}s"))
    columns = check_network(network).columns_of_output("out")
    found = []
    limit_of_steps = 60 if IS_LONG else 200
    ways = (("whole", 100_000, None), ("cut", limit_of_steps, [100]))
    for name, limit, cuts in ways if IS_LONG else ways[1:]:
        files = parquet_files(replayer.folder / name, table, *([cuts] if cuts else []))
        with replayer.home(name) as home:
            limits = Limits(records_per_step_max=limit)
            replayer.run(home, network, {"events": files}, limits=limits)
            found.append(digests(home, network))
            segments = home.catalog.segments(StreamName("out"))
            rows = pa.concat_tables(read_segments(home.storage, segments, columns)).to_pylist()
    assert found == found[:1] * len(found)
    twos = {((row[STIME] + 1) - 20 * SECOND_US, row["who"]): row["two"] for row in rows}
    assert twos == expected_twos(table, 20 * SECOND_US, advance_s * SECOND_US)


def test_certificates_compute_the_functions_without_spark(spark: Any) -> None:
    network = a_network(fees())
    given = stored(records())
    with Recomputation(network, {"events": given}, spark_batch(lambda: spark)) as run:
        made, columns = run.rows(Port("fees"), [ALL]), run.columns[Port("fees")]
        assert run.engines == {"fees": DUCKDB}
    assert columns == check_network(network).columns[Port("fees")]
    groups = {(r["window_start"].timestamp() * SECOND_US, r["who"]): r for r in made.to_pylist()}
    expected = expected_twos(records(), 20 * SECOND_US, 20 * SECOND_US)
    assert {key: row["two"] for key, row in groups.items()} == expected
    by_spark = spark_batch(lambda: spark)(
        network.boxes[0], columns_of_source(), columns, given, None
    )
    found = differences(by_spark.ports[Port("fees")], made, columns, SECOND_US)
    assert found.shown.empty, found.shown


@pytest.mark.parametrize("also", long_but(1, [{}, {"x": "max(upper(who))"}]))
def test_a_function_that_fails_in_a_certificate_is_named(spark: Any, also: dict[str, str]) -> None:
    """In steps that are not checked no part of a group is merged."""
    own = wrong("no_merge", merge=lambda one, other: 1 // 0)
    box = fees(columns={"two": "no_merge(fee)", **also}, aggregates=(own,))
    given = {"events": stored(records())}
    with Recomputation(a_network(box), given, spark_batch(lambda: spark)) as run:
        found = r"box fees of a certificate.*: merge of aggregate function no_merge raised ZeroDiv"
        with pytest.raises(Refused, match=found):
            run.rows(Port("fees"), [ALL])


def columns_of_source() -> tuple[Column, ...]:
    return tuple(Column(name, type_) for name, type_ in COLUMNS.items())


def stored(table: pa.Table) -> pa.Table:
    return table.append_column(STIME, table["at_us"]).cast(row_schema(columns_of_source()))


@pytest.mark.long(quick=True)
def test_a_window_without_records_has_the_value_of_no_record(replayer: Replayer) -> None:
    box = fees(group_by=(), empty="emit", size="10s", columns={"two": "largest_two(fee)",
               "stay": "longest_stay(at, day)", "n": "count(*)"})  # fmt: skip
    table = pa.Table.from_pylist(
        [r for r in records().to_pylist() if r["at_us"] % (40 * SECOND_US) < 10 * SECOND_US],
        records().schema,
    )
    network = a_network(box)
    files = parquet_files(replayer.folder / "in", table)
    columns = check_network(network).columns_of_output("out")
    with replayer.home() as home:
        replayer.run(home, network, {"events": files})
        segments = home.catalog.segments(StreamName("out"))
        rows = pa.concat_tables(read_segments(home.storage, segments, columns)).to_pylist()
    quiet = [row for row in rows if row["n"] == 0]
    assert quiet
    assert {row["two"] for row in quiet} == {None}
    assert {row["stay"] for row in quiet} == {datetime(1970, 1, 1, tzinfo=UTC)}


def wrong(name: str, **functions: Any) -> UserAggregate:
    """Like the sum of the two largest, but for some functions."""
    return replace(largest_two, name=name, **functions)


WRONG = {
    "in the reverse order": wrong(
        "first_two", add=lambda state, fee: (state[0] or fee, state[1] or fee)
    ),
    "in two parts": wrong("left_only", merge=lambda one, other: one),
    "with the state of no record merged in": wrong(
        "of_right", merge=lambda one, other: (one[0] or other[0], one[1] or other[1])
        if one[0] else (Decimal(77), None)
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", long_but(1, list(WRONG)))
def test_a_function_whose_value_depends_on_the_order_or_the_parts_commits_nothing(
    replayer: Replayer, form: str
) -> None:
    own = WRONG[form]
    box = fees(columns={"two": f"{own.name}(fee)"}, aggregates=(own,))
    files = parquet_files(replayer.folder / "in", records())
    with replayer.home() as home:
        with pytest.raises(Refused, match=f"aggregate function {own.name} gives .* for the same"):
            replayer.run(home, a_network(box), {"events": files})
        assert home.catalog.segments(StreamName("out")) == ()


@pytest.mark.parametrize(
    ("result", "sentence"),
    long_but(
        1,
        [
            (lambda state: 1 // 0, r"data: result of aggregate function half raised ZeroDivision"),
            (lambda state: 0.5, r"data: result of aggregate function half gives 0.5, which is no"),
        ],
    ),
)
def test_a_function_that_fails_or_gives_another_type_commits_nothing(
    replayer: Replayer, result: Any, sentence: str
) -> None:
    own = wrong("half", result=result)
    box = fees(columns={"two": "half(fee)"}, aggregates=(own,))
    files = parquet_files(replayer.folder / "in", records())
    with replayer.home() as home:
        with pytest.raises(Refused, match=sentence):
            replayer.run(home, a_network(box), {"events": files})
        assert home.catalog.segments(StreamName("out")) == ()


def test_functions_of_one_name_and_text_in_two_boxes_have_their_own_types() -> None:
    names = [
        sql_name(replace(largest_two, **types))
        for types in ({}, {"takes": ("date",)}, {"state": ("date", "date")}, {"gives": "date"})
    ]
    assert len(set(names)) == 4


def test_the_network_of_a_plan_has_the_functions_by_their_types_alone() -> None:
    network = a_network(fees())
    document = json.loads(json.dumps(network_document(network)))
    again = network_of_document(document)
    assert network_document(again) == document
    assert check_network(again).columns == check_network(network).columns


def test_a_value_of_a_function_can_be_computed_with_in_a_map_behind() -> None:
    mapped = Map(name="more", input="fees", columns={"more": "two + 1"})
    outputs = (Output(name="out", input="more"),)
    network = replace(a_network(fees()), boxes=(fees(), mapped), outputs=outputs)
    (column,) = check_network(network).columns_of_output("out")
    assert (column.name, column.type) == ("more", "decimal(12,2)")
