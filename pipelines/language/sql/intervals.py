"""Durations as SQL writes them: `INTERVAL '1' MINUTE`, or the text that a network in Python has."""

from __future__ import annotations

from pipelines.language.sql.sql_text import SqlText, Token, Tokens, written

UNITS = {
    "MICROSECOND": "us", "MILLISECOND": "ms", "SECOND": "s", "MINUTE": "m", "HOUR": "h", "DAY": "d",
}  # fmt: skip


def duration_of(text: SqlText, tokens: Tokens, at: Token) -> str:
    """A duration as a network file has it, `90s`; Refused for what is none."""
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
            if unit in ("MONTH", "QUARTER", "YEAR"):
                raise text.refused(
                    tokens[-1],
                    f"a {unit.lower()} is not always of the same length, and windows by the "
                    "calendar are not supported: write days",
                )
    raise text.refused(
        tokens[0],
        f"`{written(tokens)}` is no duration: write INTERVAL '1' MINUTE, with SECOND, MINUTE, HOUR "
        "or DAY",
    )
