"""Recorded load as rounds: at each, the load that the participant's loop would have known.

The rounds are `round_ms` apart, and the last one is at the end of the span: a round that began
now. Each knows the samples that had ended by then, read by the same function as in a live round.
The load carried until the next round is measured by the same samples, each counted at its
placement.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from medusa_core.errors import Refused
from medusa_core.loads import WINDOW_MS, RecordedSample, load_between
from medusa_core.market.messages import Nonce
from medusa_core.market.what_if import RecordedRound
from pipelines.catalog.round_store import MarketFacts
from pipelines.market.rounds.fragment_names import Naming
from pipelines.market.rounds.round_knowledge import carried_of, knowledge_of

ROUNDS_MAX = 100_000


def check_rounds(over_ms: int, round_ms: int) -> None:
    """Refuse a span of more rounds than can be replayed."""
    if over_ms > ROUNDS_MAX * round_ms:
        raise Refused(
            f"that is {over_ms // round_ms:,} rounds of {round_ms} ms: ask for a span of "
            f"{ROUNDS_MAX:,} at most, {ROUNDS_MAX * round_ms // 3_600_000:,} h here"
        )


def recorded_rounds(
    facts: MarketFacts,
    samples: Sequence[RecordedSample],
    from_ms: int,
    until_ms: int,
    naming: Naming,
) -> Iterator[RecordedRound]:
    """The rounds of `[from_ms, until_ms]`, one at either end; what load costs must be declared.

    `naming` is what the fragments of the samples are called, under all contracts replayed. Samples
    may begin before: the first round looks back as any does.
    """
    ordered = sorted(samples, key=lambda sample: (sample.to_ms, sample.from_ms))
    ends = [sample.to_ms for sample in ordered]
    longest_ms = max((sample.to_ms - sample.from_ms for sample in ordered), default=0)
    bare = replace(
        facts, open=(), moves=(), answers={}, requested_loads={}, silent={}, placed=(),
        moving=frozenset(),
    )  # fmt: skip
    round_ms = facts.trading.round_ms
    first_ms = until_ms - (until_ms - from_ms) // round_ms * round_ms
    times = [*([from_ms] if from_ms < first_ms else []), *range(first_ms, until_ms + 1, round_ms)]
    for at_ms, next_ms in pairwise([*times, until_ms]):
        known = ordered[bisect_right(ends, at_ms - WINDOW_MS) : bisect_right(ends, at_ms)]
        then = replace(bare, clock_ms=at_ms, loads=tuple(known))
        knowledge = knowledge_of(then, Nonce("0" * 32), naming)
        assert knowledge is not None, "what load costs is declared"
        follows = ordered[bisect_right(ends, at_ms) : bisect_right(ends, next_ms + longest_ms)]
        load = load_between(follows, at_ms, next_ms) if next_ms > at_ms else None
        yield RecordedRound(
            at_ms=at_ms,
            knowledge=knowledge,
            length_ms=0 if load is None else load.window_ms,
            load=0.0 if load is None else load.carried,
            parts={}
            if load is None
            else {
                (carried.item.fragment, carried.item.partition): carried.item.load
                for carried in carried_of(load, bare, naming)
            },
        )
