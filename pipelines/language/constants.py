"""Arguments that must be constants, checked before a job runs: patterns, formats, units, paths.

Spark finds an invalid pattern or format only when the first record arrives, and then every record
fails. Patterns are restricted to the syntax that Java and Python share, so that an oracle reads
them too.

Limit: Java matches by recursion. A pattern with a repeated group, such as `(a|b)*c`, may exhaust
its stack on a text of some thousand characters, which ends the step; `[ab]*c` cannot.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal

from pipelines.language.ambiguous_patterns import ANY_CLASS, JAVA_CLASSES, is_exponential
from pipelines.language.functions import names

UNITS = names(
    """
    year yyyy yy quarter month mm mon week day dd hour minute second millisecond microsecond
    """
)
COUNT_MAX = 1_000
_RUNS = re.compile(r"'[^']*'|([A-Za-z])\1*|[^A-Za-z'\[\]{}#]")
_FORMAT_CHARACTERS = {
    "y": 6, "M": 4, "d": 2, "H": 2, "h": 2, "m": 2, "s": 2, "S": 9, "a": 1, "E": 4, "D": 3, "Q": 4,
}  # fmt: skip
_PARSE_CHARACTERS = frozenset("yMdHhmsSa")
_JAVA_CLASS = re.compile(r"\\[pP]\{\w+\}")
JAVA_CLASS_NAMES = names(
    """
    Lower Upper ASCII Alpha Digit Alnum Punct Graph Print Blank Cntrl XDigit Space
    L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp
    IsAlphabetic IsLetter IsDigit IsLowercase IsUppercase IsPunctuation IsWhite_Space
    IsLatin IsGreek IsCyrillic IsHan IsArabic IsHebrew
    """
)
_OCTAL = re.compile(r"\\[1-9][0-9]{2}")
_REPEATED = re.compile(r"\{([0-9]{1,4})(?:,([0-9]{0,4}))?\}")
_GROUP = re.compile(
    r"\((?:\?(?:[:=!>]|<[=!]|<[A-Za-z][A-Za-z0-9]*>|[ims]+(?:-[ims]+)?[:)])|(?!\?))"
)
_PATH = re.compile(r"\$(\.[A-Za-z_][\w-]*|\[\d+\]|\['[^'\]]+'\])*")


def quote(value: str) -> str:
    """A text as a Spark SQL literal, whatever is in it."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def literal_type(value: int | Decimal | float) -> str:
    """The type that Spark gives a number as it is written."""
    if isinstance(value, float):
        return "double"
    if isinstance(value, Decimal):
        digits, scale = len(value.as_tuple().digits), -int(value.as_tuple().exponent)
        return f"decimal({max(digits, scale)},{scale})"
    if -(2**31) <= value < 2**31:
        return "int"
    return "bigint" if -(2**63) <= value < 2**63 else f"decimal({len(str(abs(value)))},0)"


def complaint(kind: str, value: object) -> str | None:
    """Why `value` is no constant of the kind (as named in `functions.py`), or None if it is one."""
    match kind:
        case "digits" | "count":
            if type(value) is not int or not 0 <= value <= COUNT_MAX:
                return f"is not a whole number from 0 to {COUNT_MAX}"
        case "index":
            if type(value) is not int or not 0 < abs(value) < 2**31:
                return "is not a whole number other than 0"
        case _ if not isinstance(value, str):
            return "is not a text"
        case "pattern":
            return _not_a_pattern(value)
        case "format" | "parse_format":
            return _not_a_format(value, kind == "parse_format")
        case "unit":
            return None if value.lower() in UNITS else f"is not one of {', '.join(sorted(UNITS))}"
        case "path":
            return None if _PATH.fullmatch(value) else "is not a path such as '$.a.b[0]'"
    return None


def _for_python(pattern: str, java_class: Callable[[re.Match[str]], str] = lambda _: r"\w") -> str:
    named = _JAVA_CLASS.sub(java_class, pattern).replace("(?<", "(?P<")
    return named.replace("(?P<=", "(?<=").replace("(?P<!", "(?<!")


