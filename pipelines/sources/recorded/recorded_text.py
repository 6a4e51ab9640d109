"""Text as values of declared types: the one grammar for CSV fields and for text inside Parquet.

| type | text | |---|---| | int, bigint | `12`, `-7`, and `12.0`, as pandas writes whole numbers
beside empty fields; not `12.5`, not `0x1F`, not `1_000` | |
double | `157.8`, `1e5`, `inf`, `-inf`, `nan`; beyond the largest double is out of range | |
decimal(p,s) | `157.80`, `1e2`; never rounded: what p and s cannot hold does not fit | | boolean |
`true`, `false` in any case, `t`, `f`, `1`, `0` | | date | `2018-01-02` | | timestamp | ISO-8601:
`2018-01-02T10:01:21.479Z`, `2018-01-02 10:01+01:00`; one without a zone is in the declared one | |
binary | hexadecimal digits | | string | the text itself, valid UTF-8 without NUL (Postgres could
not store it) |

Empty text is NULL, of every type, quoted or not. Blanks around anything but a string are ignored.
A value is read the same whatever its neighbours; whole arrays are converted at once, and value by
value only when one of them fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from medusa_core.columns import decimal_shape
from pipelines.sources.recorded.time_zones import settle_zone
from pipelines.storage.arrow_schema import arrow_type

Failures = dict[int, str]
"""Row -> why its value will not go, as one phrase."""

NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_DOUBLE = NUMBER + r"|^[+-]?(?i:inf|infinity|nan|nan\([0-9A-Za-z_]*\))$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_ZONE = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
_CLOCK = r"([01][0-9]|2[0-3])(:[0-5][0-9](:[0-5][0-9](\.[0-9]+)?)?)?"
ISO_TIME = rf"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}([T ]{_CLOCK}{_ZONE}?)?$"
_ZONED = rf"[T ][0-9:.]+{_ZONE}$"

_WHOLE = r"^-?[0-9]+(\.0+)?$"

_DAYS_MIN, _DAYS_MAX = -719_162, 2_932_896  # 0001-01-01, 9999-12-31
_TRUE, _FALSE = ("true", "t", "1"), ("false", "f", "0")
_EXACT = Context(prec=80)


@dataclass(frozen=True, slots=True)
class _Grammar:
    """How text of one type looks, how arrays and single texts of it are read."""

    shape: str
    misshapen: str
    impossible: str
    cast: Callable[[Any], Any]
    parse: Callable[[str], Any]


def convert_text(texts: Any, type_: str, zone: str | None = None) -> tuple[Any, Failures]:
    """A string array as values of the declared type, NULL where a text will not go, and why.

    `zone` is that of timestamps without one.
    """
    texts = null_if_empty(texts)
    if type_ == "string":
        has_nul = pc.match_substring(texts, "\0")
        if not pc.any(has_nul).as_py():
            return texts, {}
        rows = np.flatnonzero(pc.fill_null(has_nul, False).to_numpy(zero_copy_only=False))
        return pc.if_else(has_nul, None, texts), {int(row): "holds a NUL byte" for row in rows}
    grammar = _grammar(type_)
    texts = pc.utf8_trim(texts, " \t")
    is_shaped = pc.match_substring_regex(texts, grammar.shape)
    shaped = texts if pc.all(is_shaped).as_py() else pc.if_else(is_shaped, texts, None)
    try:
        values = grammar.cast(shaped)
    except (pa.ArrowInvalid, ValueError, OverflowError):
        listed = [None if text is None else grammar.parse(text) for text in shaped.to_pylist()]
        values = pa.array(listed, arrow_type(type_))
    failures: Failures = {}
    if values.null_count != texts.null_count:
        lost = pc.and_(pc.is_valid(texts), pc.is_null(values)).to_numpy(zero_copy_only=False)
        failures = {
            int(row): grammar.impossible if is_shaped[int(row)].as_py() else grammar.misshapen
            for row in np.flatnonzero(lost)
        }
    if type_ == "timestamp":
        is_plain = pc.invert(pc.match_substring_regex(texts, _ZONED))
        values, zoneless = settle_zone(values, zone, is_plain)
        failures |= zoneless
    return values, failures


def decode_text(raw: Any) -> tuple[Any, Failures]:
    """A binary array as strings, NULL where it is not valid UTF-8, and which rows those are."""
    try:
        return pc.cast(raw, pa.string()), {}
    except pa.ArrowInvalid:
        pass
    texts: list[str | None] = []
    failures: Failures = {}
    for row, value in enumerate(raw.to_pylist()):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError:
            texts.append(None)
            failures[row] = "is not valid UTF-8"
    return pa.array(texts, pa.string()), failures


def null_if_empty(texts: Any) -> Any:
    """A string or binary array with NULL for what is empty: the rule for both formats."""
    is_empty = pc.equal(pc.binary_length(texts), 0)
    return pc.if_else(is_empty, None, texts) if pc.any(is_empty).as_py() else texts


def _grammar(type_: str) -> _Grammar:
    if type_.startswith("decimal"):
        precision, scale = decimal_shape(type_)
        return _Grammar(
            NUMBER, "is no number", f"does not fit {type_} exactly",
            lambda texts: pc.cast(texts, pa.decimal128(precision, scale)),
            lambda text: _parse_decimal(text, precision, scale),
        )  # fmt: skip
    return _GRAMMARS[type_]


def _integer_parser(bits: int) -> Callable[[str], int | None]:
    limit = 2 ** (bits - 1)

    def parse(text: str) -> int | None:
        text = text.partition(".")[0]
        digits = text.lstrip("-").lstrip("0") or "0"
        if len(digits) > 19:
            return None
        value = -int(digits) if text.startswith("-") else int(digits)
        return value if -limit <= value < limit else None

    return parse


def _without_zeros(texts: Any) -> Any:
    """Whole numbers without the zeros behind their point."""
    if not pc.any(pc.match_substring(texts, ".")).as_py():
        return texts
    return pc.replace_substring_regex(texts, r"\.0+$", "")


def _cast_double(texts: Any) -> Any:
    values = pc.cast(texts, pa.float64())
    if not pc.any(pc.is_inf(values)).as_py():
        return values
    overflown = pc.and_(pc.is_inf(values), pc.match_substring_regex(texts, NUMBER))
    return pc.if_else(overflown, None, values)


def _parse_double(text: str) -> float | None:
    value = float("nan") if "nan" in text.lower() else float(text)
    return None if np.isinf(value) and re.match(NUMBER, text) else value


def _parse_decimal(text: str, precision: int, scale: int) -> Decimal | None:
    try:
        given = Decimal(text)
        value = given.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    except InvalidOperation:
        return None
    fits = value == given and len(value.as_tuple().digits) <= precision
    return value if fits else None


def _cast_boolean(texts: Any) -> Any:
    lower = pc.utf8_lower(texts)
    is_true = pc.is_in(lower, pa.array(_TRUE))
    return pc.if_else(pc.is_valid(texts), is_true, None)


def _cast_date(texts: Any) -> Any:
    dates = pc.cast(texts, pa.date32())
    days = pc.cast(dates, pa.int32())
    return pc.if_else(
        pc.and_(pc.greater_equal(days, _DAYS_MIN), pc.less_equal(days, _DAYS_MAX)), dates, None
    )


def _parse_date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _cast_timestamp(texts: Any) -> Any:
    zoned_type = arrow_type("timestamp")
    # Finer than a microsecond is cut downwards, as in event_times.py.
    texts = pc.replace_substring_regex(texts, r"(\.[0-9]{6})[0-9]+", r"\1")
    is_zoned = pc.match_substring_regex(texts, _ZONED)
    zoned = pc.cast(pc.if_else(is_zoned, texts, None), zoned_type)
    plain = pc.cast(pc.if_else(is_zoned, None, texts), pa.timestamp("us"))
    stamps = pc.coalesce(zoned, pc.cast(plain, zoned_type))
    return keep_years(stamps)


def keep_years(stamps: Any) -> Any:
    """Timestamps in microseconds, NULL where they lie outside the years 1 to 9999."""
    time_us = pc.cast(stamps, pa.int64())
    first, last = _DAYS_MIN * 86_400_000_000, (_DAYS_MAX + 1) * 86_400_000_000
    is_kept = pc.and_(pc.greater_equal(time_us, first), pc.less(time_us, last))
    return stamps if pc.all(is_kept).as_py() else pc.if_else(is_kept, stamps, None)


def _parse_timestamp(text: str) -> datetime | None:
    try:
        stamp = datetime.fromisoformat(re.sub(r"(\.[0-9]{6})[0-9]+", r"\1", text))
        return stamp.astimezone(UTC) if stamp.tzinfo else stamp.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _cast_binary(texts: Any) -> Any:
    listed = [None if text is None else bytes.fromhex(text) for text in texts.to_pylist()]
    return pa.array(listed, pa.binary())


_GRAMMARS = {
    "int": _Grammar(
        _WHOLE, "is no whole number", "is out of range of int",
        lambda texts: pc.cast(_without_zeros(texts), pa.int32()), _integer_parser(32),
    ),
    "bigint": _Grammar(
        _WHOLE, "is no whole number", "is out of range of bigint",
        lambda texts: pc.cast(_without_zeros(texts), pa.int64()), _integer_parser(64),
    ),
    "double": _Grammar(
        _DOUBLE, "is no number", "is out of range of double", _cast_double, _parse_double,
    ),
    "boolean": _Grammar(
        r"^(?i:true|t|1|false|f|0)$", "is neither true nor false", "", _cast_boolean,
        lambda text: text.lower() in _TRUE,
    ),
    "date": _Grammar(
        _DATE, "is no date", "is no date of the years 1 to 9999", _cast_date, _parse_date
    ),
    "timestamp": _Grammar(
        ISO_TIME, "is no ISO-8601 time", "is no time of the years 1 to 9999",
        _cast_timestamp, _parse_timestamp,
    ),
    "binary": _Grammar(
        r"^([0-9A-Fa-f]{2})+$", "is not hexadecimal", "", _cast_binary, bytes.fromhex
    ),
}  # fmt: skip
