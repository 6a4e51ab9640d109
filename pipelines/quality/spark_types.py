"""The types of Spark SQL under ANSI rules, as its reference documents them, for the oracle.

Two operands of different types are brought to their least common type: the wider integer, a decimal
that holds the digits of both, double if one side is double, timestamp if one side is a date and the
other a timestamp. Arithmetic on decimals follows the table of the reference ("ANSI compliance",
"Decimal"); a result of more than 38 digits gives up digits behind the point, but keeps six.

This is the oracle's own reading: nothing of the compiler in `pipelines.language` is used here.
Limit: the types are those that a column can have, and arrays of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from medusa_core.columns import Column, check_type, decimal_shape
from medusa_core.errors import Refused

DIGITS_MAX = 38
FRACTION_KEPT = 6
"""Digits behind the point that a decimal result keeps when it has to give up some."""


class NoSuchType(Exception):
    """The oracle's rules give an expression no type; the message says which expression."""


@dataclass(frozen=True, slots=True)
class SparkType:
    """A type: its name, the digits of a decimal, the element of an array."""

    name: str
    precision: int = 0
    scale: int = 0
    element: SparkType | None = None

    def __str__(self) -> str:
        if self.is_decimal:
            return f"decimal({self.precision},{self.scale})"
        return f"array<{self.element}>" if self.element else self.name

    @property
    def is_decimal(self) -> bool:
        """Whether it is decimal(p,s)."""
        return self.name == "decimal"

    @property
    def is_integral(self) -> bool:
        """Whether it is int or bigint."""
        return self in (INT, BIGINT)

    @property
    def is_number(self) -> bool:
        """Whether it is an integer, a decimal or a double."""
        return self.is_integral or self.is_decimal or self == DOUBLE

    @property
    def in_decimal(self) -> SparkType:
        """The decimal that holds every value of an integer; a decimal itself."""
        return {INT: decimal(10, 0), BIGINT: decimal(20, 0)}.get(self, self)


BOOLEAN, STRING, BINARY = SparkType("boolean"), SparkType("string"), SparkType("binary")
INT, BIGINT, DOUBLE = SparkType("int"), SparkType("bigint"), SparkType("double")
DATE, TIMESTAMP = SparkType("date"), SparkType("timestamp")
VOID = SparkType("void")
"""The type of a bare NULL."""


@dataclass(frozen=True, slots=True)
class Operand:
    """The type of an operand; `literal` is its value if it is an integer that is written out."""

    type: SparkType
    literal: int | None = None

    def common_type(self, other: Operand) -> SparkType:
        """The type next to another: a written integer has only its own digits next to a decimal."""
        if self.literal is not None and other.type.is_decimal:
            return decimal(len(str(abs(self.literal))), 0)
        return self.type


def decimal(precision: int, scale: int) -> SparkType:
    """decimal(p,s), cut to 38 digits."""
    return SparkType("decimal", min(precision, DIGITS_MAX), min(scale, DIGITS_MAX))


def array_of(element: SparkType) -> SparkType:
    """An array."""
    return SparkType("array", element=element)


def type_named(text: str) -> SparkType:
    """The type of a column or cast by its name; NoSuchType if no column can have it."""
    try:
        name = check_type("a cast", "decimal(10,0)" if text.strip() == "decimal" else text)
    except Refused as error:
        raise NoSuchType(str(error)) from None
    return decimal(*decimal_shape(name)) if name.startswith("decimal") else SparkType(name)


def column_type(column: Column) -> SparkType:
    """The type of a declared column."""
    return type_named(column.type)


def literal_type(value: int | float | Decimal) -> SparkType:
    """The type of a number as it is written."""
    if isinstance(value, float):
        return DOUBLE
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        scale = -int(exponent)
        return decimal(max(len(digits), scale), scale)
    for bits, type_ in ((31, INT), (63, BIGINT)):
        if -(2**bits) <= value < 2**bits:
            return type_
    return decimal(len(str(abs(value))), 0)


def least_common(left: SparkType, right: SparkType) -> SparkType:
    """The type of a comparison or of the branches of a CASE; NoSuchType if there is none."""
    if left == right or right == VOID:
        return left
    if left == VOID:
        return right
    if left.is_number and right.is_number:
        if DOUBLE in (left, right):
            return DOUBLE
        if left.is_integral and right.is_integral:
            return BIGINT
        a, b = left.in_decimal, right.in_decimal
        scale = max(a.scale, b.scale)
        whole = max(a.precision - a.scale, b.precision - b.scale)
        return decimal(whole + scale, max(0, min(scale, DIGITS_MAX - whole)))
    if {left, right} == {DATE, TIMESTAMP}:
        return TIMESTAMP
    if left.element and right.element:
        return array_of(least_common(left.element, right.element))
    raise NoSuchType(f"{left} and {right} have no common type")


def arithmetic_type(sign: str, left: Operand, right: Operand) -> SparkType:
    """The type of `left sign right` for + - * / %."""
    found, _ = exact_arithmetic(sign, left, right)
    return found


def exact_arithmetic(sign: str, left: Operand, right: Operand) -> tuple[SparkType, bool]:
    """The type of `left sign right`, and whether a decimal result has room for every digit."""
    a, b = left.common_type(right), right.common_type(left)
    if not (a.is_number and b.is_number):
        raise NoSuchType(f"{a} {sign} {b}")
    if DOUBLE in (a, b) or (sign == "/" and a.is_integral and b.is_integral):
        return DOUBLE, True
    if a.is_integral and b.is_integral:
        return least_common(a, b), True
    a, b = a.in_decimal, b.in_decimal
    whole_a, whole_b = a.precision - a.scale, b.precision - b.scale
    match sign:
        case "+" | "-":
            scale = max(a.scale, b.scale)
            precision = max(whole_a, whole_b) + scale + 1
        case "*":
            scale = a.scale + b.scale
            precision = a.precision + b.precision + 1
        case "/":
            scale = max(FRACTION_KEPT, a.scale + b.precision + 1)
            precision = whole_a + b.scale + scale
        case "%":
            scale = max(a.scale, b.scale)
            precision = min(whole_a, whole_b) + scale
        case _:
            raise NoSuchType(f"operator {sign}")
    if precision <= DIGITS_MAX:
        return decimal(precision, scale), True
    kept = max(DIGITS_MAX - (precision - scale), min(scale, FRACTION_KEPT))
    return decimal(DIGITS_MAX, kept), False


def rounded_type(type_: SparkType, digits: int) -> SparkType:
    """The type of round and bround: a decimal may carry into one more digit."""
    if not type_.is_decimal:
        return type_
    kept = min(type_.scale, digits)
    return decimal(type_.precision - type_.scale + 1 + kept, kept)


def whole_type(type_: SparkType) -> SparkType:
    """The type of floor and ceil."""
    if not type_.is_decimal:
        return BIGINT
    return type_ if type_.scale == 0 else rounded_type(type_, 0)


def sum_type(type_: SparkType) -> SparkType:
    """The type of a sum: ten more digits for a decimal."""
    if type_.is_decimal:
        return replace(decimal(type_.precision + 10, 0), scale=type_.scale)
    return BIGINT if type_.is_integral else DOUBLE


def average_type(type_: SparkType) -> SparkType:
    """The type of an average: four more digits behind the point of a decimal."""
    return decimal(type_.precision + 4, type_.scale + 4) if type_.is_decimal else DOUBLE
