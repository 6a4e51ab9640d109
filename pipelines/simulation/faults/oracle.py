"""The oracle: the final content of every stream, computed from the records at once.

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
    """The form of the network, and its numbers; windows in microseconds."""

    form: str
    modulus: int
    remainder: int
    loud_from: int
    counts_size_us: int
    counts_advance_us: int
    sums_size_us: int
    within_us: tuple[int, int] = (0, 0)
    max_age_us: int = 0


def expected_rows(
    sources: Mapping[str, Sequence[Row]], question: Question
) -> dict[str, Counter[Row]]:
    """The rows of every stream as multisets; a source's row is (time, time, key, value)."""
    everything = [row for rows in sources.values() for row in rows]
    picked = [row for row in everything if row[3] % question.modulus == question.remainder]
    rest = [row for row in everything if row[3] % question.modulus != question.remainder]
    found: dict[str, Sequence[Row]] = {**sources, "gathered": everything}
    if question.form == "branches":
        counts = _counts(picked, question)
        found |= {"pick_picked": picked, "rest": rest, "counts": counts}
        found |= {"loud": _loud(counts, question), "sums": _sums(everything, question)}
    elif question.form == "diamond":
        meeting = everything + picked
        counts = _counts(meeting, question)
        found |= {"pick_picked": picked, "rest": rest, "meeting": meeting, "counts": counts}
        found |= {"loud": _loud(counts, question)}
    elif question.form == "window diamond":
        counts = _counts(picked, question)
        totals = _windows_by_key(everything, question.sums_size_us, question.sums_size_us)
        meeting = counts + totals
        found |= {"pick_picked": picked, "rest": rest, "counts": counts, "totals": totals}
        found |= {"meeting": meeting, "loud": _loud(meeting, question)}
    elif question.form == "knot":
        size_us = question.sums_size_us
        meeting = _counts(picked, question) + _windows_by_key(everything, size_us, size_us)
        loud = _loud(meeting, question)
        found |= {"meeting": meeting, "loud": loud}
        found |= {"peaks": _windows_by_key(loud, size_us, size_us)}
    elif question.form == "chain":
        counts = _counts(everything, question)
        loud = _loud(counts, question)
        peaks = _windows_by_key(loud, question.sums_size_us, question.sums_size_us)
        found |= {"counts": counts, "loud": loud, "peaks": peaks}
    elif question.form in ("pairs", "absence", "newest"):
        if question.form == "pairs":
            meeting = _pairs(picked, everything, question)
        elif question.form == "absence":
            meeting = _without_partner(everything, picked, question)
        else:
            meeting = _with_newest(everything, picked, question)
        counts = _counts(meeting, question)
        found |= {"pick_picked": picked, "rest": rest, "meeting": meeting, "counts": counts}
        found |= {"loud": _loud(counts, question)}
    elif question.form == "ranks":
        best = _best(everything, question)
        # Behind the window's start the columns are those of a record, one place further.
        counts = _counts([(row[0], row[2], row[3], row[4]) for row in best], question)
        found |= {"best": best, "counts": counts, "loud": _loud(counts, question)}
    elif question.form == "firsts":
        firsts = _firsts(everything, question.sums_size_us - 3_000_000)
        counts = _counts(firsts, question)
        found |= {"firsts": firsts, "counts": counts, "loud": _loud(counts, question)}
    elif question.form == "sessions":
        visits = _visits(everything, 4_000_000, question.sums_size_us - 3_000_000)
        # Behind the bounds of a session are its key and its sum.
        counts = _counts([(row[0], row[0], row[3], row[4]) for row in visits], question)
        found |= {"visits": visits, "counts": counts, "loud": _loud(counts, question)}
    elif question.form == "running":
        so_far = _so_far(everything, question.sums_size_us - 3_000_000)
        counts = _counts(so_far, question)
        found |= {"so_far": so_far, "counts": counts, "loud": _loud(counts, question)}
    elif question.form == "every":
        groups = _groups(everything, question.sums_size_us - 3_000_000, question.loud_from)
        # The columns key and value are one place further in a record.
        counts = _counts([(row[0], *row) for row in groups], question)
        found |= {"groups": groups, "counts": counts, "loud": _loud(counts, question)}
    else:
        raise AssertionError(f"the oracle knows no network of the form {question.form}")
    return {stream: Counter(rows) for stream, rows in found.items()}


def _pairs(left: Sequence[Row], right: Sequence[Row], question: Question) -> list[Row]:
    """Each row with each of the same key that is as much later as the bounds say."""
    least, most = question.within_us
    return [
        (max(one[0], other[0]), one[1], one[2], other[3])
        for one in left
        for other in right
        if one[2] == other[2] and least <= other[0] - one[0] <= most
    ]


def _without_partner(left: Sequence[Row], right: Sequence[Row], question: Question) -> list[Row]:
    """Each row that makes no pair, at the time from which on it cannot make one."""
    least, most = question.within_us
    return [
        (max(row[0], row[0] + most), *row[1:])
        for row in left
        if not any(
            row[2] == other[2] and row[0] + least <= other[0] <= row[0] + most for other in right
        )
    ]


