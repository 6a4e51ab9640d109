"""The columns of CREATE SOURCE: names and types, in the spellings that other systems have too.

A type is taken if it has one meaning in all of them. What else a column list has there
(constraints, watermarks, computed columns) is refused, with what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from medusa_core.columns import check_type
from medusa_core.errors import Refused
from pipelines.language.sql.intervals import duration_of
from pipelines.language.sql.sql_text import SqlText, Token, Tokens, divided, written

ALIKE: Mapping[str, str] = {
    "VARCHAR": "string", "TEXT": "string", "BOOL": "boolean", "DOUBLE PRECISION": "double",
    "FLOAT8": "double", "BYTES": "binary", "BYTEA": "binary", "TIMESTAMP(6)": "timestamp",
}  # fmt: skip
"""Types that Medusa has under another name."""

_DECIMAL = re.compile(r"(?:DECIMAL|NUMERIC|DEC)\((\d+)(?:, (\d+))?\)")

INSTEAD: Mapping[str, str] = {
    **dict.fromkeys(
        ("VARCHAR", "CHAR", "CHARACTER", "NVARCHAR"),
        "no length of a text is checked: write STRING, and a condition such as length(x) <= 20 in "
        "a view",
    ),
    **dict.fromkeys(
        ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "DATETIME"),
        "a time has microseconds and is UTC: write TIMESTAMP, and time_zone in WITH if the times "
        "of a text are those of another zone",
    ),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT2", "INT4", "BYTE", "SHORT"), "write INT"),
    "INT8": "it has one byte in some systems and eight in others: write BIGINT",
    "INT64": "write BIGINT",
    "FLOAT": "it has four bytes in some systems and eight in others: write DOUBLE",
    **dict.fromkeys(
        ("DECIMAL", "NUMERIC", "DEC"),
        "the digits that it has otherwise differ from system to system: write DECIMAL(18, 2)",
    ),
    **dict.fromkeys(("REAL", "FLOAT4", "FLOAT64"), "write DOUBLE"),
    **dict.fromkeys(("VARBINARY", "BLOB"), "write BINARY"),
    **dict.fromkeys(
        ("JSON", "JSONB", "VARIANT"),
        "write STRING, and get_json_object(x, '$.a') in SELECT",
    ),
    "UUID": "write STRING",
    "TIME": "a time of day has no day: write STRING, or TIMESTAMP for a day and a time",
    **dict.fromkeys(
        ("ARRAY", "MAP", "STRUCT", "ROW", "MULTISET"),
        "a column has one value: declare a column for each part of it",
    ),
}
"""Types that no column has, and what to write for them."""

CONSTRAINTS: Mapping[str, str] = {
    **dict.fromkeys(
        ("PRIMARY", "UNIQUE", "KEY"),
        "a key is an option: write key = '{name}' in WITH",
    ),
    "NOT": "a source does not check its records: remove NOT NULL, and write WHERE {name} IS NOT "
    "NULL in a view",
    "NULL": "each column may be NULL: remove NULL",
    "DEFAULT": "a source does not change its records: remove DEFAULT, and write coalesce({name}, "
    "…) in a view",
    "COMMENT": "a column has no comment: write it behind --",
    "CHECK": "a source does not check its records: remove CHECK, and write WHERE in a view",
    "METADATA": "a record has the columns of its file: remove METADATA",
    "REFERENCES": "no source refers to another: remove REFERENCES, and write JOIN in a stream",
    "COLLATE": "texts are compared byte by byte: remove COLLATE",
    **dict.fromkeys(
        ("AS", "GENERATED"), "a source has no computed columns: write the expression in a view"
    ),
}  # fmt: skip
"""What may stand behind a type elsewhere, and what to write for it."""


def source_columns(text: SqlText, tokens: Tokens, behind: Token) -> Mapping[str, str]:
    """Column to type, from what the brackets hold; `behind` is the one that closes them."""
    found: dict[str, str] = {}
    for part in _parts(tokens):
        _check_is_column(text, part)
        if len(part) < 2 or part[0].kind not in ("word", "quoted"):
            at = part[0] if part else behind
            raise text.refused(at, "write each column as name and type, such as host STRING")
        if part[0].name in found:
            raise text.refused(part[0], f"column {part[0].name} is declared twice: remove one")
        found[part[0].name] = _type(text, part)
    return found


def _parts(tokens: Tokens) -> list[Tokens]:
    """What is between commas, but for those between `<` and `>`."""
    parts: list[list[Token]] = []
    depth = 0
    for part in divided(tokens):
        if depth > 0:
            parts[-1] += part
        else:
            parts.append(list(part))
        depth += sum((token.text == "<") - (token.text == ">") for token in part)
    return list(parts)


def _check_is_column(text: SqlText, part: Tokens) -> None:
    """Refuse what stands beside the columns elsewhere."""
    words = [token.upper for token in part]
    if words[:2] == ["WATERMARK", "FOR"] and len(part) > 2:
        raise text.refused(part[0], _instead_of_watermark(text, part))
    if words[:1] == ["CONSTRAINT"] and len(part) > 2:
        part, words = part[2:], words[2:]
    if len(part) > 2 and (words[:2] == ["PRIMARY", "KEY"] or words[:2] == ["UNIQUE", "("]):
        columns = [token.name for token in part[2:] if token.kind in ("word", "quoted")]
        enforced = columns.index("not") if "not" in columns else len(columns)
        key = ", ".join(name for name in columns[:enforced] if name != "key")
        raise text.refused(part[0], CONSTRAINTS["PRIMARY"].format(name=key))
    if words[:2] in (["CHECK", "("], ["FOREIGN", "KEY"]):
        raise text.refused(part[0], CONSTRAINTS["CHECK" if words[0] == "CHECK" else "REFERENCES"])


def _instead_of_watermark(text: SqlText, part: Tokens) -> str:
    """The options that say what `WATERMARK FOR ts AS ts - INTERVAL '5' SECOND` says."""
    options = f"time = '{part[2].name}'"
    interval = next((i for i, token in enumerate(part) if token.upper == "INTERVAL"), None)
    if interval is not None:
        options += f", disorder = '{duration_of(text, part[interval:], part[0])}'"
    return f"how late records may be is an option: write {options} in WITH"


def _type(text: SqlText, part: Tokens) -> str:
    """The type behind a name, in the spelling of a network file."""
    name, rest = part[0], part[1:]
    behind = next((i for i, token in enumerate(rest) if token.upper in CONSTRAINTS), len(rest))
    if behind < len(rest):
        advice = CONSTRAINTS[rest[behind].upper].format(name=name.name)
        raise text.refused(rest[behind], advice)
    given = re.sub(r" ?([(),]) ?", r"\1", written(rest).upper()).replace(",", ", ")
    if given in ALIKE:
        return ALIKE[given]
    decimal = _DECIMAL.fullmatch(given)
    spelled = f"decimal({decimal[1]},{decimal[2] or 0})" if decimal else given
    instead = None if decimal else INSTEAD.get(rest[0].upper)
    if given != "FLOAT":  # which `check_type` takes, as eight bytes
        try:
            return check_type(f"column {name.text}", spelled.replace(" ", "").lower())
        except Refused as error:
            if instead is None:
                raise text.refused(rest[0], str(error)) from None
    assert instead is not None
    sign = ":" if instead.startswith("write ") else ";"
    raise text.refused(rest[0], f"no column is of type {given}{sign} {instead}")
