"""Samples are drawn from seeds that were committed, and withhold the price of their range alone."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.digest import Digest
from medusa_core.errors import Refused
from medusa_core.grid import Range
from medusa_core.market.bill_answers import bill_answer
from medusa_core.market.bill_comparison import AnswerOutcome, compare_statements
from medusa_core.market.bill_statements import (
    STATEMENT_BYTES_MAX,
    ChargeKind,
    Statement,
    statement_document,
    statement_from,
)
from medusa_core.market.load_statements import SAMPLES_MAX, load_statement
from medusa_core.market.sample_claims import (
    Commitment,
    check_samples,
    check_seeds,
    is_conceded,
    wrong_samples,
)
from medusa_core.market.samples import (
    LINKS,
    RATE,
    Draw,
    Sample,
    SampleOutcome,
    commitment_of,
    compared,
    is_committed,
    seed_at,
)
from medusa_core.names import StreamName
from tests.agreements.building import ALPHA
from tests.market.test_load_statements import (
    BEGINS_US,
    CUT_US,
    a_move,
    a_period,
    counted,
    terms_with,
)
from tests.sweeps import examples

COUNTED = StreamName("counted")
WIDTH_US = CUT_US // 6
ROOT = sha256(b"a root").digest()
SEED = seed_at(ROOT, 0) or b""
BUCKETS = 200 * 6
WHOLE = Range(BEGINS_US, BEGINS_US + BUCKETS * WIDTH_US)
DRAWN = list(Draw(SEED).buckets(COUNTED, WHOLE, WIDTH_US))


def a_seed(number: int) -> bytes:
    return sha256(f"seed {number}".encode()).digest()


def a_sample(part: Range, outcome: SampleOutcome = SampleOutcome.DIFFERS) -> Sample:
    return Sample(
        number=1, stream=COUNTED, range=part, outcome=outcome, stated="a" * 32, recomputed="b" * 32
    )


def a_commitment(**changes: object) -> Commitment:
    one = Commitment(
        number=1,
        fragment="net/main",
        commitment=commitment_of(ROOT),
        first_period=1,
        from_us=BEGINS_US,
        to_us=None,
        widths_us={COUNTED: WIDTH_US},
    )
    return replace(one, **changes)  # type: ignore[arg-type]


def statements(*samples: Sample, move: object = None) -> tuple[Statement, Statement]:
    """The provider's, and the payer's with what it has recomputed."""
    period, moves = a_period(terms_with("main/seen=500")), [move or a_move()]
    ranges = [counted("1/seen", cell, 10**7) for cell in range(200)]
    return (
        load_statement(period, moves, ranges),  # type: ignore[arg-type]
        load_statement(period, moves, ranges, samples),  # type: ignore[arg-type]
    )


@settings(max_examples=examples(30, 500), deadline=None)
@given(root=st.binary(min_size=32, max_size=32), at=st.integers(0, LINKS - 1),
       other=st.integers(-3, LINKS + 3))  # fmt: skip
def test_the_seed_of_a_period_leads_to_the_commitment_and_no_other_does(
    root: bytes, at: int, other: int
) -> None:
    commitment, seed = commitment_of(root), seed_at(root, at)
    assert seed is not None
    assert is_committed(commitment, at, seed)
    assert is_committed(commitment, other, seed) == (other == at)
    assert not is_committed(commitment, at, sha256(seed + b"x").digest())
    assert not is_committed(commitment, at, seed[:31])


def test_after_the_last_link_there_is_no_seed() -> None:
    assert seed_at(ROOT, LINKS - 1) == ROOT
    assert seed_at(ROOT, LINKS) is None
    assert not is_committed(commitment_of(ROOT), -1, commitment_of(ROOT))


@settings(max_examples=examples(40, 500), deadline=None)
@given(cut=st.integers(0, BUCKETS), number=st.integers(0, 10**6))
def test_what_is_drawn_depends_on_the_seed_and_the_bucket_alone(cut: int, number: int) -> None:
    seed, at_us = a_seed(number), BEGINS_US + cut * WIDTH_US
    parts = [Range(*bounds) for bounds in ((WHOLE.from_us, at_us), (at_us, WHOLE.to_us))
             if bounds[0] < bounds[1]]  # fmt: skip
    whole = list(Draw(seed).buckets(COUNTED, WHOLE, WIDTH_US))
    assert [b for part in parts for b in Draw(seed).buckets(COUNTED, part, WIDTH_US)] == whole
    assert all(Draw(seed).has(COUNTED, bucket.from_us) for bucket in whole)
    assert {b.from_us % WIDTH_US for b in whole} <= {0}


def test_a_provider_that_is_wrong_in_one_of_a_hundred_buckets_is_found_as_the_rate_says() -> None:
    """500 seeds: each of 200 wrong buckets is drawn with 1 %, so that 87 % of the seeds hit one."""
    wrong = [BEGINS_US + at * 100 * WIDTH_US for at in range(200)]
    hits = [sum(Draw(a_seed(n)).has(COUNTED, at) for at in wrong) for n in range(500)]
    expected = 1 - (1 - float(RATE)) ** len(wrong)
    deviation = (expected * (1 - expected) / len(hits)) ** 0.5
    found = sum(hit > 0 for hit in hits) / len(hits)
    assert abs(found - expected) < 4 * deviation
    assert abs(sum(hits) / len(hits) - 2) < 4 * (2 / len(hits)) ** 0.5


@pytest.mark.parametrize(("rate", "expected"), [("0", 0), ("0.25", 300), ("1", BUCKETS)])
def test_a_contract_says_how_many_are_drawn(rate: str, expected: int) -> None:
    found = list(Draw(SEED, Decimal(rate)).buckets(COUNTED, WHOLE, WIDTH_US))
    assert abs(len(found) - expected) < 4 * (expected * (1 - Decimal(rate))).sqrt() + 1
    claimed, own = statements(*map(a_sample, found[:1]))
    check_samples(claimed, own, {1: SEED}, [a_commitment(rate=Decimal(rate))])


def test_a_wrong_sample_withholds_the_price_of_its_range_until_the_dispute_ends() -> None:
    bucket = DRAWN[2]
    claimed, own = statements(a_sample(bucket))
    comparison = compare_statements(claimed, statement_from(statement_document(own)))
    charge = next(c for c in claimed.charges if c.from_us <= bucket.from_us < c.to_us)
    assert charge.amount > 0
    assert comparison.blocked == charge.amount
    answers = {outcome: bill_answer(ALPHA, comparison, outcome) for outcome in AnswerOutcome}
    assert answers[AnswerOutcome.DISPUTED].segment == (bucket.from_us, bucket.to_us)
    assert answers[AnswerOutcome.DISPUTED].amount == claimed.total - charge.amount
    assert answers[AnswerOutcome.OWN].amount == claimed.total - charge.amount
    assert answers[AnswerOutcome.CLAIMED].amount == claimed.total
    assert wrong_samples(own) == (a_sample(bucket),)


def test_a_bucket_that_reaches_over_the_end_of_its_range_is_named_all_the_same() -> None:
    """Charges need not end where buckets do: a bucket belongs to the one in which it begins."""
    end_us = BEGINS_US + 10 * CUT_US
    claimed, own = statements(a_sample(Range(end_us - 1, end_us + WIDTH_US - 1)))
    assert compare_statements(claimed, own).segment == (end_us - 1, end_us + WIDTH_US - 1)
    assert compare_statements(claimed, claimed).segment is None


@pytest.mark.parametrize("outcome", [SampleOutcome.EQUAL, SampleOutcome.NOT_VERIFIABLE])
def test_other_samples_change_nothing(outcome: SampleOutcome) -> None:
    claimed, own = statements(*(a_sample(bucket, outcome) for bucket in DRAWN))
    assert claimed == own


def test_rows_are_compared_by_their_digest() -> None:
    part, rows = DRAWN[0], Digest(3, 7, 8)
    assert compared(1, COUNTED, part, rows, rows).outcome is SampleOutcome.EQUAL
    assert compared(1, COUNTED, part, rows, Digest(3, 7, 9)).outcome is SampleOutcome.DIFFERS


def test_a_statement_with_the_most_wrong_samples_fits_a_message() -> None:
    name = f"{'n' * 63}/{'f' * 63}"
    stream = StreamName("s" * 63)
    period = a_period(terms_with(f"{'f' * 63}/seen=500"))
    ranges = [counted("1/seen", cell, 10**7) for cell in range(200)]
    samples = [
        replace(a_sample(Range(at, at + WIDTH_US)), stream=stream)
        for at in range(WHOLE.from_us, WHOLE.to_us, WIDTH_US)
    ]
    own = load_statement(period, [a_move(fragment=name)], ranges, samples)
    assert len(statement_document(own)) <= STATEMENT_BYTES_MAX
    kinds = [charge.kind for charge in own.charges]
    assert kinds.count(ChargeKind.SAMPLE) == SAMPLES_MAX
    assert sum(not c.price for c in own.charges if c.kind is ChargeKind.LOAD) == SAMPLES_MAX


def test_an_honest_answer_is_taken() -> None:
    claimed, own = statements(*(a_sample(bucket) for bucket in DRAWN))
    check_seeds(1, {1: SEED}, [a_commitment()])
    check_samples(claimed, own, {1: SEED}, [a_commitment()])
    check_samples(claimed, claimed, {}, [])


UNDRAWN = next(
    Range(at, at + WIDTH_US)
    for at in range(WHOLE.from_us, WHOLE.to_us, WIDTH_US)
    if not Draw(SEED).has(COUNTED, at)
)
BESIDE = Range(DRAWN[0].from_us + 1, DRAWN[0].to_us + 1)
OTHER = replace(a_sample(DRAWN[0]), stream=StreamName("other"))


@pytest.mark.parametrize(
    ("sample", "seeds", "known", "said"),
    [
        (a_sample(UNDRAWN), {1: SEED}, a_commitment(), "was not drawn"),
        (a_sample(BESIDE), {1: SEED}, a_commitment(), "no bucket that the fragment writes"),
        (OTHER, {1: SEED}, a_commitment(), "no bucket that the fragment writes"),
        (a_sample(DRAWN[0]), {}, a_commitment(), "reveals no seed"),
        (a_sample(DRAWN[0]), {1: SEED}, a_commitment(number=2), "reveals no seed"),
        (a_sample(DRAWN[0]), {1: SEED}, a_commitment(from_us=DRAWN[0].to_us), "does not pay"),
        (a_sample(DRAWN[0]), {1: SEED}, a_commitment(to_us=DRAWN[0].from_us), "does not pay"),
        (replace(a_sample(DRAWN[0]), recomputed="a" * 32), {1: SEED}, a_commitment(), "same rows"),
    ],
)
def test_a_sample_of_the_payers_own_choice_is_refused(
    sample: Sample, seeds: dict[int, bytes], known: Commitment, said: str
) -> None:
    claimed, own = statements(sample)
    with pytest.raises(Refused, match=said):
        check_samples(claimed, own, seeds, [known])


@pytest.mark.parametrize(
    "subject", ["sums", "1", "/counted", "1/", "1/a/b", "x/counted", "0/counted", "-1/counted",
                "\u00b2/counted", "9" * 5_000 + "/counted", "1/Not a name"],
)  # fmt: skip
def test_a_sample_that_names_no_move_or_no_stream_is_refused(subject: str) -> None:
    claimed, own = statements(a_sample(DRAWN[0]))
    charges = [
        replace(one, subject=subject) if one.kind is ChargeKind.SAMPLE else one
        for one in own.charges
    ]
    renamed = replace(own, charges=tuple(sorted(charges, key=lambda one: one.key)))
    with pytest.raises(Refused):
        check_samples(claimed, renamed, {1: SEED}, [a_commitment()])


def test_load_that_is_withheld_without_a_sample_is_refused() -> None:
    claimed, own = statements(a_sample(DRAWN[0]))
    bare = replace(own, charges=tuple(c for c in own.charges if c.kind is ChargeKind.LOAD))
    with pytest.raises(Refused, match="names no wrong sample there"):
        check_samples(claimed, bare, {1: SEED}, [a_commitment()])


@pytest.mark.parametrize(
    ("period", "seeds", "said"),
    [
        (1, {1: a_seed(1)}, "another seed for move 1"),
        (2, {1: SEED}, "another seed for move 1"),
        (1, {2: SEED}, "has committed none"),
    ],
)
def test_a_seed_that_was_not_committed_is_refused(
    period: int, seeds: dict[int, bytes], said: str
) -> None:
    with pytest.raises(Refused, match=said):
        check_seeds(period, seeds, [a_commitment()])


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        (a_sample(DRAWN[0]), True),
        (None, False),
        (replace(a_sample(DRAWN[0]), outcome=SampleOutcome.EQUAL), False),
        (replace(a_sample(DRAWN[0]), recomputed="c" * 32), False),
        (replace(a_sample(DRAWN[0]), outcome=SampleOutcome.NOT_VERIFIABLE), False),
    ],
)
def test_a_provider_gives_up_only_what_it_finds_as_the_payer_says(
    judged: Sample | None, expected: bool
) -> None:
    comparison = compare_statements(*statements(a_sample(DRAWN[0])))
    assert is_conceded(comparison, lambda sample: judged) is expected


def test_a_provider_does_not_give_up_what_differs_for_another_reason() -> None:
    claimed, own = statements(a_sample(DRAWN[0]))
    altered = replace(claimed.charges[100], quantity=Decimal(7))
    other = replace(claimed, charges=(*claimed.charges[:100], altered, *claimed.charges[101:]))
    assert not is_conceded(compare_statements(other, own), lambda sample: a_sample(DRAWN[0]))
    assert not is_conceded(compare_statements(claimed, claimed), lambda sample: None)
