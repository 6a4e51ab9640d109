"""Bugs planted on purpose are found: a checker that was seen to fail is believed."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace

import pytest

from pipelines.simulation.faults.schedule_runs import run_schedules
from pipelines.simulation.faults.schedule_shapes import (
    MARKETS,
    MOVES,
    OVERLOADS,
    REPLICAS,
    REVISIONS,
    WHOLE,
)
from tests.simulation import planted

SCHEDULES_MAX = 2_000
SOON = 60
"""Within so many schedules from its first seed each of them shows; today in the first."""
AT_ONCE = 3
"""And so does each of those that `make test` finds: else its first seed is to be found again."""

BUGS = {
    "dropped_as_final": ("L2", "S2"),
    "dropped_and_forgotten": ("L1",),
    "dropped_without_a_rate": ("S6", "L2"),
    "age_of_the_way_forgotten": ("S11",),
    "age_reset_at_a_hop": ("S11",),
    "bound_ignored_during_correction": ("S6",),
    "corrected_before_all_is_final": ("L2",),
    "correction_reads_too_little": ("L2",),
    "cutoff_with_a_wrong_digest": ("L2",),
    "missing_not_named": ("S6",),
    "stable_from_tentative": ("L2",),
    "trimmed_under_what_cannot_be_corrected_yet": ("L1",),
    "waits_anew_at_every_hop": ("S6", "S11"),
    "waits_for_ever": ("S6",),
    "acknowledged_before_imported": ("LOST",),
    "acknowledgement_does_not_renew": ("HOLD",),
    "hold_runs_out_after_half_its_limit": ("HOLD",),
    "acknowledged_too_far": ("LOST",),
    "boundary_passed_too_early": ("L2",),
    "closing_not_looked_at_again": ("Refused:",),
    "commit_without_epoch_check": ("S8",),
    "correction_forgotten": ("L1",),
    "diamond_reads_one_way": ("L2",),
    "import_applied_twice": ("REFUSED",),
    "landed_twice": ("LANDING",),
    "lease_time_not_checked": ("S8",),
    "lineage_of_a_later_version": ("S5",),
    "lost_lease_not_noticed": ("L1",),
    "lost_wake_up": ("L1",),
    "news_begin_before_what_was_read": ("REFUSED",),
    "new_reader_holds_nothing": ("LOST",),
    "stable_row_superseded": ("S12", "S2", "VERSION"),
    "trimmed_one_bucket_too_far": ("S7",),
    "version_outside_the_lock": ("VERSION", "S1", "S2", "S10"),
    "window_reads_too_little": ("L2",),
    "age_forgotten_by_a_choice": ("S11",),
    "choice_without_a_lease": ("S8",),
    "dead_producer_waited_for": ("L1", "S6"),
    "divergence_overlooked": ("CHOICE",),
    "final_in_spite_of_a_divergence": ("CHOICE",),
    "gap_chosen_though_another_has_the_rows": ("LOST",),
    "tentative_chosen_before_final": ("CHOICE",),
    "unverified_taken_as_final": ("CHOICE",),
    "followed_without_agreement": ("S13",),
    "late_record_admitted_twice": ("S13",),
    "old_version_acknowledged_for_the_new": ("S13", "L1"),
    "only_the_last_revision_followed": ("REFUSED", "S13"),
    "revision_followed_in_its_first_range": ("S13",),
    "revision_joined_with_corrections": ("Refused:",),
    "revision_made_twice": ("S13",),
    "too_few_windows_computed_again": ("L1",),
    "trimmed_before_it_is_computed_again": ("L1", "Refused:"),
    "adopted_of_anybody": ("S15",),
    "adopted_rows_trimmed": ("S10",),
    "computed_in_spite_of_the_owner": ("S15",),
    "disagreement_ignored": ("S15",),
    "end_of_a_move_not_sent": ("L1",),
    "ended_move_revived": ("S15",),
    "held_for_the_first_bucket_alone": ("LOST",),
    "inputs_of_a_move_not_held": ("LOST",),
    "lost_provider_waited_for": ("L1", "S6"),
    "moved_line_read_beside_its_payers": ("L2",),
    "moved_twice_by_one_message": ("S15",),
    "owner_noted_under_an_old_epoch": ("S15",),
    "owner_of_an_old_epoch": ("S15",),
    "owner_of_a_computed_bucket_changed": ("S15",),
    "released_before_it_has_caught_up": ("S15",),
    "returned_without_an_owner": ("S15",),
    "answer_counted_twice": ("ONCE",),
    "items_judged_alone": ("S4",),
    "late_answer_binds": ("ONCE",),
    "offer_sent_before_it_is_noted": ("ONCE",),
    "other_sizes_not_asked_for": ("L3",),
    "own_word_taken_for_a_partners": ("S5",),
    "price_of_an_old_revision": ("S4", "L3", "REFUSED"),
    "room_believed_for_ever": ("L3",),
    "room_not_told": ("L3",),
    "sheds_what_does_not_pay": ("L3",),
    "silence_never_ends": ("L3",),
    "taken_beyond_the_threshold": ("S4",),
    "unreachable_partner_blocks_the_rest": ("L3",),
}
"""Each with the laws of which it breaks one first."""

LATE = {
    "bound_ignored_during_correction",
    "correction_forgotten",
    "dead_producer_waited_for",
    "divergence_overlooked",
    "lost_lease_not_noticed",
    "lost_wake_up",
    "old_version_acknowledged_for_the_new",
    "other_sizes_not_asked_for",
    "revision_made_twice",
    "room_believed_for_ever",
    "room_not_told",
    "sheds_what_does_not_pay",
    "silence_never_ends",
    "too_few_windows_computed_again",
    "trimmed_before_it_is_computed_again",
    "trimmed_under_what_cannot_be_corrected_yet",
    "acknowledged_too_far",
    "answer_counted_twice",
    "closing_not_looked_at_again",
    "corrected_before_all_is_final",
    "final_in_spite_of_a_divergence",
    "lease_time_not_checked",
    "tentative_chosen_before_final",
    "unreachable_partner_blocks_the_rest",
    "version_outside_the_lock",
    "waits_for_ever",
}
"""Those that take more than half a second to show; `make test-long` finds them."""

FIRST_SEEDS = {
    "bound_ignored_during_correction": 3,
    "waits_for_ever": 58,
    "acknowledged_too_far": 2,
    "closing_not_looked_at_again": 18,
    "commit_without_epoch_check": 25,
    "diamond_reads_one_way": 6,
    "import_applied_twice": 5,
    "landed_twice": 3,
    "lease_time_not_checked": 8,
    "lost_lease_not_noticed": 3,
    "lost_wake_up": 2,
    "new_reader_holds_nothing": 3,
    "stable_row_superseded": 32,
    "choice_without_a_lease": 47,
    "divergence_overlooked": 89,
    "gap_chosen_though_another_has_the_rows": 3,
    "late_record_admitted_twice": 9,
    "old_version_acknowledged_for_the_new": 232,
    "only_the_last_revision_followed": 9,
    "revision_followed_in_its_first_range": 9,
    "revision_joined_with_corrections": 2,
    "revision_made_twice": 2,
    "too_few_windows_computed_again": 9,
    "trimmed_before_it_is_computed_again": 9,
    "adopted_of_anybody": 2,
    "adopted_rows_trimmed": 21,
    "computed_in_spite_of_the_owner": 3,
    "disagreement_ignored": 15,
    "ended_move_revived": 8,
    "held_for_the_first_bucket_alone": 19,
    "inputs_of_a_move_not_held": 5,
    "lost_provider_waited_for": 28,
    "moved_line_read_beside_its_payers": 6,
    "moved_twice_by_one_message": 9,
    "owner_of_a_computed_bucket_changed": 2,
    "owner_noted_under_an_old_epoch": 8,
    "owner_of_an_old_epoch": 14,
    "returned_without_an_owner": 2,
    "answer_counted_twice": 8,
    "late_answer_binds": 13,
    "offer_sent_before_it_is_noted": 17,
    "other_sizes_not_asked_for": 8,
    "price_of_an_old_revision": 17,
    "room_believed_for_ever": 8,
    "room_not_told": 4,
    "sheds_what_does_not_pay": 30,
    "silence_never_ends": 13,
    "taken_beyond_the_threshold": 4,
    "unreachable_partner_blocks_the_rest": 39,
}
"""The seed from which each is looked for, where that is not 1: the first that shows it, as
schedules are drawn now."""

QUICK_TRIMS = replace(
    MOVES,
    moves=(2, 4),
    kinds=("cut", "slow", "slow link", "freeze", "crash"),
    retention_buckets=(0, 0),
    trim_every_ms=(100, 500),
)
"""Fragments move while a home keeps nothing that is not held."""

WRONG_PROVIDERS = replace(MOVES, diverges=1.0)
"""Fragments move, and one of their providers makes a wrong row."""

MEETINGS = {
    "dropped_as_final": OVERLOADS,
    "dropped_and_forgotten": OVERLOADS,
    "dropped_without_a_rate": OVERLOADS,
    "closing_not_looked_at_again": replace(
        WHOLE,
        kinds=("freeze", "second", "slow"),
        kinds_min=2,
        retention_buckets=(0, 0),
        trim_every_ms=(200, 900),
    ),
    "bound_ignored_during_correction": replace(
        WHOLE,
        kinds=("cut",),
        kinds_min=1,
        faults=(1, 2),
        cut_ms=(15_000, 25_000),
        buckets=(120, 160),
        buckets_per_batch=(3, 5),
        batch_every_ms=(600, 1_000),
        buckets_per_step=(2, 3),
        backlog=0.0,
    ),
    "age_forgotten_by_a_choice": REPLICAS,
    "choice_without_a_lease": REPLICAS,
    "dead_producer_waited_for": REPLICAS,
    "divergence_overlooked": REPLICAS,
    "final_in_spite_of_a_divergence": REPLICAS,
    "gap_chosen_though_another_has_the_rows": REPLICAS,
    "tentative_chosen_before_final": REPLICAS,
    "unverified_taken_as_final": REPLICAS,
    "followed_without_agreement": REVISIONS,
    "late_record_admitted_twice": REVISIONS,
    "old_version_acknowledged_for_the_new": replace(
        REVISIONS, retention_buckets=(0, 4), follows=0.0
    ),
    "only_the_last_revision_followed": REVISIONS,
    "revision_followed_in_its_first_range": REVISIONS,
    "revision_joined_with_corrections": REVISIONS,
    "revision_made_twice": replace(REVISIONS, kinds=("crash", "freeze", "duplicate")),
    "too_few_windows_computed_again": REVISIONS,
    "trimmed_before_it_is_computed_again": REVISIONS,
    "adopted_of_anybody": MOVES,
    "adopted_rows_trimmed": QUICK_TRIMS,
    "computed_in_spite_of_the_owner": MOVES,
    "disagreement_ignored": WRONG_PROVIDERS,
    "end_of_a_move_not_sent": MOVES,
    "ended_move_revived": MOVES,
    "held_for_the_first_bucket_alone": QUICK_TRIMS,
    "inputs_of_a_move_not_held": MOVES,
    "lost_provider_waited_for": MOVES,
    "moved_line_read_beside_its_payers": replace(
        MOVES, moves=(4, 6), kinds=("cut", "slow link", "skew")
    ),
    "moved_twice_by_one_message": MOVES,
    "owner_noted_under_an_old_epoch": replace(
        MOVES, moves=(2, 4), kinds=("second", "freeze", "crash"), kinds_min=2, faults=(14, 20)
    ),
    "owner_of_an_old_epoch": MOVES,
    "owner_of_a_computed_bucket_changed": MOVES,
    "released_before_it_has_caught_up": MOVES,
    "returned_without_an_owner": MOVES,
    "answer_counted_twice": MARKETS,
    "items_judged_alone": MARKETS,
    "late_answer_binds": MARKETS,
    "offer_sent_before_it_is_noted": MARKETS,
    "other_sizes_not_asked_for": MARKETS,
    "own_word_taken_for_a_partners": MARKETS,
    "price_of_an_old_revision": MARKETS,
    "room_believed_for_ever": MARKETS,
    "room_not_told": MARKETS,
    "sheds_what_does_not_pay": MARKETS,
    "silence_never_ends": MARKETS,
    "taken_beyond_the_threshold": MARKETS,
    "unreachable_partner_blocks_the_rest": MARKETS,
}
"""Schedules in which those meet more often by whose meeting alone a bug shows."""


def test_every_planted_bug_is_looked_for() -> None:
    assert {module.name for module in pkgutil.iter_modules(planted.__path__)} == set(BUGS)


class Targets:
    """Takes down what a bug changes, and changes nothing."""

    def __init__(self) -> None:
        self.modules: list[str] = []

    def setattr(self, target: object, name: str, value: object) -> None:
        self.modules.append(getattr(target, "__module__", None) or getattr(target, "__name__", ""))


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_one_of_production_code(bug: str) -> None:
    targets = Targets()
    importlib.import_module(f"tests.simulation.planted.{bug}").plant(targets)
    assert targets.modules
    for module in targets.modules:
        assert module.startswith(("medusa_core.", "pipelines.")), module
        assert not module.startswith("pipelines.simulation"), module


@pytest.mark.parametrize(
    "bug", [pytest.param(bug, marks=pytest.mark.long) if bug in LATE else bug for bug in BUGS]
)
def test_a_planted_bug_is_found_soon(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module(f"tests.simulation.planted.{bug}").plant(monkeypatch)
    first, schedules = FIRST_SEEDS.get(bug, 1), SOON if bug in LATE else AT_ONCE
    figures = run_schedules(schedules, first, shape=MEETINGS.get(bug, WHOLE), violations_max=1)
    assert figures.violations, f"{bug} was not found in {schedules} schedules from seed {first}"
    assert figures.violations[0][1].split()[0] in BUGS[bug]


@pytest.mark.simulation_long
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found_from_any_seed_on(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module(f"tests.simulation.planted.{bug}").plant(monkeypatch)
    for seed in (100_000, 200_000, 300_000):
        figures = run_schedules(
            SCHEDULES_MAX, seed, shape=MEETINGS.get(bug, WHOLE), violations_max=1
        )
        assert figures.violations, f"{bug} was not found in {SCHEDULES_MAX} schedules from {seed}"
