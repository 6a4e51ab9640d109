"""The parts of docs/language.md that are made from the lists of functions, and what a test reads.

`python -m tests.docs.language_page --write` writes the made parts into the page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields

from medusa_core import network
from medusa_core.columns import Column
from pipelines.language import functions
from pipelines.language.functions import REFUSED, Scalar
from tests.docs.pages import DOCS

PAGE = DOCS / "language.md"
KINDS = (
    network.Network, network.Source, network.Filter, network.Map, network.Union,
    network.Aggregate, network.UserAggregate, network.Session, network.Join, network.Lookup,
    network.Resample, network.Rank, network.Deduplicate, network.Running, network.Every,
    network.Function, network.Output,
)  # fmt: skip
COLUMNS = {
    name: Column(name, type_)
    for name, type_ in {
        "i": "int",
        "b": "bigint",
        "d": "decimal(10,2)",
        "x": "double",
        "s": "string",
        "ok": "boolean",
        "day": "date",
        "at": "timestamp",
    }.items()
}
"""The columns of the page's expressions."""

GROUPS = {
    "text": functions._TEXT,
    "numbers": functions._NUMBERS,
    "times": functions._TIMES,
    "arrays": functions._ARRAYS,
    "any": functions._EITHER,
}


def written(kind: str) -> str:
    """A kind of argument as the page shows it: in brackets if it may be left out."""
    name = f"`{kind.rstrip('?*')}`"
    return f"[{name}]" if kind.endswith("?") else f"[{name} …]" if kind.endswith("*") else name


def result_of(function: Scalar) -> str:
    """The type of a function's value as the page shows it."""
    of = {
        "first": "that of the first",
        "common": "the common type",
        "element": "that of an element",
        "array": "array of the common type",
    }
    return of.get(function.gives, f"`{function.gives}`")


def notes_of(function: Scalar) -> str:
    """What is special about a function: it may fail on a record, or has inexact digits."""
    notes = []
    if function.fails is not None:
        notes.append("may fail")
    if function.tolerance_only:
        notes.append("inexact")
    return ", ".join(notes)


def table_of(listed: Iterable[Scalar]) -> str:
    """A table of functions; those that take and give the same share a row."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for function in listed:
        takes = ", ".join(map(written, function.takes))
        row = (takes, result_of(function), notes_of(function))
        rows.setdefault(row, []).append(f"`{function.name}`")
    lines = ["| function | arguments | result | |", "|---|---|---|---|"]
    lines += [f"| {', '.join(names)} | {' | '.join(row)} |" for row, names in rows.items()]
    return "\n".join(lines)


def refused_table() -> str:
    """The functions that are refused, by the reason."""
    rows: dict[str, list[str]] = {}
    for name, reason in REFUSED.items():
        rows.setdefault(reason, []).append(f"`{name}`")
    lines = ["| function | reason: it … |", "|---|---|"]
    return "\n".join(lines + [f"| {', '.join(names)} | {why} |" for why, names in rows.items()])


def made_parts() -> Mapping[str, str]:
    """Every part of the page that is made, by its name."""
    tables = {f"functions of {group}": table_of(listed) for group, listed in GROUPS.items()}
    return {**tables, "refused functions": refused_table()}


def with_parts(page: str, parts: Mapping[str, str]) -> str:
    """The page with these parts, each between `<!-- NAME -->` and `<!-- /NAME -->`."""
    for name, part in parts.items():
        pattern = rf"(?<=<!-- {name} -->\n\n).*?(?=\n\n<!-- /{name} -->)"
        page, count = re.subn(pattern, lambda _, part=part: part, page, flags=re.DOTALL)
        assert count == 1, f"the page needs <!-- {name} --> and <!-- /{name} -->, once"
    return page


def declared_fields(kind: type) -> list[tuple[str, str, str]]:
    """The fields of a part of a network as the page shows them: name, type and default."""
    found = []
    for field in fields(kind):
        if field.init:
            default = "" if field.default is MISSING else f"`{shown(field.default)}`"
            if field.default_factory is not MISSING:
                default = f"`{shown(field.default_factory())}`"
            found.append((f"`{field.name}`", f"`{shown_type(str(field.type))}`", default))
    return found


def shown(default: object) -> str:
    """A default as Python writes it, with the quotation marks of the page."""
    return f'"{default}"' if isinstance(default, str) else repr(default)


def shown_type(declared: str) -> str:
    """A type as it may be in a table."""
    return declared.replace(" | ", " or ").replace("Mapping[", "dict[")


def shown_fields(page: str, kind: type) -> list[tuple[str, str, str]]:
    """The same as the page shows it, in the table below the heading of that name."""
    _, _, rest = page.partition(f"\n### {kind.__name__}\n")
    section = re.split(r"\n##", rest)[0]
    rows = re.findall(r"^\| (`\w+`) \| (`[^|]+`) \| ([^|]*?) ?\|", section, re.MULTILINE)
    return [(name, type_, default) for name, type_, default in rows]


def shown_results(page: str) -> list[tuple[str, str]]:
    """Every expression of the page with the type of its result."""
    rows = re.findall(r"^\| `([^`]+(?:``[^`]+)?)` \| `([^`]+)` \|", page, re.MULTILINE)
    typed = re.compile(r"(int|bigint|double|string|boolean|binary|date|timestamp|decimal\(.*\))")
    return [
        (text.replace("\\|", "|"), type_)
        for text, type_ in rows
        if typed.fullmatch(type_) and not re.fullmatch(r"\w+", text)
    ]


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(with_parts(PAGE.read_text(encoding="utf-8"), made_parts()))
