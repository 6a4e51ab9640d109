"""Bugs that are planted into a copy of the core and of the SQL, each found by a test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.running import COPIED
from tests.sweeps import long_but

ROOT = Path(__file__).resolve().parents[2]
CORE, SQL = "medusa_core/market", "sql/functions/market_books"
ACKNOWLEDGED = (
    "test_a_provider_states_no_results_of_a_move_that_goes_on_before_they_are_acknowledged"
)
PROPERTIES = "tests/market/test_load_statements.py"
FITS = "test_a_statement_of_many_moves_fits_a_message_and_leaves_nothing_out"
SAMPLES, CLAIMS = "tests/books/test_samples.py", "tests/market/test_samples.py"
STATEMENTS, SETTLING, GUARDS, LOAD = (
    "tests/market/test_statements.py", "tests/books/test_settling.py", "tests/books/test_guards.py",
    "tests/books/test_load_bills.py",
)  # fmt: skip

BUGS = {
    "amounts are rounded half up": (
        f"{CORE}/money.py", "rounding=ROUND_HALF_EVEN", "rounding='ROUND_HALF_UP'",
        f"{STATEMENTS}::test_amounts_are_rounded_half_to_even_at_six_places",
    ),
    "the greater of two amounts is agreed on": (
        f"{CORE}/bill_comparison.py", "return min(claimed.amount", "return max(claimed.amount",
        f"{STATEMENTS}::test_one_altered_row_count_is_found_named_and_blocked",
    ),
    "rows of other content are agreed on": (
        f"{CORE}/bill_comparison.py", "claimed.digest != own.digest", "claimed is None",
        f"{STATEMENTS}::test_as_many_records_of_another_content_are_blocked_whole",
    ),
    "a revision applies from the period in which it becomes active": (
        f"{CORE}/settlement_periods.py", "and one.active_from_ms <= from_ms",
        "and one.active_from_ms < from_ms + before.terms.settlement_ms",
        f"{STATEMENTS}::test_periods_follow_one_another_and_end_with_the_contract",
    ),
    "the end of a dispute books what was booked again": (
        f"{CORE}/bill_answers.py", "if outcome.ends_dispute else None", "if False else None",
        f"{STATEMENTS}::test_books_of_both_homes_mirror_each_other_and_sum_to_zero",
    ),
    "a dispute that a revision explains does not end": (
        f"{CORE}/bill_reconciliation.py", "return all(", "return False and all(",
        f"{SETTLING}::test_a_payer_that_follows_a_revision_late_ends_the_dispute_by_itself",
    ),
    "rows that were revised still count": (
        f"{SQL}/billed_changes.sql", "SELECT -1, s.segment_id,", "SELECT 0, s.segment_id,",
        f"{SETTLING}::test_a_bucket_revised_after_its_period_was_settled_is_corrected_in_the_next",
    ),
    "what a revision replaced is not held": (
        f"{SQL}/hold_billed.sql", "changes->'version')", "'999'::jsonb)",
        f"{GUARDS}::test_a_revision_that_is_not_counted_yet_is_held",
    ),
    "rows that are not counted are not held": (
        f"{SQL}/hold_billed.sql", "(changes->>'noted_us')::bigint", "9223372036854775807",
        f"{GUARDS}::test_rows_that_are_counted_may_be_trimmed_and_no_others",
    ),
    "an entry need not sum to zero": (
        f"{SQL}/guard_entry.sql", "OR found.rest <> 0", "",
        f"{GUARDS}::test_an_entry_that_does_not_sum_to_zero_is_refused",
    ),
    "a second statement of a period is taken for the first": (
        f"{SQL}/keep_bill.sql", "kept.document IS DISTINCT FROM keep_bill.document", "false",
        f"{GUARDS}::test_a_second_statement_of_a_period_and_a_forged_one_are_refused",
    ),
    "load is billed from before its release": (
        f"{CORE}/load_statements.py", "max(self.from_us, period.range.from_us)",
        "period.range.from_us", f"{PROPERTIES}::{FITS}",
    ),
    "load is billed behind its return": (
        f"{CORE}/load_statements.py", "or not one.range.overlaps(paid)", "",
        f"{LOAD}::test_what_was_counted_before_the_end_of_a_move_was_known_is_not_billed_behind_it",
    ),
    "a provider states what its payer has not acknowledged": (
        f"{SQL}/note_billed.sql", "WHEN one.safe_us < stable", "WHEN false",
        f"{LOAD}::{ACKNOWLEDGED}",
    ),
    "what a fragment writes is not billed": (
        f"{SQL}/streams_of_move.sql", "unnest(f.outputs)", "unnest('{}'::text[])",
        f"{LOAD}::test_what_a_moved_fragment_reads_and_writes_is_billed_by_reference",
    ),
    "a provider admits each loss": (
        "sql/queries/billed_moves.sql", "m.is_given OR m.is_own_loss", "true",
        f"{LOAD}::test_the_loss_of_a_provider_costs_the_penalty_which_it_may_dispute",
    ),
    "a price an hour is taken for one a second": (
        f"{CORE}/money.py", "Decimal(3_600)", "Decimal(1)",
        f"{LOAD}::test_what_a_moved_fragment_reads_and_writes_is_billed_by_reference",
    ),
    "the content of load is not compared": (
        f"{CORE}/load_statements.py", "move.price, _digest_of(streams)", 'move.price, ""',
        "tests/market/test_load_statements.py::test_the_records_of_another_content_are_in_dispute",
    ),
    "a gap costs the penalty though gaps are promised": (
        f"{CORE}/bill_statements.py", "content.availability.recovery is not Recovery.GAP", "True",
        f"{SETTLING}::test_a_gap_costs_the_penalty_unless_gaps_are_promised",
    ),
    "a sample may be of any bucket": (
        f"{CORE}/sample_claims.py", "if not draw.has(", "if False and draw.has(",
        f"{SAMPLES}::test_a_payer_that_disputes_a_bucket_that_was_not_drawn_is_refused",
    ),
    "any seed is one that was committed": (
        f"{CORE}/samples.py", "hashed(seed, at + 1) == commitment", "bool(commitment)",
        f"{SAMPLES}::test_a_payer_that_reveals_another_seed_than_it_committed_is_refused",
    ),
    "each period has the same seed": (
        "sql/functions/market_samples/revealed_seed.sql", "4095 - (", "4095 + 0 * (",
        f"{SAMPLES}::test_both_languages_draw_from_the_same_chain_of_seeds",
    ),
    "a range with a wrong sample is paid": (
        f"{CORE}/load_statements.py", "replace(charge, price=ZERO, amount=ZERO)", "charge",
        f"{SAMPLES}::test_wrong_rows_in_a_drawn_bucket_are_named_and_their_range_is_not_paid",
    ),
    "a provider gives up whatever it recomputes": (
        f"{CORE}/sample_claims.py", "judged.outcome is SampleOutcome.DIFFERS", "True",
        f"{CLAIMS}::test_a_provider_gives_up_only_what_it_finds_as_the_payer_says",
    ),
    "a bucket counts as recomputed before it is": (
        "pipelines/market/settlement/sample_sync.py", "chosen.pop().from_us", "to_us",
        f"{SAMPLES}::test_a_contract_says_how_many_buckets_are_recomputed",
    ),
    "postings may be changed": (
        "sql/triggers/180_books.sql", ", 'medusa_market.book_posting'", "",
        f"{GUARDS}::test_nobody_but_a_superuser_changes_the_books",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the product and its tests."""
    folder = tmp_path_factory.mktemp("planted")
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.mark.parametrize("bug", long_but(0, BUGS))
def test_a_planted_bug_is_found(copy: Path, bug: str) -> None:
    name, before, after, test = BUGS[bug]
    source = (copy / name).read_text()
    assert before in source
    (copy / name).write_text(source.replace(before, after))
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test],
            cwd=copy, env={**os.environ, "PYTHONPATH": str(copy)}, capture_output=True, text=True,
            timeout=300, check=False,
        )  # fmt: skip
    finally:
        (copy / name).write_text(source)
    assert ran.returncode == 1, ran.stdout
    assert "1 failed" in ran.stdout
