"""docs/bilateral.md on medusa_api.contract: its columns, and the SQL of a first contract."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pytest

from pipelines.market.sync.contract_sync import settle
from tests.agreements.building import Party, SqlRefused
from tests.agreements.homes import Parties
from tests.docs.pages import page

PAGE = page("bilateral")
BLOCKS = re.findall(r"<!-- sql: (\w+) -->\n```sql\n(.*?)```", PAGE, re.DOTALL)
_, _, COLUMNS_PART = PAGE.partition("### Columns of medusa_api.contract\n")
EDITED = re.findall(r"^\| `(\w+)` \| `([^`]+)` \| ([\w, ]*?) ?\| (.+) \|$", COLUMNS_PART, re.M)
SHOWN = re.findall(r"^\| `(\w+)` \| `([^`]+)` \| ([^|]+) \|$", COLUMNS_PART, re.M)

COMMON = {
    "contract": "'one'", "payer": "'alpha'", "provider": "'beta'", "currency": "'EUR'",
    "validity": "'[2026-01-01 00:00Z,2095-01-01 00:00Z)'", "settlement_ms": "1000",
    "notice_ms": "0", "expires_at": "clock_timestamp() + interval '1 h'",
}  # fmt: skip
AVAILABILITY = {
    "recovery": "'precise'", "method": "'upstream_backup'", "replicas": "1", "bound_ms": "1000",
    "penalty": "0", "hold_ms_max": "1000",
}  # fmt: skip
VALUES: Mapping[str, Mapping[str, str]] = {
    "movement": {
        **COMMON, **AVAILABILITY, "kind": "'movement'", "price_low": "1", "price_high": "2",
        "price_step": "1", "fragments": "'{main}'", "load_max": "1",
        "reference": "'{main/seen=0.5}'", "verify": "0.02",
    },
    "content": {
        **COMMON, **AVAILABILITY, "kind": "'content'", "stream": "'sums'", "price": "1",
        "per": "'record'",
    },
    "suggested": {**COMMON, "kind": "'suggested'", "stream": "'sums'", "instead": "'gamma'"},
}  # fmt: skip


def inserted(values: Mapping[str, str]) -> str:
    """The INSERT of a contract with these columns."""
    listed = ", ".join(values.values())
    return f"INSERT INTO medusa_api.contract ({', '.join(values)}) VALUES ({listed})"


def statements(text: str) -> Iterator[str]:
    """The statements of a block, in order."""
    return (statement for statement in text.split(";") if statement.strip())


def test_the_tables_have_every_column_of_the_view_with_its_type(alpha: Party) -> None:
    found = alpha.sql(
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute AS a "
        "WHERE a.attrelid = 'medusa_api.contract'::regclass AND a.attnum > 0"
    )
    page_has = {name: type_ for name, type_, *_ in (*EDITED, *SHOWN)}
    assert page_has == dict(found)
    assert len(page_has) == len(EDITED) + len(SHOWN)


@pytest.mark.parametrize("kind", VALUES)
def test_a_column_is_required_where_the_page_says_so(kind: str, alpha: Party) -> None:
    values = VALUES[kind]
    required = {name for name, _, kinds, _ in EDITED if kinds == "all" or kind in kinds.split(", ")}
    codes = {}
    for left_out in values:
        rest = {name: value for name, value in values.items() if name != left_out}
        try:
            alpha.sql(inserted(rest))
            alpha.sql("DELETE FROM medusa_api.contract WHERE contract = 'one'")
        except SqlRefused as refused:
            codes[left_out] = refused.code
    assert codes == dict.fromkeys(required, "MD001")


@pytest.mark.parametrize("column", [name for name, *_ in SHOWN])
def test_a_column_that_follows_from_what_is_agreed_is_not_written(
    column: str, alpha: Party
) -> None:
    alpha.sql(inserted(VALUES["content"]))
    other = "clock_timestamp()" if column == "ends_at" else "'7'" if column != "number" else "7"
    with pytest.raises(SqlRefused, match="follow from what is agreed"):
        alpha.sql(f"UPDATE medusa_api.contract SET {column} = {other} WHERE contract = 'one'")


def test_the_walk_through_a_first_contract_ends_as_the_page_says(parties: Parties) -> None:
    alpha, beta = (party for name, party in parties.items() if name in ("alpha", "beta"))
    of = {"alpha": alpha, "beta": beta}
    assert [name for name, _ in BLOCKS] == ["alpha", "beta", "alpha", "alpha"]
    states: list[tuple[str, str]] = []

    def look() -> None:
        settle(party.contract_sync for party in of.values())
        found = [party.shows("sums_for_alpha", "state") for party in of.values()]
        states.append((found[0][0], found[1][0]))

    for name, block in BLOCKS[:2]:
        for statement in statements(block):
            of[name].sql(statement)
        look()
    for party in of.values():
        party.agreements.open_round(0, "the page's test")
    look()
    assert states == [("proposed", "requested"), ("agreed", "agreed"), ("in force", "in force")]
    of["alpha"].sql(BLOCKS[2][1])
    settle(party.contract_sync for party in of.values())
    assert of["beta"].sql(
        "SELECT proposed_by, state FROM medusa_api.contract_proposals WHERE state = 'open'"
    ) == [("alpha", "open")]
    of["beta"].sql("SELECT medusa_api.accept_contract('sums_for_alpha')")
    settle(party.contract_sync for party in of.values())
    of["alpha"].sql("DELETE FROM medusa_api.contract WHERE contract = 'sums_for_alpha'")
    assert of["alpha"].shows("sums_for_alpha", "price::text, ends_at IS NOT NULL") == (
        "0.001",
        True,
    )
    of["alpha"].sql(BLOCKS[3][1])
    settle(party.contract_sync for party in of.values())
    assert of["beta"].shows("load_of_alpha", "state") == ("requested",)
