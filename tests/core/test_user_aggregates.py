"""User-defined aggregates: their declaration, the value of a group, and what is found wrong."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import permutations
from typing import Any

import pytest

from medusa_core.box_costs import cost_kind
from medusa_core.errors import Refused
from medusa_core.network import Aggregate, Network, Output, Source, UserAggregate
from medusa_core.plans import has_function_sources, network_document
from medusa_core.user_aggregates import (
    from_stored,
    from_stored_records,
    to_stored,
    trial,
    value_in_parts,
    value_of,
)


def two_of(*numbers: int | None) -> tuple[int | None, ...]:
    largest = sorted((n for n in numbers if n is not None), reverse=True)
    return (*largest, None, None)[:2]


LARGEST_TWO = UserAggregate(
    name="largest_two",
    takes=("int",),
    state=("int", "int"),
    gives="bigint",
    init=lambda: (None, None),
    add=lambda state, n: two_of(*state, n),
    merge=lambda one, other: two_of(*one, *other),
    result=lambda state: sum(n for n in state if n is not None),
)
RECORDS = [(3,), (1,), (2,), (3,)]


def test_the_value_of_a_group_is_that_of_its_records_in_any_order() -> None:
    assert value_of(LARGEST_TWO, RECORDS) == value_of(LARGEST_TWO, RECORDS[::-1]) == 6
    assert trial(LARGEST_TWO, RECORDS) == 6
    assert value_in_parts(LARGEST_TWO, RECORDS) == 6
    assert value_of(LARGEST_TWO, []) == trial(LARGEST_TWO, []) == 0
    assert value_in_parts(LARGEST_TWO, []) == 0


def test_records_are_added_in_ascending_order_whatever_the_order_in_which_they_arrive() -> None:
    total = replace(
        LARGEST_TWO, takes=("double",), state=("double",), gives="double",
        init=lambda: (0.0,), add=lambda state, x: (state[0] + x,),
        merge=lambda one, other: (one[0] + other[0],), result=lambda state: state[0],
    )  # fmt: skip
    records = [(0.1,), (0.2,), (0.3,), (0.3,)]
    assert len({value_of(total, list(some)) for some in permutations(records)}) == 1
    listed = replace(
        total, state=("string",), gives="string", init=lambda: ("",),
        add=lambda state, x: (f"{state[0]} {x}",), merge=lambda one, other: one,
    )  # fmt: skip
    nan = float("nan")
    assert value_of(listed, [(nan,), (0.0,), (2.0,), (-0.0,), (-1.0,)]) == " -1.0 -0.0 0.0 2.0 nan"
    with pytest.raises(Refused, match="in the reverse order"):
        trial(total, records)


@pytest.mark.parametrize(
    ("functions", "form"),
    [
        ({"add": lambda state, n: (state[0] or n, None)}, "in the reverse order"),
        ({"merge": lambda one, other: one}, "in two parts"),
        ({"merge": lambda one, other: two_of(*one, *other) if one[0] else one},
         "with the state of no record merged in"),
        ({"merge": lambda one, other: two_of(*one, *other) if other[0] else other},
         "merged with the state of no record"),
    ],
)  # fmt: skip
def test_a_trial_finds_what_the_value_depends_on(functions: dict[str, Any], form: str) -> None:
    wrong = replace(LARGEST_TWO, **functions)
    with pytest.raises(Refused, match=f"aggregate function largest_two gives .* {form}: let"):
        trial(wrong, [(5,), (1,), (7,)])


@pytest.mark.parametrize(
    ("functions", "sentence"),
    [
        ({"init": lambda: None}, "init of aggregate function largest_two gives None, which is no"),
        ({"init": lambda: (0,)}, "init of aggregate function largest_two gives (0,), which is no"),
        ({"add": lambda state, n: (1.5, n)}, "add of aggregate function largest_two gives (1.5, 2"),
        ({"result": lambda state: 2**63}, "which is no bigint: return a value of this type"),
        ({"result": lambda state: True}, "result of aggregate function largest_two gives True"),
    ],
)
def test_a_value_of_another_type_is_refused(functions: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        value_of(replace(LARGEST_TWO, **functions), [(2,)])
    assert sentence in str(refused.value)


def raises(*values: object) -> Any:
    raise KeyError("no\n such " + "x" * 500)


@pytest.mark.parametrize("function", ["init", "add", "merge", "result"])
def test_what_a_function_raises_is_a_sentence_that_names_it(function: str) -> None:
    own = replace(LARGEST_TWO, **{function: raises})
    for value in (value_in_parts, trial):
        with pytest.raises(Refused) as refused:
            value(own, RECORDS)
        sentence = str(refused.value)
        assert sentence.startswith(
            f"{function} of aggregate function largest_two raised KeyError ('no\\n such xxx"
        )
        assert ": let it " in sentence
        assert len(sentence) < 250


def test_a_function_cannot_end_the_process() -> None:
    own = replace(LARGEST_TWO, result=lambda state: sys.exit(3))
    with pytest.raises(
        Refused, match=r"result of aggregate function largest_two raised SystemExit"
    ):
        value_of(own, RECORDS)


def test_a_long_value_is_cut_in_a_sentence() -> None:
    own = replace(LARGEST_TWO, init=lambda: "x" * 10_000)  # type: ignore[arg-type, return-value]
    with pytest.raises(Refused, match=r"gives 'xxx.*…, which is no state \(int, int\): return"):
        value_of(own, RECORDS)


@pytest.mark.parametrize(
    ("functions", "sentence"),
    [
        ({"init": lambda x: (x,)}, r"init .* takes \(x\), but is called with \(\): write def init"),
        ({"add": lambda state: state}, r"add .* but is called with \(state, value_1\): write def"),
        ({"merge": lambda *, one, other: one}, r"merge .* but is called with \(state, other\)"),
        ({"result": lambda: 1}, r"result .* takes \(\), but is called with \(state\): write def"),
    ],
)
def test_a_function_of_other_arguments_is_refused_where_it_is_declared(
    functions: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(Refused, match=sentence):
        replace(LARGEST_TWO, **functions)


@pytest.mark.parametrize(
    ("type_", "fits", "does_not_fit"),
    [
        ("decimal(4,2)", Decimal("99.99"), Decimal("0.001")),
        ("decimal(4,2)", Decimal("-1E+1"), Decimal("100")),
        ("decimal(4,2)", None, Decimal("NaN")),
        ("int", -(2**31), 2**31),
        ("double", float("nan"), 1),
        ("string", "", b""),
        ("date", date(1, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)),
        ("timestamp", datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1)),  # noqa: DTZ001
    ],
)
def test_a_result_is_not_rounded_and_not_converted(
    type_: str, fits: object, does_not_fit: object
) -> None:
    right = replace(LARGEST_TWO, gives=type_, result=lambda state: fits)
    assert value_of(right, []) is fits
    with pytest.raises(Refused, match="return a value of this type"):
        value_of(replace(right, result=lambda state: does_not_fit), [])


@pytest.mark.parametrize(
    ("type_", "stored", "value"),
    [
        ("date", -1, date(1969, 12, 31)),
        ("timestamp", -1, datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)),
        ("binary", b"a", b"a"),
        ("bigint", 7, 7),
    ],
)
def test_the_functions_have_dates_and_times_of_python(
    type_: str, stored: object, value: object
) -> None:
    assert from_stored(type_, stored) == value
    assert to_stored(type_, value) == stored
    assert to_stored(type_, None) is None


def test_records_are_converted_only_if_a_type_is_stored_otherwise() -> None:
    rows = [(-1, 5), (0, 6)]
    assert from_stored_records(replace(LARGEST_TWO, takes=("int",)), rows) is rows
    own = replace(LARGEST_TWO, takes=("date", "int"), add=lambda state, day, n: state)
    assert from_stored_records(own, rows) == [(date(1969, 12, 31), 5), (date(1970, 1, 1), 6)]


def test_a_plan_says_whether_its_network_calls_functions_and_older_plans_keep_their_names() -> None:
    plain = Aggregate(name="a", input="s", size="1m", columns={"n": "count(*)"})
    calling = replace(plain, columns={"n": "largest_two(x)"}, aggregates=(LARGEST_TWO,))
    documents = [network_document(a_network(box)) for box in (plain, calling)]
    assert [has_function_sources({"network": one}) for one in documents] == [False, True]
    assert [cost_kind(box) for box in (plain, calling)] == ["aggregate", None]
    (box,) = documents[0]["boxes"]  # type: ignore[misc]
    assert "aggregates" not in box


def a_network(box: Aggregate) -> Network:
    return Network(
        name="n",
        sources=(Source(name="s", columns={"at": "bigint", "x": "int"}, time="at"),),
        boxes=(box,),
        outputs=(Output(name="o", input="a"),),
    )
