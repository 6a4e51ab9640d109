"""The page on the language of networks is that of the code, and its network compiles and runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from medusa_core.network import Function, Network
from pipelines.language.aggregates import compile_aggregate
from pipelines.language.check import check_network
from pipelines.language.expressions import compile_expression
from pipelines.language.functions import AGGREGATES, SCALARS, SPECIAL
from pipelines.language.load import load_network
from tests.docs.language_page import (
    COLUMNS,
    GROUPS,
    KINDS,
    declared_fields,
    made_parts,
    shown_fields,
    shown_results,
    with_parts,
)
from tests.docs.pages import page
from tests.replaying import Replayer, part_of

PAGE = page("language")
BEFORE, _, AGGREGATE_PART = PAGE.partition("\n## Aggregate functions\n")


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Network:
    """The network that the page's blocks make together."""
    file = tmp_path_factory.mktemp("page") / "fares.py"
    file.write_text("\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)))
    return load_network(str(file))


def test_the_lists_of_functions_are_made_from_the_code() -> None:
    assert with_parts(PAGE, made_parts()) == PAGE, (
        "docs/language.md is not up to date: run python -m tests.docs.language_page --write"
    )
    assert {f.name for listed in GROUPS.values() for f in listed} == set(SCALARS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_fields_of_a_part_are_those_of_its_class(kind: type) -> None:
    assert shown_fields(PAGE, kind) == declared_fields(kind)


def test_every_kind_of_argument_is_explained() -> None:
    _, _, rest = PAGE.partition("| argument | meaning |\n")
    table = rest.partition("\n\n")[0]
    explained = {
        name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split(" | ")[0])
    }
    kinds = {kind.rstrip("?*") for function in SCALARS.values() for kind in function.takes}
    assert explained == kinds | {"digits"}


@pytest.mark.parametrize(("text", "type_"), shown_results(BEFORE))
def test_an_expression_has_the_type_that_the_page_shows(text: str, type_: str) -> None:
    assert compile_expression(text, COLUMNS, where="the page").type == type_


@pytest.mark.parametrize(
    ("text", "type_", "note"),
    re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| (\w*) ?\|$", AGGREGATE_PART, re.MULTILINE),
)
def test_an_aggregate_has_the_type_that_the_page_shows(text: str, type_: str, note: str) -> None:
    compiled = compile_aggregate(text, COLUMNS, where="the page")
    assert (compiled.type, compiled.tolerance_only) == (type_, note == "inexact")


def test_every_function_with_a_rule_of_its_own_and_every_aggregate_is_shown() -> None:
    calls = {name for text, _ in shown_results(BEFORE) for name in re.findall(r"(\w+)\(", text)}
    assert calls >= SPECIAL
    shown = {
        name for text, _ in shown_results(AGGREGATE_PART) for name in re.findall(r"(\w+)\(", text)
    }
    assert shown >= AGGREGATES


def test_the_example_compiles_to_the_columns_of_the_page(example: Network) -> None:
    checked = check_network(example)
    assert [(c.name, c.type) for c in checked.columns_of_output("fares")] == [
        ("window_start", "timestamp"),
        ("user", "string"),
        ("trips", "bigint"),
        ("long", "bigint"),
        ("fees", "decimal(20,2)"),
        ("mean_km", "double"),
        ("newest_kind", "string"),
    ]
    assert [(c.name, c.type) for c in checked.columns_of_output("refunds_of_trips")] == [
        ("user", "string"),
        ("fee", "decimal(10,2)"),
        ("refund", "decimal(10,2)"),
    ]
    assert [(c.name, c.type) for c in checked.columns_of_output("levels_of_trips")] == [
        ("user", "string"),
        ("fee", "decimal(10,2)"),
        ("level", "string"),
    ]
    assert [(c.name, c.type) for c in checked.columns_of_output("fares_every_hour")] == [
        ("sample_time", "timestamp"),
        ("user", "string"),
        ("fee", "decimal(10,2)"),
    ]
    assert [(c.name, c.type) for c in checked.columns_of_output("dearest_trips")] == [
        ("window_start", "timestamp"),
        ("user", "string"),
        ("km", "double"),
        ("fee", "decimal(10,2)"),
        ("kind", "string"),
        ("rank", "bigint"),
    ]
    assert [(c.name, c.type) for c in checked.columns_of_output("rides_of_users")] == [
        ("window_start", "timestamp"),
        ("window_end", "timestamp"),
        ("user", "string"),
        ("trips", "bigint"),
        ("fees", "decimal(20,2)"),
        ("first_kind", "string"),
    ]
    assert [(c.name, c.type) for c in checked.columns_of_output("fares_so_far")] == [
        ("user", "string"),
        ("km", "double"),
        ("fee", "decimal(10,2)"),
        ("kind", "string"),
        ("total", "decimal(20,2)"),
        ("trips", "bigint"),
        ("farthest", "double"),
    ]
    assert [(c.name, c.type) for c in checked.columns_of_output("trios_of_trips")] == [
        ("user", "string"),
        ("total", "decimal(20,2)"),
        ("kinds", "bigint"),
    ]
    assert [(c.name, c.type) for c in checked.columns_of_output("pairs_of_trips")] == [
        ("window_start", "timestamp"),
        ("user", "string"),
        ("trips", "bigint"),
        ("two", "decimal(11,2)"),
    ]
    assert {type(box).__name__ for box in example.boxes} == {kind.__name__ for kind in KINDS} - {
        "Network",
        "UserAggregate",
        "Source",
        "Output",
    }


def exported(example: Network, replayer: Replayer, *outputs: str) -> dict[str, list[str]]:
    """The lines of outputs of the example over three trips, three refunds and three memberships."""
    inputs = {}
    for name, lines in (
        ("trips", ["at_ms,user,km,fee", "0,ann,5,2.00", "60000,ben,30,9.00", "1260000,zoe,0,0.00"]),
        ("refunds", ["at_ms,account,amount", "1000,ann,0.50", "2000,ann,0.25", "3661000,ben,9.00"]),
        ("memberships", ["at_ms,account,level", "0,ann,silver", "0,ann,gold", "61000,ben,gold"]),
    ):
        path = replayer.folder / f"{name}.csv"
        path.write_text("\n".join(lines) + "\n")
        inputs[name] = [path]
    export, part = replayer.folder / "export", part_of(example, *outputs)
    inputs = {source.name: inputs[source.name] for source in part.sources}
    with replayer.home() as home:
        replayer.run(home, part, inputs, width_s=600, export=export)
    return {name: (export / f"{name}.csv").read_text().splitlines() for name in outputs}


@pytest.mark.long
def test_the_join_and_lookup_of_the_example_give_each_trip_with_what_they_find_or_without(
    example: Network, replayer: Replayer
) -> None:
    """Two refunds of ann's first trip; one came an hour and a second after ben's.

    Of ann's two levels at one time the last one is found; ben has one a second after his trip.
    """
    found = exported(example, replayer, "refunds_of_trips", "levels_of_trips")
    assert found["refunds_of_trips"] == [
        "user,fee,refund", "ann,1.00,0.25", "ann,1.00,0.50", "ben,9.00,",
    ]  # fmt: skip
    assert found["levels_of_trips"] == ["user,fee,level", "ann,1.00,silver", "ben,9.00,"]


@pytest.mark.long
def test_the_windows_and_the_resample_of_the_example_have_a_row_where_no_trip_is(
    example: Network, replayer: Replayer
) -> None:
    """Ann's fare is the newest at the start of three hours, ben's at that of two.

    The trip of no length is of no kind: the windows until its bucket ends have rows without trips.
    """
    found = exported(example, replayer, "kinds", "fares_every_hour", "pairs_of_trips")
    assert [line.partition(",")[2] for line in found["pairs_of_trips"]] == [
        "user,trips,two", "ann,1,1.00", "ben,1,9.00",
    ]  # fmt: skip
    header, *kinds = found["kinds"]
    assert header == "window_start,kind,trips,fees,max_km"
    assert [(line[14:16], *line.split(",")[1:]) for line in kinds] == [
        ("00", "long", "1", "9.00", "30.0"), ("00", "short", "1", "1.00", "5.0"),
        ("10", "long", "0", "0.00", ""), ("10", "short", "0", "0.00", ""),
        ("20", "long", "0", "0.00", ""), ("20", "short", "0", "0.00", ""),
    ]  # fmt: skip
    header, *fares = found["fares_every_hour"]
    assert header == "sample_time,user,fee"
    assert [(line[11:13], *line.split(",")[1:]) for line in fares] == [
        ("00", "ann", "1.00"), ("01", "ann", "1.00"), ("01", "ben", "9.00"),
        ("02", "ann", "1.00"), ("02", "ben", "9.00"),
    ]  # fmt: skip


@pytest.mark.long
def test_the_calendar_windows_of_the_example_are_the_days_of_berlin(
    example: Network, replayer: Replayer
) -> None:
    """A day of 23 hours: 2026-03-29. The trips are at its first, a middle and its last instant."""
    trips = replayer.folder / "trips.csv"
    times = ("1774738799999", "1774738800000", "1774780000000", "1774821599999", "1774821600000")
    trips.write_text("\n".join(["at_ms,user,km,fee", *(f"{t},ann,5,2.00" for t in times)]) + "\n")
    refunds = replayer.folder / "refunds.csv"
    refunds.write_text("at_ms,account,amount\n1774738800000,zoe,1.00\n")
    memberships = replayer.folder / "memberships.csv"
    memberships.write_text("at_ms,account,level\n1774738800000,zoe,gold\n")
    export = replayer.folder / "export"
    inputs = {"trips": [trips], "refunds": [refunds], "memberships": [memberships]}
    with replayer.home() as home:
        replayer.run(home, example, inputs, export=export)
    rows = (export / "days.csv").read_text().splitlines()
    assert [row.rpartition(",")[0] for row in rows] == [
        "window_start,trips",
        "2026-03-27T23:00:00Z,1",
        "2026-03-28T23:00:00Z,3",
        "2026-03-29T22:00:00Z,1",
    ]


@pytest.mark.long
def test_boxes_of_the_example_that_order_records_give_the_rows_of_each_hour_and_day(
    example: Network, replayer: Replayer
) -> None:
    """Of ann's trips for 4.00 the earlier one is first, and her fourth is in the next hour.

    Her refund of 0.50 is there twice in the first hour, and once more in the next one. Three of her
    trips are a group, and the fourth begins another one. In the window of an hour that ends at the
    fourth trip, her newest one is the third.
    """
    trips = ["0,ann,5,2.00", "60000,ann,31,4.00", "70000,ann,30,4.00", "80000,ben,3,",
             "3600000,ann,5,0.10"]  # fmt: skip
    refunds = ["1000,ann,0.50", "3599999,ann,0.50", "3600000,ann,0.50"]
    inputs = {}
    for name, lines in (
        ("trips", ["at_ms,user,km,fee", *trips]),
        ("refunds", ["at_ms,account,amount", *refunds]),
        ("memberships", ["at_ms,account,level", "0,ann,gold"]),
    ):
        path = replayer.folder / f"{name}.csv"
        path.write_text("\n".join(lines) + "\n")
        inputs[name] = [path]
    export = replayer.folder / "export"
    with replayer.home() as home:
        replayer.run(home, example, inputs, export=export)
    kept = (export / "refunds_once.csv").read_text().splitlines()
    assert kept == ["at_ms,account,amount", "1000,ann,0.50", "3600000,ann,0.50"]
    rows = (export / "dearest_trips.csv").read_text().splitlines()[1:]
    assert [row.partition(",")[2] for row in rows] == [
        "ann,30.0,4.00,long,2", "ann,31.0,4.00,long,1", "ben,3.0,,short,1", "ann,5.0,0.05,short,1",
    ]  # fmt: skip
    header, *so_far = (export / "fares_so_far.csv").read_text().splitlines()
    assert header == "user,km,fee,kind,total,trips,farthest"
    assert sorted(so_far) == [
        "ann,30.0,4.00,long,9.00,3,31.0", "ann,31.0,4.00,long,5.00,2,31.0",
        "ann,5.0,0.05,short,9.05,4,31.0", "ann,5.0,1.00,short,1.00,1,5.0", "ben,3.0,,short,,1,3.0",
    ]  # fmt: skip
    groups = (export / "trios_of_trips.csv").read_text().splitlines()
    assert groups == ["user,total,kinds", "ann,9.00,2"]
    newest = (export / "newest_trips.csv").read_text().splitlines()[1:]
    at_the_hour = [row.partition(",")[2] for row in newest if row.startswith("1970-01-01T00:00:00")]
    assert sorted(at_the_hour) == ["ann,30.0,4.00,long", "ben,3.0,,short"]


@pytest.mark.long
def test_the_session_of_the_example_gives_the_rides_of_a_user_and_cuts_a_long_one(
    example: Network, replayer: Replayer
) -> None:
    """Ben rides from 9:10 to 19:00 every 20 minutes, as the page says; ann rides twice, half an
    hour apart to the second, and has one ride less."""
    minutes = range(9 * 60 + 10, 19 * 60 + 1, 10)
    trips = [*((60_000 * at, "ben") for at in minutes),
             (0, "ann"), (1_799_999, "ann"), (3_599_999, "ann")]  # fmt: skip
    inputs = {}
    for name, lines in (
        ("trips", ["at_ms,user,km,fee", *(f"{at},{user},5,2.00" for at, user in sorted(trips))]),
        ("refunds", ["at_ms,account,amount", "0,ann,0.50"]),
        ("memberships", ["at_ms,account,level", "0,ann,gold"]),
    ):
        path = replayer.folder / f"{name}.csv"
        path.write_text("\n".join(lines) + "\n")
        inputs[name] = [path]
    export = replayer.folder / "export"
    with replayer.home() as home:
        replayer.run(home, example, inputs, width_s=600, export=export)
    rows = (line.split(",") for line in (export / "rides_of_users.csv").read_text().splitlines())
    shown = [(row[0][11:19], row[1][11:19], *row[2:4]) for row in rows if row[0][:4] == "1970"]
    assert shown == [
        ("00:00:00", "00:59:59", "ann", "2"),
        ("00:59:59", "01:29:59", "ann", "1"),
        ("09:10:00", "13:30:00", "ben", "24"),
        ("13:10:00", "16:20:00", "ben", "17"),
        ("16:00:00", "19:30:00", "ben", "19"),
    ]


@pytest.mark.long
def test_the_function_of_the_example_takes_and_returns_a_frame(
    example: Network, spark: SparkSession
) -> None:
    box = example.box("letters")
    assert isinstance(box, Function)
    given = spark.createDataFrame([(7, "ab")], "stime bigint, user string")
    assert [tuple(row) for row in box.function(given).collect()] == [(7, "a"), (7, "b")]
    assert dict(box.function(given).dtypes) == {"stime": "bigint", **box.columns}


def test_a_page_without_a_part_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="the page needs <!-- functions of text -->"):
        with_parts("nothing", {"functions of text": "x"})