def _sign_of(java_class: re.Match[str]) -> str:
    is_without = java_class[0][1] == "P"
    sign, _ = ANY_CLASS if is_without else JAVA_CLASSES.get(java_class[0][3:-1], ANY_CLASS)
    return sign


def _not_a_pattern(value: str) -> str | None:
    reason = _read_differently(value)
    if reason:
        return reason
    try:
        re.compile(_for_python(value))
    except (re.error, OverflowError, RecursionError) as error:
        return f"is no regular expression ({error})"
    if is_exponential(_for_python(value, _sign_of)):
        return (
            "may take exponential time, as (a+)+ does: repeat no part that is already repeated, "
            "and let the alternatives of a repeated group begin differently"
        )
    return None


def _read_differently(value: str) -> str | None:
    """The first part of a pattern that Java cannot read or reads otherwise than Python, or None."""
    at, in_class = 0, False
    while at < len(value):
        rest, length = value[at:], 1
        if rest[0] == "\\":
            found = _JAVA_CLASS.match(rest)
            length = found.end() if found else 2
            if found and rest[3 : length - 1] not in JAVA_CLASS_NAMES:
                return f"has {found[0]}, a class of characters that is not known"
            if rest[1:2] in (*"0NUZv", *("b123456789" if in_class else "")):
                return f"has {rest[:2]!r}, which Java does not read as Python does"
            if _OCTAL.match(rest):
                return f"has {rest[:4]!r}, which Java does not read as Python does"
            if not in_class and rest[1:2].isdigit() and ("(?<=" in value or "(?<!" in value):
                return "has a lookbehind and a group named by its number"
        elif in_class:
            if rest[0] == "[" or rest[:2] in ("&&", "||", "--", "~~"):
                odd = rest[0] if rest[0] == "[" else rest[:2]
                return f"has {odd!r} between [ and ]: write a backslash before it"
            in_class = rest[0] != "]"
        elif rest[0] == "[":
            length = 2 if rest[1:2] == "^" else 1
            in_class = True
            if rest[length : length + 1] == "]":
                return "has ']' at the beginning of a class: write a backslash before it"
        elif rest[0] == "{":
            found = _REPEATED.match(rest)
            if not found or max(int(n) for n in found.groups() if n) > COUNT_MAX:
                return f"has '{{' without a count from 0 to {COUNT_MAX}: write \\\\{{ for a brace"
            length = found.end()
        elif rest[0] == "(":
            found = _GROUP.match(rest)
            if not found:
                return f"has {rest[:3]!r}: there are (…), (?:…), (?<name>…), (?=…), (?!…), (?i)"
            length = found.end()
        at += length
    return None


def groups_of(pattern: str) -> int:
    """How many groups a checked pattern has."""
    return re.compile(_for_python(pattern)).groups


def not_a_replacement(value: str, groups: int) -> str | None:
    """Why a text cannot replace the matches of a pattern with so many groups, or None."""
    plain = re.sub(r"\\.", "", value, flags=re.DOTALL)
    if plain.endswith("\\"):
        return "ends with a lone backslash"
    for found in re.finditer(r"\$(\d?)", plain):
        if not found[1] or int(found[1]) > groups:
            return f"names group {found[0]}, but the pattern has {groups}: write \\\\$ for a dollar"
    return None


def not_a_like_pattern(value: str, escape: str) -> str | None:
    """Why a text is no pattern of LIKE with that escape character, or None."""
    odd = re.escape(escape)
    if not re.fullmatch(rf"(?:{odd}[%_{odd}]|[^{odd}])*", value, flags=re.DOTALL):
        return f"has {escape} before a character other than %, _ and {escape}"
    return None


def _not_a_format(value: str, is_for_reading: bool) -> str | None:
    rest = _RUNS.sub("", value)
    if rest or not value:
        return f"has {rest[:1]!r}, which no date format has" if rest else "is empty"
    for run in (found[0] for found in _RUNS.finditer(value)):
        character = run[0]
        if not character.isalpha():
            continue
        if len(run) > _FORMAT_CHARACTERS.get(character, 0):
            return f"has {run!r}: write letters such as yyyy-MM-dd HH:mm:ss.SSS"
        if is_for_reading and character not in _PARSE_CHARACTERS:
            return f"has {run!r}, which can be written but not read"
    return None
