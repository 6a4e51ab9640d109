"""Panes: a sliding window as the fold of partial aggregates.

A window that slides is cut into panes, the longest pieces that no window's start or end divides
("No Pane, No Gain", Li et al., SIGMOD Record 2005). The box becomes two: one aggregates the records
of each pane, the other folds the panes of each window, so that a record is met once and not once
for each window that holds it. The parts of a pane may come from any disjoint sets of its records,
which is why a step can take from an earlier one what it has read already (`pipelines.spark.panes`).

This is the compiler's business alone: the network that is planned, deployed and shown has the
user's boxes. Only what comes out exactly the same is rewritten; any other box stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from math import gcd

from sqlglot import exp

from medusa_core.columns import Column
from medusa_core.errors import Refused
from medusa_core.names import NAME_LENGTH_MAX
from medusa_core.network import Aggregate, Port
from pipelines.networks.aggregates import compile_aggregate
from pipelines.networks.check import CheckedAggregate, CheckedNetwork, check_network
from pipelines.networks.expressions import compile_expression
from pipelines.networks.functions import AGGREGATES
from pipelines.networks.parsing import parse

_SAME = {
    "min": "min", "max": "max", "bool_and": "bool_and", "every": "bool_and",
    "bool_or": "bool_or", "some": "bool_or", "any": "bool_or",
    "bit_and": "bit_and", "bit_or": "bit_or", "bit_xor": "bit_xor",
}  # fmt: skip
_COUNTS = ("count", "count_if")
_AVERAGES = ("avg", "mean")


class _NoPanes(Exception):
    """The box stays as it is."""


def over_panes(checked: CheckedNetwork) -> tuple[CheckedNetwork, Mapping[str, str]]:
    """The network with its sliding windows over panes, and which box folds which box's panes.

    The very same network if it has none.
    """
    folds: dict[str, str] = {}
    for box in checked.network.boxes:
        if not isinstance(box, Aggregate) or box.advance_us >= box.size_us:
            continue
        try:
            panes, whole, fold = _in_two(checked, box)
            boxes = [b for b in checked.network.boxes if b is not box]
            again = check_network(replace(checked.network, boxes=(*boxes, panes, whole)))
        except (_NoPanes, Refused):
            continue
        if _gives_the_same(checked, again, box.name):
            checked = _with_plain_sums(again, whole, panes, fold)
            folds[panes.name] = box.name
    return checked, folds


def _with_plain_sums(
    checked: CheckedNetwork, whole: Aggregate, panes: Aggregate, fold: _Fold
) -> CheckedNetwork:
    """The fold with its sums of partial sums as they are, without a look for an overflow.

    They are sums of int over no more rows than a window may have: 62 bits hold them.
    """
    columns = {c.name: c for c in checked.columns[Port(panes.name)]}
    aggregate = checked.boxes[whole.name]
    assert isinstance(aggregate, CheckedAggregate)
    folded = dict(aggregate.columns)
    for total in fold.totals:
        careful = compile_aggregate(f"sum({total})", columns, where="pane")
        for name, compiled in folded.items():
            if compiled.error == careful.error:
                plain = compiled.sql.replace(careful.sql, f"sum(`{total}`)")
                folded[name] = replace(compiled, sql=plain, error=None)
    box = replace(aggregate, columns=tuple(folded.items()))
    return replace(checked, boxes={**checked.boxes, whole.name: box})


def _gives_the_same(before: CheckedNetwork, after: CheckedNetwork, box: str) -> bool:
    """Whether a box has the same columns, as exact as before."""

    def told(checked: CheckedNetwork) -> list[tuple[str, str, bool]]:
        aggregate = checked.boxes[box]
        assert isinstance(aggregate, CheckedAggregate)
        return [(name, c.type, c.tolerance_only) for name, c in aggregate.columns]

    return told(before) == told(after)


def _in_two(checked: CheckedNetwork, box: Aggregate) -> tuple[Aggregate, Aggregate, _Fold]:
    """What makes the panes and what folds them; _NoPanes if a value of it is no fold of panes."""
    network = checked.network
    aggregate = checked.boxes[box.name]
    assert isinstance(aggregate, CheckedAggregate)
    if any(c.record_error or c.tolerance_only for _, c in aggregate.columns):
        raise _NoPanes
    columns = {c.name: c for c in checked.columns[network.port(box.input, box.name)]}
    fold = _Fold(columns, box.group_by)
    folded = {name: fold.expression(text) for name, text in box.columns.items()}
    panes = Aggregate(
        name=_free_name(f"{box.name}_panes", {p.name for p in (*network.sources, *network.boxes)}),
        input=box.input,
        size=f"{gcd(box.size_us, box.advance_us)}us",
        group_by=fold.group_by,
        columns=fold.partials,
        fragment=box.fragment,
    )
    return panes, replace(box, input=panes.name, columns=folded), fold


def _free_name(wanted: str, taken: Collection[str]) -> str:
    """A name like the one that is wanted, which nothing has yet."""
    for number in count(1):
        end = "" if number == 1 else str(number)
        name = f"{wanted[: NAME_LENGTH_MAX - len(end)]}{end}"
        if name not in taken:
            return name
    raise AssertionError


@dataclass
class _Fold:
    """Aggregate expressions over records as partial ones over a pane, and folds of these."""

    columns: Mapping[str, Column]
    group_by: tuple[str, ...]
    partials: dict[str, str] = field(default_factory=dict)
    distinct: str | None = None
    totals: set[str] = field(default_factory=set)

    def expression(self, text: str) -> str:
        """The expression over panes; _NoPanes if there is none that gives the very same."""
        return _as_text(self._folded(parse(text, "pane")))

    def _folded(self, node: exp.Expr) -> exp.Expr:
        call = node.this if isinstance(node, exp.Filter) else node
        if isinstance(call, exp.Anonymous) and call.name.lower() in AGGREGATES:
            return self._call(call.name.lower(), call, node)
        if isinstance(node, exp.AggFunc | exp.Star | exp.Filter | exp.IgnoreNulls | exp.Any):
            raise _NoPanes
        copy = node.copy()
        for part in list(copy.iter_expressions()):
            part.replace(self._folded(part))
        return copy

    def _call(self, name: str, call: exp.Anonymous, whole: exp.Expr) -> exp.Expr:
        arguments = list(call.expressions)
        if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
            return self._count_distinct(name, arguments[0], whole)
        if name in _COUNTS:
            return _over("sum", self._counted(_as_text(whole)))
        if len(arguments) != 1 or any(isinstance(a, exp.IgnoreNulls) for a in arguments):
            raise _NoPanes
        if name in _SAME:
            return _over(_SAME[name], self._partial(_as_text(whole)))
        if name not in ("sum", *_AVERAGES) or self._type(arguments[0]) != "int":
            raise _NoPanes
        total = self._partial(_as_text(_instead(whole, call, "sum")))
        self.totals.add(total)
        if name == "sum":
            return _over("sum", total)
        number = self._counted(_as_text(_instead(whole, call, "count")))
        return parse(f"try_divide(cast(sum({total}) as double), cast(sum({number}) as double))",
                     "pane")  # fmt: skip

    def _count_distinct(self, name: str, distinct: exp.Distinct, whole: exp.Expr) -> exp.Expr:
        """A distinct count of one column: panes are grouped by its values too."""
        values = distinct.expressions
        is_plain = name == "count" and len(values) == 1 and isinstance(values[0], exp.Column)
        if not is_plain or isinstance(whole, exp.Filter):
            raise _NoPanes
        column = values[0].name
        if column not in self.columns or self.distinct not in (None, column):
            raise _NoPanes
        self.distinct = column
        if column not in self.group_by:
            self.group_by = (*self.group_by, column)
        return whole.copy()

    def _counted(self, text: str) -> str:
        # 31 bits are enough for the rows of a window (`pipelines.networks.aggregates`), and a sum
        # of int cannot overflow.
        return self._partial(f"try_cast({text} as int)")

    def _partial(self, text: str) -> str:
        """The name of the pane's column with that expression."""
        for name, known in self.partials.items():
            if known == text:
                return name
        name = _free_name("part", {*self.partials, *self.columns, "window_start"})
        self.partials[name] = text
        return name

    def _type(self, argument: exp.Expr) -> str:
        return compile_expression(_as_text(argument), self.columns, where="pane").type


def _over(function: str, column: str) -> exp.Expr:
    return exp.Anonymous(this=function, expressions=[exp.column(column)])


def _instead(whole: exp.Expr, call: exp.Anonymous, function: str) -> exp.Expr:
    """The aggregate, with its FILTER, under another function."""
    other = exp.Anonymous(this=function, expressions=[a.copy() for a in call.expressions])
    if whole is call:
        return other
    copy = whole.copy()
    copy.set("this", other)
    return copy


def _as_text(tree: exp.Expr) -> str:
    """The expression as text; _NoPanes if what is read of it again is not the same."""
    text = tree.sql(dialect="spark")
    try:
        is_same = parse(text, "pane") == tree
    except Refused:
        is_same = False
    if not is_same:
        raise _NoPanes
    return text
