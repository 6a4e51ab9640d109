"""What a field of a contract may hold: each rule once, with what to write instead.

A rule *holds* for a value of terms, wherever these are from: a file, a partner's document, a
program. It also *reads* the value as a person writes it in a file: `1d`, `none`, `1.30`.
`medusa_market.check_terms` has the same rules in SQL, for what an owner writes there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial

from medusa_core.errors import Refused
from medusa_core.grid import DURATION_US_MAX, TIME_US_MAX, TIME_US_MIN, parse_duration_us
from medusa_core.names import NAME_LENGTH_MAX, NAME_PATTERN
from medusa_core.suggest import did_you_mean, shown

Path = tuple[str | int, ...]
"""A field as contract files name it: ("price", "low"), or ("moves", 0)."""

WHOLE_MAX = 2**53 - 1
"""The largest whole number that every reader of JSON reads exactly."""

PLACES_MAX = 6
MONEY_MAX = Decimal(10) ** 12
LENGTH_MS_MAX = DURATION_US_MAX // 1_000
TIME_MS_MIN, TIME_MS_MAX = TIME_US_MIN // 1_000, TIME_US_MAX // 1_000
REPLICAS_MAX = 1_000
FRAGMENTS_MAX = 1_000
READS_MAX = 1_000
NO_NOTICE = "none"
ANY = "any"

_PLAIN_AMOUNT = re.compile(r"(?:0|[1-9][0-9]{0,12})(?:\.[0-9]{1,6})?")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,3})?)?Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TermFinding:
    """One field that is not valid, and the rest of the sentence of which it is the subject."""

    path: Path
    says: str


class InvalidTerms(Refused):
    """The terms of a contract are not valid; `findings` has each field and what to write."""

    def __init__(self, findings: Sequence[TermFinding]) -> None:
        first = findings[0]
        field = ".".join(map(str, first.path)) or "document"
        super().__init__(f"the contract's {field} {first.says}")
        self.findings = tuple(findings)


@dataclass(frozen=True, slots=True)
class TermRule:
    """When a value is valid, how it is read as a file has it, and what to write instead.

    `read` returns None, or raises ValueError or Refused, for what is not written like one. `words`
    are all that may be written, where these are few.
    """

    write: str
    holds: Callable[[object], bool]
    read: Callable[[object], object]
    unit: str = ""
    words: Collection[str] = ()

    def finding(self, path: Path, value: object) -> TermFinding | None:
        """What is wrong with a value of terms; None if it is valid."""
        if self.holds(value):
            return None
        return TermFinding(path, f"is {shown(value)}{self.unit}: {self.write}")

    def value_of(self, path: Path, given: object) -> object:
        """The value that is written in a file; raises InvalidTerms."""
        try:
            value = self.read(given)
        except (ValueError, Refused):
            value = None
        if value is None or not self.holds(value):
            hint = did_you_mean(given, self.words, self.write)
            raise InvalidTerms([TermFinding(path, f"is {shown(given)}: {hint}")])
        return value


def require(*findings: TermFinding | None) -> None:
    """Raise InvalidTerms with the findings that there are; nothing if there is none."""
    wrong = [finding for finding in findings if finding is not None]
    if wrong:
        raise InvalidTerms(wrong)


def unless(is_valid: bool, path: Path, says: str) -> TermFinding | None:
    """The finding that a field contradicts another one, unless it does not."""
    return None if is_valid else TermFinding(path, says)


def any_of(words: Collection[str]) -> str:
    """Words for a sentence: a, b or c."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def word_of(kind: type[Enum]) -> TermRule:
    """The rule of a field that holds one of a few words."""
    words = [str(member.value) for member in kind]
    return TermRule(
        write=f"write {any_of(words)}",
        holds=lambda value: isinstance(value, kind),
        read=lambda given: kind(given) if isinstance(given, str) else None,
        words=words,
    )


