"""`count(distinct x)` as two plain groupings: first by the group and x, then by the group.

Spark's own plan for it groups four times, and a set per group boxes every value. In one partition
two hash groupings over 250,000 records took 67 ms, Spark's own plan 86 ms, sets 110 ms.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import Token, TokenType, exp, tokenize

from pipelines.language.aggregates import AggregateCall
from pipelines.language.functions import AGGREGATES

VALUE = "_distinct"
SHARE = "_share"
_PARTIAL = "_partial"
_AGAIN: dict[type[exp.Expr], str] = {
    exp.Count: "sum",
    exp.Min: "min",
    exp.Max: "max",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
}
"""How the parts of a group make up its whole, for the aggregates whose type does not change."""


@dataclass(frozen=True, slots=True)
class TwoGroupings:
    """What to compute per group and distinct value, and then of these parts per group."""

    value: str
    partials: tuple[tuple[str, str], ...]
    expressions: tuple[str, ...]


def in_two_groupings(
    expressions: Sequence[str], whole_numbers: Collection[str] = ()
) -> TwoGroupings | None:
    """The expressions of a group over two groupings; None where there is no need or no such form.

    There is one for distinct counts of one and the same value next to counts, minima, maxima, logic
    and sums of columns of `whole_numbers` (int or bigint: the sum is a bigint, as are its parts).
    """
    if not any("DISTINCT" in text.upper() for text in expressions):
        return None
    trees = [sqlglot.parse_one(f"({text})", dialect="spark") for text in expressions]
    values: dict[str, None] = {}
    partials: dict[str, str] = {}
    for tree in trees:
        for call in list(tree.find_all(exp.AggFunc, exp.Anonymous)):
            if not isinstance(call, exp.AggFunc) and call.name.lower() not in AGGREGATES:
                continue
            distinct = call.find(exp.Distinct)
            if distinct is None:
                is_whole = isinstance(call, exp.Sum) and isinstance(call.this, exp.Column)
                is_whole = is_whole and call.this.name in whole_numbers
                again = "sum" if is_whole else _AGAIN.get(type(call))
                if again is None:
                    return None
                _stand_in(call, again, partials)
                continue
            if type(call) is not exp.Count or isinstance(call.parent, exp.Filter):
                return None
            if call.this is not distinct or len(distinct.expressions) != 1:
                return None
            values[distinct.expressions[0].sql(dialect="spark")] = None
            distinct.replace(exp.column(VALUE))
    if len(values) != 1:
        return None
    return TwoGroupings(
        value=next(iter(values)),
        partials=tuple((name, sql) for sql, name in partials.items()),
        expressions=tuple(tree.sql(dialect="spark") for tree in trees),
    )


def _stand_in(call: exp.Expr, again: str, partials: dict[str, str]) -> None:
    """Put the aggregate over parts in the place of an aggregate, with its FILTER, over rows."""
    whole = call.parent if isinstance(call.parent, exp.Filter) else call
    name = partials.setdefault(whole.sql(dialect="spark"), f"{_PARTIAL}{len(partials)}")
    whole.replace(exp.Anonymous(this=again, expressions=[exp.column(name)]))


@dataclass(frozen=True, slots=True)
class Shares:
    """What to compute per group, share and distinct value, and then of these parts per group.

    Every record takes part once for each distinct value, in a share of its own (1, 2, …), and once
    in share 0, where all other aggregates are computed. `values` are NULL outside of their share.
    """

    values: tuple[str, ...]
    partials: tuple[tuple[str, str], ...]
    expressions: tuple[str, ...]


def in_shares(expressions: Sequence[str], calls: Iterable[AggregateCall]) -> Shares | None:
    """The expressions of a group over shares; None unless there are several distinct values.

    A distinct value with a FILTER counts as several: Spark would shuffle for it too.
    """
    values: dict[str, int] = {}
    partials: dict[str, str] = {}
    stand_ins: dict[str, str] = {}
    known = {call.sql: call for call in calls}
    for call in known.values():
        if call.is_distinct:
            number = values.setdefault(_distinct_value(call), len(values) + 1)
            stand_ins[call.sql] = f"{call.function}({VALUE}{number})"
        else:
            only = f"{SHARE} = 0" if call.only is None else f"{SHARE} = 0 AND ({call.only})"
            arguments = ", ".join(call.arguments)
            partial = f"{call.function}({arguments}) FILTER (WHERE {only})"
            name = partials.setdefault(partial, f"{_PARTIAL}{len(partials)}")
            # A group has one part with its share 0.
            stand_ins[call.sql] = f"(first({name}) FILTER (WHERE {SHARE} = 0))"
    has_filter = any(call.is_distinct and call.only for call in known.values())
    if len(values) < 2 and not has_filter:
        return None
    return Shares(
        values=tuple(f"IF({SHARE} = {at}, {value}, NULL)" for value, at in values.items()),
        partials=tuple((name, sql) for sql, name in partials.items()),
        expressions=tuple(_with_stand_ins(text, stand_ins) for text in expressions),
    )


def _distinct_value(call: AggregateCall) -> str:
    """What a distinct aggregate sees of a record; NULL where it sees nothing."""
    conditions = [f"({call.only})"] if call.only is not None else []
    value = call.arguments[0]
    if len(call.arguments) > 1:
        conditions += [f"({argument}) IS NOT NULL" for argument in call.arguments]
        fields = (f"'v{at}', {argument}" for at, argument in enumerate(call.arguments))
        value = f"named_struct({', '.join(fields)})"
    return f"IF({' AND '.join(conditions)}, {value}, NULL)" if conditions else value


def _with_stand_ins(text: str, stand_ins: Mapping[str, str]) -> str:
    """The text with each aggregate replaced; what is in a literal of it is left alone."""
    tokens = tokenize(text, read="spark")
    by_text = [
        (_words(tokenize(sql, read="spark")), other)
        for sql, other in sorted(stand_ins.items(), key=lambda pair: -len(pair[0]))
    ]
    words = _words(tokens)
    parts, done, at = [], 0, 0
    while at < len(tokens):
        for sought, other in by_text:
            if words[at : at + len(sought)] == sought:
                end = at + len(sought) - 1
                parts += [text[done : tokens[at].start], other]
                done, at = tokens[end].end + 1, end
                break
        at += 1
    return "".join([*parts, text[done:]])


def _words(tokens: Sequence[Token]) -> list[tuple[TokenType, str]]:
    """What tells tokens apart: the literal 'c' and the column c have the same text."""
    return [(token.token_type, token.text) for token in tokens]
