"""Sets of characters as ranges of code points."""

from __future__ import annotations

from collections.abc import Iterable

Characters = tuple[tuple[int, int], ...]
"""Ranges of code points, both ends included, in order and apart."""


def merged(ranges: Iterable[tuple[int, int]]) -> Characters:
    """The same characters as ranges in order and apart."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return tuple(found)


def without(ranges: Characters, others: Characters) -> Characters:
    """The characters of the first ranges that are in none of the others."""
    found: list[tuple[int, int]] = []
    at = 0
    for low, high in ranges:
        while at < len(others) and others[at][1] < low:
            at += 1
        behind = at
        while behind < len(others) and others[behind][0] <= high:
            if low < others[behind][0]:
                found.append((low, others[behind][0] - 1))
            low = others[behind][1] + 1
            behind += 1
        if low <= high:
            found.append((low, high))
    return tuple(found)


def have_common(ranges: Characters, others: Characters) -> bool:
    """Whether a character is in both."""
    at = behind = 0
    while at < len(ranges) and behind < len(others):
        (low, high), (first, last) = ranges[at], others[behind]
        if low <= last and first <= high:
            return True
        if high < last:
            at += 1
        else:
            behind += 1
    return False
