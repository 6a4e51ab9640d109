"""The oracle by hand, apart from the engine, and the tiny engine against it."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import replace
from pathlib import Path

from medusa_core.names import StreamName
from pipelines.simulation.faults import oracle
from pipelines.simulation.faults.evaluate import Evaluator
from pipelines.simulation.faults.expected import question_of
from pipelines.simulation.faults.oracle import Question, expected_rows
from pipelines.simulation.faults.scenario import draw_scenario
from pipelines.simulation.faults.simulated_networks import Form

S = 1_000_000


QUESTION = Question(
    form="branches",
    modulus=2,
    remainder=0,
    loud_from=2,
    counts_size_us=20 * S,
    counts_advance_us=10 * S,
    sums_size_us=10 * S,
)
SOURCES = {"s0": [(1 * S, 1 * S, 0, 4), (12 * S, 12 * S, 0, 2)], "s1": [(2 * S, 2 * S, 1, 3)]}


def test_a_small_input_gives_the_rows_counted_by_hand() -> None:
    rows = expected_rows(SOURCES, QUESTION)
    assert rows["rest"] == Counter([(2 * S, 2 * S, 1, 3)])
    assert rows["sums"] == Counter([(10 * S - 1, 0, 2, 7), (20 * S - 1, 10 * S, 1, 2)])
    assert rows["counts"] == Counter(
        [
            (10 * S - 1, -10 * S, 0, 1, 4),
            (20 * S - 1, 0, 0, 2, 6),
            (30 * S - 1, 10 * S, 0, 1, 2),
        ]
    )
    assert rows["loud"] == Counter([(20 * S - 1, 0, 0, 2, 6)])


def test_in_a_diamond_what_comes_on_two_ways_counts_twice() -> None:
    question = replace(QUESTION, form="diamond", counts_size_us=10 * S)
    rows = expected_rows(SOURCES, question)
    assert rows["meeting"] == Counter(
        {(1 * S, 1 * S, 0, 4): 2, (12 * S, 12 * S, 0, 2): 2, (2 * S, 2 * S, 1, 3): 1}
    )
    assert rows["counts"] == Counter(
        [(10 * S - 1, 0, 0, 2, 8), (10 * S - 1, 0, 1, 1, 3), (20 * S - 1, 10 * S, 0, 2, 4)]
    )
    assert rows["loud"] == Counter([(10 * S - 1, 0, 0, 2, 8), (20 * S - 1, 10 * S, 0, 2, 4)])


def test_a_window_diamond_brings_windows_of_two_lengths_together() -> None:
    question = replace(QUESTION, form="window diamond", sums_size_us=20 * S)
    rows = expected_rows(SOURCES, question)
    totals = [(20 * S - 1, 0, 0, 2, 6), (20 * S - 1, 0, 1, 1, 3)]
    assert rows["totals"] == Counter(totals)
    assert rows["meeting"] == rows["counts"] + Counter(totals)
    assert rows["loud"] == Counter({(20 * S - 1, 0, 0, 2, 6): 2})


def test_a_knot_is_a_window_diamond_with_windows_behind_it() -> None:
    question = replace(QUESTION, sums_size_us=20 * S)
    rows = expected_rows(SOURCES, replace(question, form="knot"))
    diamond = expected_rows(SOURCES, replace(question, form="window diamond"))
    assert (rows["meeting"], rows["loud"]) == (diamond["meeting"], diamond["loud"])
    assert rows["peaks"] == Counter([(20 * S - 1, 0, 0, 2, 4)])


def test_at_the_end_of_a_chain_windows_are_counted_over_windows() -> None:
    question = replace(QUESTION, form="chain", loud_from=1, sums_size_us=40 * S)
    rows = expected_rows(SOURCES, question)
    assert rows["loud"] == rows["counts"]
    assert rows["peaks"] == Counter([(40 * S - 1, 0, 0, 3, 4), (40 * S - 1, 0, 1, 2, 2)])


def test_a_join_pairs_rows_of_one_key_at_the_later_of_their_times() -> None:
    question = replace(QUESTION, form="pairs", within_us=(-5 * S, 11 * S))
    rows = expected_rows(SOURCES, question)
    assert rows["meeting"] == Counter(
        [(1 * S, 1 * S, 0, 4), (12 * S, 1 * S, 0, 2), (12 * S, 12 * S, 0, 2)]
    )


def test_what_makes_no_pair_is_absent_once_that_is_certain() -> None:
    question = replace(QUESTION, form="absence", within_us=(1 * S, 11 * S))
    rows = expected_rows(SOURCES, question)
    assert rows["meeting"] == Counter([(23 * S, 12 * S, 0, 2), (13 * S, 2 * S, 1, 3)])


def test_a_lookup_gives_each_row_the_value_of_the_last_one_that_is_no_later() -> None:
    question = replace(QUESTION, form="newest", modulus=4, max_age_us=11 * S)
    own = (1 * S, 1 * S, 0, 4)
    assert expected_rows(SOURCES, question)["meeting"] == Counter([own, (12 * S, 12 * S, 0, 4)])
    older = replace(question, max_age_us=11 * S - 1)
    assert expected_rows(SOURCES, older)["meeting"] == Counter([own])


def test_ranks_are_given_to_the_greatest_values_of_a_key() -> None:
    question = replace(QUESTION, form="ranks", sums_size_us=20 * S, loud_from=1)
    best = [(20 * S - 1, 0, 1 * S, 0, 4, 1), (20 * S - 1, 0, 2 * S, 1, 3, 1)]
    assert expected_rows(SOURCES, question)["best"] == Counter(best)
    best.append((20 * S - 1, 0, 12 * S, 0, 2, 2))
    rows = expected_rows(SOURCES, replace(question, loud_from=2))
    assert rows["best"] == Counter(best)
    assert rows["counts"][30 * S - 1, 10 * S, 0, 2, 6] == 1


def test_of_each_key_the_first_row_of_a_span_stays() -> None:
    question = replace(QUESTION, form="firsts", sums_size_us=20 * S)
    rows = {"s0": [*SOURCES["s0"], (17 * S, 17 * S, 0, 1)], "s1": SOURCES["s1"]}
    assert expected_rows(rows, question)["firsts"] == Counter(
        [(1 * S, 1 * S, 0, 4), (2 * S, 2 * S, 1, 3), (17 * S, 17 * S, 0, 1)]
    )


def test_a_session_has_the_rows_of_a_key_that_come_less_than_4_s_apart() -> None:
    """The third row of key 0 comes 4 s after the second one; the flood is cut 7 s after its first
    row, and at the next multiple of 7 s."""
    question = replace(QUESTION, form="sessions", sums_size_us=10 * S)
    flood = [(at * S, at * S, 2, 1) for at in range(30, 46, 3)]
    rows = {"s0": [(1 * S, 1 * S, 0, 4), (4 * S, 4 * S, 0, 2), (8 * S, 8 * S, 0, 1)], "s1": flood}
    assert expected_rows(rows, question)["visits"] == Counter(
        [
            (8 * S - 1, 1 * S, 8 * S, 0, 6),
            (12 * S - 1, 8 * S, 12 * S, 0, 1),
            (40 * S - 1, 30 * S, 40 * S, 2, 3),
            (43 * S - 1, 39 * S, 43 * S, 2, 1),
            (49 * S - 1, 42 * S, 49 * S, 2, 2),
        ]
    )


def test_the_rows_of_a_key_are_counted_and_added_up_from_the_beginning_of_each_span() -> None:
    question = replace(QUESTION, form="running", sums_size_us=20 * S)
    rows = {"s0": [*SOURCES["s0"], (17 * S, 17 * S, 0, 1)], "s1": SOURCES["s1"]}
    assert expected_rows(rows, question)["so_far"] == Counter(
        [
            (1 * S, 1 * S, 0, 4, 1, 4), (2 * S, 2 * S, 1, 3, 1, 3), (12 * S, 12 * S, 0, 2, 2, 6),
            (17 * S, 17 * S, 0, 1, 1, 1),
        ]
    )  # fmt: skip


def test_each_full_group_of_a_span_gives_a_row_at_the_time_of_its_last_one() -> None:
    question = replace(QUESTION, form="every", sums_size_us=20 * S, loud_from=2)
    rows = {"s0": [*SOURCES["s0"], (17 * S, 17 * S, 0, 1)], "s1": SOURCES["s1"]}
    assert expected_rows(rows, question)["groups"] == Counter([(12 * S, 0, 6, 2)])


def test_the_oracle_shares_no_code_with_what_it_checks() -> None:
    tree = ast.parse(Path(oracle.__file__).read_text())
    imported = [
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [])
    ]
    assert not [name for name in imported if name and name.split(".")[0] in WITHOUT]


WITHOUT = ("medusa_core", "pipelines")


def test_the_tiny_engine_over_everything_at_once_gives_what_the_oracle_says() -> None:
    met = set()
    for seed in range(40):
        scenario = draw_scenario(seed)
        met.add(scenario.rules.form)
        rows = {
            stream: [row for batch in batches for row in batch.records]
            for stream, batches in scenario.feeds.items()
        }
        expected = expected_rows(dict(rows), question_of(scenario))
        for fragment in scenario.fragments.values():
            evaluator = Evaluator(fragment)
            inputs = {s: rows[s] for s in fragment.input_streams}
            for output in fragment.outputs:
                rows[output] = evaluator.rows(StreamName(output), inputs)
        for stream, found in rows.items():
            assert Counter(found) == expected[stream], (seed, stream)
    assert met == set(Form)
