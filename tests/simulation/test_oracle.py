"""The oracle by hand, apart from the engine, and the tiny engine against it."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from medusa_core.names import StreamName
from pipelines.simulation import oracle
from pipelines.simulation.evaluate import Evaluator
from pipelines.simulation.expected import question_of
from pipelines.simulation.oracle import Question, expected_rows
from pipelines.simulation.scenario import draw_scenario

S = 1_000_000


def test_a_small_input_gives_the_rows_counted_by_hand() -> None:
    question = Question(
        modulus=2,
        remainder=0,
        loud_from=2,
        counts_size_us=20 * S,
        counts_advance_us=10 * S,
        sums_size_us=10 * S,
    )
    rows = expected_rows(
        {"s0": [(1 * S, 1 * S, 0, 4), (12 * S, 12 * S, 0, 2)], "s1": [(2 * S, 2 * S, 1, 3)]},
        question,
    )
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
    for seed in range(20):
        scenario = draw_scenario(seed)
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
