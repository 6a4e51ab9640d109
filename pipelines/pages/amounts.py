"""Amounts of money, aligned by their decimal points.

All amounts of a column have as many decimals as the one that needs most, and two at least.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from pipelines.pages.elements import NOTHING
from pipelines.report.markup import Markup, tag

DECIMALS_MIN = 2


def decimals_of(amounts: Iterable[str | None]) -> int:
    """How many decimals the amounts of a column have."""
    places = [len(one.rstrip("0").partition(".")[2]) for one in amounts if one and "." in one]
    return max([DECIMALS_MIN, *places])


def amount(value: str | None, decimals: int) -> Markup:
    """An amount with so many decimals and thousands apart; one below zero has a minus sign."""
    if value is None:
        return NOTHING
    number = Decimal(value)
    words = f"{abs(number):,.{decimals}f}"
    return tag("span", f"−{words}" if number < 0 else words, class_="amount" if number else "none")


def column_of(amounts: Iterable[str | None]) -> list[Markup]:
    """A column of amounts."""
    every = list(amounts)
    decimals = decimals_of(every)
    return [amount(one, decimals) for one in every]
