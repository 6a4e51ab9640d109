"""Columns that boxes group and order by, and those that a Rank gives."""

from __future__ import annotations

from collections.abc import Mapping, Set

from medusa_core.columns import Column, declare_columns
from medusa_core.count_windows import Every
from medusa_core.deduplication import Deduplicate
from medusa_core.errors import Refused
from medusa_core.ranks import WINDOW_START, Rank
from medusa_core.running_aggregates import Running
from pipelines.language.functions import suggestion
from pipelines.language.inexact_values import inexact_values


def check_key(
    owner: str, verb: str, name: str, known: Mapping[str, Column], inexact: Set[str]
) -> None:
    """Refuse what is not a column, or is known only within a tolerance; `verb`: "groups by"."""
    if name not in known:
        near = suggestion(name, frozenset(known)) or f"; there are {', '.join(known)}"
        raise Refused(f"{owner} {verb} {name!r}, which is not a column{near}")
    if name in inexact:
        named, advice = inexact_values(known.values(), {name}, "in a map before it")
        raise Refused(f"{owner} {verb} {named}: {advice}")


def check_all_exact(owner: str, columns: tuple[Column, ...], inexact: Set[str]) -> None:
    """Refuse an input with a column that is known only within a tolerance: ties depend on all."""
    if inexact:
        named, advice = inexact_values(columns, inexact, "in a map before it")
        raise Refused(f"{owner} reads {named}, and ties are decided by every column: {advice}")


def ranked_columns(
    box: Rank, owner: str, columns: tuple[Column, ...], inexact: Set[str]
) -> tuple[Column, ...]:
    """The columns of a Rank; Refused for keys that are not there, and for what is not exact."""
    known = {column.name: column for column in columns}
    for name in box.group_by:
        check_key(owner, "groups by", name, known, inexact)
    for name, _ in box.keys:
        check_key(owner, "orders by", name, known, inexact)
    check_all_exact(owner, columns, inexact)
    if box.column in known:
        raise Refused(
            f"{owner} has two columns named {box.column!r}, one of its input and the rank: write "
            "column='…' with another name"
        )
    start = {} if WINDOW_START in known else {WINDOW_START: "timestamp"}
    types = {name: column.type for name, column in known.items()}
    return declare_columns(owner, {**start, **types, box.column: "bigint"})


def check_spanned(
    box: Deduplicate | Running | Every, owner: str, columns: tuple[Column, ...], inexact: Set[str]
) -> None:
    """Refuse keys of a box over spans that are not there, and what is not exact.

    A Running has the columns of its input too, and its aggregates have other names.
    """
    known = {column.name: column for column in columns}
    for name in box.by:
        check_key(owner, "has the key", name, known, inexact)
    check_all_exact(owner, columns, inexact)
    twice = [name for name in box.columns if name in known] if isinstance(box, Running) else []
    if twice:
        raise Refused(
            f"{owner} has two columns named {twice[0]!r}, one of its input and an aggregate: give "
            "the aggregate another name"
        )
