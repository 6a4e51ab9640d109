"""Amounts of money: exact decimals, rounded by one rule.

An amount is a quantity times a price, rounded half to even to PLACES decimal places. Quantities of
records are whole and prices have six places at most, so that such an amount is exact, and so are
all sums. Both homes compute every amount here, and so agree to the last digit.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Context, Decimal

PLACES = 6
QUANTITY_PLACES = 12
ZERO = Decimal(0)
_EXACT = Context(prec=60, rounding=ROUND_HALF_EVEN)


def amount_of(quantity: Decimal, price: Decimal) -> Decimal:
    """What a quantity costs."""
    product = _EXACT.multiply(quantity, price)
    return _EXACT.quantize(product, Decimal(1).scaleb(-PLACES))


def seconds_of(ns: int) -> Decimal:
    """Nanoseconds as seconds."""
    return _EXACT.scaleb(Decimal(ns), -9)


def hours_of(seconds: Decimal) -> Decimal:
    """Seconds as hours, rounded half to even to QUANTITY_PLACES places."""
    quotient = _EXACT.divide(seconds, Decimal(3_600))
    return _EXACT.quantize(quotient, Decimal(1).scaleb(-QUANTITY_PLACES))


def load_amount(cpu_s: Decimal, price: Decimal) -> Decimal:
    """What seconds of CPU cost, at a price for an hour of one unit of load."""
    hours = _EXACT.divide(_EXACT.multiply(cpu_s, price), Decimal(3_600))
    return _EXACT.quantize(hours, Decimal(1).scaleb(-PLACES))


def share_of(part: int, whole: int) -> Decimal:
    """A part of a whole as a quantity, rounded half to even to QUANTITY_PLACES places."""
    quotient = _EXACT.divide(Decimal(part), Decimal(whole))
    return _EXACT.quantize(quotient, Decimal(1).scaleb(-QUANTITY_PLACES))


def total_of(amounts: Iterable[Decimal]) -> Decimal:
    """The exact sum, whatever the context of the thread says."""
    total = ZERO
    for amount in amounts:
        total = _EXACT.add(total, amount)
    return total
