"""The oracle's answer for one scenario, and the same cut into buckets for looking things up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from medusa_core.names import StreamName
from pipelines.simulation.faults.oracle import Question, expected_rows
from pipelines.simulation.faults.scenario import Row, Scenario, bucket_of
from pipelines.simulation.faults.simulated_networks import WIDTH_US

Sources = Mapping[StreamName, Sequence[Row]]
Buckets = Mapping[StreamName, Mapping[int, Counter[Row]]]


def sources_of(scenario: Scenario) -> Sources:
    """The records of the sources, none of which is revised."""
    return {
        stream: [row for batch in batches for row in batch.records]
        for stream, batches in scenario.feeds.items()
    }


def expected_of(scenario: Scenario, sources: Sources | None = None) -> Mapping[str, Counter[Row]]:
    """The rows that every stream must have in the end, of other records if some are given."""
    given = sources_of(scenario) if sources is None else sources
    return expected_rows({str(s): rows for s, rows in given.items()}, question_of(scenario))


def expected_buckets(scenario: Scenario, sources: Sources | None = None) -> Buckets:
    """The same per stream and start of the narrowest bucket."""
    found: dict[StreamName, dict[int, Counter[Row]]] = {}
    for stream, rows in expected_of(scenario, sources).items():
        buckets = found.setdefault(StreamName(stream), {})
        for row, times in rows.items():
            buckets.setdefault(bucket_of(row[0]), Counter())[row] += times
    return found


def question_of(scenario: Scenario) -> Question:
    """The argument of the oracle: the numbers of the rules, alone."""
    rules = scenario.rules
    return Question(
        form=rules.form.value,
        modulus=rules.modulus,
        remainder=rules.remainder,
        loud_from=rules.loud_from,
        counts_size_us=rules.counts_size * WIDTH_US,
        counts_advance_us=rules.counts_advance * WIDTH_US,
        sums_size_us=rules.sums_size * WIDTH_US,
        max_age_us=rules.max_age_s * 1_000_000,
        within_us=(rules.within_s[0] * 1_000_000, rules.within_s[1] * 1_000_000),
    )
