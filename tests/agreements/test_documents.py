"""Columns and document are the same thing: any terms, from Python to SQL and back."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medusa_core.commits import Cause
from medusa_core.market.documents import document_of, revision_of
from medusa_core.market.terms import (
    Availability,
    Content,
    ContractName,
    Method,
    Movement,
    Per,
    PriceRange,
    Recovery,
    Revision,
    Subject,
    Suggested,
    Terms,
)
from medusa_core.names import FragmentName, Participant, StreamName
from tests.agreements.building import Party, SqlRefused, some_terms

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)
MONEY = st.decimals(Decimal("0.000001"), Decimal(10) ** 12, places=6, allow_nan=False)
LENGTHS = st.integers(1, 2**53 - 1)


@st.composite
def price_ranges(draw: Callable[..., Any]) -> PriceRange:
    low = draw(st.decimals(Decimal("0.000001"), Decimal(10) ** 6, places=6))
    step = draw(st.decimals(Decimal("0.000001"), Decimal(1000), places=6))
    return PriceRange(low=low, high=low + step * draw(st.integers(0, 1000)), step=step)


AVAILABILITIES = st.builds(
    Availability,
    recovery=st.sampled_from(Recovery),
    method=st.sampled_from(Method),
    replicas=LENGTHS,
    bound_ms=st.none() | LENGTHS,
)
SUBJECTS: st.SearchStrategy[Subject] = st.one_of(
    st.builds(
        Movement,
        price=price_ranges(),
        fragments=st.none() | st.frozensets(NAMES.map(FragmentName), min_size=1, max_size=8),
        load_max=MONEY,
        billed=st.frozensets(st.sampled_from(Cause), min_size=1),
        availability=AVAILABILITIES,
        penalty=MONEY | st.just(Decimal(0)),
        hold_ms_max=LENGTHS,
    ),
    st.builds(
        Content,
        stream=NAMES.map(StreamName),
        price=MONEY,
        per=st.sampled_from(Per),
        availability=AVAILABILITIES,
        penalty=MONEY,
        hold_ms_max=LENGTHS,
    ),
    st.builds(Suggested, stream=NAMES.map(StreamName), instead=st.just(Participant("zeta"))),
)


@st.composite
def terms(draw: Callable[..., Any]) -> Terms:
    begins = draw(st.integers(-60_000_000_000_000, 9_000_000_000_000_000))
    number = draw(st.just(1) | LENGTHS)
    return Terms(
        contract=ContractName(draw(NAMES)),
        number=number,
        supersedes=None if number == 1 else Revision(f"{draw(st.integers(0, 2**255)):064x}"),
        payer=Participant("alpha"),
        provider=Participant(draw(NAMES.filter(lambda n: n not in ("alpha", "zeta")))),
        currency=draw(st.from_regex("[A-Z]{3}", fullmatch=True)),
        valid_from_ms=begins,
        valid_until_ms=begins + draw(st.integers(1, 7_199_254_740_991)),
        settlement_ms=draw(LENGTHS),
        notice_ms=draw(LENGTHS | st.just(0)),
        subject=draw(SUBJECTS),
    )


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(these=terms())
def test_a_document_says_in_sql_what_it_says_in_python(alpha: Party, these: Terms) -> None:
    document = document_of(these)
    ((written, hashed, sound),) = alpha.sql(
        "SELECT medusa.contract_document(t), t.revision, medusa.check_terms(t)::text "
        "FROM medusa.terms_of(%s) AS t",
        document,
    )
    assert bytes(written) == document
    assert hashed == revision_of(these)
    assert sound == "", "what Python takes, SQL takes"


WRONG = {
    "not as it is written": document_of(some_terms()).replace(b'"1.2"', b'"1.20"'),
    "with space": document_of(some_terms()).replace(b",", b", "),
    "with more in it": document_of(some_terms()).replace(b'{"contract"', b'{"a":1,"contract"'),
    "with another price": document_of(some_terms()).replace(b'"price_low":"1"', b'"price_low":"9"'),
    "twice the same field": document_of(some_terms()).replace(
        b'"number":1', b'"number":1,"number":1'),
    "no JSON": b"{",
    "a list": b"[1,2]",
    "null": b"null",
    "nothing": b"",
    "no text": b"\xff\xfe",
    "a subject that is a list": document_of(some_terms()).replace(b'"subject":{', b'"subject":[{'),
    "a number that is a text": document_of(some_terms()).replace(b'"number":1', b'"number":"1"'),
    "a time beyond all": document_of(some_terms()).replace(b"4000000000000", b"99999999999999999"),
    "with columns in it": document_of(some_terms()).replace(
        b'"subject":{', b'"revision":"x","known_at":"now","subject":{'),
}  # fmt: skip


def test_what_is_no_document_is_refused_in_a_sentence(alpha: Party) -> None:
    for what, document in WRONG.items():
        with pytest.raises(SqlRefused) as refused:
            alpha.sql("SELECT medusa.propose_document(%s, 1000, 'a test')", document, role="job")
        assert refused.value.ours is not None, (what, refused.value.detail)
        assert alpha.shows() == ()
