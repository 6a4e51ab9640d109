"""From a file to terms, to the document that both sign, and back."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.errors import Refused
from medusa_core.market.contract_files import NO_CURRENCY
from medusa_core.market.documents import document_of, terms_of
from medusa_core.market.term_rules import AMOUNT, AMOUNT_OR_ZERO, MONEY_MAX, TIME, TermRule
from medusa_core.market.terms import (
    Availability,
    BillingUnit,
    Content,
    Method,
    Movement,
    PriceRange,
    Recovery,
    Suggested,
    Terms,
    plain,
)
from medusa_core.names import FragmentName, Participant
from pipelines.contracts.yaml_values import parse_yaml
from pipelines.market.contracts.bilateral import as_written
from tests.bilateral.writing import CONTENT, MOVEMENT, SUGGESTED, TEXTS, examine

DAY_MS = 86_400_000
Y2026_MS, Y2027_MS = 1_767_225_600_000, 1_798_761_600_000


def terms_in(folder: Path, name: str, text: str) -> Terms:
    """The terms of one contract that nothing is wrong with."""
    examined = examine(folder, {name: text})
    assert examined.findings == ()
    return examined.contracts[0].terms


def value_of(rule: TermRule, text: str) -> object:
    """The value of a field with this YAML text."""
    document = as_written(parse_yaml(f"field: {text}\n".encode(), "f.yaml"))
    assert isinstance(document, dict)
    return rule.value_of(("field",), document["field"])


def test_a_movement_contract_says_what_its_file_says(tmp_path: Path) -> None:
    terms = terms_in(tmp_path, "spare", MOVEMENT)
    assert (terms.number, terms.supersedes, terms.parties) == (1, None, ("beta", "alpha"))
    assert (terms.valid_from_ms, terms.valid_until_ms) == (Y2026_MS, Y2027_MS)
    assert (terms.settlement_ms, terms.notice_ms, terms.currency) == (DAY_MS, 7 * DAY_MS, "EUR")
    assert terms.subject == Movement(
        price=PriceRange(low=Decimal("1.00"), high=Decimal("1.30"), step=Decimal("0.10")),
        fragments=frozenset({"first", "second"}),  # type: ignore[arg-type]
        load_max=Decimal("2.5"),
        reference=frozenset({"first/seen=0.5", "second/seen=2"}),
        availability=Availability(
            recovery=Recovery.PRECISE, method=Method.ACTIVE_STANDBY, replicas=2, bound_ms=10_000
        ),
        penalty=Decimal(5),
        hold_ms_max=DAY_MS,
    )


def test_a_content_contract_has_defaults_for_what_is_not_written(tmp_path: Path) -> None:
    terms = terms_in(tmp_path, "large_for_beta", CONTENT)
    assert (terms.valid_from_ms, terms.valid_until_ms) == (Y2026_MS, Y2027_MS + 500)
    assert (terms.settlement_ms, terms.notice_ms) == (DAY_MS // 2, 0)
    assert terms.subject == Content(
        stream="large",  # type: ignore[arg-type]
        price=Decimal("0.000001"),
        per=BillingUnit.RECORD,
        availability=Availability(recovery=Recovery.ROLLBACK, method=Method.UPSTREAM_BACKUP),
        penalty=Decimal(0),
        hold_ms_max=7 * DAY_MS,
    )


def test_a_suggestion_involves_no_money(tmp_path: Path) -> None:
    terms = terms_in(tmp_path, "elsewhere", SUGGESTED)
    assert terms.currency == NO_CURRENCY
    assert terms.subject == Suggested(stream="result", instead="gamma")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", TEXTS)
def test_terms_go_into_their_document_and_come_out_of_it_the_same(
    tmp_path: Path, name: str
) -> None:
    terms = terms_in(tmp_path, name, TEXTS[name])
    assert terms_of(document_of(terms)) == terms


def test_however_the_same_is_written_it_is_the_same_document(tmp_path: Path) -> None:
    other = MOVEMENT.replace("1.00", '"1"').replace("1.30", "1.3").replace("2.5", "2.500000")
    other = other.replace("[first, second]", "[second, first]").replace("1d", "86400")
    other = other.replace("T00:00:00Z", "T00:00Z").replace("load_unit: core\n", "")
    lines = other.splitlines(keepends=True)
    terms = terms_in(tmp_path / "a", "spare", MOVEMENT)
    again = terms_in(tmp_path / "b", "spare", "".join([*lines[:6], *lines[6:]]))
    assert document_of(again) == document_of(terms)


def test_any_fragment_may_move_and_a_fixed_price_has_no_step(tmp_path: Path) -> None:
    text = MOVEMENT.replace("[first, second]", "any").replace("1.30", "1.00")
    terms = terms_in(tmp_path, "spare", text.replace("  step: 0.10\n", ""))
    assert isinstance(terms.subject, Movement)
    assert terms.subject.fragments is None
    assert terms.subject.price.top == 0


# ------------------------------------------------------------ amounts

amounts = st.decimals(min_value=0, max_value=MONEY_MAX, places=6, allow_nan=False)


@given(amount=amounts, quoted=st.booleans(), places=st.integers(0, 6))
def test_an_amount_is_the_decimal_that_was_written(
    amount: Decimal, quoted: bool, places: int
) -> None:
    exact = round(amount, places)
    text = f"{exact:.{places}f}"
    read = value_of(AMOUNT_OR_ZERO, f'"{text}"' if quoted else text)
    assert isinstance(read, Decimal)
    assert read == exact
    assert Decimal(plain(read)) == exact
    assert read.as_tuple() == Decimal(text).as_tuple()


@given(text=st.text(st.sampled_from("0123456789.,-+eE_ nNaAiIfF٣²"), min_size=1, max_size=12))
def test_what_is_no_amount_is_refused_and_never_becomes_another(text: str) -> None:
    try:
        amount = value_of(AMOUNT_OR_ZERO, f"'{text}'")
    except Refused:
        return
    assert text.isascii()
    assert Decimal(text) == amount
    assert Decimal(text) >= 0
    assert set(text) <= set("0123456789.")


@pytest.mark.parametrize(
    "text", ["0.1", "0.30", "1.30", "2.675", "0.000001", "999999999999.999999"]
)
def test_no_amount_becomes_binary_noise(text: str) -> None:
    assert value_of(AMOUNT, text) == Decimal(text)


# ------------------------------------------------------------ times


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.999Z", -1),
        ("2026-01-01T00:00Z", Y2026_MS),
        ("2024-02-29T12:34:56.7Z", 1_709_210_096_700),
    ],
)
def test_a_time_is_unix_milliseconds(text: str, time_ms: int) -> None:
    assert value_of(TIME, text) == time_ms


@pytest.mark.parametrize(
    "text", ["2026-02-29T00:00:00Z", "2026-01-01T24:00:01Z", "0000-01-01T00:00:00Z",
             "2026-01-01T00:00:60Z", "2026-01-01t00:00:00Z", "2026-01-01T00:00:00"]
)  # fmt: skip
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="write a time that exists, in UTC"):
        value_of(TIME, text)


@pytest.mark.parametrize("name", ["../x", "a b", "", "a.b.c", "x" * 200])
def test_a_fragment_that_may_move_is_named_like_one(tmp_path: Path, name: str) -> None:
    terms = terms_in(tmp_path, "spare", MOVEMENT)
    assert isinstance(terms.subject, Movement)
    with pytest.raises(Refused, match="write a name, FRAGMENT or NETWORK"):
        replace(terms.subject, fragments=frozenset({FragmentName(name)}))


def test_each_party_is_the_others_partner_and_nobody_else_has_one(tmp_path: Path) -> None:
    terms = terms_in(tmp_path, "spare", MOVEMENT)
    assert terms.partner_of(terms.payer) == terms.provider
    assert terms.partner_of(terms.provider) == terms.payer
    with pytest.raises(ValueError, match="no party"):
        terms.partner_of(Participant("somebody"))


@pytest.mark.parametrize(
    "changes", [{"settlement_ms": 0}, {"notice_ms": -1}, {"settlement_ms": 367 * DAY_MS}]
)
def test_durations_of_a_contract_are_ones(tmp_path: Path, changes: dict[str, int]) -> None:
    terms = terms_in(tmp_path, "spare", MOVEMENT)
    replace(terms, settlement_ms=1, notice_ms=0)
    with pytest.raises(Refused, match="write a duration"):
        replace(terms, **changes)  # type: ignore[arg-type]
