"""Columns and document are the same thing: any terms, from Python to SQL and back."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from medusa_core.commits import Cause
from medusa_core.errors import Refused
from medusa_core.market.documents import document_of, revision_of, terms_of
from medusa_core.market.terms import (
    Availability,
    BillingUnit,
    BoxKind,
    Content,
    ContractName,
    Method,
    Movement,
    OriginStream,
    PriceRange,
    Recovery,
    Revision,
    Subject,
    Suggested,
    Terms,
    plain,
)
from medusa_core.names import FragmentName, Participant, StreamName
from tests.agreements.building import ALPHA, DAY_MS, Party, SqlRefused, some_terms
from tests.agreements.drawn_documents import SUBJECTS as SUBJECTS_AS_JSON
from tests.agreements.drawn_documents import (
    YEAR_1_MS,
    YEAR_9999_MS,
    a_document,
    documents,
    edits,
)
from tests.sweeps import examples, long_but

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)
FRAGMENTS = st.from_regex(r"[a-z][a-z0-9_]{0,20}([.][a-z][a-z0-9_]{0,9})?", fullmatch=True)
MONEY = st.decimals(Decimal("0.000001"), Decimal(10) ** 12, places=6, allow_nan=False)
READS = NAMES.map("yota/{}".format).map(OriginStream)
LENGTHS = st.integers(1, 366 * DAY_MS)


@st.composite
def price_ranges(draw: Callable[..., Any]) -> PriceRange:
    low = draw(st.decimals(Decimal("0.000001"), Decimal(10) ** 6, places=6))
    step = draw(st.decimals(Decimal("0.000001"), Decimal(1000), places=6))
    return PriceRange(low=low, high=low + step * draw(st.integers(0, 1000)), step=step)


PROMISES = st.sampled_from(
    [
        (recovery, method)
        for recovery in Recovery
        for method in Method
        if method is not Method.AMNESIA or recovery is Recovery.GAP
    ]
)
AVAILABILITIES = st.builds(
    lambda promise, replicas, bound_ms: Availability(
        recovery=promise[0],
        method=promise[1],
        replicas=replicas + (promise[1] is Method.ACTIVE_STANDBY),
        bound_ms=bound_ms,
    ),
    promise=PROMISES,
    replicas=st.integers(1, 999),
    bound_ms=st.none() | LENGTHS,
)
REFERENCES = st.dictionaries(
    st.tuples(FRAGMENTS, NAMES).map("/".join),
    st.integers(1, 999_999_999).map(lambda n: plain(Decimal(n).scaleb(-3))),
    min_size=1,
    max_size=8,
).map(lambda found: frozenset(f"{name}={cpu_us}" for name, cpu_us in found.items()))
SUBJECTS: st.SearchStrategy[Subject] = st.one_of(
    st.builds(
        Movement,
        price=price_ranges(),
        fragments=st.none() | st.frozensets(FRAGMENTS.map(FragmentName), min_size=1, max_size=8),
        load_max=MONEY,
        reference=st.none() | REFERENCES,
        billed=st.none() | st.frozensets(st.sampled_from(Cause), min_size=1),
        availability=AVAILABILITIES,
        penalty=MONEY | st.just(Decimal(0)),
        hold_ms_max=LENGTHS,
        reads=st.none() | st.frozensets(READS, min_size=1, max_size=3),
        verify=st.none() | st.integers(0, 10**6).map(lambda ppm: Decimal(ppm).scaleb(-6)),
    ),
    st.builds(
        Content,
        stream=NAMES.map(StreamName),
        price=MONEY,
        per=st.sampled_from(BillingUnit),
        availability=AVAILABILITIES,
        penalty=MONEY,
        hold_ms_max=LENGTHS,
    ),
    st.builds(
        Content,
        stream=NAMES.map(StreamName),
        price=MONEY,
        per=st.sampled_from(BillingUnit),
        availability=AVAILABILITIES,
        penalty=MONEY,
        hold_ms_max=LENGTHS,
        boxes=st.frozensets(st.sampled_from(BoxKind), min_size=1),
        load_max=MONEY,
    ),
    st.builds(Suggested, stream=NAMES.map(StreamName), instead=st.just(Participant("zeta"))),
)


@st.composite
def terms(draw: Callable[..., Any]) -> Terms:
    begins, ends = sorted(
        draw(st.sets(st.integers(YEAR_1_MS, YEAR_9999_MS), min_size=2, max_size=2))
    )
    number = draw(st.just(1) | st.integers(1, 2**53 - 1))
    return Terms(
        contract=ContractName(draw(NAMES)),
        number=number,
        supersedes=None if number == 1 else Revision(f"{draw(st.integers(0, 2**255)):064x}"),
        payer=Participant("alpha"),
        provider=Participant(draw(NAMES.filter(lambda n: n not in ("alpha", "yota", "zeta")))),
        currency=draw(st.from_regex("[A-Z]{3}", fullmatch=True)),
        valid_from_ms=begins,
        valid_until_ms=ends,
        settlement_ms=draw(LENGTHS),
        notice_ms=draw(LENGTHS | st.just(0)),
        subject=draw(SUBJECTS),
    )


@pytest.mark.sweep
@settings(
    max_examples=examples(8, 200),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(these=terms())
def test_a_document_says_in_sql_what_it_says_in_python(alpha: Party, these: Terms) -> None:
    document = document_of(these)
    ((written, hashed, sound),) = alpha.sql(
        "SELECT medusa_market.contract_document(t), t.revision, medusa_market.check_terms(t)::text "
        "FROM medusa_market.terms_of(%s) AS t",
        document,
    )
    assert bytes(written) == document
    assert hashed == revision_of(these)
    assert sound == "", "what Python takes, SQL takes"


def python_answer(document: bytes) -> str:
    try:
        terms_of(document)
    except Refused:
        return "refused"
    return "accepted"


def sql_answer(superuser: Engine, document: bytes) -> str:
    """Whether a row of the document's terms may be stored, even by a superuser."""
    with superuser.connect() as connection:
        try:
            connection.exec_driver_sql(
                "INSERT INTO medusa_market.contract_revision "
                "SELECT t.* FROM medusa_market.terms_of(%s) AS t ON CONFLICT DO NOTHING",
                (document,),
            )
        except DBAPIError as error:
            is_refused = getattr(error.orig, "pgcode", None) == "MD001"
            return "refused" if is_refused else str(error)
        return "accepted"


