"""What every stream must hold in the end, computed from the records at once.

It shares no code with the engine, the core or the catalogs: it knows nothing of boxes, buckets,
segments or digests, only the numbers of the rules and plain loops over whole lists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Row = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The numbers of the network; windows in microseconds."""

    modulus: int
    remainder: int
    loud_from: int
    counts_size_us: int
    counts_advance_us: int
    sums_size_us: int


def expected_rows(
    sources: Mapping[str, Sequence[Row]], question: Question
) -> dict[str, Counter[Row]]:
    """The rows of every stream as multisets; a source's row is (time, time, key, value)."""
    everything = [row for rows in sources.values() for row in rows]
    picked = [row for row in everything if row[3] % question.modulus == question.remainder]
    rest = [row for row in everything if row[3] % question.modulus != question.remainder]
    counts = []
    for start in _starts(picked, question.counts_size_us, question.counts_advance_us):
        inside = [row for row in picked if start <= row[0] < start + question.counts_size_us]
        for key in sorted({row[2] for row in inside}):
            values = [row[3] for row in inside if row[2] == key]
            last = start + question.counts_size_us - 1
            counts.append((last, start, key, len(values), sum(values)))
    sums = []
    for start in _starts(everything, question.sums_size_us, question.sums_size_us):
        inside = [row for row in everything if start <= row[0] < start + question.sums_size_us]
        if inside:
            last = start + question.sums_size_us - 1
            sums.append((last, start, len(inside), sum(row[3] for row in inside)))
    return {
        **{name: Counter(rows) for name, rows in sources.items()},
        "gathered": Counter(everything),
        "picked": Counter(picked),
        "pick_picked": Counter(picked),
        "rest": Counter(rest),
        "counts": Counter(counts),
        "loud": Counter(row for row in counts if row[3] >= question.loud_from),
        "sums": Counter(sums),
    }


def _starts(rows: Sequence[Row], size_us: int, advance_us: int) -> range:
    """The starts of all windows that could hold a row."""
    if not rows:
        return range(0)
    first = (min(row[0] for row in rows) - size_us) // advance_us * advance_us
    return range(first, max(row[0] for row in rows) + 1, advance_us)
