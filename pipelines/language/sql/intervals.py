"""Durations as SQL writes them: `INTERVAL '1' MINUTE`, or the text that a network in Python has."""

from __future__ import annotations

from medusa_core.calendar_windows import PERIODS
from pipelines.language.sql.sql_text import SqlText, Token, Tokens, written

UNITS = {
    "MICROSECOND": "us", "MILLISECOND": "ms", "SECOND": "s", "MINUTE": "m", "HOUR": "h", "DAY": "d",
}  # fmt: skip


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


def duration_of(text: SqlText, tokens: Tokens, at: Token, for_period: str = "") -> str:
    """A duration as a network file has it, `90s`; Refused for what is none.

    `for_period` is what to write instead for months, quarters and years, which are none.
    """
    if not tokens:
        raise text.refused(at, "an argument is empty: remove a comma")
    if len(tokens) == 1 and tokens[0].kind == "string":
        return tokens[0].text[1:-1]
    if tokens[0].upper == "INTERVAL":
        words = " ".join(token.text.strip("'\"") for token in tokens[1:]).upper().split()
        if len(words) == 2 and words[0].isdecimal():
            unit = words[1].removesuffix("S")
            if unit == "WEEK":
                return f"{7 * int(words[0])}d"
            if unit in UNITS:
                return f"{words[0]}{UNITS[unit]}"
            hint = for_period.format(unit)
            if unit in ("MONTH", "QUARTER", "YEAR"):
                raise text.refused(
                    tokens[-1],
                    f"a {unit.lower()} is not always of the same length: write days{hint}",
                )
    raise text.refused(
        tokens[0],
        f"`{written(tokens)}` is no duration: write INTERVAL '1' MINUTE, with SECOND, MINUTE, HOUR "
        "or DAY",
    )
