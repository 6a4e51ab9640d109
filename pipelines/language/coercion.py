"""The types of expressions: how Spark SQL 4.3 with ANSI rules combines two of them, and casts.

Types are written as in `medusa_core.columns`; inside an expression there are also `array<…>`,
which no column can have, and `void`, the type of a bare NULL. Narrower than Spark on purpose:
Spark would cast text to a number to compare them, and fail at the first word that is not a
number; here both sides must be numbers, or of one type.
"""

from __future__ import annotations

from medusa_core.columns import decimal_shape

PRECISION_MAX = 38
INTEGRAL = ("int", "bigint")
VOID = "void"
_DECIMAL_OF = {"int": (10, 0), "bigint": (20, 0)}
_INTEGRAL_DIGITS = {"int": 10, "bigint": 19}
_INTEGRAL_DIGITS_SAFE = {"int": 9, "bigint": 18}


def is_decimal(type_: str) -> bool:
    """Whether the type is decimal(p,s)."""
    return type_.startswith("decimal(")


def is_number(type_: str) -> bool:
    """Whether the type is int, bigint, decimal or double."""
    return type_ in INTEGRAL or type_ == "double" or is_decimal(type_)


def is_array(type_: str) -> bool:
    """Whether the type is an array."""
    return type_.startswith("array<")


def element_of(type_: str) -> str:
    """The type of an array's elements."""
    return type_.removeprefix("array<").removesuffix(">")


def as_decimal(type_: str) -> tuple[int, int]:
    """Precision and scale of a decimal, or of the decimal an integral type becomes."""
    return _DECIMAL_OF.get(type_) or decimal_shape(type_)


def decimal(precision: int, scale: int) -> str:
    """The type decimal(p,s), as it is written."""
    return f"decimal({precision},{scale})"


def common_type(left: str, right: str) -> str | None:
    """The type that both sides of a comparison or branches of a CASE take; None if there is none.

    None also for decimals that would lose digits in a common type: cast one of them first.
    """
    if left == right or right == VOID:
        return left
    if left == VOID:
        return right
    if is_number(left) and is_number(right):
        if "double" in (left, right):
            return "double"
        if left in INTEGRAL and right in INTEGRAL:
            return "bigint"
        (p1, s1), (p2, s2) = as_decimal(left), as_decimal(right)
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale
        return decimal(precision, scale) if precision <= PRECISION_MAX else None
    if {left, right} == {"date", "timestamp"}:
        return "timestamp"
    if is_array(left) and is_array(right):
        inner = common_type(element_of(left), element_of(right))
        return f"array<{inner}>" if inner else None
    return None


def arithmetic_type(operator: str, left: str, right: str) -> tuple[str, bool] | None:
    """The type of `left operator right` for + - * / %, and whether its digits always fit.

    Decimals follow SQL Server's rules, as Spark does: where more than 38 digits are needed, digits
    behind the point are given up, six at least kept, and the result may overflow.
    """
    if not (is_number(left) and is_number(right)):
        return None
    if "double" in (left, right) or (operator == "/" and not {left, right} - set(INTEGRAL)):
        return "double", True
    if left in INTEGRAL and right in INTEGRAL:
        wider = "int" if left == right == "int" else "bigint"
        return wider, operator == "%"
    (p1, s1), (p2, s2) = as_decimal(left), as_decimal(right)
    match operator:
        case "+" | "-":
            scale = max(s1, s2)
            precision = max(p1 - s1, p2 - s2) + scale + 1
        case "*":
            precision, scale = p1 + p2 + 1, s1 + s2
        case "/":
            scale = max(6, s1 + p2 + 1)
            precision = p1 - s1 + s2 + scale
        case "%":
            scale = max(s1, s2)
            precision = min(p1 - s1, p2 - s2) + scale
        case _:
            raise AssertionError(f"no such operator: {operator}")
    if precision <= PRECISION_MAX:
        return decimal(precision, scale), True
    kept = max(PRECISION_MAX - (precision - scale), min(scale, 6))
    return decimal(PRECISION_MAX, kept), False


def rounded_type(type_: str, digits: int, up_or_down: bool = False) -> str:
    """The type of round, bround (and, with 0 digits, floor and ceil of a decimal)."""
    if not is_decimal(type_):
        return "bigint" if up_or_down else type_
    precision, scale = decimal_shape(type_)
    if up_or_down and scale == 0:
        return type_
    kept = min(scale, digits)
    return decimal(min(precision - scale + 1 + kept, PRECISION_MAX), kept)


def cast_can_fail(source: str, target: str) -> bool | None:
    """Whether a cast may raise under ANSI rules, or make a time or text that no column holds; None
    if Spark has no such cast."""
    if (source, target) == ("binary", "string"):
        return True
    if source in (target, VOID) or target == "string":
        return None if is_array(source) else False
    if source == "string":
        return None if is_array(target) else target != "binary"
    if is_array(source) or is_array(target) or "binary" in (source, target):
        return None
    if source == "boolean" or target == "boolean":
        if not (is_number(source) or is_number(target)):
            return None
        return is_decimal(target) and cast_can_fail("int", target) and _digits(target) < 1
    if source == "date" or target == "date":
        return False if {source, target} == {"date", "timestamp"} else None
    if target == "timestamp":
        # Seconds of ten digits lie in the years 1653 to 2286.
        return source in ("double", "bigint") or (is_decimal(source) and _digits(source) > 10)
    if source == "timestamp":
        return target not in ("bigint", "double")
    return _number_cast_can_fail(source, target)


def _number_cast_can_fail(source: str, target: str) -> bool:
    if target == "double":
        return False
    if source == "double":
        return True
    if target in INTEGRAL:
        if is_decimal(source):
            return _digits(source) > _INTEGRAL_DIGITS_SAFE[target]
        return (source, target) == ("bigint", "int")
    if source in INTEGRAL:
        return _digits(target) < _INTEGRAL_DIGITS[source]
    loses_digits = decimal_shape(target)[1] < decimal_shape(source)[1]
    return _digits(target) < _digits(source) + (1 if loses_digits else 0)


def _digits(type_: str) -> int:
    """How many digits a decimal has before the point."""
    precision, scale = decimal_shape(type_)
    return precision - scale
