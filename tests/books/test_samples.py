"""A payer recomputes random samples of what a provider has computed, and both can check them."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

from medusa_core.fragments import Move, moved_fragment
from medusa_core.grid import Range
from medusa_core.market.samples import LINKS, Sample, commitment_of, seed_at
from medusa_core.segments import Producer
from tests.agreements.building import ALPHA, BETA
from tests.books.sampling import (
    COUNTED,
    FRAGMENT,
    RELEASED,
    SEEN,
    Sampling,
    counts,
    records,
)
from tests.books.trade import A_DAY, at_us

FOUND = "SELECT stream, from_us, outcome, reason FROM medusa_api.samples ORDER BY from_us"
LIE = """INSERT INTO medusa_market.sample (move_id, stream, from_us, to_us, outcome, stated,
    recomputed, reason, version) VALUES (1, 'counted', {}, {}, 'differs', 'a', 'b', '', 999)"""
STATE = "SELECT state FROM medusa_api.bills WHERE (period, made_by) = (1, 'beta')"
CHARGED = """SELECT (c.value->>7)::numeric FROM medusa_market.bill AS b,
        jsonb_array_elements(convert_from(b.document, 'UTF8')::jsonb->'charges') AS c
    WHERE (b.period, b.made_by) = (1, 'beta') AND (c.value->>3)::bigint <= {0}
        AND (c.value->>4)::bigint > {0}"""


def ready(sampling: Sampling) -> None:
    """Beta is paid for what it computes from RELEASED on."""
    sampling.lend()
    sampling.release()


def lie(sampling: Sampling, bucket: int) -> None:
    """Alpha states of a bucket that it recomputed other rows."""
    move = "(SELECT move_id FROM medusa_market.sample_seed)"
    values = LIE.format(at_us(bucket), at_us(bucket + 1)).replace("(1,", f"({move},")
    sampling.execute(ALPHA, values)


def charged(sampling: Sampling, bucket: int) -> Decimal:
    """What beta has billed for the range with a bucket."""
    ((amount,),) = sampling.beta.sql(CHARGED.format(at_us(bucket)))
    return Decimal(amount)


def test_an_honest_provider_is_never_disputed(sampling: Sampling) -> None:
    ready(sampling)
    sampling.runs(RELEASED, A_DAY)
    sampling.settle()
    found = [(stream, at, outcome) for stream, at, outcome, _ in sampling.alpha.sql(FOUND)]
    assert found == [("counted", at_us(bucket), "equal") for bucket in sampling.drawn()]
    for party in (sampling.alpha, sampling.beta):
        assert party.sql(STATE) == [("settled",)]
        assert party.sql("SELECT 1 FROM medusa_api.bill_disputes") == []
    assert sampling.told() == []
    sampling.check_books()


def test_wrong_rows_in_a_drawn_bucket_are_named_and_their_range_is_not_paid(
    sampling: Sampling,
) -> None:
    ready(sampling)
    drawn = sampling.drawn()
    wrong = drawn[len(drawn) // 2]
    sampling.runs(RELEASED, A_DAY, wrong=[wrong])
    sampling.settle()
    withheld = charged(sampling, wrong)
    assert withheld > 0
    for party, sign in ((sampling.alpha, -1), (sampling.beta, 1)):
        state, claimed, agreed, blocked, from_us, to_us = sampling.dispute(party)
        assert (from_us, to_us) == (at_us(wrong), at_us(wrong + 1))
        assert (claimed - agreed, blocked) == (withheld, withheld)
        assert state == "own", "beta has recomputed it too, and gives up"
        (row,) = [row for row in party.sql(FOUND) if row[2] != "equal"]
        assert row == ("counted", at_us(wrong), "differs", "")
        ((owed,),) = party.sql("SELECT balance FROM medusa_api.accounts WHERE account = 'partner'")
        assert owed == sign * agreed
    assert sampling.told() == []
    sampling.check_books()


def test_a_payer_that_states_other_rows_of_a_drawn_bucket_keeps_its_dispute_and_wins_nothing(
    sampling: Sampling,
) -> None:
    ready(sampling)
    bucket = sampling.drawn()[0]
    lie(sampling, bucket)
    sampling.runs(RELEASED, A_DAY)
    sampling.settle()
    for party in (sampling.alpha, sampling.beta):
        assert sampling.dispute(party)[0] == "open"
        assert sampling.dispute(party)[3] == charged(sampling, bucket)
    assert sampling.beta.sql(FOUND) == [("counted", at_us(bucket), "equal", "")]
    sampling.check_books()


def test_rows_that_the_provider_has_replaced_before_the_statement_are_looked_at_again(
    sampling: Sampling,
) -> None:
    ready(sampling)
    drawn = sampling.drawn()
    sampling.runs(RELEASED, A_DAY - 1)
    while len(sampling.alpha.sql(FOUND)) < len([at for at in drawn if at < A_DAY - 1]):
        sampling.looks[ALPHA].settle()
    stale = "outcome = 'differs', stated = 'a', recomputed = 'b', version = 1"
    sampling.execute(
        ALPHA, f"UPDATE medusa_market.sample SET {stale} WHERE from_us = {at_us(drawn[0])}"
    )
    sampling.runs(A_DAY - 1, A_DAY)
    sampling.settle()
    assert sampling.alpha.sql(STATE) == [("settled",)]
    assert {outcome for _, _, outcome, _ in sampling.alpha.sql(FOUND)} == {"equal"}
    ((both,),) = sampling.alpha.sql(
        f"SELECT count(*) FROM medusa_market.sample WHERE from_us = {at_us(drawn[0])}", role="job"
    )
    assert both == 2, "what was found before stays"


def test_a_payer_that_disputes_a_bucket_that_was_not_drawn_is_refused(sampling: Sampling) -> None:
    ready(sampling)
    bucket = next(b for b in range(RELEASED, A_DAY) if b not in sampling.drawn())
    lie(sampling, bucket)
    sampling.runs(RELEASED, A_DAY)
    sampling.settle()
    assert sampling.beta.sql("SELECT 1 FROM medusa_api.bill_disputes") == []
    assert sampling.beta.sql(STATE) == [("billed",)]
    (told,) = sampling.told()
    assert f"the bucket of counted at {at_us(bucket)} of move 1, which was not drawn" in told


def test_a_payer_that_reveals_another_seed_than_it_committed_is_refused(
    sampling: Sampling,
) -> None:
    ready(sampling)
    sampling.execute(ALPHA, "UPDATE medusa_market.sample_seed SET root = sha256('another')")
    sampling.runs(RELEASED, A_DAY)
    sampling.settle()
    assert sampling.beta.sql(STATE) == [("billed",)]
    (told,) = sampling.told()
    assert "a bill_answer in the name of alpha is refused" in told
    assert "reveals another seed for move 1 than it has committed" in told


def test_a_sample_of_no_move_is_refused_and_the_next_messages_are_taken(
    sampling: Sampling, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(sampling)
    lie(sampling, sampling.drawn()[0])
    sampling.runs(RELEASED, A_DAY)
    monkeypatch.setattr(Sample, "subject", "sums")
    sampling.settle()
    (told,) = sampling.told()
    assert "a bill_answer in the name of alpha is refused: a statement names a sample" in told
    assert sampling.beta.sql("SELECT 1 FROM medusa_api.bill_disputes") == []
    assert not sampling.beta.agreements.received(9)


def test_programs_that_are_killed_anywhere_lose_nothing_and_book_nothing_twice(
    sampling: Sampling, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    passed: Counter[str] = Counter()

    def reached(point: str) -> None:
        passed[point] += 1
        if passed[point] in (1, 2):
            raise Killed

    for module in ("sample_sync", "settlement_sync"):
        monkeypatch.setattr(f"pipelines.market.settlement.{module}.reached", reached)
    ready(sampling)
    wrong = sampling.drawn()[-1]
    sampling.runs(RELEASED, A_DAY, wrong=[wrong])
    ended = "SELECT 1 FROM medusa_api.bill_disputes WHERE state = 'own'"
    while not all(party.sql(ended) for party in (sampling.alpha, sampling.beta)):
        assert sum(passed.values()) < 200
        for name in (ALPHA, BETA):
            try:
                sampling.looks[name].settle()
            except Killed:
                sampling.start(name)
        sampling.exchange()
    assert set(passed) == {
        "settlement.counted", "samples.recomputed", "samples.noted", "settlement.stated",
        "settlement.answered", "samples.judged",
    }  # fmt: skip
    for party in (sampling.alpha, sampling.beta):
        assert sampling.dispute(party)[0] == "own"
        assert sampling.dispute(party)[3] == charged(sampling, wrong)
        assert [row[:3] for row in party.sql(FOUND) if row[2] == "differs"] == [
            ("counted", at_us(wrong), "differs")
        ]
    sampling.check_books()


def test_the_inputs_of_samples_are_held_until_they_are_recomputed(sampling: Sampling) -> None:
    ready(sampling)
    sampling.runs(RELEASED, 600)
    sampling.exchange()
    for look in sampling.looks.values():
        look.settle()
    held = {
        (name, stream): hold.from_us
        for name in (ALPHA, BETA)
        for stream in (SEEN, COUNTED)
        for hold in sampling.catalog(name).holds(stream)
        if hold.purpose == "samples"
    }
    assert held == {
        (ALPHA, SEEN): at_us(RELEASED), (ALPHA, COUNTED): at_us(RELEASED),
        (BETA, SEEN): at_us(RELEASED), (BETA, COUNTED): at_us(RELEASED),
    }  # fmt: skip
    drawn = [at for at in sampling.drawn() if at < 600]
    while len(sampling.alpha.sql(FOUND)) < len(drawn):
        sampling.looks[ALPHA].settle()
    sampling.looks[ALPHA].settle()
    (hold,) = [
        h for h in sampling.catalog(ALPHA).holds(SEEN) if h.purpose == "samples"
    ]  # fmt: skip
    assert hold.from_us == at_us(600), "what is recomputed may be trimmed"


def test_a_bucket_whose_inputs_were_trimmed_is_not_verifiable_and_says_why(
    sampling: Sampling,
) -> None:
    ready(sampling)
    sampling.runs(RELEASED, A_DAY)
    sampling.execute(
        ALPHA,
        f"UPDATE medusa.stream_producer SET trimmed_us = {at_us(700)} WHERE stream = 'seen'",
    )
    sampling.settle()
    found = {at: (outcome, reason) for _, at, outcome, reason in sampling.alpha.sql(FOUND)}
    for bucket in sampling.drawn():
        why = ("not verifiable", f"seen is trimmed before {at_us(700)}")
        assert found[at_us(bucket)] == (why if bucket < 700 else ("equal", ""))
    assert sampling.alpha.sql(STATE) == [("settled",)]


def test_a_file_that_is_away_for_a_while_is_waited_for(
    sampling: Sampling,
) -> None:
    sampling.lend("1")
    sampling.release()
    sampling.runs(RELEASED, 6)
    sampling.runs(6, 8)
    (_, segment) = sampling.catalog(BETA).segments(SEEN, Range(at_us(5), at_us(8)))
    path = sampling.folder / segment.files[0].path
    path.rename(path.with_suffix(".away"))
    sampling.looks[ALPHA].settle()
    assert sampling.alpha.sql(FOUND) == [], "nothing is said of them"
    path.with_suffix(".away").rename(path)
    sampling.looks[ALPHA].settle()
    assert [outcome for _, _, outcome, _ in sampling.alpha.sql(FOUND)] == ["equal"] * 4


def test_a_file_that_stays_away_leaves_its_own_buckets_not_verifiable(sampling: Sampling) -> None:
    sampling.away_s = 0.0
    sampling.start(ALPHA)
    sampling.lend("1")
    sampling.release()
    sampling.runs(RELEASED, 6)
    sampling.runs(6, 8)
    (_, segment) = sampling.catalog(BETA).segments(SEEN, Range(at_us(5), at_us(8)))
    (sampling.folder / segment.files[0].path).unlink()
    sampling.looks[ALPHA].settle()
    found = sampling.alpha.sql(FOUND)
    assert [outcome for _, _, outcome, _ in found] == ["equal"] * 2 + ["not verifiable"] * 2
    assert "cannot be read" in found[-1][3]


RECALL = """SELECT medusa.recall_line(line_id, {}, 'wrong', 'alpha')
    FROM medusa.stream_producer WHERE stream = 'seen'"""
REVISION = """INSERT INTO medusa.recall (line_id, generation, from_us, because, who, version,
        ranges, changed)
    SELECT line_id, 2, {0}, 'wrong', 'alpha', last_version + 1, r.it, r.it
    FROM medusa.stream_producer, (SELECT int8multirange(int8range({0}, {1})) AS it) AS r
    WHERE stream = 'seen'"""


@pytest.mark.parametrize(("statement", "hit"), [(RECALL, {6, 7}), (REVISION, {6})])
def test_what_was_recalled_or_revised_is_not_verifiable_and_all_else_still_is(
    sampling: Sampling, statement: str, hit: set[int]
) -> None:
    sampling.lend("1")
    sampling.release()
    sampling.runs(RELEASED, 8)
    sampling.execute(ALPHA, statement.format(at_us(6), at_us(7)))
    sampling.write(ALPHA, "landing/seen", SEEN, 6 if statement is RECALL else 8, 11, records)
    moved, by = moved_fragment(FRAGMENT, Move(ALPHA, 1)), Producer(BETA, 1)
    sampling.write(BETA, moved, COUNTED, 8, 11, counts, by=by)
    sampling.bring(BETA, ALPHA, COUNTED, by)
    for _ in range(2):
        sampling.looks[ALPHA].settle()
    lost, fine = ("not verifiable", "seen was recalled or revised"), ("equal", "")
    found = {at: (outcome, reason) for _, at, outcome, reason in sampling.alpha.sql(FOUND)}
    assert found == {at_us(at): lost if at in hit else fine for at in range(RELEASED, 11)}


@pytest.mark.parametrize(
    "error", [duckdb.OutOfMemoryException("no memory"), pa.ArrowInvalid("no memory")]
)
def test_a_recomputation_that_fails_is_not_verifiable_and_settlement_goes_on(
    sampling: Sampling, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def recompute(*of: object) -> None:
        raise error

    sampling.lend("1")
    sampling.release()
    sampling.runs(RELEASED, 9)
    monkeypatch.setattr("pipelines.quality.moved_samples.recompute", recompute)
    sampling.looks[ALPHA].settle()
    why = f"the recomputation fails with {type(error).__name__}: no memory"
    assert [row[2:] for row in sampling.alpha.sql(FOUND)] == [("not verifiable", why)] * 5


@pytest.mark.parametrize(("verify", "expected"), [("0", []), ("1", [4, 5, 6, 7, 8])])
def test_a_contract_says_how_many_buckets_are_recomputed(
    sampling: Sampling, verify: str, expected: list[int]
) -> None:
    sampling.lend(verify)
    sampling.release()
    sampling.runs(RELEASED, 20)
    found = []
    for _ in range(2):
        sampling.looks[ALPHA].settle()
        found.append([at for _, at, _, _ in sampling.alpha.sql(FOUND)])
    following = [at + len(expected) for at in expected]
    assert found == [[at_us(at) for at in part] for part in (expected, [*expected, *following])]


def test_both_languages_draw_from_the_same_chain_of_seeds(sampling: Sampling) -> None:
    ready(sampling)
    root = sampling.root()
    for home in (ALPHA, BETA):
        with sampling.watchers[home].connect() as connection:
            rows = connection.exec_driver_sql(
                "SELECT commitment, root IS NULL FROM medusa_market.sample_seed"
            )
            assert [(bytes(one), is_null) for one, is_null in rows] == [
                (commitment_of(root), home == BETA)
            ]
    with sampling.watchers[ALPHA].connect() as connection:
        for at in (0, 1, LINKS - 1, LINKS):
            seed = connection.exec_driver_sql(
                "SELECT medusa_market.revealed_seed(move_id, first_period + %s) "
                "FROM medusa_market.sample_seed", (at,)
            ).scalar_one()  # fmt: skip
            assert (None if seed is None else bytes(seed)) == seed_at(root, at)
