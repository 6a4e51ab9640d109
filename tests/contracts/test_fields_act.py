"""Every field of a contract between participants acts."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from medusa_core.market.contract_files import FIELDS, ContractField, FieldRule
from medusa_core.market.terms import ContractKind
from pipelines.base.settings import REPOSITORY

M, C, S = ContractKind.MOVEMENT, ContractKind.CONTENT, ContractKind.SUGGESTED
ALL, PAID = (M, C, S), (M, C)

SHOWN: Mapping[str, tuple[tuple[ContractKind, ...], str, str]] = {
    "contract": (ALL, "market/test_statements.py", "test_an_altered_document_is_refused"),
    "kind": (
        ALL,
        "agreements/test_moves.py",
        "test_without_a_contract_a_partner_hands_nothing_over",
    ),
    "payer": (
        ALL,
        "agreements/test_sold_streams.py",
        "test_the_payer_may_read_the_stream_while_the_contract_is_in_force_and_nobody_else",
    ),
    "provider": (
        ALL,
        "agreements/test_signing.py",
        "test_the_payer_signs_nothing_before_the_provider_has_signed",
    ),
    "currency": (
        PAID,
        "rounds/test_pair.py",
        "test_who_has_not_declared_what_load_costs_takes_nothing_and_says_so",
    ),
    "valid.from": (
        ALL,
        "agreements/test_sold_streams.py",
        "test_a_contract_that_is_not_valid_yet_grants_nothing",
    ),
    "valid.until": (
        ALL,
        "market/test_statements.py",
        "test_periods_follow_one_another_and_end_with_the_contract",
    ),
    "settlement": (
        PAID,
        "books/test_settling.py",
        "test_a_period_is_stated_in_both_homes_and_settled_by_two_signatures",
    ),
    "notice": (ALL, "agreements/test_notice.py", "test_a_notice_runs_in_full_from_when_it_came"),
    "price.low": (
        (M,),
        "market/test_shedding.py",
        "test_what_costs_more_than_the_price_is_offered_and_no_more",
    ),
    "price.high": (
        (M,),
        "market/test_shedding.py",
        "test_prices_above_the_lowest_are_paid_for_an_overload_alone",
    ),
    "price.step": (
        (M,),
        "market/test_shedding.py",
        "test_the_level_falls_again_when_the_partner_has_room_at_a_lower_one",
    ),
    "price": (
        (C,),
        "books/test_book_commands.py",
        "test_two_homes_settle_dispute_and_read_the_same_figures",
    ),
    "per": (
        (C,),
        "books/test_settling.py",
        "test_a_price_per_period_does_not_depend_on_the_records",
    ),
    "load_max": (
        PAID,
        "rounds/test_pair.py",
        "test_no_more_load_is_at_a_partner_than_the_contract_permits",
    ),
    "moves": (
        (M,),
        "agreements/test_moves.py",
        "test_a_fragment_moves_only_under_a_contract_that_names_it",
    ),
    "reads": (
        (M,),
        "agreements/test_moves_with_third_inputs.py",
        "test_a_payer_has_nothing_read_for_it_that_the_contract_does_not_name",
    ),
    "stream": (
        (C, S),
        "agreements/test_sold_streams.py",
        "test_the_exchange_server_tells_a_partner_of_what_it_has_bought",
    ),
    "boxes": (
        (C,),
        "agreements/test_definitions.py",
        "test_kinds_that_the_contract_does_not_allow_are_refused",
    ),
    # Of content: tests/books, test_a_gap_costs_the_penalty_unless_gaps_are_promised.
    "availability.recovery": (
        PAID,
        "agreements/test_moves_and_failures.py",
        "test_with_gap_a_lost_provider_leaves_a_gap_up_to_the_next_bucket_and_nothing_else",
    ),
    "availability.method": (
        (M,),
        "agreements/test_moves_and_failures.py",
        "test_without_gap_what_a_lost_provider_has_not_sent_is_computed_by_its_payer",
    ),
    "availability.replicas": (
        (M,),
        "market/test_movement_promises.py",
        "test_replicas_that_no_payer_and_provider_are_are_refused",
    ),
    "availability.bound": (
        (M,),
        "federation/test_moves_by_contract.py",
        "test_a_fragment_goes_to_a_partner_and_comes_back_by_command",
    ),
    "reference": (
        (M,),
        "books/test_load_bills.py",
        "test_what_a_moved_fragment_reads_and_writes_is_billed_by_reference",
    ),
    "verify": (
        (M,),
        "books/test_samples.py",
        "test_a_contract_says_how_many_buckets_are_recomputed",
    ),
    "penalty": (
        PAID,
        "books/test_load_bills.py",
        "test_the_loss_of_a_provider_costs_the_penalty_which_it_may_dispute",
    ),
    "hold_max": (
        PAID,
        "agreements/test_sold_streams.py",
        "test_a_payer_holds_a_stream_for_as_long_as_its_contract_permits",
    ),
}
"""Field -> the kinds in which it acts, and a test that shows it."""

SOLD = "bilateral/test_sold_streams.py"
SHOWN_OF_OTHERS: Mapping[str, tuple[ContractKind, str, str]] = {
    "availability.method": (
        C,
        SOLD,
        "test_active_standby_of_a_sold_stream_has_a_second_participant",
    ),
    "availability.replicas": (
        C,
        SOLD,
        "test_as_many_participants_compute_a_sold_stream_as_are_promised",
    ),
    "availability.bound": (C, SOLD, "test_a_seller_declares_the_bound_that_it_promises"),
    "instead": (
        S,
        SOLD,
        "test_a_reader_is_told_where_its_seller_advises_to_buy_as_long_as_it_reads_the_stream",
    ),
}
"""What acts otherwise in another kind."""

ONE_VALUE = {"load_unit"}
"""It has one value, which is what every load is in."""


def names(fields: Mapping[str, ContractField], path: str = "") -> Iterator[str]:
    for name, field in fields.items():
        if isinstance(field.rule, FieldRule):
            yield from names(field.rule.fields, f"{path}{name}.")
        else:
            yield path + name


def test_every_field_acts() -> None:
    for kind in ContractKind:
        shown = {name for name, (kinds, *_) in SHOWN.items() if kind in kinds}
        others = {name for name, (of, *_) in SHOWN_OF_OTHERS.items() if kind is of}
        assert not shown & others
        assert set(names(FIELDS[kind])) - ONE_VALUE == shown | others, kind


def test_each_test_that_shows_a_field_is_there() -> None:
    for name, (_, file, function) in [*SHOWN.items(), *SHOWN_OF_OTHERS.items()]:
        tree = ast.parse((REPOSITORY / "tests" / file).read_text())
        found = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert function in found, (name, file)