def _is_like(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _like(write: str, pattern: str) -> TermRule:
    """The rule of a text that is its own value."""
    return TermRule(write, partial(_is_like, re.compile(pattern)), lambda given: given)


def _is_whole(lowest: int, highest: int, value: object) -> bool:
    return type(value) is int and lowest <= value <= highest


def _is_amount(lowest: Decimal, value: object) -> bool:
    return (
        isinstance(value, Decimal)
        and value.is_finite()
        and lowest <= value <= MONEY_MAX
        and value == round(value, PLACES_MAX)
    )


def _amount_of(given: object) -> Decimal | None:
    text = given if isinstance(given, str) else str(given)
    return Decimal(text) if _PLAIN_AMOUNT.fullmatch(text) else None


def _amount(least: str, lowest: Decimal) -> TermRule:
    write = f"write a number {least}, such as 1.30, {MONEY_MAX:,f} at most, with 6 decimal places"
    return TermRule(f"{write} at most", partial(_is_amount, lowest), _amount_of)


def _length_ms_of(given: object) -> int | None:
    if isinstance(given, bool) or not isinstance(given, str | int):
        return None
    if isinstance(given, str) and given != " ".join(given.split()):
        return None
    whole_ms, rest_us = divmod(parse_duration_us(given), 1_000)
    return None if rest_us else whole_ms


def _time_ms_of(given: object) -> int | None:
    if not _is_like(_TIME, given):
        return None
    return (datetime.fromisoformat(str(given)) - _EPOCH) // timedelta(milliseconds=1)


_CHARACTERS = f"a lower-case letter, then lower-case letters, digits and '_', {NAME_LENGTH_MAX} "

NAME = _like(f"write a name: {_CHARACTERS}characters at most", NAME_PATTERN)
FRAGMENT = _like(
    f"write a name, FRAGMENT or NETWORK.FRAGMENT: each {_CHARACTERS}characters at most",
    rf"{NAME_PATTERN}(\.{NAME_PATTERN})?",
)
ORIGIN_STREAM = _like(
    f"write PARTICIPANT/STREAM: each {_CHARACTERS}characters at most",
    f"{NAME_PATTERN}/{NAME_PATTERN}",
)
REFERENCE = _like(
    "write FRAGMENT/STREAM=MICROSECONDS, such as main/connections=0.8: a number above 0 without "
    "trailing zeros, with 3 decimal places at most",
    rf"{NAME_PATTERN}(\.{NAME_PATTERN})?/{NAME_PATTERN}=(?!0$)(0|[1-9][0-9]{{0,5}})(\.[0-9]{{0,2}}[1-9])?",
)
CURRENCY = _like("write three capitals, such as EUR", "[A-Z]{3}")
REVISION = _like("write 64 hexadecimal digits", "[0-9a-f]{64}")
NUMBER = TermRule(
    "write a whole number from 1 on", partial(_is_whole, 1, WHOLE_MAX), lambda given: given
)
REPLICAS = TermRule(
    f"write a whole number from 1 to {REPLICAS_MAX:,}",
    partial(_is_whole, 1, REPLICAS_MAX),
    lambda given: given,
)
AMOUNT = _amount("above 0", Decimal(1).scaleb(-PLACES_MAX))
AMOUNT_OR_ZERO = _amount("from 0 on", Decimal(0))
SHARE = TermRule(
    "write a share from 0 to 1, such as 0.01, with 6 decimal places at most",
    lambda value: _is_amount(Decimal(0), value) and isinstance(value, Decimal) and value <= 1,
    _amount_of,
)
LENGTH = TermRule(
    "write a duration such as 10s, 12h or 7d, in whole milliseconds, 366 days at most",
    partial(_is_whole, 1, LENGTH_MS_MAX),
    _length_ms_of,
    " ms",
)
NOTICE = TermRule(
    "write a duration such as 7d, 366 days at most, or none",
    partial(_is_whole, 0, LENGTH_MS_MAX),
    lambda given: 0 if given == NO_NOTICE else _length_ms_of(given),
    " ms",
)
TIME = TermRule(
    "write a time that exists, in UTC, such as 2026-01-01T00:00:00Z",
    partial(_is_whole, TIME_MS_MIN, TIME_MS_MAX),
    _time_ms_of,
    " ms after 1970",
)


@dataclass(frozen=True, slots=True)
class ListRule:
    """When a list is valid: each item by a rule, none twice, one at least and so many at most.

    `everything` is a word that stands for a list of all there is (None as value).
    """

    write: str
    items: TermRule
    items_max: int
    everything: str | None = None

    def finding(self, path: Path, value: frozenset[object] | None) -> TermFinding | None:
        """What is wrong with a set of terms; None if it is valid."""
        if value is None and self.everything is not None:
            return None
        if not value or len(value) > self.items_max:
            return TermFinding(path, f"has {len(value or ()):,} items: {self.write}")
        found = (self.items.finding(path, item) for item in sorted(value, key=str))
        return next(filter(None, found), None)

    def value_of(self, path: Path, given: object) -> frozenset[object] | None:
        """The set that is written in a file; raises InvalidTerms."""
        if self.everything is not None and given == self.everything:
            return None
        if not isinstance(given, list | tuple):
            raise InvalidTerms([TermFinding(path, f"is {shown(given)}: {self.write}")])
        require(
            unless(bool(given), path, f"is an empty list: {self.write}"),
            unless(
                len(given) <= self.items_max,
                path,
                f"has {len(given):,} items: write {self.items_max:,} at most",
            ),
        )
        values: set[object] = set()
        findings: list[TermFinding] = []
        for number, item in enumerate(given):
            try:
                value = self.items.value_of((*path, number), item)
            except InvalidTerms as error:
                findings += error.findings
                continue
            if value in values:
                says = f"names {shown(item)} again: keep one"
                findings.append(TermFinding((*path, number), says))
            values.add(value)
        require(*findings)
        return frozenset(values)
