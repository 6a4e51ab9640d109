"""Edits are read as an owner writes them, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.errors import Refused
from pipelines.market.what_if.edits import COLUMNS, Edit, parse_edit

CHANGES = {"price_high": "1.30", "load_max": "4"}


@pytest.mark.parametrize(
    "written",
    [
        "contract spare SET price_high = 1.30, load_max = 4",
        "CONTRACT spare set price_high=1.30,load_max=4;",
        "UPDATE medusa_api.contract SET price_high = '1.30', load_max = 4 WHERE contract = 'spare'",
        "update contract set price_high = 1.30, load_max = 4 where contract = 'spare';",
    ],
)
def test_the_same_edit_can_be_written_in_several_ways(written: str) -> None:
    assert parse_edit(written) == Edit("spare", CHANGES)


def test_where_there_is_one_contract_its_name_may_be_left_out() -> None:
    assert parse_edit("price_high = 1.30, load_max = 4") == Edit(None, CHANGES)


def test_a_contract_alone_is_taken_as_it_is_proposed() -> None:
    assert parse_edit("contract spare") == Edit("spare", {})


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("fragments = '{main, other}'", ["main", "other"]),
        ("fragments = ARRAY['main','other']", ["main", "other"]),
        ("fragments = '{}'", []),
        ("fragments = NULL", None),
        ("validity = '[2026-01-01,2027-01-01)'", "[2026-01-01,2027-01-01)"),
        ("currency = 'E''R'", "E'R"),
        ("price_low = -3", "-3"),
        ("replicas = '2'", "2"),
    ],
)
def test_values_are_read_by_the_column_they_are_of(written: str, value: object) -> None:
    assert list(parse_edit(written).changes.values()) == [value]


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("", "a column is missing"),
        ("contract", "the contract's name is missing at its end"),
        ("contract Spare SET price_high = 1", "'Spare'"),
        ("contract spare price_high = 1", "SET is missing at 'price_high'"),
        ("contract spare SET price_hihg = 1", "did you mean 'price_high'?"),
        ("contract spare SET price_high = 1, price_high = 2", "sets price_high twice"),
        ("contract spare SET price_high = abc", "price_high = abc is not one: write a number"),
        ("contract spare SET price_high = 1e3", "cannot be read"),
        ("contract spare SET price_high = NaN", "is not one"),
        ("contract spare SET price_high = 1 + 1", "cannot be read"),
        ("contract spare SET price_high = (SELECT 1)", "cannot be read"),
        ("contract spare SET price_high = 1; DROP TABLE medusa.home", "an edit ends here"),
        ("contract spare SET price_high = 1 -- and more", "cannot be read"),
        ("contract spare SET currency = EUR", "write a text in quotes"),
        ("contract spare SET currency = 'EUR", "cannot be read"),
        ("contract spare SET replicas = 1.5", "write a whole number"),
        ("contract spare SET fragments = '{a,{b}}'", "write a list"),
        ("contract spare SET validity = 'soon'", "write a time"),
        ("contract spare SET expires_at = '2027-01-01'", "leave expires_at out"),
        (
            "UPDATE medusa_market.contract_revision SET price_high = 1",
            "medusa_market is not what is edited",
        ),
        ("UPDATE contract SET price_high = 1", "WHERE is missing at its end"),
        ("UPDATE contract SET price_high = 1 WHERE true", "CONTRACT is missing"),
        ("UPDATE contract SET price_high = 1 WHERE contract = 'a' OR true", "an edit ends here"),
        ("DELETE FROM medusa_api.contract", "has no column 'delete'"),
        ("contract spare SET price_high = 1" + " " * 10_000, "none is longer"),
    ],
)
def test_what_is_no_edit_is_refused_with_the_place(written: str, says: str) -> None:
    with pytest.raises(Refused) as refused:
        parse_edit(written)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@given(st.text(max_size=200) | st.lists(st.sampled_from(
    ["contract", "spare", "SET", "=", ",", "'x'", "1", "NULL", "UPDATE", *COLUMNS]
)).map(" ".join))  # fmt: skip
def test_every_write_is_an_edit_or_refused(written: str) -> None:
    try:
        edit = parse_edit(written)
    except Refused:
        return
    assert set(edit.changes) <= set(COLUMNS)
