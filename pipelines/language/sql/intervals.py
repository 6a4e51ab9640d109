"""Durations as SQL writes them: `INTERVAL '1' MINUTE`, or the text that a network in Python has."""

from __future__ import annotations

import re
from collections.abc import Callable

from medusa_core.calendar_windows import PERIODS
from medusa_core.errors import Refused
from medusa_core.grid import parse_duration_us, unit_near
from pipelines.language.sql.sql_text import SqlText, Token, Tokens, written

UNITS = {
    "MICROSECOND": "us", "MILLISECOND": "ms", "SECOND": "s", "MINUTE": "m", "HOUR": "h", "DAY": "d",
}  # fmt: skip
SHORT_UNITS = {
    "US": "us", "MS": "ms", "SEC": "s", "SECS": "s", "MIN": "m", "MINS": "m", "HR": "h", "HRS": "h",
}  # fmt: skip
"""Units that Postgres reads in an INTERVAL too."""

_NUMBER_AND_WORD = re.compile(r"(?:INTERVAL )?'?(\d+) ?([A-Z]+)'?")


def period_of(text: SqlText, tokens: Tokens, at: Token) -> str:
    """The calendar period of `INTERVAL '1' MONTH`; Refused for what is none."""
    words = " ".join(token.text.strip("'\"") for token in tokens[1:]).lower().split()
    if tokens and tokens[0].upper == "INTERVAL" and len(words) == 2:
        period = words[1].removesuffix("s")
        if words[0] == "1" and period in PERIODS:
            return period
        if words[0] != "1" and period in PERIODS:
            raise text.refused(
                tokens[0],
                f"a window of a time zone is one {period}: write INTERVAL '1' {period.upper()}",
            )
    raise text.refused(
        tokens[0] if tokens else at,
        "a window of a time zone is a day, week, month, quarter or year: write INTERVAL '1' DAY",
    )


def size_of(text: SqlText, tokens: Tokens, at: Token) -> str:
    """The size of a window as a network file has it, `90s`; Refused for what is none."""
    return duration_of(
        text, tokens, at,
        ", or for calendar windows TUMBLE(TABLE t, INTERVAL '1' {}, 'Europe/Berlin')",
    )  # fmt: skip


def duration_of(
    text: SqlText,
    tokens: Tokens,
    at: Token,
    for_period: str = "",
    check: Callable[[str], object] = parse_duration_us,
) -> str:
    """A duration as a network file has it, `90s`; Refused for what is none.

    `for_period` is what to write instead for months, quarters and years, which are none; `check`
    refuses what has the form of a duration and is not a valid one.
    """
    if not tokens:
        raise text.refused(at, "an argument is empty: remove a comma")
    duration = _written(text, tokens, for_period)
    try:
        check(duration)
    except Refused as error:
        raise text.refused(tokens[0], str(error)) from None
    return duration


def _written(text: SqlText, tokens: Tokens, for_period: str) -> str:
    """A number and a unit, from a text or an INTERVAL."""
    if len(tokens) == 1 and tokens[0].kind == "string":
        return tokens[0].text[1:-1]
    if tokens[0].upper == "INTERVAL":
        words = " ".join(token.text.strip("'\"") for token in tokens[1:]).upper().split()
        if len(words) == 2 and words[0].isdecimal():
            unit = words[1].removesuffix("S")
            if unit == "WEEK":
                return f"{7 * int(words[0])}d"
            if unit in UNITS or words[1] in SHORT_UNITS:
                return f"{words[0]}{UNITS.get(unit) or SHORT_UNITS[words[1]]}"
            hint = for_period.format(unit)
            if unit in ("MONTH", "QUARTER", "YEAR"):
                raise text.refused(
                    tokens[-1],
                    f"a {unit.lower()} is not always of the same length: write days{hint}",
                )
    example = "INTERVAL '1' MINUTE, with SECOND, MINUTE, HOUR or DAY"
    given = _NUMBER_AND_WORD.fullmatch(written(tokens).upper())
    meant = given and unit_near(given[2].lower())
    if given and meant in UNITS.values():
        unit = next(name for name, short in UNITS.items() if short == meant)
        example = f"INTERVAL '{given[1]}' {unit}"
    raise text.refused(tokens[0], f"`{written(tokens)}` is no duration: write {example}")