@pytest.mark.parametrize("kind", long_but(2, SUBJECTS_AS_JSON, quick=True))
def test_python_and_sql_accept_and_refuse_the_same_edit(
    watchers: dict[Participant, Engine], kind: str
) -> None:
    answers: set[str] = set()
    for edit in edits():
        document = a_document(kind, edit)
        answer = python_answer(document)
        answers.add(answer)
        assert sql_answer(watchers[ALPHA], document) == answer, edit
    assert answers == {"accepted", "refused"}


@pytest.mark.sweep
@settings(max_examples=examples(30, 1_000), deadline=None)
@given(document=documents())
def test_python_and_sql_accept_and_refuse_the_same_terms(
    watchers: dict[Participant, Engine], document: bytes
) -> None:
    answer = python_answer(document)
    event(answer)
    assert sql_answer(watchers[ALPHA], document) == answer


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
            alpha.sql(
                "SELECT medusa_market.propose_document(%s, 1000, 'a test')", document, role="job"
            )
        assert refused.value.ours is not None, (what, refused.value.detail)
        assert alpha.shows() == ()


BY_HAND = {
    "another price than the document's": "r.price_high := 9",
    "another number than the document's": "r.number := 2; r.supersedes := r.revision",
    "low above high": "r.price_low := 9",
    "no validity": "r.validity := NULL",
    "an empty validity": "r.validity := 'empty'",
}


def test_a_row_that_contradicts_its_document_is_refused_whoever_writes_it(
    alpha: Party, watchers: dict[Participant, Engine]
) -> None:
    alpha.agreements.propose(document_of(some_terms()), "a test")
    with watchers[ALPHA].connect() as superuser:
        for what, change in BY_HAND.items():
            with pytest.raises(DBAPIError) as refused:
                superuser.exec_driver_sql(
                    "DO $$ DECLARE r medusa_market.contract_revision; BEGIN "
                    f"SELECT * INTO r FROM medusa_market.contract_revision; {change}; "
                    "INSERT INTO medusa_market.contract_revision SELECT r.*; END $$"
                )
            assert getattr(refused.value.orig, "pgcode", None) == "MD001", what


def test_no_writer_can_record_overlapping_claims_to_one_subject(
    alpha: Party, watchers: dict[Participant, Engine]
) -> None:
    with watchers[ALPHA].connect() as superuser:
        for name in ("one", "two", "three"):
            superuser.execute(
                text("INSERT INTO medusa_market.contract_order (contract) VALUES (:name)"),
                {"name": name},
            )

        def claims(name: str, subject: str, validity: str, payer: str = "alpha") -> str:
            try:
                superuser.execute(
                    text(
                        "INSERT INTO medusa_market.contract_claim (contract, subject, kind, payer, "
                        "provider, validity) VALUES (:name, :subject, 'movement', :payer, 'beta', "
                        "CAST(:validity AS tstzrange))"
                    ),
                    {"name": name, "subject": subject, "validity": validity, "payer": payer},
                )
            except DBAPIError as error:
                return str(getattr(error.orig, "pgcode", None))
            return "kept"

        year, next_year = "[2026-01-01,2027-01-01)", "[2027-01-01,2028-01-01)"
        assert claims("one", "main", year) == "kept"
        assert claims("two", "tail", year) == "kept", "another fragment"
        assert claims("two", "main", year) == "23P01"
        assert claims("two", "main", next_year) == "kept", "when the other has ended"
        assert claims("three", "*", year) == "23P01", "any fragment is each of them"
        assert claims("three", "*", year, payer="gamma") == "kept", "of somebody else"