def _with_newest(rows: Sequence[Row], table: Sequence[Row], question: Question) -> list[Row]:
    """Each row with the value of the last row of the table that is no later and not too old."""
    found: list[Row] = []
    for row in rows:
        first_us = row[0] - question.max_age_us
        met = [other for other in table if other[2] == row[2] and first_us <= other[0] <= row[0]]
        if met:
            found.append((*row[:3], max(met)[3]))
    return found


def _best(rows: Sequence[Row], question: Question) -> list[Row]:
    """Per window and key: the greatest values, of equal ones the first, each with its rank."""
    size_us = question.sums_size_us
    found: list[Row] = []
    for start in _starts(rows, size_us, size_us):
        inside = [row for row in rows if start <= row[0] < start + size_us]
        for key in sorted({row[2] for row in inside}):
            alike = sorted((-row[3], *row) for row in inside if row[2] == key)
            for rank, (_, _, *columns) in enumerate(alike[: question.loud_from], start=1):
                found.append((start + size_us - 1, start, *columns, rank))
    return found


def _firsts(rows: Sequence[Row], within_us: int) -> list[Row]:
    """Of each key the first row of each span, in the order of time, time again, key and value."""
    found: dict[tuple[int, int], Row] = {}
    for row in sorted(rows, reverse=True):
        found[row[0] // within_us, row[2]] = row
    return list(found.values())


def _visits(rows: Sequence[Row], gap_us: int, length_us: int) -> list[Row]:
    """Per key: what comes less than a gap apart, in pieces that are shorter than a length."""
    found: list[Row] = []
    for key in sorted({row[2] for row in rows}):
        last_us = first_us = 0
        pieces: list[list[Row]] = []
        for row in sorted(row for row in rows if row[2] == key):
            if not pieces or row[0] >= last_us + gap_us:
                first_us = row[0]
                pieces.append([])
            # From one length behind the first row on, a row is cut from one before a multiple.
            elif row[0] - first_us >= length_us and (
                last_us - first_us < length_us or row[0] // length_us > last_us // length_us
            ):
                pieces.append([])
            pieces[-1].append(row)
            last_us = row[0]
        for piece in pieces:
            end_us = piece[-1][0] + gap_us
            found.append((end_us - 1, piece[0][0], end_us, key, sum(row[3] for row in piece)))
    return found


def _so_far(rows: Sequence[Row], within_us: int) -> list[Row]:
    """Each row with how many of its span and key are not behind it, and the sum of their values."""
    found: list[Row] = []
    for place, row in enumerate(in_order := sorted(rows)):
        values = [
            other[3]
            for other in in_order[: place + 1]
            if other[2] == row[2] and other[0] // within_us == row[0] // within_us
        ]
        found.append((*row, len(values), sum(values)))
    return found


def _groups(rows: Sequence[Row], within_us: int, n: int) -> list[Row]:
    """The key, the sum and the number of each n rows of a span and key, at the last of them."""
    found: list[Row] = []
    waiting: dict[tuple[int, int], list[int]] = {}
    for at, _, key, value in sorted(rows):
        values = waiting.setdefault((at // within_us, key), [])
        values.append(value)
        if len(values) == n:
            found.append((at, key, sum(values), n))
            values.clear()
    return found


def _counts(rows: Sequence[Row], question: Question) -> list[Row]:
    """Per window and key: how many, and the sum of the values."""
    return _windows_by_key(rows, question.counts_size_us, question.counts_advance_us)


def _loud(rows: Sequence[Row], question: Question) -> list[Row]:
    return [row for row in rows if row[3] >= question.loud_from]


def _sums(rows: Sequence[Row], question: Question) -> list[Row]:
    """Per window: how many, and the sum of the values."""
    size_us = question.sums_size_us
    sums: list[Row] = []
    for start in _starts(rows, size_us, size_us):
        inside = [row for row in rows if start <= row[0] < start + size_us]
        if inside:
            sums.append((start + size_us - 1, start, len(inside), sum(row[3] for row in inside)))
    return sums


def _windows_by_key(rows: Sequence[Row], size_us: int, advance_us: int) -> list[Row]:
    """Per window and key: the window's last instant, its start, the key, how many, and a sum.

    The key stands third in a row, and what is added up fourth.
    """
    found: list[Row] = []
    for start in _starts(rows, size_us, advance_us):
        inside = [row for row in rows if start <= row[0] < start + size_us]
        for key in sorted({row[2] for row in inside}):
            values = [row[3] for row in inside if row[2] == key]
            found.append((start + size_us - 1, start, key, len(values), sum(values)))
    return found


def _starts(rows: Sequence[Row], size_us: int, advance_us: int) -> range:
    """The starts of all windows that could hold a row."""
    if not rows:
        return range(0)
    first = (min(row[0] for row in rows) - size_us) // advance_us * advance_us
    return range(first, max(row[0] for row in rows) + 1, advance_us)
